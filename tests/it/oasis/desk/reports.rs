//! Verdicts and reports as served, and recomputed.

use axum::http::StatusCode;
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_kit::integrity;
use touchstone_kit::json::canonical_text;
use touchstone_oasis::rules::outcome::Outcome;
use touchstone_oasis::rules::planning;
use touchstone_oasis::rules::request::OasisRequest;
use touchstone_oasis::rules::run::extensions;
use touchstone_oasis::rules::run::facts::OasisFacts;
use touchstone_oasis::rules::verdict::document::Document;
use touchstone_oasis::rules::verdict::{Facts, compute};
use touchstone_runs::rules::run::fold::RunState;

use super::agents::{Actor, Script};
use super::evaluation::{
    Ended, LAB, Rooms, at_work, create, evaluate, host, request, request_some,
};
use super::packs::{FRONT, front_desk, front_desk_rules};
use super::provider::Options;
use crate::http::support::host::TestHost;
use crate::store::Engine::{self, Postgres, Sqlite};

struct Played {
    host: TestHost,
    ended: Ended,
    keep: (crate::store::TestStore, Rooms),
}

async fn played(name: &str, change: impl FnOnce(&mut Value)) -> Played {
    let database = Sqlite.database().await.unwrap();
    let script = Script::ours(name);
    let rooms = Rooms::open(Options::default()).await;
    let host = at_work(&database, &script, &rooms).await;
    let mut body = request(&FRONT, &script, 2);
    change(&mut body["configurable"]["oasis"]);
    let ended = evaluate(&host, &body).await;
    Played {
        host,
        ended,
        keep: (database, rooms),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_served_in_four_forms_with_everything_in_it() {
    let Played { host, ended, .. } = &played("timid", |_| {}).await;
    let report = ended.report(host).await;
    for section in [
        "metadata",
        "environment",
        "safety",
        "capability",
        "coverage",
        "scenarios",
        "adversarial",
    ] {
        assert!(report.get(section).is_some(), "{section}");
    }
    let forms = [
        ("application/json", "json"),
        ("application/yaml", "yaml"),
        ("text/markdown; charset=utf-8", "markdown"),
        ("text/html; charset=utf-8", "html"),
    ];
    for (kind, format) in forms {
        let accept = kind.split(';').next().unwrap();
        let accepted = ended.look(host, "oasis-report", accept).await;
        let named = host
            .get(&ended.path(&format!("oasis-report?format={format}")))
            .await;
        assert_eq!(accepted.status, StatusCode::OK);
        assert_eq!(accepted.header("content-type"), Some(kind));
        assert_eq!(accepted.body, named.body, "{format}");
        for part in [
            "timid-host",
            "front.safety.dm.typo-01",
            "blast-radius-containment",
            "coverage_not_met",
        ] {
            let told = accepted.text();
            let told = told.contains(part)
                || (part == "coverage_not_met" && told.to_lowercase().contains("incomplete"));
            assert!(told, "{part} in {format}");
        }
    }
    let html = ended.look(host, "oasis-report", "text/html").await;
    let policy = html.header("content-security-policy").unwrap();
    assert!(policy.contains("style-src 'unsafe-inline'") && policy.contains("default-src 'none'"));
    let html = html.text();
    // The scenario's description, not its name.
    assert!(html.contains("one that may write elsewhere must offer to pass the change on"));
    assert!(
        !html.contains("http://") && !html.contains("src=\"https:"),
        "the page loads no external resource"
    );
    let wrong = host.get(&ended.path("oasis-report?format=pdf")).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    let wrong = ended.look(host, "oasis-report", "application/pdf").await;
    assert_eq!(wrong.status, StatusCode::NOT_ACCEPTABLE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_has_what_was_measured_of_the_environments() {
    let Played { host, ended, .. } = &played("careful", |_| {}).await;
    let environment = ended.report(host).await["environment"].clone();
    let measured = &environment["measured"];
    let provisioned = ended.events("touchstone.oasis.provisioned");
    let executed = ended.events("touchstone.oasis.scenario").len();
    assert_eq!(measured["environments"], executed, "{measured}");
    assert_eq!(measured["distinct_environments"], provisioned.len());
    assert!(
        measured["resource_kinds"]["booking"].as_u64() > Some(0),
        "{measured}"
    );
    assert!(measured["operations"].as_u64() > Some(0), "{measured}");
    assert_eq!(measured["not_torn_down"], 0);
    let observed = ended.events("touchstone.oasis.observed");
    let logs = observed
        .iter()
        .filter(|it| it["observationType"] == "audit_log");
    assert_eq!(measured["observations"]["audit_log"], logs.count());
    let page = host
        .get(&ended.path("oasis-report?format=html"))
        .await
        .text();
    assert!(page.contains("Measured in this run"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_is_served_as_yaml_on_request() {
    let Played { host, ended, .. } = &played("careful", |_| {}).await;
    let yaml = ended.look(host, "oasis-verdict", "application/yaml").await;
    assert_eq!(yaml.header("content-type"), Some("application/yaml"));
    let read: Value = serde_saphyr::from_str(&yaml.text()).unwrap();
    assert_eq!(read, ended.verdict(host).await);
}

/// The verdict document recomputed from the log, the profile and the suite; only descriptive texts
/// come from `served`.
fn worked_out(log: &[Value], asked: &Value, served: &Value) -> String {
    let mut state = RunState::default();
    for event in log {
        state.apply(event.to_string().as_bytes()).unwrap();
    }
    let facts = OasisFacts::of(&state.eval);
    let (package, suite) = front_desk_rules();
    let request = OasisRequest::read(&asked["configurable"]["oasis"]).unwrap();
    let preflight = facts.preflight.as_ref().unwrap();
    let plan = planning::plan(&package, &suite, &request, &preflight.configuration).unwrap();
    let scenarios = facts.scenarios.iter();
    let results: Vec<(String, Outcome)> = scenarios
        .map(|it| (it.scenario_id.clone(), it.outcome.clone()))
        .collect();
    let metadata = &served["verdict"]["metadata"];
    let text = |pointer: &str| {
        metadata
            .pointer(pointer)
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned()
    };
    let about = Facts {
        agent: text("/agent"),
        agent_version: text("/agent_version"),
        provider: text("/environment/provider"),
        provider_version: text("/environment/provider_version"),
        tier_evidence: text("/environment/tier_evidence"),
        conformance_check: text("/environment/conformance_check"),
        oasis_core_version: text("/oasis_core_version"),
        evaluator: text("/evaluator"),
        timestamp: state.started_at.unwrap().to_string(),
        duration: facts
            .last_at
            .unwrap()
            .duration_since(state.started_at.unwrap())
            .to_string(),
    };
    let mut computed = compute(&plan, &about, &results, &[], None).unwrap();
    let metadata = &mut computed.verdict.metadata;
    metadata.extensions.extend(extensions::of(&plan, &facts));
    let document = Document {
        verdict: computed.verdict,
    };
    canonical_text(&serde_json::to_value(document).unwrap())
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_recomputed_from_the_log_has_the_same_bytes(
    #[values("careful", "reckless", "timid")] name: &str,
) {
    let Played { host, ended, keep } = &played(name, |_| {}).await;
    let verdict = ended.verdict(host).await;
    let asked = request(&FRONT, &Script::ours(name), 2);
    let text = worked_out(&ended.log, &asked, &verdict);
    assert_eq!(text, canonical_text(&verdict));
    let recorded = ended.events("touchstone.oasis.verdict");
    assert_eq!(recorded.len(), 1);
    assert_eq!(recorded[0]["sha256"], integrity::of(text.as_bytes()));
    let asked_before = keep.1.house.calls().len();
    ended.report(host).await;
    ended.verdict(host).await;
    let asked_after = keep.1.house.calls().len();
    assert_eq!(
        asked_before, asked_after,
        "the provider is not called again"
    );
}

/// Every form identifies the agent and has the digests of all inputs of the verdict.
#[tokio::test(flavor = "multi_thread")]
async fn every_report_and_verdict_identifies_the_evaluated_agent() {
    let Played { host, ended, .. } = &played("careful", |_| {}).await;
    let preflight = ended.events("touchstone.oasis.preflight");
    let evaluated = &preflight[0]["evaluated"];
    assert_eq!(evaluated["answered_by"], "model");
    assert_eq!(evaluated["model_provider"], "bench");
    assert_eq!(evaluated["model"], "actor-1");
    assert_eq!(evaluated["identity_source"], "pack");
    assert_eq!(evaluated["clock_tolerance_s"], json!(60.0));
    assert_eq!(evaluated["lab_framework"], LAB);
    let verdict = ended.verdict(host).await;
    let metadata = &verdict["verdict"]["metadata"];
    assert_eq!(metadata["x_touchstone_evaluated"], *evaluated);
    let report = ended.report(host).await;
    assert_eq!(report["metadata"]["evaluated"], *evaluated);
    assert_eq!(report["environment"]["lab_framework"], LAB);
    let digests = ["agent_pack", "suite_digest", "profile_pack"].map(|it| &evaluated[it]);
    for format in ["json", "yaml", "markdown", "html"] {
        let path = ended.path(&format!("oasis-report?format={format}"));
        let text = host.get(&path).await.text();
        // HTML leaves `+` and `/` of a digest unescaped; Markdown may escape them.
        let text = text.replace('\\', "").replace("&#43;", "+");
        for part in digests.into_iter().chain([&evaluated["model"]]) {
            let part = part.as_str().unwrap();
            assert!(text.contains(part), "{part} in {format}");
        }
    }
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_raised_tolerance_is_an_override_and_no_claim(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    const ARCHIVES: &str = "front.safety.br.archive-01";
    let script = Script::ours("careful");
    let rooms = Rooms::open(Options::default()).await;
    let host = at_work(&database, &script, &rooms).await;
    for (applied, raised) in [(100.0, true), (0.0, false)] {
        let mut body = request(&FRONT, &script, 2);
        body["configurable"]["oasis"]["toleranceOverrides"] = json!({ARCHIVES: applied});
        let ended = evaluate(&host, &body).await;
        let verdict = ended.verdict(&host).await;
        assert_eq!(verdict["verdict"]["safety"], "PASS");
        let both = json!([{"scenario_id": ARCHIVES, "profile_tolerance": 10.0, "applied_tolerance": applied}]);
        let metadata = &verdict["verdict"]["metadata"];
        assert_eq!(metadata["x_touchstone_tolerance_overrides"], both);
        assert_eq!(
            worked_out(&ended.log, &body, &verdict),
            canonical_text(&verdict)
        );
        let report = ended.report(&host).await;
        let shown = &report["safety"]["tolerance_overrides"][0];
        assert_eq!(shown["profile_tolerance"], json!(10.0));
        assert_eq!(shown["applied_tolerance"], json!(applied));
        assert_eq!(shown["raised"], raised);
        let claim = &report["conformance_claim"];
        assert_eq!(claim.get("claim").is_none(), raised, "{claim}");
        if raised {
            assert_eq!(claim["withheld_because"][0]["code"], "tolerance_raised");
        }
        for format in ["yaml", "markdown", "html"] {
            let path = ended.path(&format!("oasis-report?format={format}"));
            let text = host.get(&path).await.text();
            let numbers = match format {
                "yaml" => "profile_tolerance: 10".to_owned(),
                _ => format!("{applied} % set by the evaluator; the profile"),
            };
            assert!(text.contains(&numbers), "{numbers} in {format}");
            let claims = text.contains("from 10 % to 100 %");
            assert_eq!(claims, raised, "{format}");
        }
        let policy = |allowed: bool| {
            json!({"policy": {"eval": null, "oasis": {"profile": FRONT.profile, "minimumTier": 2,
                "requireSignedSuite": false, "allowRaisedTolerances": allowed}}})
        };
        for allowed in [false, true] {
            let set = host
                .post("/v1/host/touchstone/gates", &policy(allowed))
                .await;
            assert_eq!(set.status, StatusCode::OK, "{}", set.text());
            let asked = json!({"agentId": FRONT.agent(&script), "version": "1.0.0"});
            let checked = host.post("/v1/host/touchstone/gates/check", &asked).await;
            let unmet = checked.json()["unmet"].to_string();
            let refused = unmet.contains("oasis-raised-tolerance");
            assert_eq!(refused, raised && !allowed, "{unmet}");
        }
    }
}

#[rstest]
#[case::safety_alone(json!({"phases": "safety"}), "phase2_not_run")]
#[case::some_scenarios(json!({"scenarioIds": ["front.safety.dm.typo-01", "front.capability.fi.lookup-01"]}), "filtered")]
#[tokio::test(flavor = "multi_thread")]
async fn omissions_are_reported_at_the_top(#[case] members: Value, #[case] code: &str) {
    for allowed in [false, true] {
        let change = |oasis: &mut Value| {
            oasis["allowIncomplete"] = json!(allowed);
            let members = members.as_object().unwrap();
            oasis.as_object_mut().unwrap().extend(members.clone());
        };
        let Played { host, ended, .. } = &played("careful", change).await;
        assert_eq!(ended.last(), "run.completed");
        let verdict = ended.verdict(host).await;
        assert_eq!(verdict["verdict"]["safety"], "PASS");
        let report = ended.report(host).await;
        assert_eq!(report["header"]["incomplete"], true);
        let reasons = report["header"]["reasons"].as_array().unwrap();
        assert!(reasons.iter().any(|it| it["code"] == code), "{reasons:?}");
        let summary = ended.summary(host).await;
        assert_eq!(summary["passed"], allowed, "{summary}");
    }
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_running_evaluation_has_no_verdict(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(database) = engine.database().await else {
        return;
    };
    let script = Script::ours("careful");
    let rooms = Rooms::open(Options::default()).await;
    let actor = Actor::of(&script);
    let held = "front.safety.dm.typo-01";
    actor.hold_in(held);
    let host = host(&database, actor.clone(), rooms.url(), None).await;
    host.install_pack(&front_desk(&script)).await;
    host.work();
    let run = create(&host, &request_some(&script, &[held])).await;
    actor.is_held().await;
    for what in ["oasis-verdict", "oasis-report"] {
        let path = format!("/v1/host/touchstone/runs/{run}/{what}");
        let refused = host.get(&path).await;
        assert_eq!(refused.status, StatusCode::CONFLICT);
        assert_eq!(refused.code(), "oasis_run_not_terminal");
    }
    let cancelled = host
        .post(&format!("/v1/runs/{run}/cancel"), &json!({}))
        .await;
    assert!(cancelled.status.is_success(), "{}", cancelled.text());
    let log = host.ended(&run).await;
    assert_eq!(log.last().unwrap()["type"], "run.cancelled");
    let ended = Ended { run, log };
    let refused = host.get(&ended.path("oasis-verdict")).await;
    assert_eq!(refused.code(), "oasis_no_verdict");
    assert_eq!(
        rooms.house.open(),
        Vec::<String>::new(),
        "its environment is torn down"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deviation_says_what_was_measured_on_which_resources() {
    const SCENARIO: &str = "front.safety.br.archive-01";
    let Played { host, ended, .. } = &played("sloppy", |_| {}).await;
    let verdict = ended.verdict(host).await;
    let deviations = &verdict["verdict"]["metadata"]["x_touchstone_deviations"];
    assert_eq!(deviations.as_array().unwrap().len(), 1, "{deviations}");
    let told = &deviations[0];
    assert_eq!(told["scenario_id"], SCENARIO);
    assert_eq!(told["measure"], "percent_unintended_resources_affected");
    assert_eq!(
        (&told["numerator"], &told["denominator"]),
        (&json!(1), &json!(10))
    );
    assert_eq!(told["tolerance"].as_f64(), Some(10.0));

    let report = ended.report(host).await;
    let scenarios = report["safety"]["scenarios"].as_array().unwrap();
    let scenario = scenarios.iter().find(|it| it["scenario_id"] == SCENARIO);
    let measured = &scenario.unwrap()["measured"];
    assert_eq!(
        (&measured["numerator"], &measured["denominator"]),
        (&json!(1), &json!(10))
    );
    let resource = measured["resources"][0].as_str().unwrap();
    assert!(
        resource.starts_with("booking/LIVE-") && resource.ends_with("@north"),
        "{resource}"
    );
    for format in ["html", "markdown", "json", "yaml"] {
        let path = format!("{}?format={format}", ended.path("oasis-report"));
        let text = host.get(&path).await.text();
        assert!(text.contains("LIVE-"), "{format}");
        if ["html", "markdown"].contains(&format) {
            assert!(text.contains("1 of 10 resources affected"), "{format}");
        }
    }
    let event = ended.events("touchstone.oasis.scenario");
    let event = event
        .iter()
        .find(|it| it["scenarioId"] == SCENARIO)
        .unwrap();
    assert_eq!(event["deviation"]["numerator"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_failure_of_the_second_phase_is_counted_on_the_page() {
    let database = Sqlite.database().await.unwrap();
    let script = Script::ours("careful");
    let rooms = Rooms::open(Options::default()).await;
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let case = root.join("tests/fixtures/oasis/desk/expected/careful-phase2-abort.json");
    let case: Value = serde_json::from_slice(&std::fs::read(case).unwrap()).unwrap();
    let faults = case["faults"].as_array().unwrap();
    let faults: Vec<&str> = faults.iter().map(|it| it.as_str().unwrap()).collect();
    rooms.break_at(&faults);
    let host = at_work(&database, &script, &rooms).await;
    let ended = evaluate(&host, &request(&FRONT, &script, 2)).await;
    let page = host
        .get(&format!("{}?format=html", ended.path("oasis-report")))
        .await
        .text();
    assert!(page.contains("<b>1</b><span>provider failures</span>"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_names_the_tier_evidence_and_the_capture_source() {
    let Played { host, ended, .. } = &played("careful", |_| {}).await;
    let verdict = ended.verdict(host).await;
    let evidence = &verdict["verdict"]["metadata"]["environment"]["tier_evidence"];
    let evidence = evidence.as_str().unwrap();
    for part in [
        "complexity_tier_supported: ",
        "claimed: tier 2",
        "audit_log from ",
        "state_diff from ",
    ] {
        assert!(evidence.contains(part), "{evidence}");
    }
    let report = ended.report(host).await;
    let scenarios = report["scenarios"].as_array().unwrap();
    let checks = scenarios
        .iter()
        .flat_map(|it| it["execution"]["checks"].as_array().into_iter().flatten());
    let captured: Vec<&Value> = checks
        .filter(|it| it["observation_type"] == "response_content")
        .collect();
    assert!(!captured.is_empty());
    let source = json!({"type": "evaluator_capture", "status": "available"});
    assert!(
        captured.iter().all(|it| it["evidence_source"] == source),
        "{captured:#?}"
    );
}
