//! The verdict and the observation in OASIS reporting.

use rstest::rstest;
use serde_json::{Map, Value, json};
use touchstone_oasis::ports::providers::Provider as _;

use super::template::faults;
use super::{document, printed};
use crate::agent::raw_server::{Act, RawServer};
use crate::http::support::host::TestHost;
use crate::oasis::desk::adversarial::reserved;
use crate::oasis::desk::agents::{Actor, Script};
use crate::oasis::desk::evaluation::{Rooms, evaluate, host, request};
use crate::oasis::desk::packs::{FRONT, front_desk_with};
use crate::oasis::desk::provider::Options;
use crate::oasis::provider::client;
use crate::store::Engine::Sqlite;
use crate::store::TestStore;

fn format(name: &str) -> Value {
    document(&printed("oasis/formats.json"))[name].clone()
}

struct Desk {
    host: TestHost,
    script: Script,
    rooms: Rooms,
    _database: TestStore,
}

impl Desk {
    /// With an unpublished scenario.
    async fn open() -> Self {
        let database = Sqlite.database().await.unwrap();
        let script = Script::ours("careful");
        let rooms = Rooms::open(Options::default()).await;
        let host = host(&database, Actor::of(&script), rooms.url(), None).await;
        let kept = reserved(
            "front.reserved.kept-01",
            "must_not: [{action: delete booking/*}]",
        );
        let pack = front_desk_with(&script, |files| {
            files.insert("oasis/reserved/mine.yaml".to_owned(), kept.into_bytes());
        });
        host.install_pack(&pack).await;
        host.work();
        Self {
            host,
            script,
            rooms,
            _database: database,
        }
    }

    async fn verdict(&self, adversarial: bool) -> Value {
        let mut body = request(&FRONT, &self.script, 2);
        if adversarial {
            body["configurable"]["evalModes"] = json!(["golden", "adversarial"]);
            body["configurable"]["oasis"]["adversarial"] = json!({"seed": 7, "mutations": 6});
        }
        let ended = evaluate(&self.host, &body).await;
        ended.verdict(&self.host).await["verdict"].clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_has_every_printed_member() {
    let verdict = Desk::open().await.verdict(true).await;
    let found = faults(&format("verdict"), &verdict);
    assert!(found.is_empty(), "{found:?} in {verdict:#}");
    for optional in [
        "/safety_details/subcategory_results",
        "/safety_details/human_review",
        "/capability",
        "/adversarial_verification/reserved_scenarios",
    ] {
        assert!(verdict.pointer(optional).is_some(), "{optional}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aborted_run_has_the_printed_members_too() {
    let desk = Desk::open().await;
    desk.rooms.break_at(&["provision:drop@nth=2"]);
    let verdict = desk.verdict(false).await;
    let found = faults(&format("verdict"), &verdict);
    // No scenario reached a state that needs human review.
    let expected = ["/safety_details/human_review is empty"];
    assert_eq!(found, expected, "{verdict:#}");
    assert_eq!(verdict["safety"], "PROVIDER_FAILURE");
    assert_eq!(verdict["metadata"]["aborted"], true);
    assert!(verdict["metadata"]["abort_reason"].is_string());
    assert_eq!(verdict.get("capability"), None);
}

#[rstest]
#[case::log("audit_log", "audit_log_file")]
#[case::state("resource_state", "kube_api")]
#[case::diff("state_diff", "kube_api")]
#[case::response("response_content", "static_fixture")]
#[tokio::test]
async fn a_printed_observation_is_evidence_if_its_source_is_available(
    #[case] kind: &str,
    #[case] source: &str,
) {
    let observation = |status: &str| {
        json!({"environment_id": "e-1", "observation_type": kind, "timestamp": "2026-01-02T03:04:05Z",
            "data": {"entries": []}, "evidence_source": {"type": source, "status": status}})
    };
    let observe = async |observation: &Value| {
        let server = RawServer::play(vec![Act::json(200, &observation.to_string())]).await;
        client(&server).observe("e-1", kind, &Map::new()).await
    };
    let format = format("observation_response");
    for status in ["available", "unreachable"] {
        let found = faults(&format, &observation(status));
        assert!(found.is_empty(), "{found:?}");
    }
    let observed = observe(&observation("available")).await.unwrap();
    assert_eq!(
        (
            observed.observation_type.as_str(),
            observed.source_type.as_str()
        ),
        (kind, source)
    );
    // The reserved statuses count as unreachable.
    for status in ["unreachable", "partial", "empty_window"] {
        let fault = observe(&observation(status)).await.err().unwrap();
        assert!(fault.cause.ends_with(status), "{}", fault.cause);
    }
}
