//! An untrusted cassette: rejected with a reason, or ready for replay with no missing recording.

#![no_main]

use std::io::Write as _;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use tempfile::NamedTempFile;
use touchstone_agents::model::cassette::Replay;
use touchstone_agents::model::cassette::chain::Chain;

fuzz_target!(|data: &[u8]| {
    let mut file = NamedTempFile::new().expect("a file");
    // Without valid chain digests nothing else would be read.
    let mut chain = Chain::default();
    for line in String::from_utf8_lossy(data).lines() {
        writeln!(file, "{}", chain.link(line)).expect("room for it");
    }
    match Replay::open(file.path(), None) {
        Err(refusal) => assert!(!refusal.to_string().is_empty(), "refused without a reason"),
        Ok(replay) => {
            let replay = Arc::new(replay);
            let models = replay.models();
            assert!(
                models
                    .iter()
                    .all(|(_, model)| model.info().max_concurrency > 0)
            );
            let _ = replay.tools();
            assert!(replay.missing().is_empty());
        }
    }
});
