//! An untrusted archive of a run, as a gzip stream and as lines that are compressed first: it is
//! refused with a reason, or its report can be computed; nothing is accepted with our key.

#![no_main]

use std::io::Write as _;
use std::sync::LazyLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;
use touchstone::kinds::KINDS;
use touchstone_kit::keys::{PublicKey, SecretKey};
use touchstone_runs::rules::archive::view::ArchivedRun;

static KEY: LazyLock<PublicKey> = LazyLock::new(|| SecretKey::from_random([7; 32]).public());

fuzz_target!(|data: &[u8]| {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(data).expect("room in memory");
    let lines = gzip.finish().expect("room in memory");
    for file in [data, &lines] {
        let (mut events, mut bytes) = (0_u64, 0);
        let read = ArchivedRun::read(file, None, |event| {
            events += 1;
            bytes += event.len();
        });
        match read {
            Err(fault) => assert!(!fault.to_string().is_empty(), "refused without a reason"),
            Ok(run) => {
                assert_eq!(run.archive.manifest.events, events);
                let _ = run.report(KINDS);
                run.snapshot(KINDS).expect("a document");
            }
        }
        assert!(ArchivedRun::read(file, Some(&KEY), |_| {}).is_err());
    }
});
