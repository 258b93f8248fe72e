//! Preflight failures: a run that fails with a list of all problems, and has no verdict.

use std::time::Duration;

use axum::http::StatusCode;
use rstest::rstest;
use serde_json::{Value, json};

use super::agents::{Actor, Script};
use super::evaluation::{Ended, PROVIDER, Rooms, at_work, evaluate, host, request};
use super::packs::{FRONT, front_desk, front_desk_with};
use super::provider::{Options, Preflight};
use crate::http::support::host::TestHost;
use crate::store::Engine::{self, Postgres, Sqlite};

/// Checks that nothing counts as an evaluation and that there is no verdict.
async fn hold_refusal(host: &TestHost, ended: &Ended, code: &str, keys: &[&str]) {
    let error = ended.failure();
    assert_eq!(error["code"], code, "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(keys.iter().all(|key| message.contains(key)), "{message}");
    let kinds = ended.log.iter().map(|it| it["type"].as_str().unwrap());
    assert_eq!(kinds.filter(|it| it.starts_with("eval.")).count(), 0);
    for what in ["oasis-verdict", "oasis-report"] {
        let refused = host.get(&ended.path(what)).await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text());
        assert_eq!(refused.code(), "oasis_no_verdict");
        let refusal = &refused.json()["details"]["refusal"];
        assert_eq!(refusal["code"], code);
        let items = refusal["items"].as_array().unwrap();
        let mut found: Vec<&str> = items.iter().map(|it| it["key"].as_str().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, keys);
    }
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn every_gap_of_a_provider_is_named_before_anything_is_provisioned(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    const SAID: &str = "the provider says: a switch is set";
    let script = Script::ours("careful");
    let rooms = Rooms::open(Options {
        hang: Duration::from_secs(15),
        ..Options::default()
    })
    .await;
    let timeout = Some(Duration::from_secs(4));
    let host = host(&database, Actor::of(&script), rooms.url(), timeout).await;
    host.install_pack(&front_desk(&script)).await;
    host.work();
    let modes: [(Preflight, &[&str], &str); 13] = [
        (
            Preflight::Unsupported,
            &["state_injection"],
            "the injector is switched off",
        ),
        (Preflight::SupportedButGap, &["audit_attribution"], ""),
        (
            Preflight::UnmetButSupported,
            &["value_containment_support"],
            "the key box is not wired up",
        ),
        (
            Preflight::MissingEvidenceSource,
            &["evidence_sources_available"],
            "audit_log",
        ),
        (Preflight::LowTier, &["complexity_tier_supported"], ""),
        (
            Preflight::OldCore,
            &["oasis_core_spec_version", "oasis_core_spec_versions"],
            "",
        ),
        (Preflight::WrongProfile, &["profile"], ""),
        (Preflight::WrongProfileVersion, &["profile_version"], ""),
        (Preflight::SchemaViolation, &["state_injection"], ""),
        (Preflight::Http404, &["conformance_endpoint"], SAID),
        (Preflight::Http500, &["conformance_endpoint"], SAID),
        (Preflight::NotJson, &["conformance_endpoint"], ""),
        (Preflight::Hang, &["conformance_endpoint"], ""),
    ];
    for (mode, keys, reason) in modes {
        rooms.house.disturb(mode, Vec::new());
        let ended = evaluate(&host, &request(&FRONT, &script, 2)).await;
        hold_refusal(&host, &ended, "oasis_preflight_failed", keys).await;
        let message = ended.failure()["message"].as_str().unwrap();
        assert!(message.contains(reason), "{mode:?}: {message}");
        let dry = json!({"profile": FRONT.profile, "profileVersion": FRONT.version, "tier": 2, "provider": PROVIDER});
        let dry = host.post("/v1/host/touchstone/oasis/preflight", &dry).await;
        assert_eq!(dry.status, StatusCode::OK, "{mode:?}: {}", dry.text());
        let dry = dry.json();
        assert_eq!(dry["satisfied"], false);
        let gaps = dry["gaps"].as_array().unwrap();
        let mut named: Vec<&str> = gaps.iter().map(|it| it["key"].as_str().unwrap()).collect();
        named.sort_unstable();
        assert_eq!(named, keys, "{mode:?}");
        assert!(dry["gaps"].to_string().contains(reason), "{mode:?}: {dry}");
    }
    let calls = rooms.house.calls();
    assert!(
        calls.iter().all(|it| it.call == "conformance"),
        "nothing else was requested"
    );
    assert_eq!(calls.len(), 2 * 13, "no request was repeated");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_report_does_not_fit_the_profile_is_not_evaluated() {
    let mut script = Script::ours("careful");
    script.document["configuration"] =
        json!({"writing": "sometimes", "colour": "red", "bound_to_wings": "true"});
    let database = Sqlite.database().await.unwrap();
    let rooms = Rooms::open(Options::default()).await;
    let host = at_work(&database, &script, &rooms).await;
    let ended = evaluate(&host, &request(&FRONT, &script, 2)).await;
    let keys = ["bound_to_wings", "colour", "writing"];
    hold_refusal(&host, &ended, "oasis_agent_configuration_invalid", &keys).await;
    assert_eq!(rooms.count("provision"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_without_scenarios_is_rejected() {
    let script = Script::ours("timid");
    let database = Sqlite.database().await.unwrap();
    let rooms = Rooms::open(Options::default()).await;
    let host = at_work(&database, &script, &rooms).await;
    let mut body = request(&FRONT, &script, 2);
    body["configurable"]["oasis"]["scenarioIds"] = json!([
        "front.safety.br.archive-01",
        "front.capability.fi.lookup-01"
    ]);
    let ended = evaluate(&host, &body).await;
    hold_refusal(&host, &ended, "oasis_no_applicable_safety_scenarios", &[]).await;
    assert_eq!(rooms.count("provision"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsupported_tier_is_a_gap_and_a_lower_tier_is_not() {
    let script = Script::ours("careful");
    let database = Sqlite.database().await.unwrap();
    let rooms = Rooms::open(Options::default()).await;
    let host = at_work(&database, &script, &rooms).await;
    let mut body = request(&FRONT, &script, 3);
    let ended = evaluate(&host, &body).await;
    hold_refusal(
        &host,
        &ended,
        "oasis_preflight_failed",
        &["complexity_tier_supported"],
    )
    .await;
    body["configurable"]["oasis"]["tier"] = json!(1);
    let ended = evaluate(&host, &body).await;
    let verdict: Value = ended.verdict(&host).await;
    assert_eq!(verdict["verdict"]["safety"], "PASS");
    assert_eq!(verdict["verdict"]["metadata"]["environment"]["tier"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agents_own_report_overrides_its_pack() {
    let script = Script::ours("careful");
    let database = Sqlite.database().await.unwrap();
    let rooms = Rooms::open(Options::default()).await;
    let actor = Actor::of(&script);
    let host = host(&database, actor.clone(), rooms.url(), None).await;
    host.install_pack(&front_desk(&script)).await;
    host.work();
    actor.say(json!({"identity": {"name": "another", "version": "9.9.9"}}));
    let ended = evaluate(&host, &request(&FRONT, &script, 2)).await;
    let metadata = ended.verdict(&host).await["verdict"]["metadata"].clone();
    assert_eq!(metadata["agent"], "another");
    assert_eq!(metadata["agent_version"], "9.9.9");
    let evaluated = &metadata["x_touchstone_evaluated"];
    assert_eq!(evaluated["identity_source"], "adapter");
    let declared = &script.report()["identity"];
    assert_eq!(evaluated["declared"], *declared);
    assert_eq!(evaluated.get("declared_configuration"), None);
    // The pack gives the values that the agent's report omits.
    let configuration = &metadata["agent_configuration"];
    assert_eq!(
        configuration["writing"],
        script.report()["configuration"]["writing"]
    );
    let policy = json!({"policy": {"eval": null, "oasis": {"profile": FRONT.profile, "minimumTier": 2,
        "requireSignedSuite": false}}});
    let set = host.post("/v1/host/touchstone/gates", &policy).await;
    assert_eq!(set.status, StatusCode::OK, "{}", set.text());
    let asked = json!({"agentId": FRONT.agent(&script), "version": "1.0.0"});
    let checked = host.post("/v1/host/touchstone/gates/check", &asked).await;
    let unmet = checked.json()["unmet"].clone();
    assert_eq!(unmet[0]["condition"], "oasis-own-agent", "{unmet}");

    actor.say(json!({"identity": {"name": "another", "version": "9.9.9"},
        "configuration": {"writing": "never"}}));
    let ended = evaluate(&host, &request(&FRONT, &script, 2)).await;
    let preflight = ended.events("touchstone.oasis.preflight");
    assert_eq!(preflight[0]["configuration"]["writing"], "never");
    let evaluated = &preflight[0]["evaluated"];
    assert_eq!(
        evaluated["declared_configuration"],
        script.report()["configuration"]
    );

    for wrong in [
        json!({"identity": {"name": "another", "version": "9"}}),
        json!({"identity": {"name": "", "version": "9.9.9"}}),
        json!({"name": "another"}),
    ] {
        actor.say(wrong);
        let ended = evaluate(&host, &request(&FRONT, &script, 2)).await;
        let agent = FRONT.agent(&script);
        hold_refusal(&host, &ended, "oasis_agent_unavailable", &[&agent]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scenarios_that_cannot_be_executed_are_listed_with_the_reasons() {
    const BOUNDARY: &str = "oasis/scenarios/safety/boundary-enforcement.yaml";
    let database = Sqlite.database().await.unwrap();
    let script = Script::ours("careful");
    let rooms = Rooms::open(Options::default()).await;
    let host = host(&database, Actor::of(&script), rooms.url(), None).await;
    let pack = front_desk_with(&script, |files| {
        let text = String::from_utf8(files[BOUNDARY].clone()).unwrap();
        let text = text.replacen("condition: unchanged", "condition: same", 1);
        files.insert(BOUNDARY.to_owned(), text.into_bytes());
    });
    host.install_pack(&pack).await;
    let offered = host.get("/v1/host/touchstone/oasis/profiles").await.json();
    let profile = &offered["profiles"][0];
    assert_eq!(profile["notRunnable"], 1, "{offered:#}");
    let scenarios = profile["notRunnableScenarios"].as_array().unwrap();
    assert_eq!(scenarios.len(), 1);
    assert_eq!(
        scenarios[0]["scenarioId"],
        "front.safety.be.other-wing-delete-01"
    );
    let problem = &scenarios[0]["problems"][0];
    assert_eq!(
        problem["field"],
        "verification.state_assertions[0].condition"
    );
    assert!(problem["line"].as_u64() > Some(1), "{problem}");
}
