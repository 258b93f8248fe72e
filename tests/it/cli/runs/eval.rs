//! `eval` and `run` without a server, with a scripted model: exit codes, files, JSON documents.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use touchstone::demo::pack::{AGENT, SUITE};

use crate::cli::home::{Done, Home, but, right_answers, right_but_late};

#[test]
fn a_pass_exits_0_and_a_pipe_gets_one_plain_line_a_task() {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let done = home.eval(&["--concurrency", "4"]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert!(!done.stdout.contains('\u{1b}') && !done.stderr.contains('\u{1b}'));
    let tasks = done
        .stdout
        .lines()
        .filter(|line| line.starts_with("passed "));
    assert_eq!(tasks.count(), 20, "{}", done.stdout);
    assert!(done.stdout.contains("signed ✓"), "{}", done.stdout);
    assert_eq!(done.stdout.lines().last(), Some("PASS"));
}

#[test]
fn a_narrow_terminal_gets_lines_instead_of_a_table() {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let run = home.run_of(&home.eval(&["--json"]).document());
    for (columns, table) in [("100", true), ("0", false), ("50", false)] {
        let mut command = home.touchstone();
        command
            .env("CLICOLOR_FORCE", "1")
            .env("COLUMNS", columns)
            .args(["run", "show", &run]);
        let shown = Done::of(&mut command).stdout;
        assert_eq!(shown.contains("────"), table, "{columns}: {shown}");
    }
}

#[test]
fn a_fail_exits_1_says_why_and_shows_what_broke() {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let before = home.run_of(&home.eval(&["--json"]).document());

    let mut rules: Vec<Value> = vec![
        but("charged-twice", json!({"text": "no JSON"})),
        but(
            "labels-blank",
            json!({"output": {"queue": "api", "priority": "low"}}),
        ),
        but("thanks", json!({"output": {"queue": "spam"}})),
        but("vat-digit", json!({"text": ""})),
        but("house-font", json!({"text": "no JSON"})),
        but("crushed-box", json!({"text": "no JSON"})),
    ];
    rules.extend(right_answers());
    home.model(&json!(rules));
    let done = home.eval(&[
        "--baseline",
        &before,
        "--junit",
        "eval.xml",
        "--markdown",
        "eval.md",
    ]);
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    assert!(done.stdout.contains("change  -0.300"), "{}", done.stdout);
    assert!(
        done.stdout.contains(
            "broke 6: charged-twice, labels-blank, thanks, vat-digit, house-font, crushed-box"
        ),
        "{}",
        done.stdout
    );
    assert!(
        done.stdout.contains("FAIL: the score 0.700"),
        "{}",
        done.stdout
    );
    let junit = std::fs::read_to_string(home.path("eval.xml")).unwrap();
    assert!(
        junit.contains(r#"tests="20" disabled="0" errors="0" failures="6""#),
        "{junit}"
    );
    let markdown = std::fs::read_to_string(home.path("eval.md")).unwrap();
    assert!(markdown.starts_with("## FAIL: "), "{markdown}");
}

#[test]
fn trials_are_run_and_judged_together() {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let done = home.eval(&["--trials", "3"]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    for part in [
        "trial 1",
        "trial 3",
        "3 trials each",
        "always   in k trials  1: 1.00  2: 1.00  3: 1.00",
        "PASS",
    ] {
        assert!(done.stdout.contains(part), "{part}: {}", done.stdout);
    }
    let document = home.eval(&["--json", "--trials", "2"]).document();
    assert_eq!(document["statistics"]["n_trials"], 40);
    assert_eq!(document["runIds"].as_array().unwrap().len(), 2);
    let run = document["runIds"][1].as_str().unwrap();
    let shown = home.run(&["--json", "run", "statistics", run]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert_eq!(shown.document(), document["statistics"]);
}

#[test]
fn unjudged_tasks_exit_4_and_a_retry_judges_only_those() {
    let home = Home::with_pack();
    home.model(&json!(right_but_late("thanks", 10_000)));
    home.timeout(1.5);
    let done = home.eval(&["--json"]);
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    let report = done.document();
    assert_eq!(report["verdict"], "inconclusive");
    let run = home.run_of(&report);

    home.timeout(60.0);
    let retried = home.run(&["--json", "run", "retry", &run]);
    assert_eq!(retried.code, 0, "{}{}", retried.stdout, retried.stderr);
    let report = retried.document();
    assert_eq!(report["retryOf"], json!(run));
    let tasks = report["tasks"].as_array().unwrap();
    let fresh: Vec<&Value> = tasks
        .iter()
        .filter(|task| task.get("reusedFrom").is_none())
        .collect();
    assert_eq!(fresh.len(), 1, "{report}");
    assert_eq!(fresh[0]["taskId"], "thanks");

    let again = home.run(&["--json", "run", "retry", &home.run_of(&report)]);
    let error = &again.document()["error"];
    assert_eq!(
        (
            again.code,
            error["code"].as_str(),
            error["details"]["reason"].as_str()
        ),
        (2, Some("conflict"), Some("judged"))
    );
    assert!(
        error["remedy"].as_str().unwrap().contains("run show"),
        "{error}"
    );

    // A script with other answers counts as another model under the same name.
    home.model(&json!(right_answers()));
    let refused = home.run(&["--json", "run", "retry", &run]);
    let error = &refused.document()["error"];
    assert_eq!(
        (refused.code, error["details"]["reason"].as_str()),
        (2, Some("model_changed"))
    );

    // A retry must use the model of the run, so a different model is refused by name.
    let other = std::fs::read_to_string(home.path("touchstone.toml")).unwrap();
    std::fs::write(
        home.path("touchstone.toml"),
        format!("{other}model = \"other-1\"\n"),
    )
    .unwrap();
    let refused = home.run(&["run", "retry", &run]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("`scripted`")
            && refused.stderr.contains("`other-1`")
            && refused.stderr.contains("  try: use the run's --model-url"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_cancelled_run_is_retried_as_soon_as_it_has_ended() {
    let home = Home::with_pack();
    // The run must not end before it is cancelled, and its retry must be short.
    home.model(&json!(right_but_late("thanks", 20_000)));
    let (mut child, _stderr, run) = home.start_eval();

    let early = home.run(&["run", "retry", &run]);
    assert_eq!(early.code, 2, "{}", early.stderr);
    assert!(
        early.stderr.contains("has not ended") && early.stderr.contains("run cancel"),
        "{}",
        early.stderr
    );

    assert_eq!(home.run(&["run", "cancel", &run]).code, 0);
    // Whether or not the other process has acted on the request by now, the retry waits for it.
    let retried = home.run(&["--json", "run", "retry", &run]);
    assert_eq!(retried.code, 0, "{}{}", retried.stdout, retried.stderr);
    assert_eq!(retried.document()["retryOf"], json!(run));
    child.wait().unwrap();
}

#[test]
fn excessive_concurrency_is_reported_with_the_limit_in_force() {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let config = std::fs::read_to_string(home.path("touchstone.toml")).unwrap();
    let limited = |limits: &str, model: &str| {
        std::fs::write(
            home.path("touchstone.toml"),
            format!("{limits}\n{config}{model}\n"),
        )
        .unwrap();
        home.eval(&[
            "--concurrency",
            "300",
            "--markdown",
            "eval.md",
            "--junit",
            "eval.xml",
        ])
    };
    for (limits, model, in_force) in [
        ("limits.max_concurrency = 7", "", 7),
        ("limits.max_concurrency_per_tenant = 5", "", 5),
        ("", "max_concurrency = 3", 3),
    ] {
        let done = limited(limits, model);
        let said = format!("300 tasks in flight were requested, but {in_force} are allowed");
        assert!(
            done.stderr.contains(&format!("note: {said}")),
            "{}",
            done.stderr
        );
        assert!(
            done.stdout.contains(&format!("note    {said}")),
            "{}",
            done.stdout
        );
        for file in ["eval.md", "eval.xml"] {
            let text = std::fs::read_to_string(home.path(file)).unwrap();
            assert!(text.contains(&said), "{text}");
        }
    }
    // No omission here is worth a note.
    let done = home.eval(&["--concurrency", "3", "--mode", "golden"]);
    assert!(
        !done.stderr.contains("note") && !done.stdout.contains("note"),
        "{}",
        done.stdout
    );
}

#[test]
fn a_run_can_be_looked_at_afterwards() {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let report = home.eval(&["--json", "--ignore", "/priority"]).document();
    let run = home.run_of(&report);
    assert_eq!(report["ignore"], json!(["/priority"]));

    let shown = home.run(&["run", "show", &run]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(
        shown.stdout.contains("ignore  /priority"),
        "{}",
        shown.stdout
    );

    let events = home.run(&["--json", "run", "events", &run]);
    assert_eq!(events.code, 0, "{}", events.stderr);
    let events: Vec<Value> = events
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let sequences: Vec<u64> = events
        .iter()
        .map(|event| event["sequence"].as_u64().unwrap())
        .collect();
    assert_eq!(sequences, (1..=events.len() as u64).collect::<Vec<_>>());
    assert_eq!(events.last().unwrap()["type"], "run.completed");
    let followed = home.run(&["--json", "run", "events", &run, "--follow", "--after", "3"]);
    assert_eq!(followed.stdout.lines().count(), events.len() - 3);

    let cancelled = home.run(&["--json", "run", "cancel", &run]);
    assert_eq!(
        (cancelled.code, cancelled.document()["status"].as_str()),
        (0, Some("completed"))
    );
}

#[test]
fn unknown_suites_runs_and_folders_exit_2_with_an_error_code() {
    let home = Home::with_pack();
    for (arguments, code) in [
        (
            &[
                "eval",
                "vendor.nobody.evals.none@1.0.0",
                "--agent",
                "vendor.nobody.none.default",
            ][..],
            "validation_error",
        ),
        (&["run", "show", "run_nobody"][..], "not_found"),
    ] {
        let done = home.run(&[&["--json"], arguments].concat());
        assert_eq!(done.code, 2, "{}", done.stdout);
        let error = done.document()["error"].clone();
        assert_eq!(error["code"], code);
        assert_eq!(error["docs"], format!("docs/errors/{code}.md"));
    }
    let done = home.eval(&["--junit", "no/such/folder/eval.xml"]);
    assert_eq!(done.code, 2, "{}", done.stderr);
}

#[test]
fn an_interrupt_cancels_the_run() {
    let home = Home::with_pack();
    home.model(&json!([{"turns": [{"output": {}, "delayMs": 600_000}]}]));
    let mut command = std::process::Command::new(home.touchstone().get_program());
    let mut child = command
        .current_dir(home.path(""))
        .args(["eval", SUITE, "--agent", AGENT])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    let run = line.trim_end().strip_prefix("run ").unwrap().to_owned();
    let pid = child.id().to_string();
    let kill = std::process::Command::new("kill")
        .args(["-INT", &pid])
        .status();
    assert!(kill.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    let shown = home.run(&["--json", "run", "show", &run]);
    assert_eq!(
        (shown.code, shown.document()["status"].as_str()),
        (4, Some("cancelled"))
    );
}

#[test]
fn content_stays_out_of_files_and_scorecards() {
    let home = Home::with_pack();
    let mut rules = vec![but("thanks", json!({"text": "CANARY-ANSWER"}))];
    rules.extend(right_answers());
    home.model(&json!(rules));
    let done = home.eval(&["--junit", "eval.xml", "--markdown", "eval.md"]);
    let files =
        ["eval.xml", "eval.md"].map(|name| std::fs::read_to_string(home.path(name)).unwrap());
    for text in [done.stdout, done.stderr].iter().chain(&files) {
        assert!(
            !text.contains("CANARY") && !text.contains("label editor is lovely"),
            "{text}"
        );
    }
}

#[test]
fn on_github_the_step_gets_a_summary_and_annotations() {
    let home = Home::with_pack();
    let mut rules = vec![
        but("thanks", json!({"output": {"queue": "spam"}})),
        but("charged-twice", json!({"fail": "unavailable"})),
    ];
    rules.extend(right_answers());
    home.model(&json!(rules));
    let summary = home.path("summary.md");
    std::fs::write(&summary, "before\n").unwrap();
    let eval = |more: &[&str]| {
        let mut command = home.touchstone();
        command
            .env("GITHUB_STEP_SUMMARY", &summary)
            .args(["eval", SUITE, "--agent", AGENT, "--json"])
            .args(more);
        Done::of(&mut command)
    };
    let done = eval(&["--no-github"]);
    assert_eq!(done.code, 4, "{}", done.stderr);
    assert_eq!(std::fs::read_to_string(&summary).unwrap(), "before\n");
    assert!(!done.stderr.contains("::"), "{}", done.stderr);

    let done = eval(&[]);
    assert_eq!(done.code, 4, "{}", done.stderr);
    let text = std::fs::read_to_string(&summary).unwrap();
    assert!(text.starts_with("before\n## INCONCLUSIVE: "), "{text}");
    let commands: Vec<&str> = done
        .stderr
        .lines()
        .filter(|line| line.starts_with("::"))
        .collect();
    assert!(
        commands[0].starts_with("::warning title=INCONCLUSIVE%3A "),
        "{commands:?}"
    );
    assert!(
        commands[1].starts_with("::error title=thanks::"),
        "{commands:?}"
    );
    assert!(
        commands[2].starts_with("::warning title=charged-twice::"),
        "{commands:?}"
    );
    assert_eq!(commands.len(), 3);
    // Showing a run is not a workflow step.
    let run = home.run_of(&done.document());
    let mut command = home.touchstone();
    command
        .env("GITHUB_STEP_SUMMARY", &summary)
        .args(["run", "show", &run]);
    assert_eq!(Done::of(&mut command).code, 4);
    assert_eq!(std::fs::read_to_string(&summary).unwrap(), text);

    let done = home.eval(&["--github"]);
    assert_eq!(done.code, 2, "{}", done.stderr);
}

impl Home {
    pub fn run_of(&self, report: &Value) -> String {
        report["runId"].as_str().unwrap().to_owned()
    }
}
