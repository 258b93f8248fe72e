//! Ownership of runs and assessments: commands on a shared data folder execute only their own.

use serde_json::{Value, json};
use touchstone::app::App;
use touchstone::config::Config;
use touchstone::demo::pack::{AGENT, SUITE};
use touchstone_agents::model::OwnModels;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::client::embedded::Embedded;

use crate::cli::home::{Home, right_answers, right_but_late};
use crate::cli::ratings::rating::{assert_good, tasks, with_evidence, write};

/// Queues runs as a host would that stops before executing any.
fn queued(home: &Home, count: usize) -> Vec<String> {
    let config = Config {
        data: home.data(),
        ..Config::load(Some(&home.config())).unwrap()
    };
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let app = App::start(config).await.unwrap();
        let client = Client::new(Embedded::new(app.router(), &app.local_caller_key()).unwrap());
        let body = json!({"mode": "eval", "evalSuiteRef": SUITE, "agentId": AGENT});
        let mut runs = Vec::new();
        for _ in 0..count {
            let created: Value = client.post("/v1/runs", &body).await.unwrap();
            runs.push(created["runId"].as_str().unwrap().to_owned());
        }
        runs
    })
}

fn status(home: &Home, run: &str) -> String {
    let shown = home.run(&["--json", "run", "show", run]).document();
    shown["status"].as_str().unwrap().to_owned()
}

#[test]
fn a_command_leaves_the_runs_of_others_alone() {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let others = queued(&home, 3);
    for command in [
        vec!["--record", "tape.jsonl"],
        vec!["--replay", "tape.jsonl"],
        vec!["--trials", "2"],
    ] {
        let done = home.eval(&command);
        assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    }
    for run in &others {
        assert_eq!(status(&home, run), "pending", "{run}");
    }
    // The cassette contains no exchange of those runs either: one exchange per task of one run.
    let tape = std::fs::read_to_string(home.path("tape.jsonl")).unwrap();
    let exchanges = tape.lines().filter(|line| line.contains("\"exchange\""));
    assert_eq!(exchanges.count(), right_answers().len());
}

#[test]
fn a_run_of_a_command_that_was_killed_is_carried_on_by_a_retry() {
    let home = Home::with_pack();
    let config = std::fs::read_to_string(home.config()).unwrap();
    std::fs::write(home.config(), format!("worker.lease_s = 3\n{config}")).unwrap();
    let pinned = json!(right_but_late("thanks", 10_000));
    home.model(&pinned);
    let (mut child, _stderr, run) = home.start_eval();
    child.kill().unwrap();
    child.wait().unwrap();

    home.model(&json!(right_answers()));
    let other = home.eval(&[]);
    assert_eq!(other.code, 0, "{}{}", other.stdout, other.stderr);
    assert_ne!(status(&home, &run), "completed", "another command");
    std::thread::sleep(std::time::Duration::from_millis(3100));

    let changed = home.run(&["run", "retry", &run]);
    assert_eq!(changed.code, 2, "{}{}", changed.stdout, changed.stderr);
    home.model(&pinned);
    let elsewhere = [
        "--model-url",
        "http://127.0.0.1:9/v1",
        "--model",
        "scripted",
    ];
    let refused = home.run(&[&["run", "retry", &run][..], &elsewhere[..]].concat());
    assert_eq!(refused.code, 2, "{}{}", refused.stdout, refused.stderr);

    let carried_on = home.run(&["--json", "run", "retry", &run]);
    assert_eq!(carried_on.code, 0, "{}", carried_on.stderr);
    assert_eq!(carried_on.document()["runId"], json!(run));
    assert_eq!(status(&home, &run), "completed");
}

#[test]
fn a_retry_at_another_address_is_refused_with_both() {
    let home = Home::with_pack();
    let at = |port: &'static str| ["--model-url", port, "--model", "small-1"];
    let done = home.eval(&[&["--json"][..], &at("http://127.0.0.1:9/v1")].concat());
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    let report = done.document();
    assert_eq!(
        report["evaluated"]["endpoint"]["url"],
        "http://127.0.0.1:9/v1"
    );
    let run = home.run_of(&report);
    let moved = at("http://127.0.0.1:10/v1");
    let refused = home.run(&[&["run", "retry", &run][..], &moved[..]].concat());
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    for url in ["http://127.0.0.1:9/v1", "http://127.0.0.1:10/v1"] {
        assert!(refused.stderr.contains(url), "{}", refused.stderr);
    }
    let retried = home.run(&[&["run", "retry", &run][..], &at("http://127.0.0.1:9/v1")].concat());
    assert_eq!(retried.code, 4, "{}{}", retried.stdout, retried.stderr);
}

const API: &str = "/api/v1";

/// Runs an action as a process that stops before working on anything.
fn gone<T>(home: &Home, as_command: bool, done: impl AsyncFnOnce(Client) -> T) -> T {
    let config = Config {
        data: home.data(),
        ..Config::default()
    };
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let app = match as_command {
            true => App::start_command(config, OwnModels::default()).await,
            false => App::start(config).await,
        };
        let app = app.unwrap();
        done(Client::new(
            Embedded::new(app.router(), &app.local_caller_key()).unwrap(),
        ))
        .await
    })
}

/// Requests an assessment of an agent; returns its id.
fn ordered(home: &Home, as_command: bool, agent: &str) -> String {
    gone(home, as_command, async |client: Client| {
        let order = json!({"agent_id": agent, "type": "passive_only"});
        let ordered: Value = client
            .post(&format!("{API}/assessments"), &order)
            .await
            .unwrap();
        ordered["id"].as_str().unwrap().to_owned()
    })
}

fn stage(home: &Home, assessment: &str) -> Value {
    gone(home, false, async |client: Client| {
        let path = format!("{API}/assessments/{assessment}");
        let found: Value = client.get(&path).await.unwrap();
        found["status"].clone()
    })
}

fn id_of(home: &Home, agent: &str) -> String {
    let done = home.run(&[
        "rating",
        "assess",
        agent,
        "--dimension",
        "accuracy",
        "--json",
    ]);
    assert_good(&done);
    done.document()["agent_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_command_leaves_the_assessments_of_others_alone() {
    let home = with_evidence(36);
    assert_good(&home.run(&[
        "rating", "enroll", "other", "--domain", "code", "--tool", "grep",
    ]));
    write(&home, "other.jsonl", &tasks("other", 36));
    assert_good(&home.run(&["rating", "collect", "--source", "other.jsonl"]));
    let triage = id_of(&home, "triage");
    let waiting = ordered(&home, false, &triage);
    assert_good(&home.run(&["rating", "assess", "other"]));
    assert_eq!(stage(&home, &waiting), "pending");
    let refused = home.run(&["rating", "assess", "triage", "--json"]);
    assert_eq!(
        refused.document()["error"]["code"],
        "ASSESSMENT_IN_PROGRESS"
    );
    assert_eq!(stage(&home, &waiting), "pending");
}

/// Otherwise the assessment would never run, and its agent could not be assessed again.
#[test]
fn an_assessment_of_a_command_that_was_killed_is_carried_on_by_the_next_one() {
    let home = with_evidence(36);
    let triage = id_of(&home, "triage");
    let left = ordered(&home, true, &triage);
    assert_good(&home.run(&["rating", "assess", "triage"]));
    assert_eq!(stage(&home, &left), "completed");
}
