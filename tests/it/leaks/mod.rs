//! No task content, prompt, fixture, key or model output appears where only ids, counts and scores
//! belong.
//!
//! Every secret value contains a distinct canary. The test looks for canaries where they must not
//! be, and, so that it cannot pass by doing nothing, where they must be.

mod secrets;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::process::api::Api;
use crate::process::endpoint::{Endpoint, calling, question, saying};
use crate::process::{AGENT, Host, Site};

const INPUT: &str = "canary-input-5b1f0c77";
const EXPECTED: &str = "canary-expected-c07e4d12";
const OUTPUT: &str = "canary-output-91aa3e60";
const PROMPT: &str = "canary-prompt-2d6c98f1";
const FIXTURE: &str = "canary-fixture-e4471b0a";
const MEMORY: &str = "canary-memory-70fd25c3";
const ARGUMENT: &str = "canary-argument-a83c1e9d";
const MODEL_KEY: &str = "canary-model-key-f6620b48";
const ENDPOINT_ERROR: &str = "canary-endpoint-error-3c95d7e2";
const BAD_BEARER: &str = "canary-bearer-18e2fa05";
const BAD_BODY: &str = "canary-body-d94b6c31";
const IDEMPOTENCY: &str = "canary-idempotency-42d8a7b6";

const NOTE: &str = "canary-note-0fd7b4a9";
const CORRECTION: &str = "canary-correction-b62e19c8";

/// Texts that people wrote about the run; they appear only where they are requested.
const SAID: [&str; 2] = [NOTE, CORRECTION];

const CANARIES: [&str; 12] = [
    INPUT,
    EXPECTED,
    OUTPUT,
    PROMPT,
    FIXTURE,
    MEMORY,
    ARGUMENT,
    MODEL_KEY,
    ENDPOINT_ERROR,
    BAD_BEARER,
    BAD_BODY,
    IDEMPOTENCY,
];

const TOOL: &str = "openwop:core.rag.retrieve";

fn suite() -> Value {
    let task = |id: &str, ask: &str, fixtures: Value| {
        json!({
            "taskId": id, "input": {"ask": ask, "about": INPUT}, "fixtures": fixtures,
            "expected": {"kind": "golden", "match": {"strategy": "contains", "value": format!("said {EXPECTED}")}}
        })
    };
    let fixtures = json!({
        "toolResponses": [{"tool": TOOL, "response": {"found": FIXTURE}}],
        "memorySeed": [{"note": MEMORY}]
    });
    json!({
        "suiteId": "private.touchstone.evals.canaries", "version": "1.0.0", "modes": ["golden"],
        "thresholds": {"passScore": 0.5},
        "tasks": [
            task("right", "right", fixtures.clone()),
            task("wrong", "wrong", fixtures.clone()),
            task("with-tool", "tool", fixtures.clone()),
            task("unknown-tool", "unknown", fixtures.clone()),
            task("endpoint-down", "down", fixtures.clone()),
            task("bad-request", "refused", fixtures)
        ]
    })
}

/// Answers each task's `ask`; every error quotes a canary, as real endpoints quote requests.
async fn endpoint() -> Endpoint {
    Endpoint::start(0..5, |body| {
        let question = question(body);
        let answered = body["messages"].as_array().unwrap().iter().any(|message| message["role"] == "tool");
        let asks = |what: &str| question.contains(&format!("\"{what}\""));
        if asks("right") {
            saying(&format!("{OUTPUT} said {EXPECTED}"))
        } else if asks("tool") && !answered {
            calling(&body["tools"][0]["function"]["name"], &json!({"query": ARGUMENT}))
        } else if asks("unknown") && !answered {
            calling(&json!("no_such_tool"), &json!({"query": ARGUMENT}))
        } else if asks("down") {
            (500, json!({"error": {"message": ENDPOINT_ERROR, "type": ENDPOINT_ERROR, "code": ENDPOINT_ERROR}}))
        } else if asks("refused") {
            (400, json!({"error": {"message": ENDPOINT_ERROR, "type": "invalid_request_error", "code": ENDPOINT_ERROR}}))
        } else {
            saying(OUTPUT)
        }
    })
    .await
}

/// Texts and where they were found.
#[derive(Default)]
struct Surfaces {
    shown: Vec<(String, String)>,
}

impl Surfaces {
    fn add(&mut self, place: impl Into<String>, text: impl Into<String>) {
        self.shown.push((place.into(), text.into()));
    }

    async fn answer(
        &mut self,
        api: &Api,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> (StatusCode, String) {
        let response = api.send(method.clone(), path, body).await.unwrap();
        let (status, headers) = (response.status(), format!("{:?}", response.headers()));
        let text = response.text().await.unwrap();
        self.add(format!("{method} {path} ({status})"), text.clone());
        self.add(format!("headers of {method} {path}"), headers);
        (status, text)
    }

    fn check(&self, secrets: &[&str]) {
        for (place, text) in &self.shown {
            for secret in secrets {
                if let Some(at) = text.find(secret) {
                    let from = text.floor_char_boundary(at.saturating_sub(200));
                    panic!(
                        "{place} shows {secret}: …{}",
                        &text[from..at + secret.len()]
                    );
                }
            }
        }
    }
}

/// A host at the most verbose log level, with the agent and the suite.
fn debugging(site: &Site, endpoint: &Endpoint, key: &str) -> Host {
    site.configure(
        "touchstone.toml",
        &format!(
            "[metrics]\nallow_loopback = true\n[webhooks]\nprivate_targets = [\"127.0.0.1\"]\n[[models]]\nclass = \"*\"\nprovider = \"openai\"\nbase_url = \"{}\"\nmodel = \"probe\"\n\
             api_key_env = \"PROBE_MODEL_KEY\"\ninput_usd_per_mtok = 1.0\noutput_usd_per_mtok = 1.0\nmax_attempts = 2\n",
            endpoint.url()
        ),
    );
    let host = site.serve_with(
        "touchstone.toml",
        &[("RUST_LOG", "debug"), ("PROBE_MODEL_KEY", MODEL_KEY)],
    );
    let api = host.api(key);
    site.install_agent(
        &api,
        &format!("Be brief. {PROMPT}"),
        &json!({"toolAllowlist": [TOOL]}),
    );
    site.import_suite(&api, &suite());
    host
}

/// Rejected requests, each with a canary where a careless message would quote it.
async fn provoke(surfaces: &mut Surfaces, api: &Api, run: &str) {
    let stranger = api.with_key(BAD_BEARER);
    let half = api.with_key(&format!("{BAD_BEARER}.{BAD_BEARER}"));
    for api in [&stranger, &half] {
        let (status, _) = surfaces
            .answer(api, Method::GET, &format!("/v1/runs/{run}"), None)
            .await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
    }
    let good = json!({"mode": "eval", "evalSuiteRef": "private.touchstone.evals.canaries@1.0.0", "agentId": AGENT});
    for (field, value) in [
        ("evalSuiteRef", json!(BAD_BODY)),
        ("evalSuiteRef", json!(format!("{BAD_BODY}.evals.x@1.0.0"))),
        ("agentId", json!(BAD_BODY)),
        ("mode", json!(BAD_BODY)),
        ("tenantId", json!(BAD_BODY)),
        ("tags", json!([BAD_BODY, 1])),
        ("metadata", json!(BAD_BODY)),
        ("workflowId", json!({"text": BAD_BODY})),
        ("configurable", json!({"evalModes": [BAD_BODY]})),
        ("configurable", json!({"temperature": BAD_BODY})),
        (
            "configurable",
            json!({"baselineRunId": BAD_BODY, "evalModes": ["regression"]}),
        ),
        ("configurable", json!({"evalMatch": {"ignore": [BAD_BODY]}})),
    ] {
        let mut body = good.clone();
        body[field] = value;
        let (status, text) = surfaces
            .answer(api, Method::POST, "/v1/runs", Some(&body))
            .await;
        assert!(status.is_client_error(), "{field}: {status} {text}");
    }
    for path in [
        format!("/v1/runs/{BAD_BODY}"),
        format!("/v1/runs/{BAD_BODY}/events/poll"),
        format!("/v1/runs/{run}/events?streamMode={BAD_BODY}"),
        format!("/v1/runs/{run}/events/poll?lastSequence={BAD_BODY}"),
        format!("/v1/agents/{BAD_BODY}"),
        format!("/v1/{BAD_BODY}"),
    ] {
        let (status, text) = surfaces.answer(api, Method::GET, &path, None).await;
        assert!(status.is_client_error(), "{path}: {status} {text}");
    }
}

/// Collects a log without the agent's words and actions; returns the whole log.
async fn events(surfaces: &mut Surfaces, api: &Api, run: &str) -> Vec<Value> {
    let log = api.log(run).await;
    for event in &log {
        let kind = event["type"].as_str().unwrap();
        if !matches!(
            kind,
            "agent.decided" | "agent.reasoned" | "agent.toolCalled" | "agent.toolReturned"
        ) {
            surfaces.add(format!("event {kind}"), event.to_string());
        }
    }
    log
}

/// Collects documents that must exist.
async fn documents(surfaces: &mut Surfaces, api: &Api, paths: &[String]) -> Vec<Value> {
    let mut documents = Vec::new();
    for path in paths {
        let (status, text) = surfaces.answer(api, Method::GET, path, None).await;
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
        documents.push(serde_json::from_str(&text).unwrap());
    }
    documents
}

/// Collects the places that may show only scores and ids of a run.
async fn gather(surfaces: &mut Surfaces, api: &Api, run: &str) -> Vec<Value> {
    let log = events(surfaces, api, run).await;
    let paths = [
        format!("/v1/runs/{run}/eval-summary"),
        format!("/v1/runs/{run}"),
        format!("/v1/runs/{run}/debug-bundle"),
        "/v1/agents".to_owned(),
        format!("/v1/agents/{AGENT}"),
        "/.well-known/openwop".to_owned(),
        "/v1/openapi.json".to_owned(),
    ];
    documents(surfaces, api, &paths).await;
    log
}

/// The actions on an ended run: people annotate it, it is replayed and compared, and it promotes a
/// version. `said` collects the places where people's words may appear.
async fn after(surfaces: &mut Surfaces, said: &mut Surfaces, api: &Api, run: &str) {
    let change = async |surfaces: &mut Surfaces, path: &str, body: Value| -> (StatusCode, Value) {
        let (status, text) = surfaces.answer(api, Method::POST, path, Some(&body)).await;
        (status, serde_json::from_str(&text).unwrap())
    };
    let annotations = format!("/v1/runs/{run}/annotations");
    let correction = json!({
        "target": {"nodeId": "wrong"}, "signal": {"kind": "correction", "correction": CORRECTION}, "note": NOTE
    });
    let (status, made) = change(said, &annotations, correction).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let report = format!("/v1/host/touchstone/runs/{run}/report");
    for shown in documents(said, api, &[annotations, report]).await {
        assert!(
            SAID.iter().all(|words| shown.to_string().contains(words)),
            "{shown}"
        );
    }

    let (status, replay) = change(
        surfaces,
        &format!("/v1/runs/{run}:fork"),
        json!({"mode": "replay"}),
    )
    .await;
    assert_eq!(status, StatusCode::CREATED, "{replay}");
    let replay = replay["runId"].as_str().unwrap();
    let copied = events(surfaces, api, replay).await;
    assert!(
        Value::from(copied).to_string().contains(OUTPUT),
        "nothing was replayed"
    );

    let subscription = json!({"url": "http://127.0.0.1:9/h", "events": ["run.completed"]});
    let made = api
        .text(Method::POST, "/v1/webhooks", Some(&subscription))
        .await;
    assert_eq!(made.0, StatusCode::CREATED, "{made:?}");
    let made: Value = serde_json::from_str(&made.1).unwrap();

    let gates = "/v1/host/touchstone/gates";
    let policy = json!({
        "channel": "stable",
        "policy": {"eval": {"requireSignedSuite": false}, "approval": {"requiredScope": "approvals:respond"}}
    });
    let (status, set) = change(surfaces, gates, policy).await;
    assert_eq!(status, StatusCode::OK, "{set}");
    let asked =
        json!({"agentId": AGENT, "version": "1.0.0", "channel": "stable", "evalRunId": run});
    let (status, unmet) = change(surfaces, &format!("{gates}/check"), asked).await;
    assert_eq!(status, StatusCode::OK, "{unmet}");
    let transitions = format!("/v1/agents/{AGENT}/deployments");
    let promote = json!({"version": "1.0.0", "transition": "promote"});
    for _ in 0..2 {
        let (status, moved) = change(surfaces, &transitions, promote.clone()).await;
        assert_eq!(status, StatusCode::OK, "{moved}");
    }
    let serve =
        json!({"version": "1.0.0", "transition": "promote", "channel": "stable", "evalRunId": run});
    let (status, refused) = change(surfaces, &transitions, serve).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{refused}");
    let gate = refused["details"]["gateRunId"].as_str().unwrap();
    let shown = documents(
        surfaces,
        api,
        &[
            "/v1/host/touchstone/audit".to_owned(),
            "/v1/host/touchstone/webhooks".to_owned(),
            format!("/v1/host/touchstone/runs/{gate}/interrupts"),
            format!("/v1/runs/{gate}"),
            format!("/v1/runs/{run}:diff?against={replay}"),
            format!("/v1/runs/{replay}/debug-bundle"),
            format!("/v1/runs/{run}/debug-bundle"),
            format!("/v1/runs/{run}"),
            "/v1/audit/verify".to_owned(),
            transitions,
            gates.to_owned(),
            format!("/v1/host/touchstone/runs/{run}/comparison?baseline={replay}"),
        ],
    )
    .await;
    let (audit, webhooks, asked, bundle) = (&shown[0], &shown[1], &shown[2], &shown[6]);
    assert_eq!(asked["interrupts"].as_array().unwrap().len(), 1);
    assert_eq!(bundle["annotations"].as_array().unwrap().len(), 1);
    assert_eq!(webhooks["webhooks"][0]["webhookId"], made["webhookId"]);
    let secret = made["secret"].as_str().unwrap();
    assert!(!webhooks.to_string().contains(secret), "{webhooks}");
    // Deployment decisions are separate runs.
    let entries = audit["entries"].as_array().unwrap();
    let decided: Vec<&str> = entries
        .iter()
        .filter_map(|entry| entry["entry"]["runId"].as_str())
        .filter(|about| ![run, gate].contains(about))
        .collect();
    assert!(decided.len() >= 3, "{audit}");
    for about in decided {
        events(surfaces, api, about).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn task_content_appears_only_in_the_events_of_its_run() {
    let endpoint = endpoint().await;
    let site = Site::embedded();
    // Keys are created before the endpoint's key is configured, so this command needs none.
    site.write("touchstone.toml", "");
    let (key, all) = (site.key("acme"), site.key_of("acme", &["all"]));
    let host = debugging(&site, &endpoint, &key);
    let api = host.api(&key);
    let mut surfaces = Surfaces::default();

    let body = json!({"mode": "eval", "evalSuiteRef": "private.touchstone.evals.canaries@1.0.0", "agentId": AGENT});
    let created = api
        .send_with(
            Method::POST,
            "/v1/runs",
            Some(&body),
            &[("idempotency-key", IDEMPOTENCY)],
        )
        .await
        .unwrap();
    assert_eq!(created.status(), StatusCode::CREATED);
    let created: Value = created.json().await.unwrap();
    let run = created["runId"].as_str().unwrap().to_owned();
    let masked = gather(&mut surfaces, &api, &run).await;
    // Only a key with the scope of content sees it in events.
    let log = events(&mut Surfaces::default(), &host.api(&all), &run).await;
    let mut said = Surfaces::default();
    after(&mut surfaces, &mut said, &host.api(&all), &run).await;
    provoke(&mut surfaces, &api, &run).await;
    let (status, metrics) = surfaces.answer(&api, Method::GET, "/metrics", None).await;
    assert_eq!(status, StatusCode::OK);
    assert!(metrics.contains("touchstone_"), "{metrics}");

    // Commands that read from the host show no more than the host.
    let run_commands: [&[&str]; 3] = [
        &["run", "show", &run],
        &["run", "show", &run, "--json"],
        &["run", "events", &run, "--json"],
    ];
    for arguments in run_commands {
        let output = site.touchstone_at(&api, arguments).output().unwrap();
        surfaces.add(
            format!("stderr of {arguments:?}"),
            String::from_utf8_lossy(&output.stderr),
        );
        // The output contains the report.
        if arguments[1] == "show" {
            said.add(
                format!("stdout of {arguments:?}"),
                String::from_utf8_lossy(&output.stdout),
            );
        }
    }
    let (junit, markdown) = (
        site.folder().join("junit.xml"),
        site.folder().join("report.md"),
    );
    let arguments = [
        "eval",
        "private.touchstone.evals.canaries@1.0.0",
        "--agent",
        AGENT,
        "--junit",
        junit.to_str().unwrap(),
        "--markdown",
        markdown.to_str().unwrap(),
        "--json",
    ];
    let output = site.touchstone_at(&api, &arguments).output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(4),
        "an unjudged task is inconclusive"
    );
    surfaces.add("stdout of eval", String::from_utf8_lossy(&output.stdout));
    surfaces.add("stderr of eval", String::from_utf8_lossy(&output.stderr));
    for file in [junit, markdown] {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(
            text.contains("endpoint-down"),
            "the report lacks its tasks: {text}"
        );
        surfaces.add(file.display().to_string(), text);
    }

    // The canaries were really recorded.
    let ordinary = Value::from(log).to_string();
    let masked = Value::from(masked).to_string();
    for canary in [OUTPUT, ARGUMENT, FIXTURE] {
        assert!(!masked.contains(canary), "{masked}");
        assert!(
            ordinary.contains(canary),
            "the ordinary events lack {canary}"
        );
    }
    let asked = endpoint
        .asked()
        .into_iter()
        .map(|asked| asked.body.to_string())
        .collect::<String>();
    for canary in [INPUT, PROMPT, FIXTURE, MEMORY] {
        assert!(asked.contains(canary), "the model did not receive {canary}");
    }

    let logged = host.log();
    assert!(logged.contains(&run), "the log lacks the run: {logged}");
    surfaces.add("the host's log", logged);
    assert!(host.terminate());
    surfaces.check(&CANARIES);
    surfaces.check(&SAID);
    said.check(&CANARIES);
    // The id half of a key is public; the secret half is not.
    let secret = key.splitn(3, '_').nth(2).unwrap();
    assert!(secret.len() >= 32, "no secret half in the key's text");
    surfaces.check(&[&key, secret]);
    for entry in walk(site.folder().join("data")) {
        let bytes = std::fs::read(&entry).unwrap();
        for secret in [secret, MODEL_KEY, IDEMPOTENCY, BAD_BEARER] {
            let found = bytes
                .windows(secret.len())
                .any(|window| window == secret.as_bytes());
            assert!(!found, "{} holds {secret}", entry.display());
        }
    }
}

fn walk(folder: std::path::PathBuf) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path)
            } else {
                files.push(path)
            }
        }
    }
    assert!(!files.is_empty(), "no data was kept");
    files
}
