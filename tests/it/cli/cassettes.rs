//! `eval --record` and `--replay`: the same result without the model, and names for what is missing.

use serde_json::{Value, json};

use super::home::{Home, but, right_answers};

/// What a replay must repeat: the report without ids and times.
fn verdict(report: &Value) -> Value {
    fn without(value: &Value) -> Value {
        match value {
            Value::Object(members) => members
                .iter()
                .filter(|(name, _)| {
                    let name = name.to_ascii_lowercase();
                    !["runid", "latency", "duration", "at"]
                        .iter()
                        .any(|own| name.contains(own) && (*own != "at" || name.ends_with("at")))
                })
                .map(|(name, member)| (name.clone(), without(member)))
                .collect(),
            Value::Array(items) => items.iter().map(without).collect(),
            other => other.clone(),
        }
    }
    without(report)
}

#[test]
fn a_replay_comes_to_the_same_without_the_model() {
    let home = Home::with_pack();
    let mut rules: Vec<Value> = vec![
        but("charged-twice", json!({"text": "no JSON"})),
        but(
            "thanks",
            json!({"output": {"queue": "spam"}, "usage": {"inputTokens": 7, "outputTokens": 3}}),
        ),
    ];
    rules.extend(right_answers());
    home.model(&json!(rules));
    let recorded = home.eval(&["--record", "tape.jsonl", "--concurrency", "4", "--json"]);
    assert!(
        recorded.stderr.contains("recorded in tape.jsonl"),
        "{}",
        recorded.stderr
    );

    // From now on the model would answer nothing.
    home.model(&json!([]));
    let replayed = home.eval(&["--replay", "tape.jsonl", "--concurrency", "2", "--json"]);
    assert_eq!(replayed.code, recorded.code, "{}", replayed.stderr);
    assert_eq!(verdict(&replayed.document()), verdict(&recorded.document()));

    let again = home.eval(&["--record", "tape.jsonl"]);
    assert_eq!(again.code, 2);
    assert!(
        again.stderr.contains("tape.jsonl cannot be opened"),
        "{}",
        again.stderr
    );
}

#[test]
fn trials_are_not_recorded_together() {
    let home = Home::with_pack();
    for option in ["--record", "--replay"] {
        let refused = home.eval(&["--trials", "2", option, "tape.jsonl"]);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(
            refused.stderr.contains("cannot be used with"),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn a_missing_exchange_names_its_task() {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    assert_eq!(home.eval(&["--record", "tape.jsonl"]).code, 0);
    let tape = std::fs::read_to_string(home.path("tape.jsonl")).unwrap();
    let shorter: String = tape
        .lines()
        .filter(|line| !line.contains("\"task\":\"charged-twice\""))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_ne!(shorter, tape);
    std::fs::write(home.path("short.jsonl"), shorter).unwrap();
    let done = home.eval(&["--replay", "short.jsonl"]);
    assert_eq!(done.code, 3, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stderr
            .contains("no exchange for what these tasks asked: charged-twice"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_cassette_is_for_commands_that_ask_models_themselves() {
    let home = Home::with_pack();
    for flag in ["--record", "--replay"] {
        let done = home.eval(&["--server", "http://127.0.0.1:9", flag, "tape.jsonl"]);
        assert_eq!(done.code, 2, "{}", done.stderr);
        assert!(
            done.stderr.contains("only work embedded"),
            "{}",
            done.stderr
        );
    }
    assert_eq!(home.eval(&["--record", "a", "--replay", "b"]).code, 2);
}
