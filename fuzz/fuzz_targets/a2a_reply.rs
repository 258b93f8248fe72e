//! A remote agent's response, as one document, and line by line as a stream: a reply, a task to
//! poll, or an error label.

#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_agents::model::a2a::wire::{Streamed, read_answer};
use touchstone_agents::ports::model::ModelError;

fn is_label(error: &ModelError) {
    let ModelError::Unavailable { reason, .. } = error else {
        return;
    };
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    assert!(reason.chars().all(plain), "{reason}");
}

fuzz_target!(|data: &[u8]| {
    if let Err(error) = read_answer(data) {
        is_label(&error);
    }
    let mut task = Streamed::default();
    for line in data.split(|octet| *octet == b'\n') {
        match task.take(line) {
            Ok(None) => {}
            Ok(Some(_)) => return,
            Err(error) => return is_label(&error),
        }
    }
    let _ = task.task();
});
