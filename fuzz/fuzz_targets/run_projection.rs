//! The stored state of a run, as it is and with its digests made right: it is refused, or it is a
//! state that can be folded further and stored again without a change.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use touchstone_kit::ids::RunId;
use touchstone_runs::rules::run::fold::RunState;
use touchstone_runs::rules::run::fold::stored::{Encoded, FORMAT, Reader, Snapshot, Tasks};

fn read(run: &RunId, encoded: &Encoded) -> Option<RunState> {
    let head = &encoded.head;
    let mut reader = Reader::new(run, FORMAT.into(), encoded.sequence, head).ok()?;
    for (number, chunk) in &encoded.chunks {
        reader.add(i64::from(*number), chunk).ok()?;
    }
    reader.finish().ok()
}

fn check(mut state: RunState) {
    state.apply_stored(state.sequence.saturating_add(1), b"{}");
    let _ = state.eval.own_spending();
    let _ = state.eval.tasks.latest_scored(3);
    // Labels of unscored tasks may be numbered anew.
    if let Some(snapshot) = state.snapshot(Tasks::All) {
        let encoded = snapshot.encode(&"run_1".into(), Vec::new());
        let encoded = encoded.expect("what was read can be stored");
        assert_eq!(read(&"run_1".into(), &encoded).as_ref(), Some(&state));
    }
}

fuzz_target!(|data: &[u8]| {
    let run = RunId::from("run_1");
    // The digests refuse nearly everything.
    assert!(Reader::new(&run, FORMAT.into(), 0, data).is_err());
    // The first line is a state without tasks, the second one has labels, the rest is a chunk.
    let mut lines = data.splitn(3, |byte| *byte == b'\n');
    let (Some(state), Some(labels), Some(chunk)) = (lines.next(), lines.next(), lines.next())
    else {
        return;
    };
    let labels = String::from_utf8_lossy(labels);
    let Ok(state) = serde_json::from_slice::<Box<RawValue>>(state) else {
        return;
    };
    let known = serde_json::from_str::<RunState>(state.get());
    let sequence = known.map_or(0, |state| state.sequence);
    let (count, rest) = chunk.split_first().unwrap_or((&0, &[]));
    let snapshot = Snapshot {
        sequence,
        state,
        tasks: u32::from(*count),
        spans_unknown: false,
        labels: labels.split(' ').map(str::to_owned).collect(),
        chunks: match count {
            0 => Vec::new(),
            _ => vec![(0, rest.to_vec())],
        },
    };
    let encoded = snapshot.encode(&run, Vec::new()).expect("one chunk");
    if let Some(state) = read(&run, &encoded) {
        check(state);
    }
});
