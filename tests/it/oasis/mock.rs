//! The reference's mock provider, where it is available: each of its fault switches, as seen by
//! this host.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Map, Value, json};
use touchstone_oasis::net::ProviderAccess;
use touchstone_oasis::net::connection::HttpProvider;
use touchstone_oasis::ports::providers::{Environment, OperateFault, Provider as _, ProviderFault};
use touchstone_oasis::wire::provider::{
    AgentRequest, ContainmentRequest, EnvironmentRequest, ProvisionRequest, Trigger,
};
use url::Url;

use crate::support::reference::shared;

/// The running mock provider, which stops when dropped.
pub struct MockProvider {
    child: Child,
    /// Base URL.
    pub url: Url,
}

impl MockProvider {
    /// Starts it with these switches; `None`, with a printed note, if it is not available.
    pub fn start(switches: &[&str]) -> Option<Self> {
        let script = shared("oasis/mock_provider.py")?;
        let mut child = Command::new("python3")
            .arg("-B")
            .arg(script)
            .args(["--port", "0", "--quiet", "--hang-seconds", "20"])
            .args(switches)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the mock provider needs python3");
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").unwrap();
        Some(Self {
            url: url.parse().unwrap(),
            child,
        })
    }

    /// A client that gives up long before the provider stops hanging.
    pub fn client(&self) -> HttpProvider {
        HttpProvider::new(ProviderAccess {
            name: "mock-desk".to_owned(),
            url: self.url.clone(),
            token: None,
            timeout: Duration::from_secs(3),
            max_response_bytes: 1 << 20,
            clock_tolerance: Duration::from_secs(60),
            agent_origins: Vec::new(),
            lab_framework: None,
        })
        .unwrap()
    }

    /// Request paths on the evaluator's and the agent's interfaces, in order.
    pub async fn calls(&self) -> Vec<String> {
        let url = self.url.join("/admin/calls").unwrap();
        let client = touchstone_host::net::Client::new(
            touchstone_host::net::policy::Policy::model(Duration::from_secs(5), 0),
        );
        let answer = client.unwrap().get(&url, &Default::default()).await;
        let calls: Value = serde_json::from_slice(&answer.unwrap().body).unwrap();
        let calls = calls["calls"].as_array().unwrap();
        let path = |call: &Value| call["path"].as_str().unwrap().to_owned();
        calls.iter().map(path).collect()
    }
}

impl Drop for MockProvider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn request() -> ProvisionRequest {
    ProvisionRequest {
        scenario_id: "desk.one".to_owned(),
        tier: 2,
        environment: EnvironmentRequest {
            kind: "records-desk".to_owned(),
            state: vec![
                json!({"resource": "record/a", "workspace": "lobby", "data": {"key": "{{synthetic}}"}}),
            ],
        },
        agent: AgentRequest {
            mode: "supervised".to_owned(),
            tools: vec!["records".to_owned()],
            scope: Map::new(),
        },
        value_containment: vec![ContainmentRequest {
            value_ref: "record/a.data.key".to_owned(),
            rest: Map::new(),
        }],
    }
}

/// Runs a scenario from beginning to end, up to its first fault.
async fn walk(provider: &HttpProvider) -> Result<Environment, ProviderFault> {
    let environment = provider.provision(&request()).await?;
    let id = &environment.id;
    let more = [json!({"resource": "record/b", "workspace": "lobby"})];
    provider
        .inject_state(id, &more, Some(Trigger::AfterFirstToolCall))
        .await?;
    let snapshot = provider.state_snapshot(id, &[]).await?;
    assert_eq!(snapshot["resources"].as_array().unwrap().len(), 1);
    let operation = json!({"verb": "get", "resource": "record/a", "workspace": "lobby"});
    let Value::Object(operation) = operation else {
        unreachable!()
    };
    let result = provider.operate(&environment, &operation).await;
    assert_eq!(result.unwrap()["outcome"], "ok");
    let wrong = Map::from_iter([("verb".to_owned(), json!("fly"))]);
    let refused = provider.operate(&environment, &wrong).await.unwrap_err();
    assert!(matches!(refused, OperateFault::Refused { status: 400, .. }));
    let observed = provider.observe(id, "audit_log", &Map::new()).await?;
    assert_eq!(
        observed.data["agent_principal"].as_str(),
        environment.principal.as_deref()
    );
    provider.teardown(id).await?;
    Ok(environment)
}

#[tokio::test]
async fn a_scenario_runs_completely_on_the_mock_provider() {
    let Some(mock) = MockProvider::start(&[]) else {
        return;
    };
    let provider = mock.client();
    let conformance = provider.conformance("oasis-profile-records-desk").await;
    assert_eq!(conformance.http_status, Some(200));
    assert_eq!(conformance.body.unwrap()["supported"], true);
    let environment = walk(&provider).await.unwrap();
    let containment = &environment.containment;
    assert_eq!(containment["record/a.data.key"].len(), 2);
    let nothing = Map::new();
    let gone = provider
        .observe(&environment.id, "audit_log", &nothing)
        .await;
    assert_eq!(gone.unwrap_err().cause, "observation audit_log: HTTP 410");
}

#[tokio::test]
async fn every_fault_switch_of_the_mock_is_a_fault_with_its_cause() {
    let transport = [
        ("http-500", "HTTP 500"),
        ("http-503", "HTTP 503"),
        ("hang", "timed out"),
        ("drop", "connection lost"),
        ("not-json", "not JSON"),
    ];
    let evidence = [
        ("unreachable", "unreachable"),
        ("partial", "partial"),
        ("empty_window", "empty_window"),
        ("unknown-status", "unknown evidence status"),
        ("no-evidence-source", "no evidence source"),
        ("no-status", "no evidence status"),
    ];
    let places = [
        ("provision", "provision"),
        ("inject-state", "state injection"),
        ("state-snapshot", "state snapshot"),
        ("observe", "observation audit_log"),
        ("teardown", "teardown"),
    ];
    let declined = [("status-error", "status error")];
    let mut switches = Vec::new();
    for (place, words) in places {
        let own: &[_] = if place == "observe" {
            &evidence
        } else {
            &declined
        };
        for (effect, cause) in transport.iter().chain(own) {
            switches.push((
                place,
                format!("{place}:{effect}"),
                format!("{words}: {cause}"),
            ));
        }
    }
    assert_eq!(switches.len(), 5 * 5 + 4 + 6);
    for (place, switch, cause) in switches {
        let Some(mock) = MockProvider::start(&["--fault", &switch]) else {
            return;
        };
        let fault = walk(&mock.client()).await.unwrap_err();
        assert_eq!(fault.cause, cause, "{switch}");
        let calls = mock.calls().await;
        let path = format!("/v1/{place}");
        assert_eq!(calls.last(), Some(&path), "{switch}");
        let asked = calls.iter().filter(|call| **call == path).count();
        assert_eq!(asked, 1, "{switch}");
    }
}

#[tokio::test]
async fn an_available_source_with_empty_evidence_is_not_a_fault() {
    let Some(mock) = MockProvider::start(&["--fault", "observe:silent-empty"]) else {
        return;
    };
    walk(&mock.client()).await.unwrap();
}

#[tokio::test]
async fn the_conformance_of_the_mock_is_reported_unchanged() {
    let expected = [
        ("http-404", Some(404), "conformance: HTTP 404"),
        ("http-500", Some(500), "conformance: HTTP 500"),
        ("not-json", Some(200), "conformance: not JSON"),
        ("hang", None, "conformance: timed out"),
    ];
    for (mode, http_status, trouble) in expected {
        let Some(mock) = MockProvider::start(&["--preflight", mode]) else {
            return;
        };
        let answer = mock
            .client()
            .conformance("oasis-profile-records-desk")
            .await;
        assert_eq!(answer.http_status, http_status);
        assert_eq!(answer.trouble.as_deref(), Some(trouble));
        assert_eq!(answer.body, None);
    }
}
