//! Servers over streamable HTTP.

use std::sync::{Arc, Mutex};

use rstest::rstest;
use serde_json::{Value, json};
use wiremock::matchers::{header, method};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::*;

type Asked = Arc<Mutex<Vec<Value>>>;

/// A server that answers calls with `called`, or successfully, as an event stream or a document.
async fn serve(stream: bool, called: Option<ResponseTemplate>) -> (MockServer, Asked) {
    let server = MockServer::start().await;
    let asked = Asked::default();
    let kept = Arc::clone(&asked);
    Mock::given(method("POST"))
        .and(header("authorization", "Bearer canary-key"))
        .respond_with(move |request: &Request| {
            let message: Value = serde_json::from_slice(&request.body).unwrap();
            let id = message["id"].clone();
            let result = match message["method"].as_str().unwrap() {
                "initialize" => {
                    json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                                       "serverInfo": {"name": "http", "version": "1"}})
                }
                "tools/list" => {
                    json!({"tools": [{"name": "look", "inputSchema": {"type": "object"}}]})
                }
                "tools/call" => {
                    kept.lock().unwrap().push(message);
                    match &called {
                        Some(answer) => return answer.clone(),
                        None => json!({"content": [{"type": "text", "text": "seen"}]}),
                    }
                }
                _ => return ResponseTemplate::new(202),
            };
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
            if stream {
                ResponseTemplate::new(200).set_body_raw(
                    format!("event: message\ndata: {answer}\n\n"),
                    "text/event-stream",
                )
            } else {
                ResponseTemplate::new(200).set_body_json(answer)
            }
        })
        .mount(&server)
        .await;
    Mock::given(method("GET"))
        .respond_with(ResponseTemplate::new(405))
        .mount(&server)
        .await;
    (server, asked)
}

fn at(url: &str) -> Value {
    json!({
        "name": "crm", "url": url, "api_key_env": "CRM_KEY", "timeout_s": 60.0,
        "tools": [{"tool": "t:look", "effects": "read-only"}],
    })
}

#[rstest]
#[case::a_document(false)]
#[case::a_stream(true)]
#[tokio::test]
async fn a_remote_server_may_answer_with_a_document_or_a_stream(#[case] stream: bool) {
    let (server, asked) = serve(stream, None).await;
    let (result, returned) = call("look", live(at(&server.uri()))).await;
    assert_eq!(decided(&result), &json!("done"));
    assert_eq!(returned["outcome"], json!("seen"));
    let asked = asked.lock().unwrap();
    let params = &asked[0]["params"];
    assert_eq!(
        (asked.len(), &params["name"], &params["arguments"]),
        (1, &json!("look"), &json!({"q": "x"}))
    );
    // The key under which the call is an effect of the run.
    let activity = params["_meta"]["touchstone/activityId"].as_str().unwrap();
    assert_eq!(activity.len(), 43);
}

#[rstest]
#[case::failing(ResponseTemplate::new(500).set_body_string("canary-leak"), "tool_closed")]
#[case::a_page(ResponseTemplate::new(200).set_body_raw("<p>canary-leak", "text/html"), "tool_closed")]
#[case::elsewhere(ResponseTemplate::new(307).insert_header("location", "http://127.0.0.1:9/"), "tool_closed")]
#[case::late(ResponseTemplate::new(200).set_delay(std::time::Duration::from_secs(30)), "tool_timeout")]
#[tokio::test]
async fn a_call_that_goes_wrong_leaves_the_task_unjudged(
    #[case] answer: ResponseTemplate,
    #[case] reason: &str,
) {
    let (server, asked) = serve(false, Some(answer)).await;
    let mut entry = at(&server.uri());
    if reason == "tool_timeout" {
        // The server must still be reached within this time.
        entry["timeout_s"] = json!(5.0);
    }
    let (result, returned) = call("look", live(entry)).await;
    assert_eq!(unjudged(&result), reason);
    assert_eq!(asked.lock().unwrap().len(), 1, "no call is repeated");
    assert!(!returned.to_string().contains("canary"), "{returned}");
}

#[tokio::test]
async fn an_unreachable_or_unauthorized_server_leaves_the_task_unjudged() {
    let (result, _) = call("look", live(at("http://127.0.0.1:9/"))).await;
    assert_eq!(unjudged(&result), "tool_connect");
    let (server, _) = serve(false, None).await;
    let mut without = at(&server.uri());
    without["api_key_env"] = Value::Null;
    let (result, _) = call("look", live(without)).await;
    assert_eq!(unjudged(&result), "tool_connect");
}
