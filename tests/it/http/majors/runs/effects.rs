//! `GET /runs/{runId}/effects`: the calls of live tools with side effects.

use axum::http::Method;
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_kit::ids::RunId;

use crate::http::majors::runs::calling::{ACT, Calling, LOOK, opaque, payloads};
use crate::http::majors::{foreign_run, under_v2, with_ended_run};
use crate::http::support::host::TestHost;
use crate::store::Engine;

async fn effects(host: &TestHost, run: &RunId) -> Vec<Value> {
    let path = format!("/runs/acme~2F{run}/effects");
    let reply = under_v2(host, "GET", &path).send().await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text());
    let body = reply.json();
    assert_eq!(body["runId"], format!("acme/{run}"));
    assert_eq!(body.as_object().unwrap().len(), 2);
    let effects = body["effects"].as_array().unwrap().clone();
    for effect in &effects {
        let members: Vec<&String> = effect.as_object().unwrap().keys().collect();
        let known = ["at", "attempt", "effectId", "keying", "nodeId", "state"];
        assert_eq!(members, known);
        assert_eq!(effect["keying"], "activity-recipe");
    }
    effects
}

fn shown(effects: &[Value]) -> Vec<(&str, &str, u64)> {
    let shown = effects.iter().map(|it| {
        let text = |name: &str| it[name].as_str().unwrap();
        (
            text("nodeId"),
            text("state"),
            it["attempt"].as_u64().unwrap(),
        )
    });
    let mut shown: Vec<_> = shown.collect();
    shown.sort_unstable();
    shown
}

#[rstest]
#[tokio::test]
async fn each_call_with_side_effects_is_an_effect(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(calling) = Calling::on(engine).await else {
        return;
    };
    let (look, act) = ((LOOK, json!({})), (ACT, json!({"secret": "canary"})));
    let fails = (ACT, json!({"fails": true}));
    calling.agent.plan("a", &[look, act.clone(), fails]);
    calling.agent.plan("b", &[(ACT, json!({"gone": true}))]);
    let run = calling.recorded().await;
    let found = effects(&calling.host, &run).await;
    let expected = [
        ("task-0", "completed", 1),
        ("task-0", "completed", 1),
        ("task-1", "escaped", 1),
    ];
    assert_eq!(shown(&found), expected);
    // An effect has the id that the tool's server got.
    let mut ids: Vec<&str> = found
        .iter()
        .map(|it| it["effectId"].as_str().unwrap())
        .collect();
    let calls = calling.tools.calls();
    let acted = calls.iter().filter(|(_, tool)| tool == ACT);
    let mut sent: Vec<String> = acted.map(|(id, _)| format!("acme/{id}")).collect();
    ids.sort_unstable();
    sent.sort_unstable();
    assert_eq!(ids, sent);
    // Its time is the one of the event that shows its state.
    let log = calling.log(&run).await;
    let mut times = found.iter().map(|it| it["at"].as_str().unwrap());
    assert!(times.all(|at| {
        let at: jiff::Timestamp = at.parse().unwrap();
        let mut events = log.iter().filter(|it| it["type"] == "agent.tool-returned");
        events.any(|it| {
            it["timestamp"]
                .as_str()
                .unwrap()
                .parse::<jiff::Timestamp>()
                .unwrap()
                == at
        })
    }));
    let text = json!(found).to_string();
    assert!(
        !text.contains("canary") && !text.contains("bench"),
        "{text}"
    );
}

#[tokio::test]
async fn a_fork_lists_only_its_own_effects() {
    let calling = Calling::on(Engine::Sqlite).await.unwrap();
    let host = &calling.host;
    calling.agent.plan("a", &[(ACT, json!({}))]);
    calling.agent.plan("b", &[(ACT, json!({}))]);
    let run = calling.recorded().await;
    let fork = async |body: Value| {
        let path = format!("/runs/acme~2F{run}:fork");
        let forked = under_v2(host, "POST", &path).json(&body).send().await;
        assert_eq!(forked.status.as_u16(), 201, "{}", forked.text());
        let fork = opaque(&forked);
        host.ended_of(&fork).await;
        fork
    };
    let replay = fork(json!({"mode": "replay"})).await;
    assert_eq!(effects(host, &replay).await, [json!(null); 0]);
    assert_eq!(calling.tools.calls().len(), 2);
    let branch = fork(json!({"mode": "branch", "fromSeq": 0})).await;
    let (of_run, of_branch) = (effects(host, &run).await, effects(host, &branch).await);
    assert_eq!(shown(&of_branch), shown(&of_run));
    let has = |effect: &Value| of_run.iter().any(|it| it["effectId"] == effect["effectId"]);
    assert!(!of_branch.iter().any(has), "a branch does something new");
    // A branch from the middle keeps the effects of the first task as those of its source.
    let log = calling.log(&run).await;
    let scored = log.iter().position(|it| it["type"] == "eval.scored");
    let cut = log[scored.unwrap()]["sequence"].as_u64().unwrap() + 1;
    let acted = payloads(&log[..cut as usize], "touchstone.effect.intended").len();
    let branch = fork(json!({"mode": "branch", "fromSeq": cut})).await;
    let own = effects(host, &branch).await.len();
    assert!(own <= 2 - acted.min(1), "{own} of 2 after {acted}");
}

#[tokio::test]
async fn a_run_without_live_tools_has_no_effects() {
    let (host, run) = with_ended_run().await;
    assert_eq!(effects(&host, &run).await, [json!(null); 0]);
    let created = under_v2(&host, "POST", "/runs").json(&json!({"workflowId": "conformance-noop"}));
    let workflow = opaque(&created.send().await);
    assert_eq!(effects(&host, &workflow).await, [json!(null); 0]);
}

#[tokio::test]
async fn only_major_2_lists_effects() {
    let (host, run) = with_ended_run().await;
    let foreign = foreign_run(&host).await;
    for (path, version, expected) in [
        (format!("/v1/runs/{run}/effects"), "1.0", (404, "not_found")),
        (format!("/runs/{run}/effects"), "1.0", (404, "not_found")),
        (
            format!("/runs/acme~2F{foreign}/effects"),
            "2.0",
            (404, "not_found"),
        ),
    ] {
        let call = host.request(Method::GET, &path);
        let reply = call.header("openwop-version", version).send().await;
        let found = (reply.status.as_u16(), reply.code());
        assert_eq!((found.0, found.1.as_str()), expected, "{path}");
    }
}
