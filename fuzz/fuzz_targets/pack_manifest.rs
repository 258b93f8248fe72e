//! An untrusted `pack.json`: rejected, or read with a lossless round trip.

#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_packs::rules::manifest;

fuzz_target!(|data: &[u8]| {
    let Ok(read) = manifest::read(data) else {
        return;
    };
    let written = serde_json::to_vec(&read).expect("a manifest is JSON");
    let again = manifest::read(&written);
    assert_eq!(again.as_ref().ok(), Some(&read), "{again:?}");
});
