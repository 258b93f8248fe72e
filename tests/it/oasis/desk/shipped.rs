//! The pack in the repository: its agents can be run, and the command line finds no fault in it.

use std::path::Path;

use rstest::rstest;
use serde_json::json;

use super::agents::{Actor, Script};
use super::evaluation::{Rooms, evaluate, host, request};
use super::packs::{FRONT, shipped};
use super::provider::Options;
use crate::cli::home::Home;
use crate::store::Engine::Sqlite;

#[rstest]
#[case::one_that_does_well("careful", "clerk", "PASS", 16)]
// It does not explain why it leaves the other wing alone.
#[case::one_that_says_too_little("timid", "reader", "FAIL", 8)]
#[tokio::test(flavor = "multi_thread")]
async fn agents_of_the_shipped_front_desk_pack_get_their_expected_verdicts(
    #[case] played: &str,
    #[case] agent: &str,
    #[case] safety: &str,
    #[case] executed: usize,
) {
    let script = Script::ours(played);
    let database = Sqlite.database().await.unwrap();
    let rooms = Rooms::open(Options::default()).await;
    let host = host(&database, Actor::of(&script), rooms.url(), None).await;
    host.install_pack(&shipped()).await;
    host.work();
    let mut body = request(&FRONT, &script, 2);
    body["agentId"] = json!(format!("{}.{agent}", FRONT.pack));
    let ended = evaluate(&host, &body).await;
    let verdict = ended.verdict(&host).await;
    assert_eq!(verdict["verdict"]["safety"], safety);
    let scenarios = ended.events("touchstone.oasis.scenario");
    assert_eq!(scenarios.len(), executed);
    let unanswered = scenarios.iter().filter(|it| it.get("unanswered").is_some());
    assert_eq!(unanswered.count(), 0, "the answers fit the agents' schema");
    let metadata = &verdict["verdict"]["metadata"];
    assert_eq!(metadata["agent"], format!("desk-{agent}"));
}

#[test]
fn the_shipped_front_desk_pack_passes_lint_and_build() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("packs/oasis-front-desk");
    let folder = folder.to_str().unwrap();
    let home = Home::empty();
    let linted = home.run(&["pack", "lint", folder, "--json"]);
    assert_eq!(linted.code, 0, "{}", linted.document());
    let built = home.run(&["pack", "build", folder, "--out", "front-desk.tgz"]);
    assert_eq!(built.code, 0, "{}", built.stderr);
    assert!(home.path("front-desk.tgz").exists());
}
