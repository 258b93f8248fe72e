//! A stored event: each major shows it or refuses it. Under major 1 only numbers change; under major 2
//! the same bytes are shown at each read, with ids of the tenant.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::log::LogMark;
use touchstone_openwop::wire::v1;
use touchstone_openwop::wire::v2::event::{LogContext, Projector};
use touchstone_openwop::wire::v2::names;

const SUSPENDED: &[u8] = br#"{"eventId":"evt_1","runId":"run_1","type":"node.suspended",
    "timestamp":"2026-01-01T00:00:00.000000Z","sequence":1,
    "payload":{"nodeId":"gate","interruptId":"int-gate-1","kind":"approval","key":"k"}}"#;

fn projected(mark: LogMark, document: &[u8]) -> Option<Vec<u8>> {
    let tenant = "acme";
    let mut projector = Projector::new(LogContext { tenant, mark });
    projector.learn(SUSPENDED).expect("a document");
    let mut shown = b"before".to_vec();
    let result = projector.project(document, &mut shown);
    let appended = shown
        .strip_prefix(b"before")
        .expect("nothing is overwritten");
    assert_eq!(result.is_ok(), !appended.is_empty());
    result.is_ok().then(|| appended.to_vec())
}

fn check_major_1(document: &[u8]) {
    let Ok(shown) = v1::event::project(LogMark::of_new(Major::V2).under(Major::V1), document) else {
        return;
    };
    // Numbers of many digits are valid in the log.
    let (Ok(mut stored), Ok(shown)) = (
        serde_json::from_slice::<Value>(document),
        serde_json::from_slice::<Value>(&shown),
    ) else {
        return;
    };
    let place = stored["sequence"].as_u64().expect("a number");
    assert_eq!(shown["sequence"], place.saturating_sub(1));
    stored["sequence"] = shown["sequence"].clone();
    if stored["type"] == "replay.diverged"
        && let Some(at) = stored.pointer_mut("/payload/atSequence")
    {
        *at = shown["payload"]["atSequence"].clone();
    }
    assert_eq!(shown, stored);
}

fn check_major_2(document: &[u8]) {
    let Some(shown) = projected(LogMark::of_new(Major::V2), document) else {
        return;
    };
    assert_eq!(projected(LogMark::of_new(Major::V2), document).as_ref(), Some(&shown));
    assert!(projected(LogMark::default(), document).is_some());
    let Ok(shown) = serde_json::from_slice::<Value>(&shown) else {
        return;
    };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let kind = text(&shown["type"]).expect("a name");
    assert!(names::stored(&kind).is_some(), "{kind}");
    for id in [&shown["runId"], &shown["payload"]["interruptId"]] {
        if let Some(id) = text(id) {
            assert!(id.starts_with("acme/"), "{id}");
        }
    }
}

fuzz_target!(|data: &[u8]| {
    check_major_1(data);
    check_major_2(data);
    if let Ok(text) = std::str::from_utf8(data) {
        if let Some(kind) = names::stored(text) {
            assert_eq!(names::projected(kind), Some(text));
        }
        if let Some(workflow) = names::stored_workflow(text) {
            assert_eq!(names::workflow(&workflow), text);
        }
    }
});
