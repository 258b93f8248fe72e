//! A profile turns eval runs into evidence, each run once; agents are rated without a single
//! reported event.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::access::Scope;
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_ratings::rules::projection::{judgment_id, task_id};
use touchstone_runs::rules::run::record::EvalSpec;
use touchstone_runs::store as run_store;

use crate::http::runs::calibrations;
use crate::http::support::host::{AGENT, SUITE, says, suite};
use crate::ratings::api::{Engine, Organization, Site, refusal, site};

const PROFILE: &str = "profiles/community.bench.evals.echo/1.0.0";

/// An organization for the tenant of the host's eval runs, with runnable agents.
pub struct Evals {
    pub face: Organization,
}

impl Evals {
    /// With a suite of these texts.
    async fn on(site: &Site, texts: &[&str]) -> Self {
        let face =
            crate::ratings::api::found(&site.host, &json!({"name": "Face", "tenant": "acme"}))
                .await;
        site.host.equip(&says(texts)).await;
        site.host.work();
        Self { face }
    }

    pub async fn send(
        &self,
        site: &Site,
        method: Method,
        path: &str,
        body: &Value,
    ) -> crate::http::support::host::Reply {
        site.send_as(&self.face, method, path, Some(body)).await
    }

    pub async fn get(&self, site: &Site, path: &str) -> Value {
        site.send_as(&self.face, Method::GET, path, None)
            .await
            .json()
    }

    async fn enrol(&self, site: &Site, body: &Value) -> String {
        let enrolled = self.send(site, Method::POST, "agents", body).await;
        assert_eq!(enrolled.status, StatusCode::CREATED, "{enrolled:?}");
        enrolled.json()["id"].as_str().unwrap().to_owned()
    }

    pub async fn collect(&self, site: &Site, body: &Value) -> Value {
        let collected = self.send(site, Method::POST, "events/collect", body).await;
        assert_eq!(collected.status, StatusCode::OK, "{collected:?}");
        collected.json()
    }
}

async fn run(site: &Site) -> String {
    let run = site.host.create().await;
    site.host.ended(&run).await;
    run.to_string()
}

fn profile() -> Value {
    json!({"suiteId": SUITE, "suiteVersion": "1.0.0",
        "defaults": {"domain": "code", "complexityLevel": 2, "autonomyLevel": 3},
        "tasks": {"task-0": {"complexityLevel": 3, "maxCostUsd": 1.0}, "task-1": {"baselineSeconds": 60}}})
}

/// An agent rated on both axes from three eval runs of twelve tasks, each with the last task
/// failed: its id, the runs, and the assessment.
pub async fn rated_by_runs(site: &Site, evals: &Evals) -> (String, Vec<String>, Value) {
    site.host.assess();
    let set = evals.send(site, Method::PUT, PROFILE, &profile()).await;
    assert_eq!(set.status, StatusCode::CREATED, "{set:?}");
    let echo = json!({"name": "echo", "openwop_agent": AGENT, "domains": ["code"]});
    let agent = evals.enrol(site, &echo).await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(run(site).await);
    }
    // The echo agent calls no tools and orchestrates no agents, so only the observable capabilities
    // have weight.
    let weights = json!({"capability_weights": {"domain_breadth": 0.3, "complexity_ceiling": 0.4, "tool_proficiency": 0.0,
        "autonomy_level": 0.3, "learning_rate": 0.0, "delegation_capability": 0.0, "orchestration_skills": 0.0}});
    let set = evals
        .send(site, Method::PUT, "config/weights", &weights)
        .await;
    assert_eq!(set.status, StatusCode::OK, "{set:?}");
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let asked = evals.send(site, Method::POST, "assessments", &order).await;
    assert_eq!(asked.status, StatusCode::ACCEPTED, "{asked:?}");
    let found = ended(site, evals, &asked.json()).await;
    (agent, runs, found)
}

async fn ended(site: &Site, evals: &Evals, assessment: &Value) -> Value {
    let path = format!("assessments/{}", assessment["id"].as_str().unwrap());
    loop {
        let now = evals.get(site, &path).await;
        if now["completed_at"].is_string() {
            return now;
        }
        crate::support::pause().await;
    }
}

/// Eleven texts that the echo agent gets right, and one that it does not.
pub async fn mostly_right(site: &Site) -> Evals {
    let right = (0..11).map(|n| format!("text {n}"));
    let texts: Vec<String> = right.chain(["wrong".to_owned()]).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    Evals::on(site, &texts).await
}

#[rstest]
#[tokio::test]
async fn eval_runs_alone_rate_an_agent(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    site!(engine => site);
    let evals = mostly_right(&site).await;
    let (agent, _, found) = rated_by_runs(&site, &evals).await;
    assert_eq!(found["status"], "completed", "{found}");
    let result = &found["result"];
    assert_eq!(
        (&result["tasks_performance"], &result["tasks_capability"]),
        (&json!(36), &json!(36))
    );
    let performance = &result["performance"]["dimensions"];
    assert_eq!(
        performance["task_completion_rate"]["score"], 0.9167,
        "{result}"
    );
    let capability = &result["capability"]["dimensions"];
    assert_eq!(capability["complexity_ceiling"]["score"], 0.6, "{result}");
    assert_eq!(capability["autonomy_level"]["score"], 1.0, "{result}");

    // All runs were collected before; none is counted twice.
    let again = evals.collect(&site, &json!({"agent_id": agent})).await;
    assert_eq!(
        again,
        json!({"runs": 0, "events": 0, "more": false, "skipped": []})
    );
    let events = evals
        .get(
            &site,
            &format!("events?agent_id={agent}&type=task_completed"),
        )
        .await;
    let events = events["data"].as_array().unwrap();
    assert_eq!(events.len(), 36);
    for event in events {
        assert_eq!(event["source"], "openwop_eval");
        assert!(event["data"]["cost_usd"].as_f64().unwrap() > 0.0, "{event}");
        assert!(!event.to_string().contains("text "), "no content: {event}");
    }
}

#[rstest]
#[tokio::test]
async fn a_run_becomes_evidence_once_it_has_a_profile_and_for_one_agent_only(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let evals = Evals::on(&site, &["a", "b"]).await;
    let agent = evals.enrol(&site, &json!({"name": "echo"})).await;
    let id = run(&site).await;
    let stands_for_none = evals
        .send(
            &site,
            Method::POST,
            "events/collect",
            &json!({"agent_id": agent}),
        )
        .await;
    assert_eq!(stands_for_none.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        stands_for_none.json()["error"]["details"]["field"],
        "agent_id"
    );
    let path = format!("agents/{agent}");
    let changed = evals
        .send(
            &site,
            Method::PATCH,
            &path,
            &json!({"openwop_agent": AGENT}),
        )
        .await;
    assert_eq!(changed.json()["openwop_agent"], AGENT, "{changed:?}");

    let skipped = json!([{"run_id": id, "reason": "no_profile"}]);
    let none = evals.collect(&site, &json!({})).await;
    assert_eq!(
        none,
        json!({"runs": 1, "events": 0, "more": false, "skipped": skipped})
    );
    let none = evals.collect(&site, &json!({})).await;
    assert_eq!(
        (&none["runs"], &none["skipped"]),
        (&json!(0), &skipped),
        "it is reported again without reading the log"
    );
    evals.send(&site, Method::PUT, PROFILE, &profile()).await;
    let later = evals
        .collect(&site, &json!({"from": "2999-01-01T00:00:00Z"}))
        .await;
    assert_eq!(later["runs"], 0);
    let some = evals.collect(&site, &json!({})).await;
    assert_eq!(
        some,
        json!({"runs": 1, "events": 4, "more": false, "skipped": []})
    );
    // A changed profile reads the run again and changes no recorded evidence.
    let mut other = profile();
    other["defaults"]["domain"] = json!("legal");
    let set = evals.send(&site, Method::PUT, PROFILE, &other).await;
    assert_eq!(set.status, StatusCode::OK);
    let again = evals.collect(&site, &json!({})).await;
    assert_eq!(
        again,
        json!({"runs": 1, "events": 0, "more": false, "skipped": []})
    );
    let events = evals.get(&site, "events?type=task_assigned").await;
    assert_eq!(events["data"][0]["data"]["domain"], "code");

    // An `openwop_agent` that another agent already uses is rejected, unless the versions differ.
    let second = json!({"name": "second", "openwop_agent": format!("{AGENT}@1.0.0")});
    let refused = evals.send(&site, Method::POST, "agents", &second).await;
    assert_eq!(
        refusal(&refused),
        (StatusCode::CONFLICT, "CONFLICT".to_owned())
    );
    assert_eq!(refused.json()["error"]["details"]["field"], "openwop_agent");
    let apart = json!({"openwop_agent": format!("{AGENT}@2.0.0")});
    let changed = evals.send(&site, Method::PATCH, &path, &apart).await;
    assert_eq!(changed.status, StatusCode::OK);
    let second = evals.enrol(&site, &second).await;
    run(&site).await;
    let collected = evals.collect(&site, &json!({})).await;
    assert_eq!(
        (&collected["runs"], &collected["events"]),
        (&json!(1), &json!(4))
    );
    let theirs = evals.get(&site, &format!("events?agent_id={second}")).await;
    assert_eq!(theirs["data"].as_array().unwrap().len(), 4);
}

#[rstest]
#[tokio::test]
async fn reported_outcomes_do_not_override_the_hosts_verdicts(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let evals = mostly_right(&site).await;
    let (agent, runs, found) = rated_by_runs(&site, &evals).await;
    let events = format!("events?agent_id={agent}&type=task_completed&limit=200");
    let events = evals.get(&site, &events).await;
    let events = events["data"].as_array().unwrap();
    let missed = events
        .iter()
        .find(|it| it["data"]["completion_status"] == "rejected")
        .unwrap();
    let mut better = json!({"agent_id": agent, "type": "task_completed", "timestamp": jiff::Timestamp::now().to_string(),
        "data": missed["data"]});
    better["data"]["completion_status"] = json!("accepted");
    let refused = evals.send(&site, Method::POST, "events", &better).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    assert!(
        refused.text().contains("eval run of this host"),
        "{refused:?}"
    );

    // An earlier report is recorded, and has no weight once the host has judged the task.
    let later = site.host.create().await.to_string();
    site.host.ended(&later.as_str().into()).await;
    better["data"]["task_id"] = json!(task_id(&later, "task-11"));
    better["data"]["quality_score"] = json!(1.0);
    let taken = evals.send(&site, Method::POST, "events", &better).await;
    assert_eq!(taken.status, StatusCode::CREATED, "{taken:?}");
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let asked = evals.send(&site, Method::POST, "assessments", &order).await;
    let again = ended(&site, &evals, &asked.json()).await;
    assert_eq!(again["result"]["tasks_performance"], 48, "{again}");
    let rate = |of: &Value| {
        of["result"]["performance"]["dimensions"]["task_completion_rate"]["score"].clone()
    };
    assert_eq!((rate(&again), runs.len()), (rate(&found), 3));

    // A run whose ids are already taken is reported, not skipped silently.
    let taken = site.host.create().await.to_string();
    let log = site.host.ended(&taken.as_str().into()).await;
    let scored = log.iter().rfind(|it| it["type"] == "eval.scored").unwrap();
    better["data"]["task_id"] = json!("another");
    better["id"] = json!(judgment_id(&taken, scored["sequence"].as_u64().unwrap()));
    let squatted = evals.send(&site, Method::POST, "events", &better).await;
    assert_eq!(squatted.status, StatusCode::CREATED, "{squatted:?}");
    let collected = evals.collect(&site, &json!({"agent_id": agent})).await;
    assert_eq!(
        (&collected["events"], &collected["skipped"]),
        (&json!(0), &json!([{"run_id": taken, "reason": "id_taken"}]))
    );
}

#[tokio::test]
async fn tasks_reused_by_a_retry_are_evidence_once() {
    site!(Engine::Sqlite => site);
    let evals = Evals::on(&site, &["a", "unavailable", "c"]).await;
    evals.send(&site, Method::PUT, PROFILE, &profile()).await;
    evals
        .enrol(&site, &json!({"name": "echo", "openwop_agent": AGENT}))
        .await;
    let id = run(&site).await;
    let first = evals.collect(&site, &json!({})).await;
    let path = format!("/v1/host/touchstone/runs/{id}:retry");
    let retried = site.host.post(&path, &json!({})).await;
    assert_eq!(retried.status, StatusCode::CREATED, "{retried:?}");
    let retried = retried.json()["runId"].as_str().unwrap().into();
    site.host.ended(&retried).await;
    let second = evals.collect(&site, &json!({})).await;
    assert_eq!(
        first["events"], 4,
        "of the two tasks that were judged: {first}"
    );
    assert_eq!(
        (&second["runs"], &second["events"]),
        (&json!(1), &json!(0)),
        "{second}"
    );
    assert_eq!(second["skipped"][0]["reason"], "nothing_judged");
}

#[rstest]
#[tokio::test]
async fn profiles_are_kept_listed_and_removed(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let set = site.send(Method::PUT, PROFILE, Some(&profile())).await;
    assert_eq!(set.status, StatusCode::CREATED);
    let kept = site.get(PROFILE).await.json();
    assert_eq!(kept, set.json());
    assert_eq!(kept["profile"]["tasks"]["task-0"]["complexityLevel"], 3);
    let mut other = profile();
    other["suiteVersion"] = json!("1.1.0");
    site.send(
        Method::PUT,
        "profiles/community.bench.evals.echo/1.1.0",
        Some(&other),
    )
    .await;
    let first = site.get("profiles?limit=1").await.json();
    assert_eq!(first["data"][0]["tasks_described"], 2);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = site
        .get(&format!("profiles?limit=1&cursor={cursor}"))
        .await
        .json();
    assert_eq!(
        (&second["data"][0]["suite_version"], &second["next_cursor"]),
        (&json!("1.1.0"), &json!(null))
    );
    let removed = site.send(Method::DELETE, PROFILE, None).await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT);
    for method in [Method::GET, Method::DELETE] {
        let gone = site.send(method, PROFILE, None).await;
        assert_eq!(
            refusal(&gone),
            (StatusCode::NOT_FOUND, "NOT_FOUND".to_owned())
        );
    }
}

#[rstest]
#[case(PROFILE, json!({"extra": 1}), "extra")]
#[case(PROFILE, json!({"suiteId": "community.bench.evals.other"}), "suiteId")]
#[case(PROFILE, json!({"defaults": {"complexityLevel": 6}}), "defaults.complexityLevel")]
#[case(PROFILE, json!({"tasks": {"task-0": {"baselineSeconds": 0}}}), "tasks.task-0.baselineSeconds")]
#[case(PROFILE, json!({"tasks": {"task-9": {}}}), "tasks.task-9")]
#[case("profiles/echo/1.0.0", json!({}), "suiteVersion")]
#[case("profiles/community.bench.evals.echo/latest", json!({}), "suiteVersion")]
#[tokio::test]
async fn profile_errors_are_reported_by_field(
    #[case] path: &str,
    #[case] change: Value,
    #[case] field: &str,
) {
    site!(Engine::Sqlite => site);
    let evals = Evals::on(&site, &["a", "b"]).await;
    let mut body = profile();
    for (name, value) in change.as_object().unwrap() {
        body[name] = value.clone();
    }
    let refused = evals.send(&site, Method::PUT, path, &body).await;
    assert_eq!(
        refusal(&refused),
        (StatusCode::BAD_REQUEST, "INVALID_REQUEST".to_owned())
    );
    assert_eq!(
        refused.json()["error"]["details"]["field"],
        field,
        "{refused:?}"
    );
}

#[tokio::test]
async fn an_agents_key_cannot_write_the_profile_of_a_suite() {
    site!(Engine::Sqlite => site);
    let agent = site.enrol("triage").await;
    let tenant = site.ours.id.clone();
    let key = site
        .host
        .issue(|issue| {
            issue.tenant = tenant.as_str().into();
            issue.scopes = vec![Scope::ConfigWrite];
            issue.principal = Some(agent.clone());
        })
        .await;
    let call = site
        .host
        .request(Method::PUT, &format!("/api/v1/{PROFILE}"));
    let refused = call.key(&key).json(&profile()).send().await;
    assert_eq!(
        refusal(&refused),
        (StatusCode::FORBIDDEN, "FORBIDDEN".to_owned())
    );
}

#[rstest]
#[tokio::test]
async fn judge_scores_count_after_calibration_with_people(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let evals = Evals::on(&site, &["a"]).await;
    let mut suite = calibrations::tone();
    suite["tasks"] = json!([
        {"taskId": "polite", "input": {"say": "c"},
         "expected": {"kind": "rubric", "rubric": [{"criterion": "is polite", "weight": 1.0}]}},
        {"taskId": "exact", "input": {"say": "b"},
         "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "b"}}}]);
    let imported = site.host.post("/v1/host/touchstone/suites", &suite).await;
    assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
    let id = suite["suiteId"].as_str().unwrap();
    let profile = json!({"suiteId": id, "suiteVersion": "1.0.0", "defaults": {"domain": "code", "complexityLevel": 1}});
    let path = format!("profiles/{id}/1.0.0");
    evals.send(&site, Method::PUT, &path, &profile).await;
    let agent = evals
        .enrol(&site, &json!({"name": "echo", "openwop_agent": AGENT}))
        .await;
    let body = json!({"mode": "eval", "evalSuiteRef": format!("{id}@1.0.0"), "agentId": AGENT,
        "configurable": {"evalModes": ["golden", "rubric"]}});
    let made = site.host.post("/v1/runs", &body).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    let run = RunId::from(made.json()["runId"].as_str().unwrap());
    let log = site.host.ended(&run).await;
    let judged = log.iter().filter(|it| it["type"] == "eval.scored").count();
    assert_eq!(judged, 2, "{log:?}");

    let completed = async || {
        let path = format!("events?agent_id={agent}&type=task_completed");
        evals.get(&site, &path).await["data"]
            .as_array()
            .unwrap()
            .len()
    };
    let doubted = evals.collect(&site, &json!({"agent_id": agent})).await;
    assert_eq!(
        doubted["skipped"],
        json!([{"run_id": run, "reason": "uncalibrated_judge"}])
    );
    assert_eq!(completed().await, 1, "it was scored by code");
    let again = evals.collect(&site, &json!({"agent_id": agent})).await;
    assert_eq!(again["runs"], 0, "{again}");

    let samples = [("Kindly.", 5.0), ("No.", 1.0)].repeat(50);
    let begun = site
        .host
        .post(calibrations::PATH, &calibrations::scored(&samples))
        .await;
    let attempt = calibrations::ended(&site.host, &begun).await;
    assert_eq!(attempt["status"], "completed", "{attempt}");
    let relied_on = evals.collect(&site, &json!({"agent_id": agent})).await;
    assert_eq!(
        (&relied_on["runs"], &relied_on["skipped"]),
        (&json!(1), &json!([]))
    );
    assert_eq!(completed().await, 2);
}

/// Another run with the log of an ended one, executed as `change` says. No worker claims it.
pub async fn copied(site: &Site, of: &RunId, id: &str, change: impl FnOnce(&mut EvalSpec)) {
    let (tenant, copy) = (TenantId::from("acme"), RunId::from(id));
    let store = &site.host.store;
    let mut record = run_store::runs::find(store, &tenant, of)
        .await
        .unwrap()
        .unwrap();
    record.run_id = copy.clone();
    let eval = record.spec.eval_mut().unwrap();
    eval.execution.command = Some("elsewhere".to_owned());
    change(eval);
    run_store::runs::create(store, &record, None).await.unwrap();
    let lease = Duration::from_secs(600);
    let claim = run_store::queue::claim_run(store, &tenant, &copy, "elsewhere", lease).await;
    let claim = claim.unwrap().unwrap();
    let log = run_store::runs::read(store, of, 0, 1000).await.unwrap();
    run_store::runs::append(store, &copy, claim.fence, &log, true)
        .await
        .unwrap();
}

#[rstest]
#[tokio::test]
async fn answers_of_cassettes_and_commands_are_not_evidence(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let evals = Evals::on(&site, &["a", "b"]).await;
    let set = evals.send(&site, Method::PUT, PROFILE, &profile()).await;
    assert_eq!(set.status, StatusCode::CREATED, "{set:?}");
    let agent = evals
        .enrol(&site, &json!({"name": "echo", "openwop_agent": AGENT}))
        .await;
    let own = site.host.create().await;
    site.host.ended(&own).await;
    copied(&site, &own, "run_same", |_| {}).await;
    copied(&site, &own, "run_replay", |eval| {
        eval.execution.replayed_from = Some("sha256-cassette".to_owned());
    })
    .await;
    copied(&site, &own, "run_command", |eval| {
        eval.model.provider = "command".to_owned();
    })
    .await;
    let collected = evals.collect(&site, &json!({"agent_id": agent})).await;
    assert_eq!(collected["runs"], 4, "{collected}");
    let skipped = collected["skipped"].as_array().unwrap();
    let mut skipped: Vec<(&str, &str)> = skipped
        .iter()
        .map(|it| {
            let text = |name: &str| it[name].as_str().unwrap();
            (text("run_id"), text("reason"))
        })
        .collect();
    skipped.sort_unstable();
    assert_eq!(
        skipped,
        [("run_command", "agent_command"), ("run_replay", "replay")]
    );
    let path = format!("events?agent_id={agent}&type=task_completed");
    let events = evals.get(&site, &path).await;
    assert_eq!(events["data"].as_array().unwrap().len(), 4, "{events}");
}

#[rstest]
#[tokio::test]
async fn a_different_suite_with_the_same_version_is_not_evidence(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let evals = Evals::on(&site, &["hard", "harder"]).await;
    let set = evals.send(&site, Method::PUT, PROFILE, &profile()).await;
    assert_eq!(set.status, StatusCode::CREATED, "{set:?}");
    let bound = set.json()["profile"]["suiteDigest"].clone();
    assert!(bound.is_string(), "{set:?}");
    let agent = evals
        .enrol(&site, &json!({"name": "echo", "openwop_agent": AGENT}))
        .await;
    // Tasks with the same names, but easier.
    let imported = format!("/v1/host/touchstone/suites/{SUITE}/1.0.0");
    let removed = site.host.request(Method::DELETE, &imported).send().await;
    assert!(removed.status.is_success(), "{removed:?}");
    let easy = suite(&says(&["a", "b"]));
    let again = site.host.post("/v1/host/touchstone/suites", &easy).await;
    assert_eq!(again.status, StatusCode::CREATED, "{again:?}");
    let easy = run(&site).await;
    let collected = evals.collect(&site, &json!({"agent_id": agent})).await;
    assert_eq!(
        collected["skipped"],
        json!([{"run_id": easy, "reason": "suite_changed"}])
    );
    let mut stale = profile();
    stale["suiteDigest"] = bound;
    let refused = evals.send(&site, Method::PUT, PROFILE, &stale).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    assert_eq!(refused.json()["error"]["details"]["field"], "suiteDigest");
    // Requesting an assessment implies consent.
    evals.send(&site, Method::PUT, PROFILE, &profile()).await;
    let collected = evals.collect(&site, &json!({"agent_id": agent})).await;
    assert_eq!(
        (&collected["runs"], &collected["skipped"]),
        (&json!(1), &json!([]))
    );
}

#[rstest]
#[tokio::test]
async fn a_run_that_was_deleted_before_it_was_taken_up_is_evidence(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let evals = Evals::on(&site, &["a", "wrong"]).await;
    let set = evals.send(&site, Method::PUT, PROFILE, &profile()).await;
    assert_eq!(set.status, StatusCode::CREATED, "{set:?}");
    let agent = evals
        .enrol(&site, &json!({"name": "echo", "openwop_agent": AGENT}))
        .await;
    let id = run(&site).await;
    let path = format!("/v1/host/touchstone/runs/{id}");
    let deleted = site.host.request(Method::DELETE, &path).send().await;
    assert_eq!(deleted.status, StatusCode::OK, "{deleted:?}");
    let collected = evals.collect(&site, &json!({"agent_id": agent})).await;
    assert_eq!(
        (&collected["runs"], &collected["skipped"]),
        (&json!(1), &json!([]))
    );
    let path = format!("events?agent_id={agent}&type=task_completed");
    let events = evals.get(&site, &path).await;
    let events = events["data"].as_array().unwrap();
    let mut statuses: Vec<&str> = events
        .iter()
        .map(|it| it["data"]["completion_status"].as_str().unwrap())
        .collect();
    statuses.sort_unstable();
    assert_eq!(statuses.len(), 2, "{events:?}");
    assert_eq!(statuses[0], "accepted", "{events:?}");
    assert_ne!(statuses[1], "accepted", "{events:?}");
    let again = evals.collect(&site, &json!({"agent_id": agent})).await;
    assert_eq!(again["runs"], 0, "{again}");
}

#[rstest]
#[tokio::test]
async fn an_agents_key_neither_voids_runs_nor_judges_its_answers(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let evals = Evals::on(&site, &["a"]).await;
    let agent = evals
        .enrol(&site, &json!({"name": "echo", "openwop_agent": AGENT}))
        .await;
    let id = run(&site).await;
    let void = format!("/v1/host/touchstone/runs/{id}:void");
    let calibrate = calibrations::PATH.to_owned();
    let reviews = "/v1/host/touchstone/reviews".to_owned();
    let review = site
        .host
        .post(&reviews, &json!({ "runId": id }))
        .await
        .json();
    let label = format!(
        "{reviews}/{}/items/1/label",
        review["reviewId"].as_str().unwrap()
    );
    let annotate = format!("/v1/runs/{id}/annotations");
    let decision = json!({"signal": {"kind": "label", "label": "oasis-review:accepted"},
        "target": {"nodeId": "task-0"}, "note": "Fine."});
    let samples = calibrations::scored(&[("Kindly.", 5.0), ("No.", 1.0)].repeat(50));
    for principal in [agent.as_str(), AGENT] {
        let key = site.host.issue(|issue| {
            issue.scopes = Scope::within_tenant().collect();
            issue.principal = Some(principal.to_owned());
        });
        let key = key.await;
        for (path, body) in [
            (&void, &json!({"reason": "It went badly."})),
            (&calibrate, &samples),
            (&reviews, &json!({ "runId": id })),
            (&label, &json!({"choice": 1})),
            (&annotate, &decision),
        ] {
            let call = site.host.request(Method::POST, path).key(&key);
            let refused = call.json(body).send().await;
            assert_eq!(refused.status, StatusCode::FORBIDDEN, "{refused:?}");
            assert!(refused.text().contains("own key"), "{refused:?}");
        }
    }
}
