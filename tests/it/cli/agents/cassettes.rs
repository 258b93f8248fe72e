//! `eval --record` and `--replay`: the same result without the model, and errors that name missing
//! recordings.

use serde_json::{Value, json};
use touchstone_agents::model::cassette::chain::Chain;

use crate::cli::home::{Home, but, right_answers};

/// The part of a report that a replay must repeat: everything except ids and times.
fn verdict(report: &Value) -> Value {
    fn without(value: &Value) -> Value {
        match value {
            Value::Object(members) => members
                .iter()
                .filter(|(name, _)| {
                    let name = name.to_ascii_lowercase();
                    // Only the source differs: the report names the cassette instead of the model.
                    ![
                        "runid",
                        "latency",
                        "duration",
                        "endpoint",
                        "replayedfrom",
                        "cassettesignedby",
                        "notes",
                        "at",
                    ]
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
fn a_replay_gives_the_same_results_without_the_model() {
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

    // From now on, the model has no answers.
    home.model(&json!([]));
    let replayed = home.eval(&["--replay", "tape.jsonl", "--concurrency", "2", "--json"]);
    assert_eq!(replayed.code, recorded.code, "{}", replayed.stderr);
    assert_eq!(verdict(&replayed.document()), verdict(&recorded.document()));
    let digest = replayed.document()["replayedFrom"].clone();
    assert!(digest.as_str().unwrap().starts_with("sha256-"), "{digest}");
    assert!(replayed.document()["cassetteSignedBy"].is_string());
    assert_eq!(recorded.document().get("replayedFrom"), None);
    let run = home.run_of(&replayed.document());
    let shown = home.run(&["run", "show", &run]).stdout;
    let note = format!(
        "replayed from cassette {}, signed with key",
        digest.as_str().unwrap()
    );
    assert!(shown.contains(&note), "{shown}");
    let attested = home.run(&["attest", &run, "--out", "run.intoto.jsonl"]);
    assert_eq!(attested.code, 0, "{}", attested.stderr);
    let verified = home.run(&["attest", "--public-key", "--out", "host.pub"]);
    assert_eq!(verified.code, 0, "{}", verified.stderr);
    let check = home.run(&["verify", "run.intoto.jsonl", "--key", "host.pub"]);
    assert_eq!(check.code, 1, "{}", check.stdout);
    assert!(
        check.stdout.contains("no-replay") || check.stderr.contains("no-replay"),
        "{}{}",
        check.stdout,
        check.stderr
    );

    let again = home.eval(&["--record", "tape.jsonl"]);
    assert_eq!(again.code, 2);
    assert!(
        again.stderr.contains("tape.jsonl could not be opened"),
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
    // An unsigned cassette, such as one of a host without a key.
    let tape = std::fs::read_to_string(home.path("tape.jsonl")).unwrap();
    let mut chain = Chain::default();
    let kept = tape.lines().filter(|line| {
        !line.contains("\"task\":\"charged-twice\"") && !line.contains("\"kind\":\"end\"")
    });
    let mut links = Chain::default();
    let mut shorter: String = kept
        .map(|line| {
            let rest = line.split_once("\",").unwrap().1;
            format!("{}\n", links.link(&format!("{{{rest}")))
        })
        .collect();
    shorter.push_str(&format!("{}\n", links.link(r#"{"kind":"end"}"#)));
    assert!(tape.lines().all(|line| chain.unlink(line).is_ok()));
    std::fs::write(home.path("short.jsonl"), shorter).unwrap();
    let done = home.eval(&["--replay", "short.jsonl"]);
    assert_eq!(done.code, 3, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stderr
            .contains("no exchange for the model calls of these tasks: charged-twice"),
        "{}",
        done.stderr
    );
}

#[test]
fn an_edited_cassette_is_refused_before_a_run_is_created() {
    let home = Home::with_pack();
    let mut rules = vec![but("thanks", json!({"output": {"queue": "spam"}}))];
    rules.extend(right_answers());
    home.model(&json!(rules));
    assert_ne!(home.eval(&["--record", "tape.jsonl"]).code, 2);
    let tape = std::fs::read_to_string(home.path("tape.jsonl")).unwrap();
    // Edits responses only: a request has a separate digest.
    let edit = |line: &str| match line.split_once("\"outcome\":") {
        Some((asked, answered)) => {
            format!("{asked}\"outcome\":{}\n", answered.replace("spam", "other"))
        }
        None => format!("{line}\n"),
    };
    let edited: String = tape.lines().map(edit).collect();
    assert_ne!(edited, tape);
    std::fs::write(home.path("edited.jsonl"), &edited).unwrap();
    let refused = home.eval(&["--replay", "edited.jsonl", "--json"]);
    assert_eq!(refused.code, 2, "{}{}", refused.stdout, refused.stderr);
    let error = &refused.document()["error"];
    assert_eq!(error["code"], "cassette_unusable");
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("digest does not match"),
        "{error}"
    );

    // A recomputed chain does not help either: the last line is signed.
    let mut chain = Chain::default();
    let linked: String = edited
        .lines()
        .map(|line| {
            let rest = line.split_once("\",").unwrap().1;
            format!("{}\n", chain.link(&format!("{{{rest}")))
        })
        .collect();
    std::fs::write(home.path("edited.jsonl"), linked).unwrap();
    let refused = home.eval(&["--replay", "edited.jsonl"]);
    assert_eq!(refused.code, 2, "{}{}", refused.stdout, refused.stderr);
    assert!(
        refused.stderr.contains("signature does not match"),
        "{}",
        refused.stderr
    );
}

#[test]
fn cassettes_work_only_with_the_embedded_host() {
    let home = Home::with_pack();
    for flag in ["--record", "--replay"] {
        let done = home.eval(&["--server", "http://127.0.0.1:9", flag, "tape.jsonl"]);
        assert_eq!(done.code, 2, "{}", done.stderr);
        assert!(
            done.stderr.contains("work only with the embedded host"),
            "{}",
            done.stderr
        );
    }
    assert_eq!(home.eval(&["--record", "a", "--replay", "b"]).code, 2);
}
