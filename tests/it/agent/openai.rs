//! The chat-completions adapter with conforming and with broken servers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};
use touchstone_agents::model::openai::OpenAiModel;
use touchstone_agents::ports::agent::{Dialogue, UserTurns};
use touchstone_agents::ports::model::*;
use touchstone_agents::rules::attachment::Attachment;
use touchstone_agents::rules::{Message, ModelRequest, Rejection, TaskHint};
use touchstone_kit::headers::media_type::MediaType;
use touchstone_kit::ids::TaskId;
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

use super::raw_server::deserted;
use super::support::*;

const KEY: &str = "sk-canary-key";

fn model_with(base: &str, info: ModelInfo) -> OpenAiModel {
    OpenAiModel::new(access(base, KEY, info)).unwrap()
}

fn model(base: &str) -> OpenAiModel {
    model_with(base, info())
}

fn binding(base: &str) -> ModelBinding {
    bound(model(base))
}

fn answer(text: &str) -> Value {
    json!({
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
    })
}

fn ok(body: Value) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(body)
}

fn refusal(status: u16, message: &str) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_json(json!({"error": {"message": message}}))
}

/// Answers with a function of the request and its number, and records the bodies.
struct Scripted<F> {
    bodies: Arc<Mutex<Vec<Value>>>,
    reply: F,
}

/// The `Idempotency-Key` of every call that a server received.
async fn keys(server: &MockServer) -> Vec<String> {
    let requests = server.received_requests().await.unwrap();
    requests
        .iter()
        .map(|request| {
            request.headers["idempotency-key"]
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect()
}

impl<F: Fn(usize, &Value) -> ResponseTemplate + Send + Sync> Respond for Scripted<F> {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let mut bodies = self.bodies.lock().unwrap();
        bodies.push(body.clone());
        (self.reply)(bodies.len(), &body)
    }
}

async fn serve(
    reply: impl Fn(usize, &Value) -> ResponseTemplate + Send + Sync + 'static,
) -> (MockServer, Arc<Mutex<Vec<Value>>>) {
    let server = MockServer::start().await;
    let bodies = Arc::default();
    Mock::given(method("POST"))
        .and(path("/v1/chat/completions"))
        .and(header("authorization", format!("Bearer {KEY}")))
        .respond_with(Scripted {
            bodies: Arc::clone(&bodies),
            reply,
        })
        .mount(&server)
        .await;
    (server, bodies)
}

fn base(server: &MockServer) -> String {
    format!("{}/v1", server.uri())
}

/// One call without the runtime.
async fn ask(model: &OpenAiModel) -> Result<touchstone_agents::rules::ModelReply, ModelError> {
    let (task, input) = (TaskId::from("task-1"), json!({}));
    let request = ModelRequest {
        messages: vec![
            Message::System(PROMPT.into()),
            Message::User("canary-input".into()),
        ],
        definitions: &[],
        tools: &[],
        response_schema: None,
        temperature: None,
        max_tokens: None,
        task: Some(TaskHint {
            id: &task,
            input: &input,
            turn: 0,
        }),
        activity: None,
        thread: None,
    };
    model.complete(&request).await
}

fn label(error: &ModelError) -> (&str, bool) {
    match error {
        ModelError::Unavailable {
            reason, retryable, ..
        } => (reason, *retryable),
        ModelError::Rejected { .. } => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn a_request_lists_the_agents_tools_and_no_task_metadata() {
    let (server, bodies) = serve(|n, _| {
        ok(if n == 1 {
            let call = json!({"id": "call_a", "type": "function",
                "function": {"name": "openwop_core_rag_retrieve", "arguments": "{\"query\":\"x\"}"}});
            json!({"choices": [{"finish_reason": "tool_calls", "message": {"content": null, "tool_calls": [call]}}],
                "usage": {"prompt_tokens": 5, "completion_tokens": 1}})
        } else {
            answer("{\"queue\":\"billing\"}")
        })
    })
    .await;
    let schema = json!({"type": "object", "required": ["queue"]});
    let trial = Trial::new(agent(&["openwop:core.rag.retrieve"], Some(schema.clone())))
        .with_fixtures(json!({"toolResponses": [{"tool": "openwop:core.rag.retrieve", "response": {"hits": []}}]}));
    // A base URL may end in a slash.
    let result = trial.run(&binding(&format!("{}/", base(&server)))).await;
    assert_eq!(decided(&result), &json!({"queue": "billing"}));

    let bodies = bodies.lock().unwrap();
    assert_eq!(bodies.len(), 2);
    let first = &bodies[0];
    assert_eq!(
        first["messages"],
        json!([
            {"role": "system", "content": PROMPT},
            {"role": "user", "content": "{\"q\":\"canary-input\"}"},
        ])
    );
    assert_eq!(
        first["tools"][0]["function"]["name"],
        json!("openwop_core_rag_retrieve")
    );
    assert_eq!(
        first["tools"][0]["function"]["description"],
        json!("openwop:core.rag.retrieve")
    );
    assert_eq!(first["response_format"]["json_schema"]["schema"], schema);
    assert_eq!(
        (&first["max_tokens"], &first["temperature"]),
        (&json!(50), &json!(0.0))
    );
    assert_eq!(
        (&first["model"], &first["stream"]),
        (&json!("m"), &json!(false))
    );
    assert!(!first.to_string().contains("task-1"));
    assert_eq!(
        bodies[1]["messages"].as_array().unwrap()[2..],
        [
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": "call_a", "type": "function",
            "function": {"name": "openwop_core_rag_retrieve", "arguments": "{\"query\":\"x\"}"}}]}),
            json!({"role": "tool", "tool_call_id": "call_a", "content": "{\"hits\":[]}"}),
        ]
    );
}

#[tokio::test]
async fn an_endpoint_without_schema_support_gets_the_schema_as_text_from_then_on() {
    let (server, bodies) = serve(|_, body| match body["response_format"]["type"].as_str() {
        Some("json_schema") => refusal(
            400,
            "'response_format' of type 'json_schema' is not supported",
        ),
        Some("json_object") => refusal(400, "'response_format.type' must be 'text'"),
        _ => ok(answer("{\"queue\":1}")),
    })
    .await;
    let binding = binding(&base(&server));
    for _ in 0..2 {
        let trial = Trial::new(agent(
            &[],
            Some(json!({"type": "object", "required": ["queue"]})),
        ));
        assert_eq!(decided(&trial.run(&binding).await), &json!({"queue": 1}));
        assert!(
            trial
                .recorder
                .payloads("touchstone.model.retried")
                .is_empty()
        );
    }
    let bodies = bodies.lock().unwrap();
    assert_eq!(
        bodies.len(),
        4,
        "the second conversation remembers the supported format"
    );
    assert!(bodies[0]["messages"][1]["role"] == "user");
    for body in &bodies[1..] {
        let told = body["messages"][1]["content"].as_str().unwrap();
        assert!(told.contains("\"required\":[\"queue\"]"), "{told}");
        assert_eq!(body["messages"][2]["role"], json!("user"));
    }
}

#[tokio::test]
async fn a_model_that_wants_max_completion_tokens_gets_them() {
    let (server, bodies) = serve(|_, body| {
        if body.get("max_tokens").is_some() {
            refusal(
                400,
                "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            )
        } else {
            ok(answer("x"))
        }
    })
    .await;
    let trial = Trial::new(agent(&[], None));
    assert_eq!(
        decided(&trial.run(&binding(&base(&server))).await),
        &json!("x")
    );
    assert_eq!(
        bodies.lock().unwrap()[1]["max_completion_tokens"],
        json!(50)
    );
}

#[rstest]
#[case(
    400,
    "This model's maximum context length is 8192 tokens",
    Rejection::ContextOverflow
)]
#[case(400, "content_filter", Rejection::ContentFilter)]
#[tokio::test]
async fn rejected_requests_count_against_the_agent(
    #[case] status: u16,
    #[case] message: &'static str,
    #[case] expected: Rejection,
) {
    let (server, _) = serve(move |_, _| refusal(status, message)).await;
    let error = ask(&model(&base(&server))).await.unwrap_err();
    assert_eq!(error, ModelError::Rejected { reason: expected });
}

#[rstest]
#[case(401, "unauthorized", false)]
#[case(403, "forbidden", false)]
#[case(404, "not_found", false)]
#[case(400, "status_400", false)]
#[case(408, "status_408", true)]
#[case(429, "rate_limited", true)]
#[case(500, "status_500", true)]
#[case(503, "status_503", true)]
#[case(302, "redirect", false)]
#[tokio::test]
async fn every_status_has_a_label(
    #[case] status: u16,
    #[case] reason: &str,
    #[case] retryable: bool,
) {
    let (server, _) = serve(move |_, _| refusal(status, "canary-body")).await;
    let error = ask(&model(&base(&server))).await.unwrap_err();
    assert_eq!(label(&error), (reason, retryable));
}

#[tokio::test]
async fn a_retried_call_keeps_its_key_and_every_turn_has_a_distinct_one() {
    let (server, _) = serve(|n, body| match (n, body["messages"].as_array().unwrap().len()) {
        (1, _) => refusal(503, ""),
        (_, 2) => {
            let call = json!({"id": "call_a", "type": "function",
                "function": {"name": "openwop_core_rag_retrieve", "arguments": "{}"}});
            ok(json!({"choices": [{"finish_reason": "tool_calls", "message": {"content": null, "tool_calls": [call]}}]}))
        }
        _ => ok(answer("x")),
    })
    .await;
    let trial = Trial::new(agent(&["openwop:core.rag.retrieve"], None));
    let binding = binding(&base(&server));
    // The second call is that of a process that takes the task over.
    for _ in 0..2 {
        assert_eq!(decided(&trial.run(&binding).await), &json!("x"));
    }
    let keys = keys(&server).await;
    let [first, repeated, second, again, again_second] = keys.as_slice() else {
        panic!("{keys:?}");
    };
    assert_eq!((first, first), (repeated, again));
    assert_eq!(second, again_second);
    assert_ne!(first, second);
    assert_eq!(first.len(), 43);
}

#[tokio::test]
async fn a_task_with_a_large_response_does_not_block_other_tasks() {
    // Two of these exceed the memory limit for one endpoint's responses.
    let padding = "x".repeat(5 << 20);
    let (server, _) = serve(move |_, body| match body["messages"].as_array().unwrap().len() {
        2 => {
            let call = json!({"id": "call_a", "type": "function",
                "function": {"name": "openwop_core_rag_retrieve", "arguments": "{}"}});
            ok(json!({"padding": padding,
                "choices": [{"finish_reason": "tool_calls", "message": {"content": null, "tool_calls": [call]}}]}))
        }
        _ => ok(answer("x")),
    })
    .await;
    let info = ModelInfo {
        max_concurrency: 1,
        ..info()
    };
    let binding = bound(model_with(&base(&server), info));
    let trial = || Trial::new(agent(&["openwop:core.rag.retrieve"], None));
    let (first, second) = (trial(), trial());
    // The second task gets the only permit and waits for memory; the first task needs the permit
    // for its next turn.
    let both = async { tokio::join!(first.run(&binding), second.run(&binding)) };
    let both = tokio::time::timeout(Duration::from_secs(60), both).await;
    let (first, second) = both.expect("the two tasks wait for each other");
    for result in [&first, &second] {
        assert_eq!(decided(result), &json!("x"));
    }
}

#[tokio::test]
async fn another_body_for_the_same_call_has_its_own_idempotency_key() {
    let (server, _) = serve(|_, body| {
        if body.get("max_tokens").is_some() {
            refusal(
                400,
                "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            )
        } else {
            ok(answer("x"))
        }
    })
    .await;
    let trial = Trial::new(agent(&[], None));
    trial.run(&binding(&base(&server))).await;
    let keys = keys(&server).await;
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[1], format!("{}.0c", keys[0]));
}

#[tokio::test]
async fn an_exhausted_quota_is_not_retried() {
    let (server, _) = serve(|_, _| {
        ResponseTemplate::new(429).set_body_json(json!({"error": {"code": "insufficient_quota"}}))
    })
    .await;
    let error = ask(&model(&base(&server))).await.unwrap_err();
    assert_eq!(label(&error), ("quota_exhausted", false));
}

#[rstest]
#[case::seconds("2", 2)]
#[case::date("Sun, 06 Nov 1994 08:49:03 GMT", 3)]
#[tokio::test]
async fn retry_after_is_passed_on(#[case] value: &'static str, #[case] seconds: u64) {
    let (server, _) = serve(move |_, _| refusal(429, "").insert_header("retry-after", value)).await;
    let error = ask(&model(&base(&server))).await.unwrap_err();
    let ModelError::Unavailable { retry_after, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!(retry_after, Some(Duration::from_secs(seconds)));
}

#[tokio::test]
async fn missing_token_counts_are_estimated_and_marked_as_estimates() {
    let (server, _) =
        serve(|_, _| ok(json!({"choices": [{"message": {"content": "12345678"}}]}))).await;
    let trial = Trial::new(agent(&[], None));
    trial.run(&binding(&base(&server))).await;
    let usage = &trial.recorder.payloads("provider.usage")[0];
    assert_eq!(usage["outputTokens"], json!(2));
    assert!(usage["inputTokens"].as_u64().unwrap() >= PROMPT.len() as u64 / 4);
    let kinds = trial.recorder.kinds();
    assert_eq!(
        kinds[1..3],
        ["provider.usage", "touchstone.usage.estimated"]
    );
}

#[rstest]
#[case::negative("-3")]
#[case::fractional("2.5")]
#[case::not_a_number("NaN")]
#[case::beyond_64_bits("18446744073709551616")]
#[case::largest("18446744073709551615")]
#[case::absurd("100000000000000000")]
#[case::infinite("1e999")]
#[tokio::test]
async fn invalid_usage_is_replaced_by_an_estimate(#[case] count: &'static str) {
    let body = format!(
        r#"{{"choices":[{{"message":{{"content":"12345678"}}}}],"usage":{{"prompt_tokens":{count},"completion_tokens":{count}}}}}"#
    );
    let answers = move |_: usize, _: &Value| {
        ResponseTemplate::new(200).set_body_raw(body.clone(), "application/json")
    };
    let (server, _) = serve(answers).await;
    let trial = Trial::new(agent(&[], None));
    trial.run(&binding(&base(&server))).await;
    let kinds = trial.recorder.kinds();
    assert_eq!(
        kinds[1..3],
        ["provider.usage", "touchstone.usage.estimated"],
        "no retry, and the estimate says so"
    );
    let usage = &trial.recorder.payloads("provider.usage")[0];
    assert_eq!(usage["outputTokens"], json!(2));
    let estimated = &trial.recorder.payloads("touchstone.usage.estimated")[0];
    let null = ["NaN", "1e999"].contains(&count);
    assert_eq!(estimated.get("reason").is_none(), null, "{estimated}");
}

#[tokio::test]
async fn connections_are_kept() {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let body = answer("x").to_string();
    let reply = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let serving = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            let reply = reply.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 16384];
                while stream.read(&mut buffer).await.unwrap_or(0) > 0 {
                    stream.write_all(reply.as_bytes()).await.unwrap();
                }
            });
        }
    });
    let model = model(&format!("http://{address}/v1"));
    for _ in 0..20 {
        ask(&model).await.unwrap();
    }
    serving.abort();
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn neither_key_nor_prompt_nor_answer_is_in_any_error() {
    let bodies = [
        (400, "canary-body response_format"),
        (401, "canary-body"),
        (429, "canary-body"),
        (500, "canary-body"),
        (200, "canary-body"),
    ];
    let mut seen = Vec::new();
    for (status, body) in bodies {
        let (server, _) =
            serve(move |_, _| ResponseTemplate::new(status).set_body_string(body)).await;
        let model = model(&base(&server));
        let error = ask(&model).await.unwrap_err();
        seen.push(format!("{error} {error:?} {model:?}"));
    }
    let nobody = model(&format!("http://{}/v1?token=canary-query", deserted()));
    let error = ask(&nobody).await.unwrap_err();
    seen.push(format!("{error} {error:?} {nobody:?}"));
    for text in seen {
        assert!(!text.contains("canary"), "{text}");
    }
}

#[tokio::test]
async fn files_are_sent_with_the_input_and_stay_in_the_conversation() {
    let (server, bodies) = serve(|n, _| ok(answer(&format!("answer {n}")))).await;
    let binding = binding(&base(&server));
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
                {"type": "text", "text": "{\"q\":\"canary-input\"}"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,YQ=="}},
                {"type": "file", "file": {
                    "filename": "invoice.pdf", "file_data": "data:application/pdf;base64,Yg=="}},
            ])
        );
    }
    let attached = trial.recorder.payloads("touchstone.task.attached");
    assert_eq!(attached[0]["files"][1]["mediaType"], "application/pdf");
}
