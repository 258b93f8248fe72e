//! A host stops in the middle of an evaluation: another one continues from the log.

use rstest::rstest;
use serde_json::Value;

use super::agents::{Actor, Script};
use super::evaluation::{Ended, Rooms, at_work, create, evaluate, host, lasting, request};
use super::packs::{FRONT, front_desk};
use super::provider::Options;
use crate::http::support::host::TestHost;
use crate::store::Engine::{self, Postgres, Sqlite};

/// The scenario in which the agent hangs.
const HELD: &str = "front.safety.br.archive-01";

/// Number of environments provisioned for a scenario.
fn provisions(rooms: &Rooms, scenario: &str) -> usize {
    let calls = rooms.house.calls();
    let of = calls
        .iter()
        .filter(|it| it.call == "provision" && it.scenario_id == scenario);
    of.count()
}

fn executed(ended: &Ended) -> Vec<&Value> {
    let scenarios = ended.events("touchstone.oasis.scenario");
    scenarios.iter().map(|it| &it["scenarioId"]).collect()
}

async fn hold_going_on(host: &TestHost, rooms: &Rooms, ended: &Ended, whole: &Value) {
    assert_eq!(ended.last(), "run.completed");
    assert_eq!(lasting(ended.verdict(host).await), *whole);
    let executed = executed(ended);
    assert_eq!(executed.len(), 16, "each once: {executed:?}");
    for scenario in executed {
        let scenario = scenario.as_str().unwrap();
        let expected = if scenario == HELD { 2 } else { 1 };
        assert_eq!(provisions(rooms, scenario), expected, "{scenario}");
    }
    assert_eq!(
        rooms.house.open(),
        Vec::<String>::new(),
        "nothing is left behind"
    );
    assert_eq!(ended.events("touchstone.oasis.preflight").len(), 1);
    assert_eq!(ended.events("eval.started").len(), 1);
    assert_eq!(rooms.count("conformance"), 1, "it is asked once");
}

/// The verdict of an uninterrupted run.
async fn whole(script: &Script) -> Value {
    let database = Sqlite.database().await.unwrap();
    let rooms = Rooms::open(Options::default()).await;
    let host = at_work(&database, script, &rooms).await;
    let ended = evaluate(&host, &request(&FRONT, script, 2)).await;
    lasting(ended.verdict(&host).await)
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn another_host_continues_after_a_kill(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(database) = engine.database().await else {
        return;
    };
    let script = Script::ours("careful");
    let whole = whole(&script).await;
    let rooms = Rooms::open(Options::default()).await;

    // A separate runtime, so that no task of the host survives it.
    let process = tokio::runtime::Runtime::new().unwrap();
    let actor = Actor::of(&script);
    actor.hold_in(HELD);
    let (location, url) = (database.location(), rooms.url());
    let (pack, body) = (front_desk(&script), request(&FRONT, &script, 2));
    let asked = actor.clone();
    let started = process.spawn(async move {
        let store = touchstone::database::open(&location, crate::support::host_keys::usual())
            .await
            .unwrap();
        let lab = crate::http::support::host::Lab {
            agent: Some(actor),
            providers: super::evaluation::providers(url, std::time::Duration::from_secs(20)),
            ..Default::default()
        };
        let place = touchstone_ratings::rules::badge::host_url::HostUrl::public(
            "https://assess.example.org",
        );
        let settings = touchstone_host::http::HttpSettings::default();
        let host = TestHost::lab(store, settings, place.unwrap(), lab).await;
        host.install_pack(&pack).await;
        let run = create(&host, &body).await;
        host.work();
        (run, host)
    });
    let (run, killed) = started.await.unwrap();
    asked.is_held().await;
    process.shutdown_background();
    assert_eq!(
        rooms.house.open().len(),
        1,
        "its environment is left behind"
    );

    let host = host(&database, Actor::of(&script), rooms.url(), None).await;
    database.pass(60).await;
    host.work();
    let log = host.ended(&run).await;
    hold_going_on(&host, &rooms, &Ended { run, log }, &whole).await;
    drop(killed);
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn another_host_continues_after_a_shutdown(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(database) = engine.database().await else {
        return;
    };
    let script = Script::ours("careful");
    let whole = whole(&script).await;
    let rooms = Rooms::open(Options::default()).await;
    let actor = Actor::of(&script);
    actor.hold_in(HELD);
    let first = host(&database, actor.clone(), rooms.url(), None).await;
    first.install_pack(&front_desk(&script)).await;
    let run = create(&first, &request(&FRONT, &script, 2)).await;
    let worker = first.work();
    actor.is_held().await;
    worker.cancel();

    let second = host(&database, Actor::of(&script), rooms.url(), None).await;
    second.work();
    let log = second.ended(&run).await;
    hold_going_on(&second, &rooms, &Ended { run, log }, &whole).await;
}
