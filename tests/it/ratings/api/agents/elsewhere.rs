//! Agents outside this host: stress tests reach them over A2A, on another OpenWOP host, or as an
//! operator's command.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_agents::model::external_agents::{Credential, ExternalAgentSettings, NamedCommand};
use touchstone_host::http::HttpSettings;
use touchstone_kit::network::Allowed;
use touchstone_ratings::rules::badge::host_url::HostUrl;
use url::Url;
use wiremock::matchers::{header, method, path, path_regex};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use crate::http::support::clerk::{self, CLERK, TOOLS};
use crate::http::support::host::{Lab, Reply, TestHost, UNLIMITED};
use crate::ratings::api::assessments::{assessed, work};
use crate::ratings::api::{Engine, Site, found, refusal};
use crate::store::TestStore;

const KEY: &str = "canary-key";
const TENANT: &str = "acme";

/// A host with these operator settings, and the tenant's organization as ours.
async fn site(engine: Engine, elsewhere: ExternalAgentSettings) -> Option<(TestStore, Site)> {
    let database = engine.database().await?;
    let lab = Lab {
        elsewhere,
        ..Lab::limited(UNLIMITED)
    };
    let place = HostUrl::public("https://assess.example.org").unwrap();
    let host = TestHost::lab(database.open().await, HttpSettings::default(), place, lab).await;
    let mut site = Site::of(host, None).await;
    site.ours = found(&site.host, &json!({"name": "Face", "tenant": TENANT})).await;
    Some((database, site))
}

/// The operator allows a server on loopback and configures a credential for it.
fn opened(server: &MockServer) -> ExternalAgentSettings {
    let url: Url = server.uri().parse().unwrap();
    ExternalAgentSettings {
        private_targets: Allowed::of([server.address().to_string().parse().unwrap()]),
        credentials: vec![Credential {
            name: "desk".to_owned(),
            origin: url.origin(),
            key: KEY.into(),
            tenants: vec![TENANT.into()],
        }],
        commands: Vec::new(),
    }
}

fn command(line: &str) -> ExternalAgentSettings {
    ExternalAgentSettings {
        commands: vec![NamedCommand {
            name: "clerk".to_owned(),
            command: line.into(),
            tenants: vec![TENANT.into()],
        }],
        ..ExternalAgentSettings::default()
    }
}

fn bearer() -> String {
    format!("Bearer {KEY}")
}

/// An A2A agent that knows the library's answers.
async fn a2a_agent() -> (MockServer, Value) {
    let server = MockServer::start().await;
    let expected = clerk::expected();
    Mock::given(method("POST"))
        .and(path("/agent"))
        .and(header("authorization", bearer()))
        .respond_with(move |request: &Request| {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let parts = body["params"]["message"]["parts"].as_array().unwrap();
            let answer = parts.iter().find_map(|part| {
                let input: Value = serde_json::from_str(part["text"].as_str()?).ok()?;
                expected.iter().find(|(known, _)| *known == input)
            });
            let parts = json!([{"kind": "text", "text": answer.unwrap().1}]);
            let said =
                json!({"kind": "message", "role": "agent", "messageId": "m", "parts": parts});
            let body = json!({"jsonrpc": "2.0", "id": 1, "result": said});
            ResponseTemplate::new(200).set_body_json(body)
        })
        .mount(&server)
        .await;
    let way =
        json!({"transport": "a2a", "url": format!("{}/agent", server.uri()), "credential": "desk"});
    (server, way)
}

/// Another OpenWOP host with a workflow that knows the library's answers.
async fn openwop_host() -> (MockServer, Value) {
    let server = MockServer::start().await;
    let expected = clerk::expected();
    let answers = expected.clone();
    Mock::given(method("POST"))
        .and(path("/v1/runs"))
        .and(header("authorization", bearer()))
        .respond_with(move |request: &Request| {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            assert_eq!(body["workflowId"], "clerk");
            let nth = expected
                .iter()
                .position(|(known, _)| *known == body["inputs"])
                .unwrap();
            let run = json!({"runId": format!("run_{nth}"), "status": "pending"});
            ResponseTemplate::new(201).set_body_json(run)
        })
        .mount(&server)
        .await;
    Mock::given(method("GET"))
        .and(path_regex(r"^/v1/runs/run_\d+/events/poll$"))
        .and(header("authorization", bearer()))
        .respond_with(move |request: &Request| {
            let nth = request.url.path().split(['_', '/']).nth(4).unwrap();
            let answer = &answers[nth.parse::<usize>().unwrap()].1;
            let completed = json!({"eventId": "e1", "runId": format!("run_{nth}"), "type": "run.completed",
                "sequence": 1, "timestamp": "2026-01-01T00:00:00Z", "payload": {"outputs": {"answer": answer}}});
            ResponseTemplate::new(200)
                .set_body_json(json!({"events": [completed], "isComplete": true}))
        })
        .mount(&server)
        .await;
    let way = json!({"transport": "openwop", "url": server.uri(), "workflow": "clerk", "credential": "desk"});
    (server, way)
}

/// An agent that claims two domains and registers the clerk's tools.
fn agent(way: &Value) -> Value {
    json!({"name": "clerk", "reached_by": way, "domains": ["legal", "code"], "tools": TOOLS})
}

async fn enrol(site: &Site, body: &Value) -> String {
    let enrolled = site.post("agents", body).await;
    assert_eq!(enrolled.status, StatusCode::CREATED, "{enrolled:?}");
    assert_eq!(enrolled.json()["reached_by"], body["reached_by"]);
    enrolled.json()["id"].as_str().unwrap().to_owned()
}

fn names(list: &Value) -> Vec<&str> {
    let list = list.as_array().unwrap().iter();
    list.map(|it| it["test"].as_str().unwrap()).collect()
}

#[rstest]
#[tokio::test]
async fn a_remote_agent_is_stress_tested_where_it_runs(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
    #[values("a2a", "openwop")] transport: &str,
) {
    let (server, way) = match transport {
        "a2a" => a2a_agent().await,
        _ => openwop_host().await,
    };
    let Some((_database, site)) = site(engine, opened(&server)).await else {
        return;
    };
    let id = enrol(&site, &agent(&way)).await;
    site.host.work();
    site.host.assess();
    // The skipped tests are 45 % of capability, so some evidence has to come from events.
    work(&site, &id, "good", 6, "accepted").await;
    let found = assessed(&site, &json!({"agent_id": id, "type": "full"})).await;
    assert_eq!(
        (&found["status"], &found["error"]),
        (&json!("completed"), &json!(null)),
        "{found}"
    );
    let stress = &found["stress_test"];
    assert_eq!(
        (&stress["openwop_agent"], &stress["reached_by"]),
        (&json!(null), &way)
    );
    assert_eq!(
        names(&stress["tests"]),
        [
            "domain-breadth",
            "complexity-ladder",
            "autonomy-ladder",
            "learning-series"
        ]
    );
    assert_eq!(
        names(&stress["left_out"]),
        ["tool-challenge", "delegation-mixed", "orchestration"]
    );
    for left_out in stress["left_out"].as_array().unwrap() {
        let reason = left_out["reason"].as_str().unwrap();
        assert!(reason.contains("runs outside this host"), "{reason}");
    }
    let dimensions = &found["result"]["capability"]["dimensions"];
    assert_eq!(
        dimensions["complexity_ceiling"]["score"], 1.0,
        "{dimensions}"
    );
    let path = format!("assessments/{}/stress-test", found["id"].as_str().unwrap());
    let results = site.get(&path).await.json();
    let outcomes = results["data"].as_array().unwrap().iter();
    let passed = outcomes.filter(|it| it["outcome"] == "pass").count();
    assert_eq!(passed, 36, "{results}");
    assert!(!found.to_string().contains(KEY), "{found}");
    let run = stress["tests"][0]["run_id"].as_str().unwrap();
    let run = site.host.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(run.status, StatusCode::OK, "{run:?}");
    assert!(!run.json().to_string().contains(KEY), "{run:?}");
}

/// A program that knows the library's answers, calls the requested tools, and delegates tasks of
/// other workers.
pub const PROGRAM: &str = r#"
import json, sys
answers = json.load(open(sys.argv[1]))
for line in sys.stdin:
    question = json.loads(line)
    value = next(value for known, value in answers if known == question["input"])
    told = [it["text"] for it in question["messages"] if it["role"] == "tool"]
    tool = question["input"].get("tool")
    name, _, other = value.partition(":")
    if not tool and name.startswith("DONE-") and other != "self":
        called, reason = "aaaf-delegate:" + other, name.replace("DONE", "request")
    else:
        called, reason = tool, "receipt"
    if called and not told:
        assert called in question["tools"], question["tools"]
        answer = {"toolCalls": [{"tool": called, "arguments": {"reason": reason}}]}
    elif tool:
        answer = {"output": "RECEIPT=" + json.loads(told[0])["receipt"]}
    else:
        answer = {"output": value}
    print(json.dumps({"id": question["id"], **answer}), flush=True)
"#;

#[tokio::test]
async fn a_command_of_the_operator_is_offered_tools_and_workers() {
    let folder = tempfile::tempdir().unwrap();
    let [program, answers] = ["agent.py", "answers.json"].map(|name| folder.path().join(name));
    std::fs::write(&program, PROGRAM).unwrap();
    std::fs::write(&answers, json!(clerk::expected()).to_string()).unwrap();
    let line = format!("python3 {} {}", program.display(), answers.display());
    let (_database, site) = site(Engine::Sqlite, command(&line)).await.unwrap();
    let way = json!({"transport": "command", "command": "clerk"});
    let id = enrol(&site, &agent(&way)).await;
    site.host.work();
    site.host.assess();
    for dimension in [
        "tool_proficiency",
        "delegation_capability",
        "complexity_ceiling",
    ] {
        let order = json!({"agent_id": id, "type": "single_dimension", "dimension": dimension, "include_stress_test": true});
        let found = assessed(&site, &order).await;
        assert_eq!(found["status"], "completed", "{found}");
        assert_eq!(found["stress_test"]["left_out"], json!([]));
        assert_eq!(found["result"]["result"]["score"], 1.0, "{found}");
        assert!(!found.to_string().contains("agent.py"), "{found}");
    }
}

fn field(refused: &Reply) -> String {
    assert_eq!(
        refusal(refused),
        (StatusCode::BAD_REQUEST, "INVALID_REQUEST".to_owned())
    );
    let document = refused.json();
    let field = document["error"]["details"]["field"].as_str().unwrap();
    field.to_owned()
}

#[rstest]
#[case::another_private_place(json!({"transport": "a2a", "url": "http://10.0.0.1/agent"}), "url")]
#[case::another_port(json!({"transport": "a2a", "url": "http://127.0.0.1:1/agent"}), "url")]
#[case::metadata(json!({"transport": "openwop", "url": "http://169.254.169.254", "workflow": "x"}), "url")]
#[case::plain_http(json!({"transport": "a2a", "url": "http://agents.example.com/agent"}), "url")]
#[case::no_credential(json!({"transport": "a2a", "url": "https://agents.example.com", "credential": "other"}), "credential")]
#[case::credential_of_another_origin(json!({"transport": "a2a", "url": "https://agents.example.com", "credential": "desk"}), "credential")]
#[case::a_command_line(json!({"transport": "command", "command": "touch /tmp/x"}), "command")]
#[tokio::test]
async fn endpoints_that_the_operator_does_not_allow_are_refused(
    #[case] way: Value,
    #[case] member: &str,
) {
    let server = MockServer::start().await;
    let allowed = ExternalAgentSettings {
        commands: command("true").commands,
        ..opened(&server)
    };
    let (_database, site) = site(Engine::Sqlite, allowed).await.unwrap();
    let refused = site.post("agents", &agent(&way)).await;
    assert_eq!(field(&refused), format!("reached_by.{member}"));
    // A change cannot set it either.
    let id = site.enrol("clerk").await;
    let path = format!("agents/{id}");
    let change = json!({"reached_by": way});
    let refused = site.send(Method::PATCH, &path, Some(&change)).await;
    assert_eq!(field(&refused), format!("reached_by.{member}"));
    assert_eq!(site.get(&path).await.json()["reached_by"], json!(null));
    assert_eq!(server.received_requests().await.unwrap().len(), 0);
}

#[tokio::test]
async fn endpoints_of_one_tenant_are_hidden_from_others() {
    let server = MockServer::start().await;
    let allowed = ExternalAgentSettings {
        commands: command("true").commands,
        ..opened(&server)
    };
    let (_database, site) = site(Engine::Sqlite, allowed).await.unwrap();
    let command = json!({"transport": "command", "command": "clerk"});
    let url = format!("{}/agent", server.uri());
    let credential = json!({"transport": "a2a", "url": url, "credential": "desk"});
    for (way, member) in [(command, "command"), (credential, "credential")] {
        let body = agent(&way);
        let theirs = &site.theirs;
        let refused = site
            .send_as(theirs, Method::POST, "agents", Some(&body))
            .await;
        assert_eq!(field(&refused), format!("reached_by.{member}"));
    }
}

#[tokio::test]
async fn an_agent_has_either_an_openwop_agent_or_a_remote_transport() {
    let (_database, site) = site(Engine::Sqlite, command("true")).await.unwrap();
    let way = json!({"transport": "command", "command": "clerk"});
    let both = json!({"name": "clerk", "openwop_agent": CLERK, "reached_by": way});
    assert_eq!(field(&site.post("agents", &both).await), "reached_by");
    let here = json!({"name": "clerk", "openwop_agent": CLERK});
    let id = enrol(&site, &here).await;
    let path = format!("agents/{id}");
    let change = async |body: Value| site.send(Method::PATCH, &path, Some(&body)).await;
    let refused = change(json!({"reached_by": way})).await;
    assert_eq!(field(&refused), "reached_by");
    let moved = change(json!({"openwop_agent": "", "reached_by": way})).await;
    assert_eq!(moved.status, StatusCode::OK, "{moved:?}");
    let moved = moved.json();
    assert_eq!(
        (&moved["openwop_agent"], &moved["reached_by"]),
        (&json!(null), &way)
    );
    let removed = change(json!({"reached_by": null})).await;
    assert_eq!(removed.json()["reached_by"], json!(null), "{removed:?}");
}
