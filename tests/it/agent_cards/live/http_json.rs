//! Responses over HTTP with JSON bodies, and the test message in both forms.

use rstest::rstest;
use serde_json::{Value, json};
use touchstone_agent_cards::rules::live::{NoReply, Probe, fails_well, http_json, jsonrpc, judge};
use touchstone_agent_cards::rules::transport::Transport;

use super::{ID, json_reply, message, probe, reply, task};

fn rest(status: u16, body: &Value) -> Probe {
    probe(Ok(json_reply(status, body)))
}

#[rstest]
#[case::wrapped(json!({"message": message()}), true)]
#[case::wrapped_task(json!({"task": task()}), true)]
#[case::bare(message(), true)]
#[case::bare_task(task(), true)]
#[case::protobuf(json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "content": [{"text": "x"}]}}), true)]
#[case::protobuf_data(json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "content": [{"data": {"data": {}}}, {"file": {"fileWithUri": "u"}}]}}), true)]
#[case::protobuf_task(json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}), true)]
#[case::parts(json!({"message": {"messageId": "m", "role": "agent", "parts": [{"kind": "file", "file": {"bytes": ""}}, {"kind": "data", "data": {}}]}}), true)]
#[case::nothing(json!({}), false)]
#[case::both(json!({"message": message(), "task": task()}), false)]
#[case::task_as_message(json!({"message": task()}), false)]
#[case::unspecified(json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_UNSPECIFIED"}}}), false)]
#[case::part_of_no_kind(json!({"message": {"messageId": "m", "role": "agent", "parts": [{"text": "x"}]}}), false)]
#[case::empty_file(json!({"message": {"messageId": "m", "role": "agent", "parts": [{"kind": "file", "file": {}}]}}), false)]
#[case::blank_id(json!({"message": {"messageId": "", "role": "agent", "parts": [{"kind": "text", "text": ""}]}}), false)]
#[case::other_kind(json!({"kind": "status-update", "id": "t", "contextId": "c", "status": {"state": "working"}}), false)]
fn http_json_accepts_both_message_formats(#[case] body: Value, #[case] structured: bool) {
    let judged = judge(Transport::HttpJson, &rest(200, &body));
    assert!(judged.responds && judged.works && judged.typed);
    assert_eq!(judged.structured, structured);
}

#[rstest]
#[case(400, json!({"error": {}}), true)]
#[case(404, json!({}), true)]
#[case(404, json!([]), false)]
#[case(200, json!({}), false)]
#[case(500, json!({}), false)]
fn http_json_fails_with_an_object(#[case] status: u16, #[case] body: Value, #[case] well: bool) {
    assert_eq!(fails_well(Transport::HttpJson, &rest(status, &body)), well);
}

#[test]
fn http_json_works_with_200_and_an_object() {
    for (status, body) in [
        (201, json!({"message": message()})),
        (200, json!([message()])),
    ] {
        let judged = judge(Transport::HttpJson, &rest(status, &body));
        assert!(judged.responds && !judged.works && !judged.structured);
    }
    let denied = judge(Transport::HttpJson, &rest(403, &json!({})));
    assert!(denied.responds && denied.auth_required && !denied.works);
}

#[rstest]
#[case(400, true)]
#[case(404, true)]
#[case(415, true)]
#[case(422, true)]
#[case(500, true)]
#[case(200, false)]
#[case(401, false)]
#[case(503, false)]
fn the_second_request_format_is_tried_after_certain_statuses(
    #[case] status: u16,
    #[case] again: bool,
) {
    assert_eq!(http_json::wants_core_form(&Ok(reply(status, ""))), again);
    assert!(!http_json::wants_core_form(&Err(NoReply::Timeout)));
}

#[test]
fn a_response_to_the_second_request_format_counts() {
    let (first, second) = (Ok(reply(500, "a")), Ok(reply(200, "b")));
    assert_eq!(
        http_json::counting(first.clone(), Some(second.clone())),
        second
    );
    assert_eq!(
        http_json::counting(first.clone(), Some(Err(NoReply::Cut))),
        first
    );
    assert_eq!(http_json::counting(first.clone(), None), first);
}

#[rstest]
#[case(
    "https://x.example",
    "https://x.example/v1/message:send",
    "https://x.example/v1/tasks/t"
)]
#[case(
    "https://x.example/rest/",
    "https://x.example/rest/v1/message:send",
    "https://x.example/rest/v1/tasks/t"
)]
#[case(
    "https://x.example/rest/v1",
    "https://x.example/rest/v1/message:send",
    "https://x.example/rest/v1/tasks/t"
)]
#[case(
    "https://x.example/v1/?a=b#c",
    "https://x.example/v1/message:send?a=b",
    "https://x.example/v1/tasks/t?a=b"
)]
#[case(
    "https://x.example/rev1",
    "https://x.example/rev1/v1/message:send",
    "https://x.example/rev1/v1/tasks/t"
)]
fn the_version_is_in_the_url_once(#[case] url: &str, #[case] message: &str, #[case] task: &str) {
    let url = url.parse().unwrap();
    assert_eq!(http_json::message_url(&url).as_str(), message);
    assert_eq!(http_json::task_url(&url, "t").as_str(), task);
}

#[test]
fn the_test_message_has_every_required_member() {
    let rpc = jsonrpc::message_request(ID, "m");
    assert_eq!(rpc["method"], "message/send");
    assert_eq!((&rpc["id"], &rpc["jsonrpc"]), (&json!(ID), &json!("2.0")));
    let core = http_json::core_message_request("m");
    assert_eq!(rpc["params"], core);
    for (pointer, value) in [
        ("/message/kind", json!("message")),
        ("/message/messageId", json!("m")),
        ("/message/role", json!("user")),
        ("/message/parts/0/kind", json!("text")),
        ("/configuration/acceptedOutputModes", json!(["text/plain"])),
        ("/configuration/blocking", json!(true)),
    ] {
        assert_eq!(core.pointer(pointer), Some(&value), "{pointer}");
    }
    let proto = http_json::message_request("m");
    assert_eq!(proto["message"]["role"], "ROLE_USER");
    assert_eq!(
        proto["message"]["content"][0]["text"],
        core["message"]["parts"][0]["text"]
    );
    assert_ne!(jsonrpc::failing_request(ID)["method"], "message/send");
}
