//! Non-disclosure: contained values anywhere, content in content-free documents, anything to
//! another tenant.

use axum::http::{Method, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rstest::rstest;
use serde_json::{Value, json};

use super::agents::Script;
use super::evaluation::{Rooms, at_work, evaluate, request};
use super::packs::FRONT;
use super::provider::Options;
use crate::http::support::host::TestHost;
use crate::store::Engine::{self, Postgres, Sqlite};

const FORMS: [(&str, &str); 4] = [
    ("json", "application/json"),
    ("yaml", "application/yaml"),
    ("markdown", "text/markdown"),
    ("html", "text/html"),
];

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_contained_value_appears_nowhere(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(database) = engine.database().await else {
        return;
    };
    let mut script = Script::ours("reckless");
    let code = "front.safety.sk.show-code-01";
    let part = &mut script.document["scenarios"][code];
    // Through every channel: tool calls, reasoning and answers.
    let send = json!({"verb": "create", "resource": "memo/leak", "workspace": "north", "params": {"body": "see my answer"}});
    part["ops"].as_array_mut().unwrap().push(send);
    part["final_answer"] = json!("It is {{op:0.fields.data.CODE}}.");
    let rooms = Rooms::open(Options::default()).await;
    let host = at_work(&database, &script, &rooms).await;
    let ended = evaluate(&host, &request(&FRONT, &script, 2)).await;
    let verdict = ended.verdict(&host).await;
    assert_eq!(verdict["verdict"]["safety"], "FAIL");

    let literals = rooms.house.literals();
    assert!(literals.len() >= 4, "{literals:?}");
    let mut texts = vec![
        ("events".to_owned(), json!(ended.log).to_string()),
        ("verdict".to_owned(), verdict.to_string()),
    ];
    for (form, accept) in FORMS {
        let report = ended.look(&host, "oasis-report", accept).await;
        assert_eq!(report.status, StatusCode::OK, "{}", report.text());
        texts.push((form.to_owned(), report.text()));
    }
    for event in ended.events("touchstone.oasis.scenario") {
        let id = event["scenarioId"].as_str().unwrap();
        let evidence = ended.evidence(&host, id).await;
        texts.push((id.to_owned(), evidence.to_string()));
    }
    for path in ["eval-summary", ""] {
        let path = format!("/v1/runs/{}/{path}", ended.run);
        let shown = host.get(path.trim_end_matches('/')).await;
        texts.push((path, shown.text()));
    }
    for (name, text) in &texts {
        for literal in &literals {
            assert!(!text.contains(literal), "{literal} appears in {name}");
            let encoded = STANDARD.encode(literal);
            assert!(!text.contains(&encoded), "{encoded} appears in {name}");
        }
    }
}

/// All strings of a value, without member names.
fn words(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| words(item, found)),
        Value::Object(members) => members.values().for_each(|member| words(member, found)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn evaluation_events_contain_no_prompts_or_answers() {
    let database = Sqlite.database().await.unwrap();
    let script = Script::ours("reckless");
    let rooms = Rooms::open(Options::default()).await;
    let host = at_work(&database, &script, &rooms).await;
    let ended = evaluate(&host, &request(&FRONT, &script, 2)).await;
    let mut content = Vec::new();
    let pack = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/packs/oasis-front-desk/evals/front-desk.json"
    );
    let suite: Value = serde_json::from_slice(&std::fs::read(pack).unwrap()).unwrap();
    for task in suite["tasks"].as_array().unwrap() {
        words(&task["input"]["prompt"], &mut content);
    }
    for part in script.document["scenarios"].as_object().unwrap().values() {
        words(&part["final_answer"], &mut content);
        words(&part["reasoning"], &mut content);
        for operation in part["ops"].as_array().unwrap() {
            words(&operation["resource"], &mut content);
        }
    }
    content.retain(|it| it.len() > 4);
    assert!(content.len() > 40);
    let mut looked_at = 0;
    for event in &ended.log {
        let kind = event["type"].as_str().unwrap();
        if kind.starts_with("eval.") || kind.starts_with("touchstone.oasis.") {
            let text = event["payload"].to_string();
            let found = content.iter().find(|it| text.contains(it.as_str()));
            assert_eq!(found, None, "{text}");
            looked_at += 1;
        }
    }
    assert!(looked_at > 60, "{looked_at}");
}

async fn seen_by(host: &TestHost, key: &str, path: &str) -> (StatusCode, Value) {
    let seen = host.request(Method::GET, path).key(key).send().await;
    let mut body = seen.json();
    if let Some(details) = body["details"].as_object_mut() {
        details.remove("runId");
    }
    (seen.status, body)
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn another_tenant_gets_the_answer_for_a_missing_run(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let script = Script::ours("careful");
    let rooms = Rooms::open(Options::default()).await;
    let host = at_work(&database, &script, &rooms).await;
    let ended = evaluate(&host, &request(&FRONT, &script, 2)).await;
    let evidence = "oasis-evidence/front.safety.br.archive-01";
    for what in ["oasis-verdict", "oasis-report", evidence] {
        let mine = host.get(&ended.path(what)).await;
        assert_eq!(mine.status, StatusCode::OK);
        let path = ended.path(what);
        let nobodys = path.replace(ended.run.as_str(), "no-such-run");
        let (status, told) = seen_by(&host, &host.other_key, &path).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert_eq!(
            (status, told),
            seen_by(&host, &host.other_key, &nobodys).await
        );
    }
    let profiles = host.request(Method::GET, "/v1/host/touchstone/oasis/profiles");
    let profiles = profiles.key(&host.other_key).send().await.json();
    assert_eq!(profiles["profiles"], json!([]));
}
