//! `card score`: bars for people, JSON for programs, and an exit code for pipelines.

use rstest::rstest;
use serde_json::{Value, json};

use super::home::{Done, Home};
use crate::agent_cards::fixture::{self, Change, SIGNERS};

fn home(card: &Value) -> Home {
    let home = Home::empty();
    std::fs::write(home.path("card.json"), card.to_string()).unwrap();
    home
}

/// A home that trusts its card's key.
fn trusting() -> Home {
    let signer = &SIGNERS.ed25519;
    let header =
        json!({"alg": "EdDSA", "kid": signer.id(), "iat": jiff::Timestamp::now().as_second() - 60});
    let card = fixture::card();
    let signature = signer.seal(&header, &fixture::canonical(&card));
    let home = home(&fixture::with_signatures(card, vec![signature]));
    std::fs::write(
        home.path("keys.json"),
        json!({"keys": [signer.jwk()]}).to_string(),
    )
    .unwrap();
    let settings = "[agent_cards]\ntrusted_keys = \"keys.json\"\n";
    std::fs::write(home.path("trust.toml"), settings).unwrap();
    home
}

#[test]
fn a_card_that_is_ready_exits_0() {
    let done = trusting().run(&["card", "score", "card.json", "--config", "trust.toml"]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    insta::assert_snapshot!(done.stdout);
}

#[test]
fn an_invalid_card_is_reported_with_reasons_and_remedies() {
    let card = fixture::changed(
        fixture::card(),
        &[
            Change::Cut("/description"),
            Change::Set("/iconUrl", json!("http://harbour.example/anchor.svg")),
            Change::Set("/skills/0/tags", json!([])),
        ],
    );
    let done = home(&card).run(&["card", "score", "card.json", "--min-trust", "30"]);
    assert_eq!(done.code, 1);
    insta::assert_snapshot!(done.stdout);
}

#[test]
fn a_terminal_shows_three_coloured_bars() {
    let home = trusting();
    let done = Done::of(
        home.touchstone()
            .env("CLICOLOR_FORCE", "1")
            .env("COLUMNS", "100")
            .args(["card", "score", "card.json", "--config", "trust.toml"]),
    );
    let bars: Vec<&str> = done
        .stdout
        .lines()
        .filter(|line| line.contains(['█', '░']))
        .collect();
    assert_eq!(bars.len(), 3, "{}", done.stdout);
    assert!(bars[0].contains(&"█".repeat(24)) && bars[0].contains("\u{1b}[32m"));
    assert!(bars[2].contains(&"░".repeat(24)) && bars[2].contains("Not Tested"));
}

#[test]
fn json_output_contains_the_scorecard() {
    let done = home(&fixture::card()).run(&[
        "card",
        "score",
        "card.json",
        "--json",
        "--min-trust",
        "36.5",
        "--min-compliance",
        "100",
    ]);
    assert_eq!(done.code, 1);
    let document = done.document();
    assert_eq!(document["compliance"]["total"], 100);
    assert_eq!(document["trust"]["rating"], "LOW_TRUST");
    assert_eq!(document["availability"]["rating"], "NOT_TESTED");
    assert_eq!(document["blockers"], json!(["trust"]));
    assert_eq!(
        document["belowThresholds"],
        json!([{"dimension": "trust", "value": 33, "least": 36.5}])
    );
}

#[rstest]
#[case::detailed(&["card.json", "--detailed-scores"])]
#[case::document(&["card.json", "--detailed-scores", "--json"])]
fn the_commands_of_the_scoring_guide_work(#[case] arguments: &[&str]) {
    let home = home(&fixture::card());
    let printed = home.run(&[&["card", "validate"], arguments].concat());
    let own: Vec<&str> = arguments
        .iter()
        .copied()
        .filter(|it| *it != "--detailed-scores")
        .collect();
    let scored = home.run(&[&["card", "score"], &own[..]].concat());
    assert_eq!(printed.code, 1, "{}", printed.stderr);
    assert!(printed.stdout.len() > 100, "{}", printed.stdout);
    assert_eq!(printed.stdout, scored.stdout);
}

#[test]
fn help_shows_the_commands_of_the_scoring_guide() {
    let home = Home::empty();
    let help = home.run(&["card", "--help"]).stdout;
    assert!(help.contains("validate"), "{help}");
    let help = home.run(&["card", "score", "--help"]).stdout;
    for option in ["--test-live]", "--detailed-scores"] {
        assert!(help.contains(option), "{option}: {help}");
    }
}

#[rstest]
#[case::ready_is_asked_for(&["--min-compliance", "10"], 1)]
#[case::the_threshold_alone(&["--min-compliance", "10", "--thresholds-only"], 0)]
#[case::the_threshold_alone_missed(&["--min-trust", "37", "--thresholds-only"], 1)]
#[case::no_threshold(&["--thresholds-only"], 2)]
#[case::no_score(&["--min-trust", "101"], 2)]
fn production_readiness_and_thresholds_decide_the_exit_code(
    #[case] arguments: &[&str],
    #[case] code: i32,
) {
    let done = home(&fixture::card()).run(&[&["card", "score", "card.json"], arguments].concat());
    assert_eq!(done.code, code, "{}{}", done.stdout, done.stderr);
}

#[test]
fn a_card_is_read_from_stdin() {
    let home = Home::empty();
    let mut command = home.touchstone();
    command
        .args(["card", "score", "-", "--json"])
        .write_stdin(fixture::card().to_string());
    let done = Done::of(&mut command);
    assert_eq!(done.document()["compliance"]["rating"], "PERFECT");
}

#[test]
fn a_document_that_is_not_a_card_scores_zero() {
    let home = Home::empty();
    std::fs::write(home.path("card.json"), "{\"name\": \"a\", \"name\": \"b\"}").unwrap();
    let done = home.run(&["card", "score", "card.json", "--json"]);
    assert_eq!(done.code, 1);
    assert_eq!(done.document()["issues"][0]["code"], "CARD_UNPARSEABLE");
}

#[rstest]
#[case::no_file("", "trusted_keys = \"nowhere.json\"", "agent_cards.trusted_keys")]
#[case::no_key_set("[]", "trusted_keys = \"keys.json\"", "is not a key set")]
#[case::no_id(
    "{\"keys\": [{\"kty\": \"OKP\"}]}",
    "trusted_keys = \"keys.json\"",
    "`kid`"
)]
#[case::same_id(
    "{\"keys\": [{\"kid\": \"a\"}, {\"kid\": \"a\"}]}",
    "trusted_keys = \"keys.json\"",
    "`kid`"
)]
fn invalid_trusted_keys_are_rejected(
    #[case] keys: &str,
    #[case] setting: &str,
    #[case] told: &str,
) {
    let home = home(&fixture::card());
    std::fs::write(home.path("keys.json"), keys).unwrap();
    std::fs::write(home.path("t.toml"), format!("[agent_cards]\n{setting}\n")).unwrap();
    let done = home.run(&["card", "score", "card.json", "--config", "t.toml"]);
    assert_eq!(done.code, 2, "{}", done.stdout);
    assert!(done.stderr.contains(told), "{}", done.stderr);
}

#[test]
fn a_missing_file_is_bad_input() {
    let done = Home::empty().run(&["card", "score", "none.json"]);
    assert_eq!(done.code, 2);
    assert!(done.stderr.contains("none.json"), "{}", done.stderr);
}

#[test]
fn cards_are_watched_and_their_history_is_shown() {
    let home = Home::empty();
    let url = "https://agents.example/";
    let watched = home.run(&["card", "watch", url, "--every-hours", "6", "--live"]);
    assert_eq!(watched.code, 0, "{}", watched.stderr);
    assert!(
        watched
            .stdout
            .starts_with("https://agents.example/  every 6 hours, live, next 2")
    );
    assert!(watched.stderr.contains("touchstone serve"));
    let listed = home.run(&["card", "watched", "--json"]).document();
    assert_eq!(listed["watches"][0]["everyHours"], 6);
    let history = home.run(&["card", "history", url]);
    assert_eq!((history.code, history.stdout.as_str()), (0, ""));
    assert_eq!(home.run(&["card", "unwatch", url]).code, 0);
    assert_eq!(home.run(&["card", "unwatch", url]).code, 2);
    let inside = home.run(&["card", "watch", "http://10.0.0.1/"]);
    assert_eq!(inside.code, 2, "{}", inside.stderr);
    assert!(
        inside.stderr.contains("agent_cards.private_targets"),
        "{}",
        inside.stderr
    );
}

#[test]
fn a_card_that_cannot_be_read_misses_every_named_threshold() {
    let home = Home::empty();
    std::fs::write(home.path("card.json"), "[1]").unwrap();
    let arguments = [
        "card",
        "score",
        "card.json",
        "--live",
        "--min-availability",
        "80",
    ];
    let done = home.run(&[&arguments[..], &["--thresholds-only", "--json"]].concat());
    assert_eq!(done.code, 1, "{}", done.stdout);
    let missed = json!([{"dimension": "availability", "value": 0, "least": 80}]);
    assert_eq!(done.document()["belowThresholds"], missed);
}

/// Three candidates: a valid card, one without a provider, and a file that is not a card.
fn candidates() -> Home {
    let home = home(&fixture::card());
    let poor = fixture::changed(
        fixture::card(),
        &[Change::Cut("/provider"), Change::Cut("/description")],
    );
    std::fs::write(home.path("poor.json"), poor.to_string()).unwrap();
    std::fs::write(home.path("same.json"), fixture::card().to_string()).unwrap();
    std::fs::write(home.path("none.json"), "[]").unwrap();
    home
}

#[test]
fn cards_are_ranked_by_their_weighted_scores() {
    let home = candidates();
    let cards = ["none.json", "poor.json", "card.json", "same.json"];
    let done = home.run(&[&["card", "rank", "--offline", "--json"], &cards[..]].concat());
    assert_eq!(done.code, 0, "{}", done.stderr);
    let document = done.document();
    let ranking = document["ranking"].as_array().unwrap();
    let places: Vec<_> = ranking
        .iter()
        .map(|it| (it["rank"].as_u64().unwrap(), it["card"].as_str().unwrap()))
        .collect();
    let expected = [
        (1, "card.json"),
        (1, "same.json"),
        (3, "poor.json"),
        (4, "none.json"),
    ];
    assert_eq!(places, expected);
    // 0.3 × 100 + 0.5 × 33 + 0.2 × 0: availability was not checked.
    assert_eq!(ranking[0]["score"], 46.5);
    assert_eq!(
        document["weights"],
        json!({"compliance": 0.3, "trust": 0.5, "availability": 0.2})
    );
    let done = home.run(
        &[
            &["card", "rank", "--offline", "--weights", "compliance=1"],
            &cards[..],
        ]
        .concat(),
    );
    assert_eq!(done.code, 0, "{}", done.stderr);
    let (_, rows) = done.stdout.split_once("production  card\n").unwrap();
    assert!(rows.starts_with("   1     100"), "{}", done.stdout);
    assert!(
        rows.lines().next().unwrap().ends_with("card.json"),
        "{rows}"
    );
}

#[rstest]
#[case::no_cards(&["card", "rank"], "FILE|URL")]
#[case::weights(&["card", "rank", "card.json", "--weights", "trust=much"], "--weights")]
#[case::nothing_counts(&["card", "rank", "card.json", "--weights", "trust=0"], "above 0")]
#[case::no_file(&["card", "rank", "card.json", "missing.json"], "missing.json")]
#[case::offline_url(&["card", "rank", "https://agents.example", "--offline"], "--offline")]
fn invalid_ranking_arguments_are_bad_input(#[case] arguments: &[&str], #[case] named: &str) {
    let done = candidates().run(arguments);
    assert_eq!(done.code, 2, "{}", done.stderr);
    assert!(done.stderr.contains(named), "{}", done.stderr);
}

#[test]
fn a_candidate_that_cannot_be_fetched_has_no_rank() {
    let home = candidates();
    let done = home.run(&["card", "rank", "--json", "card.json", "http://127.0.0.1:9/"]);
    assert_eq!(done.code, 4, "{}", done.stderr);
    let document = done.document();
    assert_eq!(document["ranking"].as_array().unwrap().len(), 1);
    assert_eq!(document["unranked"][0]["card"], "http://127.0.0.1:9/");
    let fault = document["unranked"][0]["fault"].as_str().unwrap();
    assert!(fault.contains("internal host"), "{fault}");
    let done = home.run(&["card", "rank", "http://127.0.0.1:9/"]);
    assert_eq!(done.code, 3, "{}", done.stderr);
}

#[test]
fn a_card_report_is_a_single_html_page() {
    let card = fixture::changed(
        fixture::card(),
        &[
            Change::Cut("/description"),
            Change::Set("/securitySchemes/<script>", json!({})),
        ],
    );
    let home = home(&card);
    let score = [
        "card",
        "score",
        "card.json",
        "--offline",
        "--min-trust",
        "99",
    ];
    let done = home.run(&[&score[..], &["--report", "card.html"]].concat());
    assert_eq!(done.code, 1, "{}", done.stderr);
    let page = std::fs::read_to_string(home.path("card.html")).unwrap();
    for said in [
        "not ready for production: compliance",
        "thresholds missed: trust",
        "CORE_FIELD_MISSING",
        "core fields",
        "has valid signature: ",
        "default-src 'none'",
    ] {
        assert!(page.contains(said), "{said}\n{page}");
    }
    for foreign in ["<script", "src=", "href="] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    let done = home.run(&[&score[..], &["--report", "card.pdf"]].concat());
    assert_eq!(done.code, 2, "{}", done.stderr);
    assert!(done.stderr.contains("--report"), "{}", done.stderr);
    let done = home.run(&[&score[..], &["--report", "no/such/card.html"]].concat());
    assert_eq!(done.code, 3, "{}", done.stderr);
}
