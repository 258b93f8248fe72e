//! An untrusted scoring document: rejected with reasons or read; the digest depends on content, not
//! on formatting, and the assertions of an accepted document evaluate any answer.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use touchstone_kit::json;
use touchstone_kit::json_place::place;
use touchstone_kit::money::NanoUsd;
use touchstone_runs::rules::eval::assertions::turns::TurnLog;
use touchstone_runs::rules::eval::assertions::{External, Observed, evaluate_turns};
use touchstone_runs::rules::eval::scoring_document::read::read;

fuzz_target!(|data: &[u8]| {
    let read_document = match read(data) {
        Err(faults) => {
            assert!(!faults.is_empty(), "refused without a reason");
            for fault in faults {
                place(data, &fault.pointer);
            }
            return;
        }
        Ok(read) => read,
    };
    let value = json::parse(data).expect("read a moment ago");
    let pretty = serde_json::to_vec_pretty(&value).expect("it is JSON");
    let again = read(&pretty).expect("the same document in another spelling");
    assert_eq!(again.digest(), read_document.digest());
    let answers = [Value::from("I can't say: 1,234.5"), json!({"a": [1, {"b": null}]})];
    for task in read_document.document.tasks.keys() {
        let scoring = read_document.document.of_task(task).expect("it has an entry");
        for answer in &answers {
            let observed = Observed {
                answer,
                calls: &[],
                latency_ms: Some(1),
                cost: Some(NanoUsd(0)),
                tokens: 1,
                expected: None,
                external: External::default(),
            };
            let result = evaluate_turns(&scoring, &observed, &Value::Null, &TurnLog::default());
            assert!((0.0..=1.0).contains(&result.score));
        }
    }
});
