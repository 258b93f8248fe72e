//! The trace context that the peers of a run receive (docs/telemetry.md#trace-context): agents of
//! other systems, tools, agent commands and webhooks.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::{Json, Router};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::collector::{Collector, Received};
use super::{ANSWER, CALLER, Setup, TOOL, TRACE, config, endpoint, exporting, hex};
use crate::process::endpoint::Endpoint;
use crate::process::{Site, TOO_LONG};

const STATE: &str = "vendor=x";
/// The name of the remote agent: a label for A2A, a workflow of an OpenWOP host.
const DESK: &str = "desk";
/// Where an A2A agent has its card.
const CARD: &str = "/.well-known/agent-card.json";

/// The caller's place in its trace, as headers of a request.
fn caller() -> [(&'static str, String); 2] {
    let parent = format!("00-{TRACE}-{CALLER}-01");
    [("traceparent", parent), ("tracestate", STATE.to_owned())]
}

/// A request that a peer received: what it asks for, and the members of the trace context.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    what: String,
    parent: Option<String>,
    state: Option<String>,
}

impl Seen {
    /// From the members of a JSON document.
    fn within(what: &str, members: &Value) -> Self {
        let text = |name: &str| members[name].as_str().map(str::to_owned);
        Self {
            what: what.to_owned(),
            parent: text("traceparent"),
            state: text("tracestate"),
        }
    }
}

/// A server that answers as an A2A agent, as an OpenWOP host, as an MCP server or as a receiver of
/// webhooks; stops when dropped.
struct Peer {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    server: JoinHandle<()>,
}

#[derive(Clone)]
struct Shared {
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Whether the work of agents ends.
    ends: bool,
}

impl Peer {
    async fn start(ends: bool) -> Self {
        let seen = Arc::default();
        let shared = Shared {
            seen: Arc::clone(&seen),
            ends,
        };
        let router = Router::new().fallback(answer).with_state(shared);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, seen, server }
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until a request asked for this; returns all requests.
    async fn until(&self, what: &str) -> Vec<Seen> {
        let begun = Instant::now();
        loop {
            let seen = self.seen();
            if seen.iter().any(|it| it.what == what) {
                return seen;
            }
            assert!(begun.elapsed() < TOO_LONG, "no {what}: {seen:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn answer(State(shared): State<Shared>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = head.uri.path();
    let what = body["method"].as_str().unwrap_or(path);
    let header = |name: &str| Some(head.headers.get(name)?.to_str().unwrap().to_owned());
    let seen = match path {
        "/mcp" => Seen::within(what, &body["params"]["_meta"]),
        _ => Seen {
            what: what.to_owned(),
            parent: header("traceparent"),
            state: header("tracestate"),
        },
    };
    // The other messages of a session, and the card of an agent, serve all runs.
    let is_shared = path == "/mcp" && what != "tools/call" || path == CARD;
    assert!(!is_shared || seen.parent.is_none(), "{seen:?}");
    if !is_shared {
        shared.seen.lock().unwrap().push(seen);
    }
    let event = |sequence: u64, kind: &str, payload: Value| {
        json!({"eventId": "e", "runId": "run_9", "type": kind, "sequence": sequence,
            "timestamp": "2026-01-01T00:00:00Z", "payload": payload})
    };
    let task = |state: &str| {
        json!({"kind": "task", "id": "t-9", "contextId": "c", "status": {"state": state},
            "artifacts": [{"artifactId": "a", "parts": [{"kind": "text", "text": ANSWER}]}]})
    };
    let result = match what {
        "/v1/runs" => return Json(json!({"runId": "run_9", "status": "pending"})).into_response(),
        "/v1/runs/run_9/events/poll" => {
            let events = match shared.ends {
                true => json!([event(
                    1,
                    "run.completed",
                    json!({"outputs": {"word": ANSWER}})
                )]),
                false => json!([]),
            };
            let page = json!({"events": events, "isComplete": shared.ends});
            return Json(page).into_response();
        }
        "message/send" => task("working"),
        "tasks/get" if shared.ends => task("completed"),
        "tasks/get" => task("working"),
        "tasks/cancel" => task("canceled"),
        "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "peer", "version": "1"}}),
        "tools/list" => json!({"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}),
        "tools/call" => json!({"content": [{"type": "text", "text": ANSWER}]}),
        "/hook" | "/v1/runs/run_9/cancel" => return StatusCode::ACCEPTED.into_response(),
        what if what.starts_with("notifications/") => return StatusCode::ACCEPTED.into_response(),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    Json(json!({"jsonrpc": "2.0", "id": body["id"], "result": result})).into_response()
}

/// How a run reaches its peer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    A2a,
    OpenWop,
    McpOverHttp,
    McpOverStdio,
    Webhook,
}

impl Kind {
    /// The span that the requests name as their parent, and its kind.
    fn span(self) -> (String, SpanKind) {
        match self {
            Self::A2a | Self::OpenWop => (format!("invoke_agent {DESK}"), SpanKind::Client),
            Self::McpOverHttp | Self::McpOverStdio => {
                (format!("execute_tool {TOOL}"), SpanKind::Internal)
            }
            Self::Webhook => ("eval run".to_owned(), SpanKind::Internal),
        }
    }

    /// What the peer is asked for last.
    fn last(self) -> &'static str {
        match self {
            Self::A2a => "tasks/get",
            Self::OpenWop => "/v1/runs/run_9/events/poll",
            Self::McpOverHttp | Self::McpOverStdio => "tools/call",
            Self::Webhook => "/hook",
        }
    }

    const fn is_mcp(self) -> bool {
        matches!(self, Self::McpOverHttp | Self::McpOverStdio)
    }

    fn config(self, peer: &Peer, endpoint: &Endpoint, record: &Path) -> String {
        let url = &peer.url;
        let agent = |provider: &str, url: &str| {
            format!(
                "[[models]]\nclass = \"*\"\nprovider = \"{provider}\"\nbase_url = \"{url}\"\n\
                 model = \"{DESK}\"\ntimeout_s = 3.0\nmax_attempts = 1\n"
            )
        };
        let tools = |server: &str| {
            let tool = format!("tool = \"{TOOL}\"\nname = \"look\"\neffects = \"read-only\"\n");
            let server = format!("[[tools.mcp]]\nname = \"crm\"\n{server}\n[[tools.mcp.tools]]\n");
            config(endpoint, &format!("{server}{tool}"))
        };
        match self {
            Self::A2a => agent("a2a", &format!("{url}/a2a")),
            Self::OpenWop => agent("openwop", url),
            Self::McpOverHttp => tools(&format!("url = \"{url}/mcp\"")),
            Self::McpOverStdio => {
                let server = crate::agent::mcp::server();
                tools(&format!(
                    "command = [\"sh\", {server:?}, \"record\", {record:?}]"
                ))
            }
            Self::Webhook => config(endpoint, ""),
        }
    }

    /// One task. Live tools are called only in their own mode.
    fn suite(self) -> Value {
        let mode = if self.is_mcp() {
            "live-shadow"
        } else {
            "golden"
        };
        let ask = if self.is_mcp() { "with-tool" } else { "plain" };
        json!({
            "suiteId": "private.touchstone.evals.traced", "version": "1.0.0",
            "modes": [mode], "thresholds": {"passScore": 0.5},
            "tasks": [{"taskId": "only", "input": {"ask": ask},
                "expected": {"kind": "golden", "match": {"strategy": "exact", "value": ANSWER}}}]
        })
    }
}

/// A host whose runs reach a peer.
struct Scene {
    kind: Kind,
    peer: Peer,
    _endpoint: Endpoint,
    setup: Setup,
    /// What a server over standard input received.
    record: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

impl Scene {
    async fn start(kind: Kind, ends: bool, environment: &[(&str, &str)]) -> Self {
        let peer = Peer::start(ends).await;
        let endpoint = endpoint().await;
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("received.jsonl");
        let config = kind.config(&peer, &endpoint, &record);
        let setup = Setup::with(&config, &kind.suite(), environment);
        if kind == Kind::Webhook {
            let hook = json!({"url": format!("{}/hook", peer.url), "events": ["run.completed"]});
            let api = setup.api();
            let created = api.text(Method::POST, "/v1/webhooks", Some(&hook)).await;
            assert_eq!(created.0, 201, "{}", created.1);
        }
        Self {
            kind,
            peer,
            _endpoint: endpoint,
            setup,
            record,
            _folder: folder,
        }
    }

    /// Executes the suite; returns what the peer received meanwhile.
    async fn run(&self, headers: &[(&str, String)], until: &str) -> Vec<Seen> {
        self.peer.seen.lock().unwrap().clear();
        let _ = std::fs::remove_file(&self.record);
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        self.setup.run(&headers).await;
        if self.kind != Kind::McpOverStdio {
            return self.peer.until(until).await;
        }
        let received = std::fs::read_to_string(&self.record).unwrap();
        let messages = received.lines().map(|line| {
            let message: Value = serde_json::from_str(line).unwrap();
            let what = message["method"].as_str().unwrap();
            Seen::within(what, &message["params"]["_meta"])
        });
        messages.filter(|it| it.what == until).collect()
    }
}

/// The root span of the trace, and the only span of this name in it.
fn spans_of<'r>(received: &'r Received, trace: &[u8], name: &str) -> (&'r Span, &'r Span) {
    let only = |name: &str| {
        let mut spans = received.named(name);
        spans.retain(|span| span.trace_id == trace);
        match spans[..] {
            [span] => span,
            _ => panic!("{} spans are named `{name}`", spans.len()),
        }
    };
    (only("eval run"), only(name))
}

/// Waits until this many runs are exported.
async fn exported(collector: &Collector, runs: usize) -> Received {
    let ended = |received: &Received| received.named("eval run").len() == runs;
    collector.until(ended).await
}

fn trace_of(seen: &Seen) -> Vec<u8> {
    let parent = seen.parent.as_deref().unwrap();
    let digits = parent.split('-').nth(1).unwrap();
    let pairs = (0..digits.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect()
}

fn parent_of(span: &Span) -> Option<String> {
    let (trace, id) = (hex(&span.trace_id), hex(&span.span_id));
    Some(format!("00-{trace}-{id}-01"))
}

#[rstest]
#[case::a2a(Kind::A2a)]
#[case::openwop(Kind::OpenWop)]
#[case::mcp_over_http(Kind::McpOverHttp)]
#[case::mcp_over_stdio(Kind::McpOverStdio)]
#[case::webhook(Kind::Webhook)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_receives_the_place_of_its_call_in_the_trace(#[case] kind: Kind) {
    let collector = Collector::over_http().await;
    let scene = Scene::start(kind, true, &exporting(&collector, &[])).await;
    let alone = scene.run(&[], kind.last()).await;
    let called = scene.run(&caller(), kind.last()).await;
    let received = exported(&collector, 2).await;
    let (name, span_kind) = kind.span();

    let (root, span) = spans_of(&received, &trace_of(&alone[0]), &name);
    assert!(root.parent_span_id.is_empty());
    assert_eq!(span.kind, i32::from(span_kind));
    for seen in alone {
        assert_eq!(seen.parent, parent_of(span), "{seen:?}");
        assert_eq!(seen.state, None, "{seen:?}");
    }

    let (root, span) = spans_of(&received, &trace_of(&called[0]), &name);
    assert_eq!(
        (hex(&root.trace_id), hex(&root.parent_span_id)),
        (TRACE.to_owned(), CALLER.to_owned())
    );
    for seen in called {
        assert_eq!(seen.parent, parent_of(span), "{seen:?}");
        assert_eq!(seen.state.as_deref(), Some(STATE), "{seen:?}");
    }
}

#[rstest]
#[case::a2a(Kind::A2a)]
#[case::openwop(Kind::OpenWop)]
#[case::mcp_over_http(Kind::McpOverHttp)]
#[case::mcp_over_stdio(Kind::McpOverStdio)]
#[case::webhook(Kind::Webhook)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_export_a_peer_receives_the_context_of_the_caller_only(#[case] kind: Kind) {
    let scene = Scene::start(kind, true, &[]).await;
    for seen in scene.run(&[], kind.last()).await {
        assert_eq!((seen.parent, seen.state), (None, None), "{}", seen.what);
    }
    let [(_, parent), (_, state)] = caller();
    for seen in scene.run(&caller(), kind.last()).await {
        let expected = (Some(parent.clone()), Some(state.clone()));
        assert_eq!((seen.parent, seen.state), expected, "{}", seen.what);
    }
}

#[rstest]
#[case::a2a(Kind::A2a, "tasks/cancel")]
#[case::openwop(Kind::OpenWop, "/v1/runs/run_9/cancel")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_belongs_to_the_call_that_it_ends(#[case] kind: Kind, #[case] what: &str) {
    let collector = Collector::over_http().await;
    let scene = Scene::start(kind, false, &exporting(&collector, &[])).await;
    let seen = scene.run(&caller(), what).await;
    let received = exported(&collector, 1).await;
    let (_, span) = spans_of(&received, &trace_of(&seen[0]), &kind.span().0);
    for seen in seen {
        assert_eq!(seen.parent, parent_of(span), "{seen:?}");
        assert_eq!(seen.state.as_deref(), Some(STATE), "{seen:?}");
    }
}

/// Evaluates a program that notes each question; returns what it was told, and the standard error
/// output of the command.
async fn evaluate_command(environment: Vec<(&str, &str)>) -> (Seen, String) {
    let site = Site::embedded();
    site.write("touchstone.toml", "");
    site.write("cases.csv", "input,expected\nping,pong\n");
    let program = "import json, sys\nfor line in sys.stdin:\n    it = json.loads(line)\n    \
                   open('seen.json', 'w').write(line)\n    \
                   print(json.dumps({'id': it['id'], 'output': 'pong'}), flush=True)\n";
    site.write("agent.py", program);
    let arguments = [
        "eval",
        "--agent-command",
        "python3 agent.py",
        "--cases",
        "cases.csv",
        "--lenient",
    ];
    let mut command = site.touchstone("touchstone.toml", &arguments);
    command.env_remove("TRACEPARENT").env_remove("TRACESTATE");
    command.envs(environment);
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let question = std::fs::read_to_string(site.folder().join("seen.json")).unwrap();
    let question: Value = serde_json::from_str(&question).unwrap();
    (Seen::within("question", &question), said)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_exports_its_runs_and_continues_the_trace_of_its_environment() {
    let collector = Collector::over_http().await;
    let [(_, parent), (_, state)] = caller();
    let of_caller = [
        ("TRACEPARENT", parent.as_str()),
        ("TRACESTATE", state.as_str()),
        // Not supported: `http/protobuf` is used instead.
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
    ];
    let (seen, said) = evaluate_command(exporting(&collector, &of_caller)).await;
    let warnings = said.matches("OTEL_EXPORTER_OTLP_PROTOCOL").count();
    assert_eq!(warnings, 1, "{said}");
    // The end of the process waited for the exports.
    let received = collector.received();
    let root = received.only("eval run");
    assert_eq!(
        (hex(&root.trace_id), hex(&root.parent_span_id)),
        (TRACE.to_owned(), CALLER.to_owned())
    );
    let calls: Vec<&Span> = received
        .spans
        .iter()
        .filter(|span| span.name.starts_with("invoke_agent command-"))
        .collect();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].kind, i32::from(SpanKind::Client));
    assert_eq!(seen.parent, parent_of(calls[0]));
    assert_eq!(seen.state, Some(state));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_export_an_agent_command_receives_the_context_of_the_environment_only() {
    let (seen, _) = evaluate_command(Vec::new()).await;
    assert_eq!((seen.parent, seen.state), (None, None));
    let [(_, parent), (_, state)] = caller();
    let environment = vec![
        ("TRACEPARENT", parent.as_str()),
        ("TRACESTATE", state.as_str()),
    ];
    let (seen, _) = evaluate_command(environment).await;
    assert_eq!(
        (seen.parent.as_deref(), seen.state.as_deref()),
        (Some(parent.as_str()), Some(state.as_str()))
    );
}
