//! `card score` with a running agent.

use super::agent::{Agent, Spoken};
use super::certificates::{AUTHORITY, acceptor};
use crate::cli::home::{Done, Home};

async fn run(home: &Home, arguments: Vec<String>, authority: bool) -> Done {
    let mut command = home.touchstone();
    if authority {
        command.env("SSL_CERT_FILE", home.path("authority.pem"));
        std::fs::write(home.path("authority.pem"), AUTHORITY).unwrap();
    }
    command.args(arguments);
    tokio::task::spawn_blocking(move || Done::of(&mut command))
        .await
        .unwrap()
}

fn arguments(agent: &Agent, more: &[&str]) -> Vec<String> {
    let base = agent.base();
    let usual = ["card", "score", &base, "--json"];
    usual
        .iter()
        .chain(more)
        .map(|it| (*it).to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_a_good_certificate_gets_all_points() {
    let agent = Agent::listen(&[], Some(acceptor("agent")), Spoken::Http1).await;
    let home = Home::empty();
    let more = [
        "--live",
        "--allow-private",
        &agent.place(),
        "--min-availability",
        "100",
        "--thresholds-only",
    ];
    let done = run(&home, arguments(&agent, &more), true).await;
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let document = done.document();
    assert_eq!(document["availability"]["total"], 100, "{document:#}");
    assert_eq!(document["availability"]["rating"], "FULLY_AVAILABLE");
    assert_eq!(
        document["trust"]["breakdown"]["provider"]["urlReachable"],
        true
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_live_command_of_the_scoring_guide_works() {
    let agent = Agent::start(&[]).await;
    let (home, base, place) = (Home::empty(), agent.base(), agent.place());
    let printed = [
        "card",
        "validate",
        &base,
        "--detailed-scores",
        "--test-live",
    ];
    let more = ["--allow-private", &place, "--json"];
    let arguments = printed.iter().chain(&more).map(|it| (*it).to_owned());
    let done = run(&home, arguments.collect(), false).await;
    let document = done.document();
    assert_eq!(document["availability"]["tested"], true, "{document:#}");
    assert_eq!(document["availability"]["total"], 95, "{document:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_behind_a_bad_certificate_is_not_fetched() {
    let agent = Agent::listen(&[], Some(acceptor("expired")), Spoken::Http1).await;
    let home = Home::empty();
    let more = ["--live", "--allow-private", &agent.place()];
    let done = run(&home, arguments(&agent, &more), true).await;
    assert_eq!(done.code, 3, "{}", done.stdout);
    assert!(done.stdout.contains("certificate"), "{}", done.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_internal_address_is_refused_unless_it_is_opened() {
    let agent = Agent::start(&[]).await;
    let home = Home::empty();
    let done = run(&home, arguments(&agent, &["--live"]), false).await;
    assert_eq!(done.code, 2, "{}", done.stdout);
    let document = done.document();
    assert_eq!(document["error"]["code"], "address_blocked");
    assert!(done.stdout.contains("--allow-private"), "{}", done.stdout);
    assert_eq!(agent.log(), Vec::<String>::new());
}
