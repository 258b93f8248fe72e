//! Assertions that an embedding model or a command of the operator decides.

use serde_json::{Value, json};
use wiremock::matchers::{method, path};
use wiremock::{Mock, Request, ResponseTemplate};

use super::support::{ModelServer, eval, home_with, task};

/// An embedding model: texts about a queue point in one direction, all others in another.
fn embedder() -> ModelServer {
    let answer = |request: &Request| {
        let body: Value = request.body_json().unwrap();
        let texts = body["input"].as_array().unwrap();
        let vector = |text: &Value| match text.as_str().unwrap().contains("queue") {
            true => json!([1.0, 0.0]),
            false => json!([0.6, 0.8]),
        };
        let data: Vec<Value> = texts
            .iter()
            .enumerate()
            .map(|(index, text)| json!({"index": index, "embedding": vector(text)}))
            .collect();
        ResponseTemplate::new(200).set_body_json(json!({
            "data": data, "usage": {"prompt_tokens": 100, "total_tokens": 100},
        }))
    };
    let posted = Mock::given(method("POST")).and(path("/v1/embeddings"));
    ModelServer::new(posted.respond_with(answer))
}

fn options(embedder: &ModelServer) -> [String; 4] {
    let url = embedder.url();
    ["--embeddings-url", &url, "--embeddings-model", "embed-1"].map(str::to_owned)
}

#[test]
fn an_embedding_model_decides_similarity_and_its_cost_counts() {
    let embedder = embedder();
    let home = home_with(&json!([
        {"type": "similar", "value": "the queue of billing", "metric": "meaning"},
        {"type": "similar", "anyOf": ["a greeting", "another one"], "not": true},
        {"type": "similar", "value": "a greeting", "min": 0.5},
    ]));
    let options = options(&embedder);
    let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
    options.extend(["--embeddings-price", "1000"]);
    let report = eval(&home, &options).document();
    let judged = task(&report, "charged-twice");
    assert_eq!(judged["assertions"], json!([true, true, true]), "{report}");
    assert_eq!(report["metrics"][0]["mean"], json!(1.0));
    assert_eq!(report["deciders"]["embeddings"]["model"], "embed-1");
    // Three requests of 100 tokens at 1000 USD per million.
    assert_eq!(report["judgeCostUsd"], Value::Null, "there is no judge");
    assert!(report["summary"]["totalCostUsd"].as_f64().unwrap() > 0.3);
    assert_eq!(embedder.calls(), 3);

    let run = home.run_of(&report);
    let shown = home.run(&["run", "show", &run, "--task", "charged-twice"]);
    assert!(
        shown.stdout.contains("similarity at least 0.75"),
        "{}",
        shown.stdout
    );
    assert_eq!(embedder.calls(), 3, "showing a task asks nobody");
}

#[test]
fn without_an_embedding_model_the_run_is_refused_with_a_remedy() {
    let home = home_with(&json!([{"type": "similar", "value": "x"}]));
    let refused = eval(&home, &[]);
    assert_eq!(refused.code, 2, "{}{}", refused.stdout, refused.stderr);
    let said = format!("{}{}", refused.stdout, refused.stderr);
    assert!(
        said.contains("--embeddings-url") && said.contains("charged-twice"),
        "{said}"
    );
}

#[test]
fn an_embedding_model_that_fails_leaves_the_task_unjudged() {
    let answer = ResponseTemplate::new(200).set_body_json(json!({"data": []}));
    let server = ModelServer::new(Mock::given(method("POST")).respond_with(answer));
    let home = home_with(&json!([{"type": "similar", "value": "x"}]));
    let done = eval(&home, &options(&server).each_ref().map(String::as_str));
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    assert_eq!(
        task(&done.document(), "charged-twice")["reason"],
        "embeddings_malformed"
    );
}

/// A command whose check `names-queue` looks for the queue in the answer; others are unknown to it.
const CHECKS: &str = r#"python3 -u -c '
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["name"] == "names-queue":
        answer = {"pass": asked["output"]["queue"] == asked["config"], "score": 0.5, "reason": "canary-" + asked["output"]["queue"]}
    else:
        answer = {"error": "no such check"}
    print(json.dumps({"id": asked["id"], **answer}))
'"#;

#[test]
fn a_command_decides_and_its_reason_is_content() {
    let home = home_with(&json!([
        {"type": "command", "name": "names-queue", "config": "billing", "graded": true},
        {"type": "command", "name": "names-queue", "config": "trust", "not": true, "weight": 0},
    ]));
    let done = eval(&home, &["--assert-command", CHECKS]);
    let report = done.document();
    assert_eq!(
        task(&report, "charged-twice")["assertions"],
        json!([true, true]),
        "{report}"
    );
    assert_eq!(report["summary"]["tasks"][0]["score"], json!(0.5));
    assert!(
        report["deciders"]["command"]
            .as_str()
            .unwrap()
            .starts_with("sha256-")
    );
    assert!(!done.stdout.contains("canary"), "{}", done.stdout);

    let run = home.run_of(&report);
    let shown = home.run(&["--json", "run", "show", &run, "--task", "charged-twice"]);
    let found = &shown.document()["assertions"][0]["found"];
    assert_eq!(found, "passed, score 0.5: canary-billing");
    // Scores are computed again from what is recorded.
    let replay = home.run(&["--json", "run", "fork", &run, "--mode", "replay"]);
    assert_eq!(
        replay.document()["summary"]["tasks"][0]["score"],
        json!(0.5),
        "{}{}",
        replay.stdout,
        replay.stderr
    );
}

#[test]
fn a_command_that_is_not_allowed_is_not_run() {
    let home = home_with(&json!([{"type": "command", "name": "touch marker"}]));
    let refused = eval(&home, &[]);
    assert_eq!(refused.code, 2, "{}{}", refused.stdout, refused.stderr);
    let said = format!("{}{}", refused.stdout, refused.stderr);
    assert!(
        said.contains("--assert-command") && said.contains("charged-twice"),
        "{said}"
    );
}

#[test]
fn a_command_without_a_decision_leaves_the_task_unjudged_and_a_retry_needs_the_same_one() {
    let home = home_with(&json!([{"type": "command", "name": "unknown"}]));
    let done = eval(&home, &["--assert-command", CHECKS]);
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    let report = done.document();
    assert_eq!(task(&report, "charged-twice")["reason"], "assertion_failed");
    let run = home.run_of(&report);
    let other = home.run(&["run", "retry", &run, "--assert-command", "cat"]);
    assert_eq!(other.code, 2, "{}{}", other.stdout, other.stderr);
    let said = format!("{}{}", other.stdout, other.stderr);
    assert!(said.contains("--assert-command"), "{said}");
    let same = home.run(&["run", "retry", &run, "--assert-command", CHECKS]);
    assert_eq!(same.code, 4, "{}{}", same.stdout, same.stderr);
}

#[test]
fn the_operators_command_and_its_limits_are_checked() {
    let home = home_with(&json!([{"type": "command", "name": "names-queue"}]));
    for (options, part) in [
        (
            ["--assert-command", "cat", "--assert-timeout", "0"],
            "--assert-timeout must be",
        ),
        (
            ["--assert-command", " ", "--assert-timeout", "5"],
            "--assert-command must not be empty",
        ),
    ] {
        let refused = eval(&home, &options);
        assert_eq!(refused.code, 2);
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert!(said.contains(part), "{said}");
    }
    let hangs = ["--assert-command", "sleep 60", "--assert-timeout", "0.5"];
    let done = eval(&home, &hangs);
    assert_eq!(
        task(&done.document(), "charged-twice")["reason"],
        "assertion_timeout"
    );
}
