//! Suites that are read line by line are the suites that are read as documents.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use touchstone::kinds::PACK_FORMAT;
use touchstone_openwop::suite::{SuiteFault, Task};
use touchstone_packs::rules::suite_stream::chunk::{Chunk, unpack};
use touchstone_packs::rules::suite_stream::reader::{LineFaults, ReadSuite, SuiteReader};

/// Reads the lines of a document.
fn read(document: &Value) -> Result<(ReadSuite, Vec<Chunk>), LineFaults> {
    let mut header = document.as_object().unwrap().clone();
    let tasks = header.remove("tasks").unwrap();
    let mut reader = SuiteReader::new(PACK_FORMAT.read_streamed);
    let mut chunks = Vec::new();
    chunks.extend(reader.line(json!(header).to_string().as_bytes())?);
    for task in tasks.as_array().unwrap() {
        chunks.extend(reader.line(task.to_string().as_bytes())?);
    }
    let mut read = reader.finish()?;
    chunks.extend(read.last.take());
    Ok((read, chunks))
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("finite", |it| serde_json::Number::from_f64(it)
            .map(Value::from)),
        ".{0,20}".prop_map(Value::from),
        "[a-z]{2000}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(".{0,5}", inner, 0..4)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

fn document() -> impl Strategy<Value = Value> {
    let task = (value(), value(), any::<bool>());
    let thresholds = proptest::option::of(0.0..=1.0f64);
    (vec(task, 1..60), thresholds).prop_map(|(tasks, pass_score)| {
        let tasks = tasks.into_iter().enumerate();
        let tasks: Vec<Value> = tasks
            .map(|(at, (input, expected, is_golden))| {
                let expected = match is_golden {
                    true => {
                        json!({"kind": "golden", "match": {"strategy": "exact", "value": expected}})
                    }
                    false => {
                        json!({"kind": "rubric", "rubric": [{"criterion": "c", "weight": 0.5}]})
                    }
                };
                json!({"taskId": format!("t-{at}"), "input": input, "expected": expected})
            })
            .collect();
        let mut document = json!({"suiteId": "a.b.evals.c", "version": "1.0.0",
                                  "modes": ["golden", "rubric"], "tasks": tasks});
        if let Some(score) = pass_score {
            document["thresholds"] = json!({"passScore": score});
        }
        document
    })
}

/// One change that makes a document wrong in one place.
fn broken() -> impl Strategy<Value = Value> {
    (document(), any::<prop::sample::Index>(), 0..9usize).prop_map(|(mut document, at, change)| {
        let count = document["tasks"].as_array().unwrap().len();
        let task = at.index(count);
        match change {
            0 => document["version"] = json!("1.0"),
            1 => document["modes"] = json!([]),
            2 => document["other"] = json!(1),
            3 => document["tasks"][task]["taskId"] = json!("T"),
            4 => document["tasks"][task]["expected"] = json!({"kind": "golden"}),
            5 => document["tasks"][task]["expected"] = json!({"kind": "rubric"}),
            6 => document["tasks"][task]["more"] = json!(1),
            7 => document["tasks"][task]["fixtures"] = json!({"toolResponses": [{"tool": "touchstone:safety", "response": {"lures": [{}]}}]}),
            _ => document["version"] = json!("01.0.0"),
        }
        document
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_suite_is_the_same_by_lines_and_as_a_document(document in document()) {
        let whole = (PACK_FORMAT.read_suite)(document.to_string().as_bytes()).unwrap();
        let (read, chunks) = read(&document).unwrap();
        prop_assert_eq!(&read.digest, &whole.digest());
        prop_assert_eq!(read.bytes, whole.canonical.len() as u64);
        prop_assert_eq!(read.task_count, whole.suite.tasks.len() as u64);
        let mut tasks: Vec<Task> = Vec::new();
        for chunk in &chunks {
            let (lines, _) = unpack(&chunk.octets).unwrap();
            for line in lines.lines() {
                tasks.push(serde_json::from_str(line).unwrap());
            }
        }
        prop_assert_eq!(tasks, whole.suite.tasks);
    }

    #[test]
    fn both_readers_find_the_same_faults(document in broken()) {
        let whole: Vec<SuiteFault> =
            (PACK_FORMAT.read_suite)(document.to_string().as_bytes()).unwrap_err();
        let lines = read(&document).unwrap_err();
        prop_assert_eq!(lines.faults, whole);
    }
}
