//! The fault table of docs/providers.md: the result of a task when its model endpoint misbehaves,
//! on every protocol.

use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};
use touchstone_agents::model::anthropic::AnthropicModel;
use touchstone_agents::model::openai::OpenAiModel;
use touchstone_agents::model::openwop::OpenWopAgent;
use touchstone_agents::ports::model::*;

use super::raw_server::{Act, RawServer, STREAM, Then, deserted};
use super::support::*;

const KEY: &str = "sk-canary-leak-key";
/// Part of every text that a broken endpoint sends.
const LEAK: &str = "canary-leak";
const TOOL: &str = "openwop:core.rag.retrieve";
/// Time limit of calls to an endpoint that never answers.
const PATIENCE: Duration = Duration::from_millis(150);
/// Time limit of calls that wait for a part of it; the rest is for slow machines.
const LEISURE: Duration = Duration::from_secs(3);
/// Time limit of all other calls.
const AMPLE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
enum Wire {
    Openai,
    Anthropic,
    OpenaiStreamed,
    AnthropicStreamed,
    Openwop,
}

impl Wire {
    fn binding(self, base: &str, patience: Duration) -> ModelBinding {
        let info = ModelInfo {
            timeout: self.limit(patience),
            ..info()
        };
        let access = access(base, KEY, info);
        match self {
            Self::Openai => bound(OpenAiModel::new(access).unwrap()),
            Self::Anthropic => bound(AnthropicModel::new(access).unwrap()),
            Self::OpenaiStreamed => bound(OpenAiModel::new(access).unwrap().streaming()),
            Self::AnthropicStreamed => bound(AnthropicModel::new(access).unwrap().streaming()),
            Self::Openwop => bound(OpenWopAgent::new(access).unwrap()),
        }
    }

    /// The other host is notified before the time limit, so this takes two or more requests.
    fn limit(self, patience: Duration) -> Duration {
        match self {
            Self::Openwop => patience * 4,
            _ => patience,
        }
    }

    /// Path suffix of the base URL.
    fn place(self) -> &'static str {
        match self {
            Self::Openwop => "",
            _ => "/v1",
        }
    }

    fn streamed(self) -> bool {
        matches!(self, Self::OpenaiStreamed | Self::AnthropicStreamed)
    }

    /// The head of a response whose body would follow.
    fn head(self) -> String {
        if self.streamed() {
            STREAM.to_owned()
        } else {
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n"
                .to_owned()
        }
    }

    /// Streaming events of an answer, one per word.
    fn events(self, text: &str) -> Vec<String> {
        let words = text.split_inclusive(' ');
        let mut events: Vec<Value> = Vec::new();
        match self {
            Self::OpenaiStreamed => {
                events.extend(words.map(
                    |word| json!({"choices": [{"delta": {"content": word}, "finish_reason": null}]}),
                ));
                events.push(json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}));
            }
            _ => {
                events.push(json!({"type": "content_block_start", "index": 0,
                    "content_block": {"type": "text", "text": ""}}));
                events.extend(words.map(|word| {
                    json!({"type": "content_block_delta", "index": 0,
                        "delta": {"type": "text_delta", "text": word}})
                }));
                events.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}));
            }
        }
        let end = match self {
            Self::OpenaiStreamed => "[DONE]".to_owned(),
            _ => json!({"type": "message_stop"}).to_string(),
        };
        events.iter().map(Value::to_string).chain([end]).collect()
    }

    /// The server's acts for a good answer, one per request.
    fn answers(self, text: &str) -> Vec<Act> {
        if !matches!(self, Self::Openwop) {
            return vec![self.says(text)];
        }
        let end =
            json!({"sequence": 1, "type": "run.completed", "payload": {"outputs": {"said": text}}});
        vec![
            Act::json(
                201,
                &json!({"runId": "run_9", "status": "pending"}).to_string(),
            ),
            Act::json(
                200,
                &json!({"events": [end], "isComplete": true}).to_string(),
            ),
        ]
    }

    fn says(self, text: &str) -> Act {
        if self.streamed() {
            return Act::stream(&self.events(text));
        }
        let body = match self {
            Self::Openai => {
                json!({"choices": [{"finish_reason": "stop", "message": {"content": text}}]})
            }
            _ => json!({"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}),
        };
        Act::json(200, &body.to_string())
    }

    /// A tool call with exactly these arguments; a string is sent as it is.
    fn calls(self, tool: &str, arguments: Value) -> Act {
        let text = arguments
            .as_str()
            .map_or_else(|| arguments.to_string(), str::to_owned);
        let body = match self {
            Self::OpenaiStreamed => {
                let call = json!({"choices": [{"delta": {"tool_calls": [
                    {"index": 0, "id": "call_1", "function": {"name": tool, "arguments": text}}]}}]});
                return Act::stream(&[call.to_string(), "[DONE]".to_owned()]);
            }
            Self::AnthropicStreamed => {
                let events = [
                    json!({"type": "content_block_start", "index": 0,
                        "content_block": {"type": "tool_use", "id": "toolu_1", "name": tool, "input": {}}}),
                    json!({"type": "content_block_delta", "index": 0,
                        "delta": {"type": "input_json_delta", "partial_json": text}}),
                    json!({"type": "message_stop"}),
                ];
                return Act::stream(&events.map(|event| event.to_string()));
            }
            Self::Openai => {
                json!({"choices": [{"finish_reason": "tool_calls", "message": {"tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": tool, "arguments": arguments}}]}}]})
            }
            Self::Anthropic => json!({"stop_reason": "tool_use", "content": [
                {"type": "tool_use", "id": "toolu_1", "name": tool, "input": arguments}]}),
            Self::Openwop => unreachable!("its tools are the other host's"),
        };
        Act::json(200, &body.to_string())
    }

    fn overflow(self) -> Act {
        let body = match self {
            Self::Openai | Self::OpenaiStreamed => {
                json!({"error": {"code": "context_length_exceeded", "message": LEAK}})
            }
            _ => json!({"type": "error", "error": {"type": "invalid_request_error",
                "message": format!("prompt is too long: {LEAK}")}}),
        };
        Act::json(400, &body.to_string())
    }
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Refused,
    ClosedAtOnce,
    ResetMidBody,
    RateLimited,
    RateLimitedOnce,
    RateLimitedWithRetryAfter,
    Broken500,
    Broken500Once,
    Overloaded529,
    SlowFirstByte,
    SilentFirstByte,
    Stalled,
    Malformed,
    Truncated200,
    WrongContentType,
    Huge,
    InvalidArguments,
    UnknownTool,
    EndlessTools,
    Overflow,
    Unauthorized,
}

impl Fault {
    fn patience(self) -> Duration {
        match self {
            Self::SilentFirstByte | Self::Stalled => PATIENCE,
            Self::SlowFirstByte => LEISURE,
            _ => AMPLE,
        }
    }

    /// The acts of the endpoint; `None` if the endpoint does not exist.
    fn acts(self, wire: Wire) -> Option<Vec<Act>> {
        let error = json!({"error": {"message": LEAK}}).to_string();
        let head = wire.head();
        let fine = wire.answers("fine");
        let then_fine = |act: Act| [vec![act], fine.clone()].concat();
        let typed = "content-type: application/json\r\n";
        Some(match self {
            Self::Refused => return None,
            Self::ClosedAtOnce => vec![Act::new("", Then::Close)],
            Self::ResetMidBody => vec![Act::new(format!("{head}data: {{\"{LEAK}"), Then::Reset)],
            Self::RateLimited => vec![Act::json(429, &error)],
            Self::RateLimitedOnce => then_fine(Act::json(429, &error)),
            Self::RateLimitedWithRetryAfter => {
                let headers = format!("{typed}retry-after: 0.3\r\n");
                then_fine(Act::answer(429, &headers, &error))
            }
            Self::Broken500 => vec![Act::json(500, &error)],
            Self::Broken500Once => then_fine(Act::json(500, &error)),
            Self::Overloaded529 => then_fine(Act::json(529, &error)),
            Self::SlowFirstByte => {
                let slow = fine.into_iter().map(|act| act.after(LEISURE / 3));
                slow.collect()
            }
            Self::SilentFirstByte => vec![Act::new("", Then::Hang)],
            Self::Stalled => vec![Act::new(format!("{head}data: {{\"{LEAK}"), Then::Hang)],
            Self::Malformed => vec![Act::json(200, &format!("{{oops {LEAK}"))],
            Self::Truncated200 => vec![Act::json(200, &json!({"note": LEAK}).to_string())],
            Self::WrongContentType => vec![Act::answer(200, "content-type: text/html\r\n", LEAK)],
            Self::Huge => vec![Act::new(
                format!("HTTP/1.1 200 OK\r\n{typed}content-length: 99999999999\r\n\r\n{LEAK}"),
                Then::Hang,
            )],
            Self::InvalidArguments => {
                then_fine(wire.calls("openwop_core_rag_retrieve", json!("{oops")))
            }
            Self::UnknownTool => then_fine(wire.calls("delete_everything", json!({}))),
            Self::EndlessTools => vec![wire.calls("openwop_core_rag_retrieve", json!({}))],
            Self::Overflow => vec![wire.overflow()],
            Self::Unauthorized => vec![Act::json(401, &error)],
        })
    }
}

/// Result of the task.
#[derive(Clone, Copy, Debug)]
enum End {
    Decided,
    Failed(&'static str),
    Unjudged(&'static str),
}

#[rstest]
#[case(Fault::Refused, End::Unjudged("connect"), &["connect", "connect"])]
#[case(Fault::ClosedAtOnce, End::Unjudged("reset"), &["reset", "reset"])]
#[case(Fault::ResetMidBody, End::Unjudged("reset"), &["reset", "reset"])]
#[case(Fault::RateLimited, End::Unjudged("rate_limited"), &["rate_limited", "rate_limited"])]
#[case(Fault::RateLimitedOnce, End::Decided, &["rate_limited"])]
#[case(Fault::RateLimitedWithRetryAfter, End::Decided, &["rate_limited"])]
#[case(Fault::Broken500, End::Unjudged("status_500"), &["status_500", "status_500"])]
#[case(Fault::Broken500Once, End::Decided, &["status_500"])]
#[case(Fault::Overloaded529, End::Decided, &["status_529"])]
#[case(Fault::SlowFirstByte, End::Decided, &[])]
#[case(Fault::SilentFirstByte, End::Unjudged("timeout"), &["timeout", "timeout"])]
#[case(Fault::Stalled, End::Unjudged("timeout"), &["timeout", "timeout"])]
#[case(Fault::Malformed, End::Unjudged("malformed_reply"), &["malformed_reply", "malformed_reply"])]
#[case(Fault::Truncated200, End::Unjudged("malformed_reply"), &["malformed_reply", "malformed_reply"])]
#[case(Fault::WrongContentType, End::Unjudged("wrong_content_type"), &["wrong_content_type", "wrong_content_type"])]
#[case(Fault::Huge, End::Unjudged("too_large"), &[])]
#[case(Fault::Unauthorized, End::Unjudged("unauthorized"), &[])]
#[tokio::test]
async fn every_endpoint_fault_has_its_expected_outcome(
    #[values(
        Wire::Openai,
        Wire::Anthropic,
        Wire::OpenaiStreamed,
        Wire::AnthropicStreamed,
        Wire::Openwop
    )]
    wire: Wire,
    #[case] fault: Fault,
    #[case] end: End,
    #[case] retries: &[&str],
) {
    ends(wire, fault, end, retries).await;
}

/// Faults only possible in a model's reply: on another host's workflow, model and tools belong to
/// that host.
#[rstest]
#[case(Fault::InvalidArguments, End::Decided)]
#[case(Fault::UnknownTool, End::Decided)]
#[case(Fault::EndlessTools, End::Failed("turn_limit"))]
#[case(Fault::Overflow, End::Failed("context_overflow"))]
#[tokio::test]
async fn every_reply_fault_has_its_expected_outcome(
    #[values(
        Wire::Openai,
        Wire::Anthropic,
        Wire::OpenaiStreamed,
        Wire::AnthropicStreamed
    )]
    wire: Wire,
    #[case] fault: Fault,
    #[case] end: End,
) {
    ends(wire, fault, end, &[]).await;
}

/// A fault that only a remote run can have: it appears while the run is followed, and is retried if
/// it may be temporary.
#[rstest]
#[case(Fault::ClosedAtOnce, End::Decided)]
#[case(Fault::ResetMidBody, End::Decided)]
#[case(Fault::RateLimited, End::Decided)]
#[case(Fault::Broken500, End::Decided)]
#[case(Fault::WrongContentType, End::Decided)]
#[case(Fault::Malformed, End::Unjudged("malformed_reply"))]
#[case(Fault::Truncated200, End::Unjudged("malformed_reply"))]
#[case(Fault::Huge, End::Unjudged("too_large"))]
#[case(Fault::Unauthorized, End::Unjudged("unauthorized"))]
#[tokio::test]
async fn a_remote_run_is_followed_through_temporary_faults(#[case] fault: Fault, #[case] end: End) {
    let wire = Wire::Openwop;
    let [created, page] = wire.answers("fine").try_into().ok().unwrap();
    let [act] = fault.acts(wire).unwrap().try_into().ok().unwrap();
    let server = RawServer::play(vec![created, act, page]).await;
    let trial = Trial::new(agent(&[], None));
    let binding = wire.binding(server.url("").as_str(), fault.patience());
    let result = trial.run(&binding).await;
    match end {
        End::Decided => assert_eq!(decided(&result), &json!("fine")),
        End::Failed(reason) => assert_eq!(failed(&result), reason),
        End::Unjudged(reason) => assert_eq!(unjudged(&result), reason),
    }
    assert!(
        trial
            .recorder
            .payloads("touchstone.model.retried")
            .is_empty()
    );
    let events = format!("{:?} {result:?}", trial.recorder.events.lock().unwrap());
    assert!(!events.contains(LEAK), "{events}");
}

async fn ends(wire: Wire, fault: Fault, end: End, retries: &[&str]) {
    let server = match fault.acts(wire) {
        Some(acts) => Some(RawServer::play(acts).await),
        None => None,
    };
    let base = match &server {
        Some(server) => server.url(wire.place()).to_string(),
        None => format!("http://{}{}", deserted(), wire.place()),
    };
    let answers = vec![json!({"tool": TOOL, "response": {"hits": []}}); 64];
    let trial = Trial::new(agent(&[TOOL], None)).with_fixtures(json!({"toolResponses": answers}));
    let result = trial.run(&wire.binding(&base, fault.patience())).await;

    match end {
        End::Decided => assert_eq!(decided(&result), &json!("fine")),
        End::Failed(reason) => assert_eq!(failed(&result), reason),
        End::Unjudged(reason) => assert_eq!(unjudged(&result), reason),
    }
    let seen = trial.recorder.payloads("touchstone.model.retried");
    let reasons: Vec<&str> = seen.iter().map(|r| r["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, retries);
    if matches!(fault, Fault::RateLimitedWithRetryAfter) {
        assert!(seen[0]["waitMs"].as_u64().unwrap() >= 300);
    }
    let tools: Vec<Value> = trial.recorder.payloads("agent.toolReturned");
    match fault {
        Fault::InvalidArguments => {
            assert_eq!(tools[0]["error"]["code"], json!("arguments_not_json"));
        }
        Fault::UnknownTool => assert_eq!(tools[0]["status"], json!("forbidden")),
        Fault::EndlessTools => assert_eq!(tools.len(), 16),
        _ => assert_eq!(tools, Vec::<Value>::new()),
    }
    // The invocation always ends, all reservations are settled, and no content leaks.
    let kinds = trial.recorder.kinds();
    assert_eq!(kinds.last().unwrap(), "agent.invocation.completed");
    let reserved = trial
        .ledger
        .reserved
        .load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(trial.ledger.settled.lock().unwrap().len(), reserved);
    let events = format!("{:?} {result:?}", trial.recorder.events.lock().unwrap());
    assert!(!events.contains(LEAK), "{events}");
}

#[rstest]
#[tokio::test]
async fn the_circuit_opens_for_an_endpoint_that_stays_down(
    #[values(Wire::Openai, Wire::Anthropic)] wire: Wire,
) {
    let server = RawServer::play(vec![Act::json(503, LEAK)]).await;
    let binding = wire.binding(server.url("/v1").as_str(), AMPLE);
    let mut ends = Vec::new();
    while ends.last().is_none_or(|end| end != "circuit_open") {
        let trial = Trial::new(agent(&[], None));
        ends.push(unjudged(&trial.run(&binding).await).to_owned());
        assert!(ends.len() < 10, "{ends:?}");
    }
    // Seven tasks of three attempts each; the last attempt was the probe after the pause.
    assert_eq!(server.requests(), 21);
    let trial = Trial::new(agent(&[], None));
    assert_eq!(unjudged(&trial.run(&binding).await), "circuit_open");
    assert_eq!(server.requests(), 21, "no request was sent");
}

/// Faults only possible in a stream.
#[rstest]
#[case::slow_but_never_silent(|wire: Wire| Act::dripping(LEISURE / 2, &wire.events("f i n e")), End::Decided)]
#[case::in_one_all_the_same(|wire: Wire| match wire {
    Wire::OpenaiStreamed => Wire::Openai.says("f i n e"),
    _ => Wire::Anthropic.says("f i n e"),
}, End::Decided)]
#[case::ends_early(|wire: Wire| Act::stream(&wire.events("f i n e")[..2]), End::Unjudged("malformed_reply"))]
#[case::no_events(|_: Wire| Act::new(format!("{STREAM}{LEAK}\n\n"), Then::Close), End::Unjudged("malformed_reply"))]
#[case::other_events(|_: Wire| Act::stream(&[LEAK.to_owned()]), End::Unjudged("malformed_reply"))]
#[case::says_too_much(|wire: Wire| Act::stream(&wire.events(&format!("{LEAK}{} ", "x".repeat(1 << 20)).repeat(9))), End::Unjudged("too_large"))]
#[case::gives_up(|_: Wire| Act::stream(&[json!({"type": "error", "error": {"message": LEAK}}).to_string()]), End::Unjudged("stream_error"))]
#[tokio::test]
async fn every_stream_fault_has_its_expected_outcome(
    #[values(Wire::OpenaiStreamed, Wire::AnthropicStreamed)] wire: Wire,
    #[case] act: fn(Wire) -> Act,
    #[case] end: End,
) {
    let server = RawServer::play(vec![act(wire)]).await;
    let trial = Trial::new(agent(&[TOOL], None));
    let binding = wire.binding(server.url("/v1").as_str(), LEISURE);
    let result = trial.run(&binding).await;
    match end {
        End::Decided => assert_eq!(decided(&result), &json!("f i n e")),
        End::Failed(reason) => assert_eq!(failed(&result), reason),
        End::Unjudged(reason) => assert_eq!(unjudged(&result), reason),
    }
    let events = format!("{:?} {result:?}", trial.recorder.events.lock().unwrap());
    assert!(!events.contains(LEAK), "{events}");
}

#[rstest]
#[tokio::test]
async fn streaming_is_not_requested_again_after_an_endpoint_rejects_it(
    #[values(Wire::OpenaiStreamed, Wire::AnthropicStreamed)] wire: Wire,
) {
    let refusal =
        json!({"error": {"message": "Unsupported value: 'stream' does not support true."}});
    let whole = match wire {
        Wire::OpenaiStreamed => Wire::Openai.says("fine"),
        _ => Wire::Anthropic.says("fine"),
    };
    let server = RawServer::play(vec![Act::json(400, &refusal.to_string()), whole]).await;
    let binding = wire.binding(server.url("/v1").as_str(), AMPLE);
    for requests in [2, 3] {
        let trial = Trial::new(agent(&[TOOL], None));
        assert_eq!(decided(&trial.run(&binding).await), &json!("fine"));
        assert_eq!(server.requests(), requests);
    }
}
