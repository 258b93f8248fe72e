//! The Messages API adapter: the shape of a request, and the features dropped for an endpoint that
//! rejects them.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use touchstone_agents::model::anthropic::AnthropicModel;
use touchstone_agents::ports::agent::{Dialogue, UserTurns};
use touchstone_agents::ports::model::*;
use touchstone_agents::rules::attachment::Attachment;
use touchstone_kit::headers::media_type::MediaType;
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::support::*;

const KEY: &str = "sk-ant-canary-key";

async fn serve(
    reply: impl Fn(usize, &Value) -> ResponseTemplate + Send + Sync + 'static,
) -> (MockServer, Arc<Mutex<Vec<Value>>>, ModelBinding) {
    let server = MockServer::start().await;
    let bodies: Arc<Mutex<Vec<Value>>> = Arc::default();
    let kept = Arc::clone(&bodies);
    Mock::given(method("POST"))
        .and(path("/v1/messages"))
        .and(header("x-api-key", KEY))
        .and(header("anthropic-version", "2023-06-01"))
        .respond_with(move |request: &Request| {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let mut bodies = kept.lock().unwrap();
            bodies.push(body.clone());
            reply(bodies.len(), &body)
        })
        .mount(&server)
        .await;
    let info = ModelInfo {
        provider: "anthropic".to_owned(),
        ..info()
    };
    let base = format!("{}/v1", server.uri());
    let model = AnthropicModel::new(access(&base, KEY, info)).unwrap();
    (server, bodies, bound(model))
}

fn ok(content: Value, stop_reason: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": content, "stop_reason": stop_reason,
        "usage": {"input_tokens": 10, "output_tokens": 2, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 90},
    }))
}

fn says(text: &str) -> ResponseTemplate {
    ok(json!([{"type": "text", "text": text}]), "end_turn")
}

fn refusal(message: &str) -> ResponseTemplate {
    ResponseTemplate::new(400).set_body_json(
        json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}}),
    )
}

#[tokio::test]
async fn a_conversation_with_tools_is_written_as_the_wire_has_it() {
    let (_server, bodies, binding) = serve(|n, _| {
        let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "openwop_core_rag_retrieve", "input": {"query": id}});
        match n {
            1 => ok(json!([{"type": "text", "text": "Let me look."}, call("toolu_a"), call("toolu_b")]), "tool_use"),
            _ => says("{\"queue\":\"billing\"}"),
        }
    })
    .await;
    let schema = json!({"type": "object", "required": ["queue"]});
    let trial = Trial::new(agent(&["openwop:core.rag.retrieve"], Some(schema.clone())))
        .with_fixtures(json!({
            "toolResponses": [
                {"tool": "openwop:core.rag.retrieve", "response": {"hits": []}},
                {"tool": "openwop:core.rag.retrieve", "response": "none"},
            ],
            "memorySeed": [{"content": "The customer is new."}],
        }));
    let result = trial.run(&binding).await;
    assert_eq!(decided(&result), &json!({"queue": "billing"}));

    let bodies = bodies.lock().unwrap();
    let first = &bodies[0];
    // Instructions and memory are separate from the messages.
    assert_eq!(first["system"][0]["text"], json!(PROMPT));
    assert_eq!(first["system"].as_array().unwrap().len(), 2);
    assert_eq!(
        first["messages"],
        json!([{"role": "user", "content": [{"type": "text", "text": "{\"q\":\"canary-input\"}"}]}])
    );
    assert_eq!(
        first["tools"],
        json!([{
            "name": "openwop_core_rag_retrieve",
            "description": "openwop:core.rag.retrieve",
            "input_schema": {"type": "object", "additionalProperties": true},
        }])
    );
    assert_eq!(first["output_config"]["format"]["schema"], schema);
    assert_eq!(
        (&first["max_tokens"], &first["temperature"]),
        (&json!(50), &json!(0.0))
    );
    // Both results are in the single turn after the calls.
    assert_eq!(
        bodies[1]["messages"].as_array().unwrap()[1..],
        [
            json!({"role": "assistant", "content": [
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "toolu_a", "name": "openwop_core_rag_retrieve", "input": {"query": "toolu_a"}},
                {"type": "tool_use", "id": "toolu_b", "name": "openwop_core_rag_retrieve", "input": {"query": "toolu_b"}},
            ]}),
            json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_a", "content": "{\"hits\":[]}"},
                {"type": "tool_result", "tool_use_id": "toolu_b", "content": "none"},
            ]}),
        ]
    );
    let usage = &trial.recorder.payloads("provider.usage")[0];
    assert_eq!(usage["provider"], json!("anthropic"));
    assert_eq!(
        (&usage["inputTokens"], &usage["cacheReadTokens"]),
        (&json!(100), &json!(90)),
        "cached tokens are part of the prompt"
    );
}

#[tokio::test]
async fn unsupported_request_features_are_dropped_and_remembered() {
    let (_server, bodies, binding) = serve(|_, body| {
        if body.get("output_config").is_some() {
            refusal("output_config.format.schema: 'additionalProperties' must be explicitly set to false")
        } else if body.get("temperature").is_some() {
            refusal("`temperature` is deprecated for this model.")
        } else {
            says("{\"queue\":1}")
        }
    })
    .await;
    let schema = json!({"type": "object", "required": ["queue"]});
    for _ in 0..2 {
        let trial = Trial::new(agent(&[], Some(schema.clone())));
        assert_eq!(decided(&trial.run(&binding).await), &json!({"queue": 1}));
    }
    let bodies = bodies.lock().unwrap();
    assert_eq!(
        bodies.len(),
        4,
        "the second task remembers the unsupported feature"
    );
    for body in &bodies[1..] {
        let told = body["system"][1]["text"].as_str().unwrap();
        assert!(told.contains("\"required\":[\"queue\"]"), "{told}");
    }
}

#[tokio::test]
async fn a_refusal_counts_as_agent_failure_and_max_tokens_is_always_sent() {
    let (_server, bodies, binding) = serve(|_, _| ok(json!([]), "refusal")).await;
    let mut trial = Trial::new(agent(&[], None));
    trial.max_tokens = None;
    assert_eq!(failed(&trial.run(&binding).await), "refused");
    assert_eq!(bodies.lock().unwrap()[0]["max_tokens"], json!(4096));
}

#[tokio::test]
async fn files_are_sent_with_the_input_and_stay_in_the_conversation() {
    let (_server, bodies, binding) = serve(|n, _| says(&format!("answer {n}"))).await;
    let files = [
        Attachment::new("evals/files/scan.png", MediaType::Png, b"a"),
        Attachment::new("evals/files/invoice.pdf", MediaType::Pdf, b"b"),
    ];
    let turns = ["And the total?".to_owned()];
    let dialogue = Dialogue {
        files: &files,
        messages: &[],
        turns: UserTurns::Scripted(&turns),
    };
    let trial = Trial::new(agent(&[], None));
    let result = trial.converse(&binding, dialogue).await;
    assert_eq!(decided(&result), &json!("answer 2"));
    let bodies = bodies.lock().unwrap();
    assert_eq!(bodies.len(), 2);
    for body in bodies.iter() {
        let messages = body["messages"].as_array().unwrap();
        let first = messages.iter().find(|it| it["role"] == "user").unwrap();
        assert_eq!(
            first["content"],
            json!([
                {"type": "image", "source": {
                    "type": "base64", "media_type": "image/png", "data": "YQ=="}},
                {"type": "document", "source": {
                    "type": "base64", "media_type": "application/pdf", "data": "Yg=="}},
                {"type": "text", "text": "{\"q\":\"canary-input\"}"},
            ])
        );
    }
    let attached = trial.recorder.payloads("touchstone.task.attached");
    assert_eq!(attached[0]["files"][1]["mediaType"], "application/pdf");
}
