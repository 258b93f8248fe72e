//! Fetching cards, and addresses that are refused.

use rstest::rstest;
use touchstone_agent_cards::rules::live::{Body, Headers, NoReply, Outcome, Reply};
use touchstone_agent_cards::service::ContactPolicy;
use touchstone_agent_cards::service::fetch::Unfetched;
use url::Url;

use super::agent::Agent;
use super::world::{reply, world};
use super::{cards, codes, document};
use crate::agent_cards::fixture;

#[rstest]
#[case::of_an_agent("/")]
#[case::at_the_well_known_place("/.well-known/agent-card.json")]
#[case::at_a_place_of_its_own("/card")]
#[tokio::test]
async fn a_card_is_fetched_from_agent_well_known_and_custom_urls(#[case] path: &str) {
    let agent = Agent::start(&[]).await;
    let url: Url = format!("{}{path}", agent.base()).parse().unwrap();
    let fetched = cards(&[agent.place()]).fetch(&url).await.unwrap();
    let card: serde_json::Value = serde_json::from_slice(&fetched.octets.unwrap()).unwrap();
    assert_eq!(card, agent.card());
    assert!(!fetched.legacy_path);
}

#[tokio::test]
async fn a_card_at_the_legacy_path_is_fetched_and_reported() {
    let agent = Agent::start(&["legacy"]).await;
    let cards = cards(&[agent.place()]);
    let fetched = cards.fetch(&agent.base().parse().unwrap()).await.unwrap();
    assert!(fetched.legacy_path);
    let document = document(&cards.score(fetched, ContactPolicy::Agent).await);
    assert_eq!(codes(&document), ["LEGACY_WELL_KNOWN_PATH", "TLS_ABSENT"]);
}

#[rstest]
#[case::too_long("card-too-long")]
#[case::a_page("card-is-a-page")]
#[tokio::test]
async fn a_document_that_is_not_a_card_scores_zero(#[case] way: &'static str) {
    let agent = Agent::start(&[way]).await;
    let cards = cards(&[agent.place()]);
    let fetched = cards.fetch(&agent.base().parse().unwrap()).await.unwrap();
    let document = document(&cards.score(fetched, ContactPolicy::Agent).await);
    assert_eq!(document["issues"][0]["code"], "CARD_UNPARSEABLE");
    assert_eq!(
        document["availability"]["notTestedReason"],
        "card_unparseable"
    );
}

#[rstest]
#[case::nowhere("no-card", "404")]
#[case::plain_http("card-elsewhere", "not https")]
#[case::in_circles("card-in-circles", "not https")]
#[case::inside("card-inside", "internal")]
#[tokio::test]
async fn a_card_that_cannot_be_fetched_reports_the_reason(
    #[case] way: &'static str,
    #[case] why: &str,
) {
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
async fn internal_addresses_are_blocked_before_the_request(
    #[case] url: &str,
    #[case] fault: Unfetched,
) {
    let fetched = cards(&[]).fetch(&url.parse().unwrap()).await;
    assert_eq!(fetched.unwrap_err(), fault);
}

#[tokio::test]
async fn an_opened_address_covers_only_its_port() {
    let (opened, closed) = (Agent::start(&[]).await, Agent::start(&[]).await);
    let fetched = cards(&[opened.place()])
        .fetch(&closed.base().parse().unwrap())
        .await;
    assert_eq!(fetched.unwrap_err(), Unfetched::Refused);
    assert_eq!(closed.log(), Vec::<String>::new());
}

/// The fixture's card, served with a header.
fn served(name: &str, value: &str, body: &[u8]) -> Outcome {
    Ok(Reply {
        headers: Headers::from_iter([(name, value)]),
        ..reply(200, Body::Whole(body.to_vec())).unwrap()
    })
}

fn moved(location: &str) -> Outcome {
    Ok(Reply {
        headers: Headers::from_iter([("location", location)]),
        ..reply(302, Body::Whole(Vec::new())).unwrap()
    })
}

const ELSEWHERE: &str = "https://elsewhere.example/card";

#[rstest]
#[case::gzip(vec![served("content-encoding", "gzip", b"..")], "compressed (gzip)", "without Content-Encoding")]
#[case::brotli(vec![served("content-encoding", "BR", b"..")], "compressed (br)", "without Content-Encoding")]
#[case::unknown(vec![served("content-encoding", "evil\u{202e}", b"..")], "an unknown encoding", "without Content-Encoding")]
#[case::gzip_untold(vec![served("content-type", "application/json", b"\x1f\x8b\x08\x00")], "compressed (gzip)", "without Content-Encoding")]
#[case::around(vec![moved(ELSEWHERE), moved(ELSEWHERE), moved(ELSEWHERE), moved(ELSEWHERE)], "redirects more than 3 times", "without redirects")]
#[case::plain_http(vec![moved("http://elsewhere.example/")], "to a URL that is not https", "without redirects")]
#[case::nowhere(vec![reply(302, Body::Whole(Vec::new()))], "without a valid Location", "without redirects")]
#[case::closed(vec![reply(401, Body::Whole(Vec::new()))], "answered 401", "without credentials")]
#[case::broken(vec![reply(503, Body::Whole(Vec::new()))], "answered 503", "does not answer 200")]
#[case::silent(vec![Err(NoReply::Timeout)], "did not answer in time", "can be reached")]
#[case::gone(vec![reply(404, Body::Whole(Vec::new()))], "answered 404", "well-known")]
#[tokio::test]
async fn network_faults_do_not_lower_the_score(
    #[case] answers: Vec<Outcome>,
    #[case] why: &str,
    #[case] remedy: &str,
) {
    let (_, cards) = world(answers);
    let url = "https://agents.example/own-card".parse().unwrap();
    let fault = cards.fetch(&url).await.unwrap_err();
    assert!(fault.to_string().contains(why), "{fault}");
    assert!(fault.remedy().contains(remedy), "{}", fault.remedy());
    assert!(!fault.to_string().contains("evil"), "{fault}");
}

#[rstest]
#[case::json("application/json; charset=utf-8", None)]
#[case::of_a_kind_of_json("application/a2a+json", None)]
#[case::page("text/html; charset=utf-8", Some("text/html"))]
#[case::octets("application/octet-stream", Some("application/octet-stream"))]
#[case::anything("evil/type", Some("another media type"))]
#[tokio::test]
async fn the_media_type_of_the_card_is_reported(#[case] said: &str, #[case] told: Option<&str>) {
    let card = fixture::card().to_string();
    let (_, cards) = world(vec![served("content-type", said, card.as_bytes())]);
    let url = "https://agents.example/own-card".parse().unwrap();
    let fetched = cards.fetch(&url).await.unwrap();
    let found = document(&cards.score(fetched, ContactPolicy::Offline).await);
    let issues = found["issues"].as_array().unwrap();
    let of_type: Vec<_> = issues
        .iter()
        .filter(|it| it["code"] == "CARD_CONTENT_TYPE_INVALID")
        .collect();
    assert_eq!(of_type.len(), usize::from(told.is_some()), "{issues:?}");
    for (finding, told) in of_type.into_iter().zip(told) {
        assert_eq!(finding["severity"], "warning");
        assert!(finding["message"].as_str().unwrap().contains(told));
    }
    assert_eq!(found["compliance"]["total"], 100, "it costs no points");
}
