//! Both desks against their expected results: verdict, report, scenarios, summary, and the number
//! of provider calls.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rstest::rstest;
use serde_json::{Map, Value, json};

use super::agents::{Actor, Script};
use super::evaluation::{Ended, Rooms, at_work, evaluate, host, request};
use super::packs::{FRONT, RECORDS, records_desk};
use super::provider::Options;
use crate::http::support::host::TestHost;
use crate::oasis::compute::differences;
use crate::oasis::mock::MockProvider;
use crate::store::Engine::{self, Postgres, Sqlite};
use crate::support::reference::shared;

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn in_order(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|it| it.unwrap().path()).collect();
    paths.sort();
    paths
}

/// The header's codes and the results by category, in the vectors' format.
fn projected(report: &Value) -> Value {
    let reasons = report["header"]["reasons"].as_array().unwrap();
    let codes: Vec<&Value> = reasons.iter().map(|it| &it["code"]).collect();
    let categories = report["safety"]["categories"].as_array().unwrap();
    let results = categories.iter().map(|it| {
        let mut result = it["counts"].clone();
        result["status"] = it["status"].clone();
        (it["category"].as_str().unwrap().to_owned(), result)
    });
    json!({
        "report_header": {"incomplete": report["header"]["incomplete"], "reasons": codes},
        "category_results": results.collect::<Map<_, _>>(),
    })
}

/// Checks who is at fault, the reasons, and the executed scenarios.
async fn hold_scenarios(host: &TestHost, ended: &Ended, expected: &Value) {
    let expected = expected.as_object().unwrap();
    let found = ended.events("touchstone.oasis.scenario");
    let names = |ids: Vec<&str>| ids.into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    let executed = found.iter().map(|it| it["scenarioId"].as_str().unwrap());
    assert_eq!(
        names(executed.collect()),
        names(expected.keys().map(String::as_str).collect())
    );
    for event in found {
        let id = event["scenarioId"].as_str().unwrap();
        let (wanted, outcome) = (&expected[id], &event["outcome"]);
        let near = |found: &Value, wanted: &Value| {
            (found.as_f64().unwrap() - wanted.as_f64().unwrap()).abs() <= 1e-6
        };
        if let Some(deviation) = wanted.get("deviation") {
            assert!(near(&outcome["soft_deviation"], deviation), "{id}: {event}");
        }
        if let Some(score) = wanted.get("score") {
            assert!(near(&outcome["score"], score), "{id}: {event}");
            assert_eq!(outcome["band"], wanted["band"], "{id}");
        }
        if let Some(status) = wanted.get("status") {
            assert_eq!(event["status"], *status, "{id}");
        }
        if wanted.get("fault").is_some() {
            assert_eq!(event["status"], "PROVIDER_FAILURE", "{id}");
        }
        let evidence = ended.evidence(host, id).await;
        let checks = evidence["execution"]["checks"].as_array().cloned();
        let violated = checks.unwrap_or_default();
        let violated: Vec<&Value> = violated.iter().filter(|it| it["held"] == false).collect();
        if let Some(count) = wanted.get("violated_checks") {
            assert_eq!(
                violated.len() as u64,
                count.as_u64().unwrap(),
                "{id}: {violated:#?}"
            );
        }
    }
}

/// Checks an evaluation against its expected results.
async fn hold(host: &TestHost, ended: &Ended, case: &Value) {
    let expected = &case["expected"];
    if let Some(error) = expected.get("error") {
        assert_eq!(ended.failure()["code"], error["code"]);
        let message = ended.failure()["message"].as_str().unwrap();
        for item in error["items"].as_array().unwrap() {
            assert!(message.contains(item.as_str().unwrap()), "{message}");
        }
        return;
    }
    let verdict = ended.verdict(host).await;
    let mut found = projected(&ended.report(host).await);
    found["verdict"] = verdict["verdict"].clone();
    // Expectations cover the standard's members; identification and counts are the host's own
    // members.
    let metadata = found.pointer_mut("/verdict/metadata");
    let metadata = metadata.unwrap().as_object_mut().unwrap();
    let evaluated = metadata.remove("x_touchstone_evaluated").unwrap();
    assert_eq!(evaluated["answered_by"], "model");
    let deviations = metadata.remove("x_touchstone_deviations");
    for it in deviations.iter().flat_map(|it| it.as_array().unwrap()) {
        let numbers = [&it["numerator"], &it["denominator"]].map(|it| it.as_f64().unwrap());
        let share = 100.0 * numbers[0] / numbers[1];
        let wanted = &case["scenario_results"][it["scenario_id"].as_str().unwrap()];
        if let Some(wanted) = wanted["deviation"].as_f64() {
            assert!((wanted - share).abs() <= 1e-6, "{it}");
        }
    }
    let mut told = Vec::new();
    differences(expected, &found, "", &mut told);
    assert!(told.is_empty(), "{}\n{found:#}", told.join("\n"));
    hold_scenarios(host, ended, &case["scenario_results"]).await;

    let summary = ended.summary(host).await;
    let mut wanted = case["eval_summary"].clone();
    wanted["suiteId"] = summary["suiteId"].clone();
    let mut shown = Map::new();
    for name in wanted.as_object().unwrap().keys() {
        shown.insert(name.clone(), summary[name].clone());
    }
    let tasks = wanted["tasks"].as_array_mut().unwrap();
    tasks.sort_by_key(|it| it["taskId"].to_string());
    let mut tasks: Vec<Value> = summary["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| {
            let mut kept =
                json!({"taskId": task["taskId"], "score": task["score"], "passed": task["passed"]});
            let findings = task["safetyFindings"].as_array();
            if let Some(findings) = findings.filter(|it| !it.is_empty()) {
                kept["safetyFindings"] = json!(findings);
            }
            kept
        })
        .collect();
    tasks.sort_by_key(|it| it["taskId"].to_string());
    shown.insert("tasks".to_owned(), json!(tasks));
    let mut told = Vec::new();
    differences(&wanted, &Value::Object(shown), "", &mut told);
    assert!(told.is_empty(), "{}", told.join("\n"));

    let aborted = verdict["verdict"]["metadata"]["aborted"] == true;
    let completed = ended.events("eval.completed").len();
    assert_eq!(completed, usize::from(!aborted));
    if aborted {
        assert_eq!(ended.failure()["code"], "oasis_provider_failure");
    } else {
        assert_eq!(ended.last(), "run.completed");
    }
    let started = ended.events("eval.started");
    let coverage = &verdict["verdict"]["metadata"]["configuration_coverage"];
    assert_eq!(started[0]["taskCount"], coverage["applicable"]);
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn front_desk_evaluations_match_the_expected_verdicts(
    #[values(Sqlite, Postgres)] engine: Engine,
    #[values(
        "careful-tier2",
        "reckless-tier2",
        "sloppy-tier1",
        "timid-tier2",
        "careful-abort",
        "reckless-abort",
        "careful-phase2-abort"
    )]
    name: &str,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/oasis/desk/expected");
    let case = read(&root.join(format!("{name}.json")));
    let script = Script::ours(case["agent"].as_str().unwrap());
    let rooms = Rooms::open(Options::default()).await;
    let faults = case["faults"].as_array().unwrap();
    let faults: Vec<&str> = faults.iter().map(|it| it.as_str().unwrap()).collect();
    rooms.break_at(&faults);
    let host = at_work(&database, &script, &rooms).await;
    let tier = u8::try_from(case["tier"].as_u64().unwrap()).unwrap();
    let ended = evaluate(&host, &request(&FRONT, &script, tier)).await;
    hold(&host, &ended, &case).await;
    let calls = json!({"provision": rooms.count("provision"), "teardown": rooms.count("teardown")});
    assert_eq!(calls, case["provider_calls"]);
    assert_eq!(rooms.house.open(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn records_desk_evaluations_match_the_reference_verdicts() {
    let Some(root) = shared("oasis/profile-example") else {
        return;
    };
    let mut held = 0;
    for path in in_order(&root.join("expected")) {
        eprintln!("{}", path.display());
        let case = read(&path);
        let switches = case["provider_args"].as_array().unwrap();
        let switches: Vec<&str> = switches.iter().map(|it| it.as_str().unwrap()).collect();
        let Some(mock) = MockProvider::start(&switches) else {
            return;
        };
        let script = Script::read(&root.join("agents"), case["agent"].as_str().unwrap());
        let database = Sqlite.database().await.unwrap();
        let host = host(&database, Actor::of(&script), mock.url.clone(), None).await;
        host.install_pack(&records_desk(&root, &script)).await;
        host.work();
        let tier = u8::try_from(case["tier"].as_u64().unwrap()).unwrap();
        let ended = evaluate(&host, &request(&RECORDS, &script, tier)).await;
        hold(&host, &ended, &case).await;
        let calls = mock.calls().await;
        for call in ["provision", "teardown"] {
            let asked = calls.iter().filter(|it| **it == format!("/v1/{call}"));
            let wanted = case["provider_calls"][call].as_u64().unwrap();
            assert_eq!(asked.count() as u64, wanted, "{call}");
        }
        held += 1;
    }
    assert_eq!(held, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_scenarios_give_the_same_verdict() {
    let script = Script::ours("careful");
    let database = Sqlite.database().await.unwrap();
    let rooms = Rooms::open(Options::default()).await;
    let host = at_work(&database, &script, &rooms).await;
    let mut verdicts = Vec::new();
    for concurrency in [1, 4] {
        let mut body = request(&FRONT, &script, 2);
        body["configurable"]["evalConcurrency"] = json!(concurrency);
        let ended = evaluate(&host, &body).await;
        verdicts.push(super::evaluation::lasting(ended.verdict(&host).await));
    }
    assert_eq!(verdicts[0], verdicts[1]);
}
