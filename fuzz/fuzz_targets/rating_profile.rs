//! An untrusted assessment profile: rejected by field, or read, with a lossless round trip.

#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_kit::json;
use touchstone_ratings::rules::projection::Profile;

fuzz_target!(|data: &[u8]| {
    let Ok(document) = json::parse(data) else {
        return;
    };
    match Profile::read(&document) {
        Err(fault) => assert!(!fault.reason.is_empty(), "refused without a reason"),
        Ok(profile) => {
            let written = serde_json::to_value(&profile).expect("it can be written");
            assert_eq!(Profile::read(&written).as_ref(), Ok(&profile));
        }
    }
});
