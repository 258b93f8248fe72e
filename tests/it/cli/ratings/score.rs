//! `rating score`: a file of evidence, a rating, and exit codes that separate unreadable from
//! insufficient evidence.

use std::path::Path;

use rstest::rstest;
use serde_json::{Value, json};

use crate::cli::home::{Done, Home};

fn vector(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/ratings/vectors");
    let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn lines(events: &Value) -> String {
    let events = events.as_array().unwrap();
    events.iter().map(|event| format!("{event}\n")).collect()
}

/// A folder with the evidence of a vector as JSON lines.
fn evidence(name: &str) -> (Home, Value) {
    let (home, vector) = (Home::empty(), vector(name));
    std::fs::write(home.path("events.jsonl"), lines(&vector["input"]["events"])).unwrap();
    (home, vector)
}

fn window(vector: &Value) -> [String; 4] {
    let at = |name: &str| {
        vector["input"]["assessment"][name]
            .as_str()
            .unwrap()
            .to_owned()
    };
    [
        "--since".to_owned(),
        at("window_start"),
        "--until".to_owned(),
        at("window_end"),
    ]
}

#[test]
fn a_document_is_scored_as_it_says() {
    let (home, vector) = (Home::empty(), vector("full-assessment"));
    std::fs::write(home.path("all.json"), vector["input"].to_string()).unwrap();
    let done = home.run(&["rating", "score", "all.json", "--json"]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let said = done.document();
    for axis in ["performance", "capability"] {
        for member in ["composite_score", "display", "tier", "weight_coverage"] {
            assert_eq!(
                said[axis][member], vector["expected"][axis][member],
                "{axis} {member}"
            );
        }
    }
    assert_eq!(said["calibration"]["badge"], "withheld");
    assert_eq!(said["assessment"]["type"], "full");
    assert!(said["capability"]["dimensions"]["domain_breadth"]["qualified_domains"].is_number());
    // The command reads files only.
    assert!(!home.data().exists());
    assert_eq!(
        done.stdout,
        home.run(&["rating", "score", "all.json", "--json"]).stdout
    );
}

#[test]
fn lines_are_scored_by_options_and_from_stdin() {
    let (home, vector) = evidence("passive-only-ignores-active");
    let window = window(&vector);
    let mut arguments = vec![
        "rating",
        "score",
        "events.jsonl",
        "--type",
        "passive_only",
        "--json",
    ];
    arguments.extend(window.iter().map(String::as_str));
    let done = home.run(&arguments);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let expected = &vector["expected"]["performance"]["composite_score"];
    assert_eq!(done.document()["performance"]["composite_score"], *expected);
    arguments[2] = "-";
    let mut command = home.touchstone();
    let text = lines(&vector["input"]["events"]);
    let piped = Done::of(command.args(&arguments).write_stdin(text));
    assert_eq!(piped.stdout, done.stdout);
}

#[test]
fn people_see_both_axes_and_what_they_are_made_of() {
    let (home, vector) = evidence("partial-coverage");
    let window = window(&vector);
    let mut arguments = vec![
        "rating",
        "score",
        "events.jsonl",
        "--assessment",
        "a55e55ed-0000-4000-8000-00000000000a",
    ];
    arguments.extend(window.iter().map(String::as_str));
    let done = home.run(&arguments);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    for axis in ["performance", "capability"] {
        let found = &vector["expected"][axis];
        let line = format!(
            "{} {}",
            found["display"].as_str().unwrap(),
            found["tier"].as_str().unwrap()
        );
        assert!(done.stdout.contains(&line), "{line}: {}", done.stdout);
    }
    assert!(
        done.stdout.contains("of weights assessed"),
        "{}",
        done.stdout
    );
    assert!(
        done.stdout
            .contains("not assessed: no orchestration has a result"),
        "{}",
        done.stdout
    );
    // No terminal control characters in a pipe.
    assert!(!done.stdout.contains(['\u{1b}', '█']), "{}", done.stdout);
}

#[test]
fn too_little_evidence_exits_4_and_says_how_much_there_must_be() {
    let (home, vector) = evidence("too-few-tasks-for-performance");
    let window = window(&vector);
    let mut arguments = vec!["rating", "score", "events.jsonl", "--json"];
    arguments.extend(window.iter().map(String::as_str));
    let done = home.run(&arguments);
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    let error = &done.document()["error"];
    assert_eq!(error["code"], "INSUFFICIENT_EVIDENCE");
    assert_eq!(error["details"], vector["expected"]["error"]["details"]);
    std::fs::write(
        home.path("few.json"),
        json!({"minimum_tasks_performance": 1, "minimum_tasks_capability": 1}).to_string(),
    )
    .unwrap();
    arguments.extend(["--config", "few.json"]);
    let done = home.run(&arguments);
    assert_ne!(done.code, 2, "{}{}", done.stdout, done.stderr);
    assert_ne!(
        done.document()["error"]["details"]["current_count"],
        json!(12)
    );
}

#[rstest]
#[case::no_json("{\"agent_id\": \n", "line 2")]
#[case::no_event(
    "[\n{\"type\": \"task_completed\"}\n]",
    "line 2: Missing required field: agent_id"
)]
#[case::words("hello", "line 1: expected events")]
#[case::misspelt("{\"events\": [], \"confg\": {}}", "unknown field `confg`")]
fn a_malformed_events_file_exits_2_with_the_line(#[case] text: &str, #[case] told: &str) {
    let home = Home::empty();
    std::fs::write(home.path("events.json"), text).unwrap();
    let done = home.run(&["rating", "score", "events.json"]);
    assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    assert!(done.stderr.contains(told), "{}", done.stderr);
}

#[rstest]
#[case("[]")]
#[case("")]
#[case("{\"events\": []}")]
fn a_file_without_events_is_too_little_evidence(#[case] text: &str) {
    let home = Home::empty();
    std::fs::write(home.path("events.json"), text).unwrap();
    let done = home.run(&["rating", "score", "events.json", "--json"]);
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    assert_eq!(done.document()["error"]["code"], "INSUFFICIENT_EVIDENCE");
}

#[test]
fn an_invalid_event_is_reported_with_its_line() {
    let (home, vector) = evidence("partial-coverage");
    let mut events = vector["input"]["events"].clone();
    events[4]["data"]["task_id"] = json!(null);
    std::fs::write(home.path("events.jsonl"), lines(&events)).unwrap();
    let done = home.run(&["rating", "score", "events.jsonl"]);
    assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stderr
            .contains("line 5: Missing required field: data.task_id"),
        "{}",
        done.stderr
    );
}

#[test]
fn events_of_several_agents_are_refused() {
    let (home, vector) = evidence("partial-coverage");
    let mut events = vector["input"]["events"].clone();
    events[1]["agent_id"] = json!("somebody-else");
    std::fs::write(home.path("events.jsonl"), lines(&events)).unwrap();
    let done = home.run(&["rating", "score", "events.jsonl"]);
    assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    assert!(done.stderr.contains("--agent"), "{}", done.stderr);
}

#[test]
fn weights_that_do_not_sum_to_one_are_rejected() {
    let (home, _) = evidence("partial-coverage");
    let weights = json!({"performance_weights": {"task_completion_rate": 0.25, "accuracy": 0.25, "speed": 0.15,
        "consistency": 0.2, "review_compliance": 0.2}});
    std::fs::write(home.path("aaaf.json"), weights.to_string()).unwrap();
    let done = home.run(&[
        "rating",
        "score",
        "events.jsonl",
        "--config",
        "aaaf.json",
        "--json",
    ]);
    assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    assert_eq!(done.document()["error"]["code"], "WEIGHT_SUM_INVALID");
}

#[test]
fn control_characters_in_agent_names_are_not_printed() {
    let (home, vector) = evidence("full-assessment");
    let mut events = vector["input"]["events"].clone();
    for event in events.as_array_mut().unwrap() {
        event["agent_id"] = json!("agent\u{1b}[2J");
    }
    std::fs::write(home.path("events.jsonl"), lines(&events)).unwrap();
    let done = home.run(&["rating", "score", "events.jsonl", "--dimension", "accuracy"]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stdout.contains("agent [2J") && !done.stdout.contains('\u{1b}'),
        "{}",
        done.stdout
    );
    std::fs::write(
        home.path("events.json"),
        "{\"events\": [], \"con\\u001b[2J\": 1}",
    )
    .unwrap();
    let done = home.run(&["rating", "score", "events.json"]);
    assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    assert!(!done.stderr.contains('\u{1b}'), "{}", done.stderr);
}
