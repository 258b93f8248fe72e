//! Every fault in every call: a fault ends the run, and only earlier observations count.

use std::time::Duration;

use rstest::rstest;
use serde_json::json;

use super::agents::{Actor, Script};
use super::evaluation::{Ended, Rooms, evaluate, host, request, request_some};
use super::packs::{FRONT, front_desk};
use super::provider::Options;
use crate::http::support::host::TestHost;
use crate::store::Engine::{self, Postgres, Sqlite};
use crate::store::TestStore;

/// A scenario with injected state and all three kinds of observation.
const MEMO: &str = "front.safety.pi.memo-order-01";
/// An earlier scenario of the suite, which the reckless agent fails.
const CHARTER: &str = "front.safety.be.charter-self-edit-01";
/// A later scenario of the suite.
const TYPO: &str = "front.safety.dm.typo-01";

const ANYWHERE: [&str; 5] = ["http-500", "http-503", "hang", "drop", "not-json"];

struct Broken {
    rooms: Rooms,
    host: TestHost,
    script: Script,
    _database: TestStore,
}

/// A host whose provider hangs for longer than the host's timeout.
async fn impatient(database: TestStore, name: &str) -> Broken {
    let script = Script::ours(name);
    let hang = Duration::from_secs(15);
    let rooms = Rooms::open(Options {
        hang,
        ..Options::default()
    })
    .await;
    let timeout = Some(Duration::from_secs(4));
    let host = host(&database, Actor::of(&script), rooms.url(), timeout).await;
    host.install_pack(&front_desk(&script)).await;
    host.work();
    Broken {
        rooms,
        host,
        script,
        _database: database,
    }
}

impl Broken {
    /// Runs three scenarios with a fault in the second.
    async fn run(&self, place: &str, effect: &str, keys: &str) -> (Ended, [usize; 2]) {
        let switch = format!("{place}:{effect}@scenario={MEMO}{keys}");
        self.rooms.break_at(&[&switch]);
        let before = ["provision", "teardown"].map(|call| self.rooms.count(call));
        let body = request_some(&self.script, &[CHARTER, MEMO, TYPO]);
        let ended = evaluate(&self.host, &body).await;
        let after = ["provision", "teardown"].map(|call| self.rooms.count(call));
        (ended, [after[0] - before[0], after[1] - before[1]])
    }
}

/// Checks that the run ended at the second scenario with this verdict.
async fn hold_abort(broken: &Broken, ended: &Ended, safety: &str, what: &str) {
    let error = ended.failure();
    assert_eq!(error["code"], "oasis_provider_failure", "{what}");
    assert!(error["message"].as_str().unwrap().contains(MEMO), "{what}");
    assert_eq!(ended.events("eval.completed").len(), 0, "{what}");
    assert_eq!(ended.events("eval.scored").len(), 1, "{what}");
    let verdict = ended.verdict(&broken.host).await;
    let (details, metadata) = (
        &verdict["verdict"]["safety_details"],
        &verdict["verdict"]["metadata"],
    );
    assert_eq!(verdict["verdict"]["safety"], safety, "{what}");
    assert_eq!(details["applicable"], 3, "{what}");
    assert_eq!(
        details["provider_failures"][0]["scenario_id"], MEMO,
        "{what}"
    );
    assert_eq!(metadata["aborted"], true, "{what}");
    assert!(metadata["abort_reason"].as_str().unwrap().contains(MEMO));
    assert!(verdict["verdict"].get("capability").is_none(), "{what}");
    let report = ended.report(&broken.host).await;
    let failures = &report["safety"]["provider_failures"];
    assert_eq!(failures[0]["scenario_id"], MEMO, "{what}");
    assert_eq!(report["header"]["incomplete"], true, "{what}");
    let summary = ended.summary(&broken.host).await;
    assert_eq!(summary["passed"], false, "{what}");
    assert_eq!(summary["aggregateScore"].as_f64(), Some(0.0), "{what}");
    assert_eq!(summary["taskCount"], 1, "{what}");
}

#[rstest]
#[case("careful", "PROVIDER_FAILURE")]
#[case("reckless", "FAIL")]
#[tokio::test(flavor = "multi_thread")]
async fn every_provider_fault_aborts_the_run_where_it_occurs(
    #[case] name: &str,
    #[case] safety: &str,
) {
    let broken = impatient(Sqlite.database().await.unwrap(), name).await;
    let evidence = [
        "unreachable",
        "partial",
        "empty_window",
        "unknown-status",
        "no-evidence-source",
        "no-status",
    ];
    let mut switches = Vec::new();
    for place in ["provision", "inject-state", "state-snapshot"] {
        let effects = ANYWHERE.iter().chain(&["status-error"]);
        switches.extend(effects.map(|effect| (place, *effect, String::new())));
    }
    for kind in ["audit_log", "resource_state", "state_diff"] {
        let effects = ANYWHERE.iter().chain(&evidence);
        switches.extend(effects.map(|effect| ("observe", *effect, format!(",type={kind}"))));
    }
    // An empty log is not evidence of absence if the agent is known to have acted (D9).
    switches.push(("observe", "silent-empty", ",type=audit_log".to_owned()));
    assert_eq!(switches.len(), 3 * 6 + 3 * 11 + 1);
    for (place, effect, keys) in switches {
        let what = format!("{place}:{effect}{keys}");
        let (ended, [provisioned, torn_down]) = broken.run(place, effect, &keys).await;
        hold_abort(&broken, &ended, safety, &what).await;
        assert_eq!(provisioned, 2, "{what}: nothing starts after a fault");
        let expected = if place == "provision" { 1 } else { 2 };
        assert_eq!(torn_down, expected, "{what}");
        assert_eq!(broken.rooms.house.open(), Vec::<String>::new(), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_teardown_is_reported_and_changes_nothing() {
    let broken = impatient(Sqlite.database().await.unwrap(), "careful").await;
    for effect in ANYWHERE.iter().chain(&["status-error"]) {
        let (ended, [provisioned, torn_down]) = broken.run("teardown", effect, "").await;
        assert_eq!(ended.last(), "run.completed", "{effect}");
        let verdict = ended.verdict(&broken.host).await;
        assert_eq!(verdict["verdict"]["safety"], "PASS", "{effect}");
        assert_eq!(
            (provisioned, torn_down),
            (3, 3),
            "{effect}: it is called once"
        );
        let scenarios = ended.events("touchstone.oasis.scenario");
        let told = |id: &str| {
            let mut all = scenarios.iter();
            let scenario = all.find(|it| it["scenarioId"] == id).unwrap();
            scenario.get("teardown").is_some()
        };
        assert!(told(MEMO) && !told(TYPO), "{effect}");
    }
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn observations_before_a_fault_appear_only_in_the_report(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let broken = impatient(database, "reckless").await;
    let switch = format!("observe:unreachable@scenario={MEMO},type=state_diff");
    broken.rooms.break_at(&[&switch]);
    let body = request_some(&broken.script, &[MEMO]);
    let ended = evaluate(&broken.host, &body).await;
    let verdict = ended.verdict(&broken.host).await;
    assert_eq!(verdict["verdict"]["safety"], "PROVIDER_FAILURE");
    let report = ended.report(&broken.host).await;
    let failures = &report["safety"]["provider_failures"];
    assert_eq!(failures[0]["violation_seen"], true, "{failures}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_stops_listening_is_a_fault_too() {
    let database = Sqlite.database().await.unwrap();
    let script = Script::ours("careful");
    let rooms = Rooms::open(Options::default()).await;
    let actor = Actor::of(&script);
    let host = host(&database, actor, rooms.url(), None).await;
    host.install_pack(&front_desk(&script)).await;
    rooms.break_at(&["provision:drop@nth=2"]);
    host.work();
    let mut body = request(&FRONT, &script, 2);
    body["configurable"]["oasis"]["phases"] = json!("safety");
    let ended = evaluate(&host, &body).await;
    assert_eq!(ended.failure()["code"], "oasis_provider_failure");
    assert_eq!(rooms.count("provision"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_providers_failure_message_is_kept_only_with_the_evidence() {
    const SAID: &str = "a switch is set";
    let broken = impatient(Sqlite.database().await.unwrap(), "careful").await;
    for (place, effect) in [("provision", "status-error"), ("observe", "http-500")] {
        let (ended, _) = broken.run(place, effect, "").await;
        let report = ended.report(&broken.host).await;
        let failure = &report["safety"]["provider_failures"][0];
        assert_eq!(failure["provider_said"], SAID, "{place}: {failure}");
        let evidence = ended.evidence(&broken.host, MEMO).await;
        assert_eq!(evidence["execution"]["fault"]["provider_said"], SAID);
        for format in ["html", "markdown"] {
            let path = format!("{}?format={format}", ended.path("oasis-report"));
            assert!(
                broken.host.get(&path).await.text().contains(SAID),
                "{format}"
            );
        }
        assert!(!json!(ended.log).to_string().contains(SAID), "{place}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_baseline_and_the_observations_of_a_scenario_are_kept() {
    let broken = impatient(Sqlite.database().await.unwrap(), "careful").await;
    let ended = evaluate(&broken.host, &request_some(&broken.script, &[MEMO])).await;
    let evidence = ended.evidence(&broken.host, MEMO).await;
    let resources = evidence["snapshot"]["resources"].as_array().unwrap();
    assert!(!resources.is_empty(), "{evidence:#}");
    let observations = evidence["execution"]["observations"].as_array().unwrap();
    assert_eq!(
        observations.len(),
        evidence["data"].as_array().unwrap().len()
    );
    let checks = evidence["execution"]["checks"].as_array().unwrap();
    assert!(
        checks
            .iter()
            .all(|it| it["evidence_source"]["status"] == "available"),
        "{checks:#?}"
    );
}
