//! An untrusted suite: rejected with reasons or read; the digest depends on content, not on
//! formatting.

#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone::kinds::KINDS;
use touchstone_kit::json;
use touchstone_runs::rules::eval::suite_rules::read_suite;

fuzz_target!(|data: &[u8]| {
    match read_suite(KINDS, data) {
        Err(faults) => assert!(!faults.is_empty(), "refused without a reason"),
        Ok(read) => {
            let value = json::parse(data).expect("read a moment ago");
            let pretty = serde_json::to_vec_pretty(&value).expect("it is JSON");
            let again = read_suite(KINDS, &pretty).expect("the same suite in another spelling");
            assert_eq!(again.digest(), read.digest());
        }
    }
});
