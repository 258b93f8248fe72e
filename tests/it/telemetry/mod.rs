//! Export by OTLP (docs/telemetry.md): a real host, and a collector that decodes with the official
//! definitions.

pub mod collector;
mod propagation;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::metrics::v1::HistogramDataPoint;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::process::api::Api;
use crate::process::endpoint::{Endpoint, calling, question, saying};
use crate::process::{AGENT, Host, Site, TOO_LONG};
use collector::{Collector, Received, attributes};

const SUITE: &str = "private.touchstone.evals.traced@1.0.0";
const TOOL: &str = "openwop:core.rag.retrieve";
const PROMPT: &str = "Say the magic word.";
const ANSWER: &str = "abracadabra";
const REASON: &str = "It is the magic word.";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// One task with a tool call, one with a rubric.
fn suite() -> Value {
    let expected =
        |value: &str| json!({"kind": "golden", "match": {"strategy": "exact", "value": value}});
    json!({
        "suiteId": "private.touchstone.evals.traced", "version": "1.0.0",
        "modes": ["golden", "rubric"], "thresholds": {"passScore": 0.5},
        "tasks": [
            {"taskId": "tool", "input": {"ask": "with-tool"}, "expected": expected(ANSWER),
                "fixtures": {"toolResponses": [{"tool": TOOL, "response": {"found": ANSWER}}]}},
            {"taskId": "rubric", "input": {"ask": "plain"},
                "expected": {"kind": "rubric", "rubric": [{"criterion": "Is it magic?", "weight": 1.0}]}}
        ]
    })
}

async fn endpoint() -> Endpoint {
    Endpoint::start(0..1, |body| {
        let question = question(body);
        let messages = body["messages"].as_array().unwrap();
        let answered = messages.iter().any(|message| message["role"] == "tool");
        if question.contains("Is it magic?") {
            saying(&json!({"reason": REASON, "met": true}).to_string())
        } else if question.contains("with-tool") && !answered {
            calling(
                &body["tools"][0]["function"]["name"],
                &json!({"query": ANSWER}),
            )
        } else {
            saying(ANSWER)
        }
    })
    .await
}

fn config(endpoint: &Endpoint, more: &str) -> String {
    let model = format!(
        "provider = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\n\
         input_usd_per_mtok = 1.0\noutput_usd_per_mtok = 1.0\n",
        endpoint.url()
    );
    format!(
        "[metrics]\nallow_loopback = true\n[webhooks]\nprivate_targets = [\"127.0.0.1\"]\n\
         [[models]]\nclass = \"*\"\n{model}[judge]\n{model}{more}"
    )
}

/// A host with the agent and the suite.
struct Setup {
    site: Site,
    host: Host,
    key: String,
}

impl Setup {
    fn new(endpoint: &Endpoint, more: &str, environment: &[(&str, &str)]) -> Self {
        Self::with(&config(endpoint, more), &suite(), environment)
    }

    fn with(config: &str, suite: &Value, environment: &[(&str, &str)]) -> Self {
        let site = Site::embedded();
        site.write("touchstone.toml", "");
        let key = site.key_of("acme", &["all"]);
        site.configure("touchstone.toml", config);
        let host = site.serve_with("touchstone.toml", environment);
        let api = host.api(&key);
        site.install_agent(&api, PROMPT, &json!({"toolAllowlist": [TOOL]}));
        site.import_suite(&api, suite);
        Self { site, host, key }
    }

    fn api(&self) -> Api {
        self.host.api(&self.key)
    }

    /// Executes the suite in a request with these headers; returns the run.
    async fn run(&self, headers: &[(&str, &str)]) -> String {
        let body = json!({"mode": "eval", "evalSuiteRef": SUITE, "agentId": AGENT});
        let api = self.api();
        let created = api.send_with(Method::POST, "/v1/runs", Some(&body), headers);
        let created: Value = created.await.unwrap().json().await.unwrap();
        let run = created["runId"].as_str().unwrap().to_owned();
        api.log(&run).await;
        run
    }
}

/// Short intervals, so that tests need not wait.
fn exporting<'a>(collector: &'a Collector, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let common = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
        ("OTEL_BLRP_SCHEDULE_DELAY", "50"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "100"),
    ];
    common.into_iter().chain(more.iter().copied()).collect()
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The spans of one run, and the results of its two tasks.
fn is_complete(received: &Received) -> bool {
    !received.named("eval run").is_empty()
        && received.named("eval task").len() == 2
        && received.events("gen_ai.evaluation.result").len() >= 3
        && received
            .metrics
            .iter()
            .any(|metric| metric.name == "gen_ai.client.token.usage")
}

#[derive(Clone, Copy)]
enum Protocol {
    Http,
    Grpc,
}

async fn collector(protocol: Protocol) -> (Collector, &'static str) {
    match protocol {
        Protocol::Http => (Collector::over_http().await, "http/protobuf"),
        Protocol::Grpc => (Collector::over_grpc().await, "grpc"),
    }
}

#[rstest]
#[case::http(Protocol::Http, "none")]
#[case::http_compressed(Protocol::Http, "gzip")]
#[case::grpc(Protocol::Grpc, "none")]
#[case::grpc_compressed(Protocol::Grpc, "gzip")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_a_trace_of_tasks_agents_calls_and_tools(
    #[case] protocol: Protocol,
    #[case] compression: &str,
) {
    let endpoint = endpoint().await;
    let (collector, protocol) = collector(protocol).await;
    let more = [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", compression),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=acme%20corp"),
        ("OTEL_SERVICE_NAME", "evals"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment.name=test",
        ),
    ];
    let setup = Setup::new(&endpoint, "", &exporting(&collector, &more));
    let run = setup.run(&[]).await;
    let received = collector.until(is_complete).await;

    let root = received.only("eval run");
    assert!(root.parent_span_id.is_empty());
    let of_root = attributes(&root.attributes);
    assert_eq!(of_root["touchstone.run.id"], run);
    assert_eq!(of_root["touchstone.run.passed"], "true");
    assert_eq!(
        of_root["touchstone.suite.id"],
        "private.touchstone.evals.traced"
    );
    assert!(
        received
            .spans
            .iter()
            .all(|span| span.trace_id == root.trace_id)
    );
    assert!(
        received
            .spans
            .iter()
            .all(|span| span.end_time_unix_nano >= span.start_time_unix_nano)
    );
    let ids: BTreeSet<&[u8]> = received
        .spans
        .iter()
        .map(|span| &span.span_id[..])
        .collect();
    assert_eq!(ids.len(), received.spans.len());

    let tasks = received.below(root);
    assert_eq!(tasks.len(), 2);
    for task in tasks {
        let of_task = attributes(&task.attributes);
        assert_eq!(of_task["touchstone.task.passed"], "true", "{of_task:?}");
        check_task(&received, task, &of_task["touchstone.task.id"]);
    }
    check_trace_context(&received, &endpoint);
    check_results(&received);
    check_client_metrics(&received);

    let resource = attributes(&received.resources[0].attributes);
    assert_eq!(resource["service.name"], "evals");
    assert_eq!(resource["deployment.environment.name"], "test");
    assert!(resource.contains_key("service.instance.id"), "{resource:?}");
    assert!(
        received
            .schemas
            .iter()
            .all(|it| it == "https://opentelemetry.io/schemas/1.41.0")
    );
    assert_eq!(received.headers[0]["x-tenant"], "acme corp");
    let lines: Vec<_> = received
        .logs
        .iter()
        .filter(|log| log.event_name.is_empty())
        .collect();
    assert!(
        lines
            .iter()
            .any(|log| attributes(&log.attributes).contains_key("request_id"))
    );

    // Neither prompts nor answers, arguments or reasons.
    let all = format!(
        "{:?}{:?}{:?}",
        received.spans, received.logs, received.metrics
    );
    for content in [PROMPT, ANSWER, REASON, "with-tool"] {
        assert!(!all.contains(content), "{content} in {all}");
    }
    assert!(setup.host.terminate());
}

/// The agent of a task with its calls, and the judge of the task with the rubric.
fn check_task(received: &Received, task: &Span, id: &str) {
    let agent = format!("invoke_agent {AGENT}");
    let below = received.below(task);
    let invocation = below.iter().find(|span| span.name == agent).unwrap();
    let of_agent = attributes(&invocation.attributes);
    assert_eq!(of_agent["gen_ai.operation.name"], "invoke_agent");
    assert_eq!(of_agent["gen_ai.agent.version"], "1.0.0");
    assert_eq!(invocation.kind, i32::from(SpanKind::Internal));
    let of_judge: Vec<_> = below.iter().filter(|span| span.name == "chat m").collect();
    let mut calls: Vec<_> = received.below(invocation);
    calls.sort_by_key(|span| span.start_time_unix_nano);
    let names: Vec<&str> = calls.iter().map(|span| span.name.as_str()).collect();
    let tool = format!("execute_tool {TOOL}");
    match id {
        "tool" => {
            assert_eq!(names, ["chat m", &tool, "chat m"]);
            assert!(of_judge.is_empty());
            let of_tool = attributes(&calls[1].attributes);
            assert_eq!(of_tool["gen_ai.tool.name"], TOOL);
            assert_eq!(of_tool["gen_ai.tool.call.id"], "call_1");
        }
        _ => {
            assert_eq!(names, ["chat m"]);
            assert_eq!(of_judge.len(), 1);
            assert_eq!(
                attributes(&of_judge[0].attributes)["touchstone.role"],
                "judge"
            );
        }
    }
    let of_call = attributes(&calls[0].attributes);
    let expected = [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "m"),
        ("gen_ai.response.model", "probe"),
        ("gen_ai.response.id", "c"),
        ("gen_ai.usage.input_tokens", "100"),
        ("gen_ai.usage.output_tokens", "10"),
        ("server.address", "127.0.0.1"),
    ];
    for (name, value) in expected {
        assert_eq!(
            of_call.get(name).map(String::as_str),
            Some(value),
            "{name}: {of_call:?}"
        );
    }
    let reason = if id == "tool" { "tool_calls" } else { "stop" };
    assert!(
        of_call["gen_ai.response.finish_reasons"].contains(reason),
        "{of_call:?}"
    );
    assert_eq!(calls[0].kind, i32::from(SpanKind::Client));
}

/// Every request to the endpoint named the span of its call.
fn check_trace_context(received: &Received, endpoint: &Endpoint) {
    let calls = received.named("chat m");
    let asked = endpoint.asked();
    assert_eq!(asked.len(), calls.len());
    let sent: BTreeSet<String> = asked
        .iter()
        .map(|asked| asked.headers["traceparent"].to_str().unwrap().to_owned())
        .collect();
    let of_spans = calls
        .iter()
        .map(|span| format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id)));
    assert_eq!(sent, of_spans.collect());
}

/// The client metrics of the conventions.
fn check_client_metrics(received: &Received) {
    let common = [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "m"),
        ("gen_ai.response.model", "probe"),
        ("server.address", "127.0.0.1"),
    ];
    for (name, unit, own) in [
        ("gen_ai.client.operation.duration", "s", None),
        (
            "gen_ai.client.token.usage",
            "{token}",
            Some(("gen_ai.token.type", "input")),
        ),
    ] {
        let metric = received.metrics.iter().find(|it| it.name == name);
        let metric = metric.unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(metric.unit, unit);
        let Some(Data::Histogram(histogram)) = &metric.data else {
            panic!("{metric:?}");
        };
        let is_expected = |point: &&HistogramDataPoint| {
            let found = attributes(&point.attributes);
            let mut expected = common.iter().chain(&own);
            found.contains_key("server.port")
                && expected.all(|(name, value)| found.get(*name).is_some_and(|it| it == value))
        };
        let point = histogram.data_points.iter().find(is_expected);
        let point = point.unwrap_or_else(|| panic!("{metric:?}"));
        assert!(
            point.count > 0 && point.explicit_bounds.len() == 14,
            "{point:?}"
        );
    }
}

/// The results of tasks are events about the invocations.
fn check_results(received: &Received) {
    let invocations = received.named(&format!("invoke_agent {AGENT}"));
    for event in received.events("gen_ai.evaluation.result") {
        assert!(invocations.iter().any(|span| span.span_id == event.span_id));
        let of_event = attributes(&event.attributes);
        assert_eq!(of_event["gen_ai.evaluation.score.label"], "pass");
        match of_event["gen_ai.evaluation.name"].as_str() {
            "task" => assert_eq!(of_event["gen_ai.evaluation.score.value"], "1"),
            name => assert_eq!(name, "criterion.0"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_is_exported_only_if_it_is_captured() {
    let endpoint = endpoint().await;
    let collector = Collector::over_http().await;
    let more = [("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")];
    let setup = Setup::new(&endpoint, "", &exporting(&collector, &more));
    setup.run(&[]).await;
    let received = collector.until(is_complete).await;
    let of_tool = attributes(&received.only(&format!("execute_tool {TOOL}")).attributes);
    let document = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(
        document(&of_tool["gen_ai.tool.call.arguments"]),
        json!({"query": ANSWER})
    );
    assert_eq!(
        document(&of_tool["gen_ai.tool.call.result"]),
        json!({"found": ANSWER})
    );
    let agent = format!("invoke_agent {AGENT}");
    let invocations: BTreeSet<_> = received
        .named(&agent)
        .iter()
        .map(|it| &it.span_id)
        .collect();
    for call in received.named("chat m") {
        let of_call = attributes(&call.attributes);
        let output = document(&of_call["gen_ai.output.messages"]);
        assert_eq!(output[0]["role"], "assistant");
        assert!(document(&of_call["gen_ai.input.messages"]).is_array());
        if invocations.contains(&call.parent_span_id) {
            let instructions = document(&of_call["gen_ai.system_instructions"]);
            let first = instructions[0]["content"].as_str().unwrap();
            assert!(first.contains(PROMPT), "{first}");
        }
    }
    let results = received.events("gen_ai.evaluation.result");
    let explained = results.iter().map(|event| attributes(&event.attributes));
    let mut reasons = explained.filter_map(|mut it| it.remove("gen_ai.evaluation.explanation"));
    assert_eq!(reasons.next().as_deref(), Some(REASON));
}

#[rstest]
#[case::recorded("01", true)]
#[case::not_recorded("00", false)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_continues_the_trace_of_its_request(#[case] flags: &str, #[case] is_recorded: bool) {
    let endpoint = endpoint().await;
    let collector = Collector::over_http().await;
    let setup = Setup::new(&endpoint, "", &exporting(&collector, &[]));
    let parent = format!("00-{TRACE}-{CALLER}-{flags}");
    let headers = [
        ("traceparent", parent.as_str()),
        ("tracestate", "vendor=x"),
        // The operation then continues in a task of its own.
        ("idempotency-key", "k-1"),
    ];
    setup.run(&headers).await;
    if is_recorded {
        let received = collector.until(is_complete).await;
        let root = received.only("eval run");
        assert_eq!(
            (hex(&root.trace_id), hex(&root.parent_span_id)),
            (TRACE.to_owned(), CALLER.to_owned())
        );
        assert_eq!(root.trace_state, "vendor=x");
    } else {
        let ended = |received: &Received| !received.events("gen_ai.evaluation.result").is_empty();
        collector.until(ended).await;
        assert!(setup.host.terminate());
        assert!(collector.received().spans.is_empty());
    }
    for asked in endpoint.asked() {
        let sent = asked.headers["traceparent"].to_str().unwrap();
        assert!(
            sent.starts_with(&format!("00-{TRACE}-")) && sent.ends_with(flags),
            "{sent}"
        );
        assert_ne!(sent, parent);
        assert_eq!(asked.headers["tracestate"], "vendor=x");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_export_only_the_context_of_callers_is_passed_on() {
    let endpoint = endpoint().await;
    let setup = Setup::new(&endpoint, "", &[]);
    setup.run(&[]).await;
    assert!(
        endpoint
            .asked()
            .iter()
            .all(|asked| !asked.headers.contains_key("traceparent"))
    );
    let before = endpoint.asked().len();
    let parent = format!("00-{TRACE}-{CALLER}-01");
    setup.run(&[("traceparent", &parent)]).await;
    let asked = endpoint.asked();
    assert!(asked.len() > before);
    assert!(
        asked[before..]
            .iter()
            .all(|asked| asked.headers["traceparent"] == parent)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resumed_run_continues_its_trace() {
    let endpoint = endpoint().await;
    let collector = Collector::over_http().await;
    let environment = exporting(&collector, &[]);
    let Setup { site, host, key } = Setup::new(&endpoint, "[worker]\nlease_s = 3\n", &environment);
    endpoint.hold(|body| question(body).contains("plain"));
    let api = host.api(&key);
    let run = api.start(SUITE, AGENT, json!({})).await;
    let one_task = |received: &Received| {
        let results = received.events("gen_ai.evaluation.result");
        received.named("eval task").len() == 1 && !results.is_empty()
    };
    let before = collector.until(one_task).await;
    // What is exported may not be in the log yet.
    let is_recorded = async || {
        let (log, _) = api.poll(&run, 0, 1).await.unwrap();
        log.iter().any(|event| event["type"] == "eval.scored")
    };
    let begun = Instant::now();
    while !is_recorded().await {
        assert!(begun.elapsed() < TOO_LONG, "no task is recorded");
        crate::support::pause().await;
    }
    host.kill();
    endpoint.next_era();
    let host = site.serve_with("touchstone.toml", &environment);
    host.api(&key).log(&run).await;
    let received = collector.until(is_complete).await;
    let root = received.only("eval run");
    assert_eq!(before.only("eval task").parent_span_id, root.span_id);
    assert_eq!(received.below(root).len(), 2);
    assert_eq!(attributes(&root.attributes)["touchstone.run.id"], run);
}

/// Accepts connections and never answers.
async fn silent_collector() -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let accepting = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
        }
    });
    (url, accepting)
}

#[rstest]
#[case::silent(false)]
#[case::refusing(true)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_collector_neither_slows_nor_fails_runs_and_losses_are_counted(
    #[case] refuses: bool,
) {
    let endpoint = endpoint().await;
    let (url, mut accepting) = silent_collector().await;
    if refuses {
        accepting.abort();
        let _ = (&mut accepting).await;
    }
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1000"),
        ("OTEL_BSP_SCHEDULE_DELAY", "20"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
    ];
    let setup = Setup::new(&endpoint, "", &environment);
    let begun = Instant::now();
    for _ in 0..5 {
        setup.run(&[]).await;
    }
    // Far below the timeouts of the 50 spans of these runs, were they awaited.
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    let lost = r#"touchstone_telemetry_dropped_total{signal="traces""#;
    let (begun, api) = (Instant::now(), setup.api());
    while !api
        .text(Method::GET, "/metrics", None)
        .await
        .1
        .contains(lost)
    {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "no loss is counted"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The first export fails after its timeout, while the queue may be full at once.
    let failure = "could not export telemetry";
    let begun = Instant::now();
    while !setup.host.log().contains(failure) {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "no failure is logged"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let begun = Instant::now();
    let log = setup.host.log();
    assert!(setup.host.terminate(), "{log}");
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
    let failures = log.matches(failure).count();
    assert!((1..=3).contains(&failures), "one line per signal: {log}");
    accepting.abort();
}

#[test]
fn an_invalid_setting_is_refused_with_its_name_by_commands_that_export() {
    let site = Site::embedded();
    site.write("touchstone.toml", "");
    let output = |arguments: &[&str]| {
        let mut command = site.touchstone("touchstone.toml", arguments);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317");
        command.output().unwrap()
    };
    let refused = output(&["serve"]);
    assert_eq!(refused.status.code(), Some(2));
    let text = String::from_utf8_lossy(&refused.stderr);
    for part in ["OTEL_EXPORTER_OTLP_ENDPOINT", "docs/telemetry.md"] {
        assert!(text.contains(part), "{text}");
    }
    // It exports nothing.
    let done = output(&["run", "list"]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && !said.contains("OTEL_"), "{done:?}");
}
