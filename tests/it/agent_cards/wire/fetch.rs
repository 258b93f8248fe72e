//! Where a card is fetched from, and where not.

use rstest::rstest;
use touchstone::service::cards::{Asking, Unfetched};
use url::Url;

use super::agent::Agent;
use super::{cards, codes, document};

#[rstest]
#[case::of_an_agent("/")]
#[case::at_the_well_known_place("/.well-known/agent-card.json")]
#[case::at_a_place_of_its_own("/card")]
#[tokio::test]
async fn a_card_is_fetched(#[case] path: &str) {
    let agent = Agent::start(&[]).await;
    let url: Url = format!("{}{path}", agent.base()).parse().unwrap();
    let fetched = cards(&[agent.place()]).fetch(&url).await.unwrap();
    let card: serde_json::Value = serde_json::from_slice(&fetched.octets.unwrap()).unwrap();
    assert_eq!(card, agent.card());
    assert!(!fetched.legacy_path);
}

#[tokio::test]
async fn a_card_at_the_old_place_is_found_and_told() {
    let agent = Agent::start(&["legacy"]).await;
    let cards = cards(&[agent.place()]);
    let fetched = cards.fetch(&agent.base().parse().unwrap()).await.unwrap();
    assert!(fetched.legacy_path);
    let document = document(&cards.score(fetched, Asking::Agent).await);
    assert_eq!(codes(&document), ["LEGACY_WELL_KNOWN_PATH", "TLS_ABSENT"]);
}

#[rstest]
#[case::too_long("card-too-long")]
#[case::a_page("card-is-a-page")]
#[tokio::test]
async fn what_is_no_card_scores_nothing(#[case] way: &'static str) {
    let agent = Agent::start(&[way]).await;
    let cards = cards(&[agent.place()]);
    let fetched = cards.fetch(&agent.base().parse().unwrap()).await.unwrap();
    let document = document(&cards.score(fetched, Asking::Agent).await);
    assert_eq!(document["issues"][0]["code"], "CARD_UNPARSEABLE");
    assert_eq!(
        document["availability"]["notTestedReason"],
        "card_unparseable"
    );
}

#[rstest]
#[case::nowhere("no-card", "404")]
#[case::plain_http("card-elsewhere", "not to https")]
#[case::in_circles("card-in-circles", "not to https")]
#[case::inside("card-inside", "internal")]
#[tokio::test]
async fn a_card_that_is_not_to_be_had_says_why(#[case] way: &'static str, #[case] why: &str) {
    let agent = Agent::start(&[way]).await;
    let fetched = cards(&[agent.place()])
        .fetch(&agent.base().parse().unwrap())
        .await;
    let told = fetched.unwrap_err().to_string();
    assert!(told.contains(why), "{told}");
}

#[rstest]
#[case::this_machine("http://127.0.0.1:9/", Unfetched::Refused)]
#[case::by_name("https://localhost/", Unfetched::Refused)]
#[case::metadata("http://169.254.169.254/latest", Unfetched::Refused)]
#[case::metadata_on_a_public_address("http://168.63.129.16/", Unfetched::Refused)]
#[case::decimal("http://2130706433/", Unfetched::Refused)]
#[case::mapped("http://[::ffff:7f00:1]/", Unfetched::Refused)]
#[case::behind_6to4("http://[2002:7f00:1::]/", Unfetched::Refused)]
#[case::inner_name("https://agents.corp/", Unfetched::Refused)]
#[case::credentials("https://me:pw@agents.example/", Unfetched::Unusable)]
#[case::scheme("ftp://agents.example/", Unfetched::Unusable)]
#[tokio::test]
async fn the_guard_stands_at_the_door(#[case] url: &str, #[case] fault: Unfetched) {
    let fetched = cards(&[]).fetch(&url.parse().unwrap()).await;
    assert_eq!(fetched.unwrap_err(), fault);
}

#[tokio::test]
async fn an_opened_place_is_that_port_alone() {
    let (opened, closed) = (Agent::start(&[]).await, Agent::start(&[]).await);
    let fetched = cards(&[opened.place()])
        .fetch(&closed.base().parse().unwrap())
        .await;
    assert_eq!(fetched.unwrap_err(), Unfetched::Refused);
    assert_eq!(closed.log(), Vec::<String>::new());
}
