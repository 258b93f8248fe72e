//! Scoring documents: assertions beside a suite, in packs, folders and imports.

use serde_json::{Value, json};
use touchstone::demo::pack::Release;

use crate::cli::home::{Done, Home, but, right_answers};

const SCORING: &str = "evals/support-triage.scoring.json";

fn scoring(suite_id: &str, tasks: &Value) -> Value {
    json!({"scoringVersion": 1, "suiteId": suite_id, "tasks": tasks})
}

fn demo_scoring(tasks: &Value) -> Value {
    scoring("vendor.touchstone-demo.evals.support-triage", tasks)
}

/// The demo's pack with this scoring document, signed and installed.
fn home_with(scoring: &Value) -> Home {
    let mut files = Release::Present.files();
    files.insert(SCORING.to_owned(), scoring.to_string().into_bytes());
    Home::with_signed(&files)
}

fn task_of<'a>(report: &'a Value, id: &str) -> &'a Value {
    let tasks = report["summary"]["tasks"].as_array().unwrap();
    tasks.iter().find(|task| task["taskId"] == id).unwrap()
}

#[test]
fn a_signed_pack_scores_its_tasks_by_the_assertions_of_its_scoring_document() {
    let home = home_with(&demo_scoring(&json!({
        // Another accepted answer than the suite's.
        "charged-twice": {"assertions": [{"type": "any", "assertions": [
            {"type": "expected"},
            {"type": "json-pointer", "pointer": "/queue", "operator": "equals", "value": "trust"},
        ]}]},
        "labels-blank": {"threshold": 0.5, "assertions": [
            {"type": "expected", "weight": 3},
            {"type": "json-path", "path": "$.queue", "operator": "matches", "value": "^x", "metric": "begins with x"},
        ]},
        "import-addresses": {"assertions": [
            {"type": "expected"}, {"type": "tool-called", "name": "crm:find"}, {"type": "tokens", "max": 100_000},
        ]},
    })));
    let mut rules = vec![but(
        "charged-twice",
        json!({"output": {"queue": "trust", "priority": "normal"}}),
    )];
    rules.extend(right_answers());
    home.model(&json!(rules));
    let report = home.eval(&["--json"]).document();
    assert_eq!(report["suite"]["signed"], json!(true));
    assert!(
        report["suite"]["scoringDigest"]
            .as_str()
            .unwrap()
            .starts_with("sha256-")
    );
    let scores = |id: &str| {
        let task = task_of(&report, id);
        (
            task["score"].as_f64().unwrap(),
            task["passed"].as_bool().unwrap(),
        )
    };
    assert_eq!(scores("charged-twice"), (1.0, true));
    assert_eq!(scores("labels-blank"), (0.75, true));
    assert_eq!(scores("import-addresses"), (2.0 / 3.0, false));
    assert_eq!(
        report["metrics"],
        json!([{"name": "begins with x", "mean": 0.0, "nTasks": 1}])
    );

    let reports = report["tasks"].as_array().unwrap();
    let of_task = reports
        .iter()
        .find(|task| task["taskId"] == "import-addresses");
    assert_eq!(of_task.unwrap()["assertions"], json!([true, false, true]));
    let card = home.run(&["run", "show", &home.run_of(&report)]);
    assert!(
        card.stdout.contains("2 of 3 assertions hold"),
        "{}",
        card.stdout
    );

    // The report has no content, the details of a task have every assertion.
    assert!(!report.to_string().contains("crm:find"));
    let run = home.run_of(&report);
    let shown = home.run(&["run", "show", &run, "--task", "import-addresses"]);
    for part in [
        "✓ expected: the expectation of the suite",
        "✗ tool-called: calls crm:find",
        "found no calls",
        "2 of 3 assertions hold",
    ] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
    let details = home.run(&["--json", "run", "show", &run, "--task", "charged-twice"]);
    let details = details.document();
    let nested = &details["assertions"][0]["assertions"];
    assert_eq!(
        (&nested[0]["holds"], &nested[1]["holds"]),
        (&json!(false), &json!(true))
    );
}

#[test]
fn runs_with_other_scoring_documents_are_compared_only_where_the_assertions_are_the_same() {
    let home = Home::with_folder();
    home.model(&json!([
        {"when": {"taskId": "double-charge"}, "turns": [{"output": {"label": "billing"}}]},
        {"when": {"taskId": "login-error"}, "turns": [{"output": {"label": "technical"}}]},
        {"turns": [{"output": {"label": "other"}}]},
    ]));
    let eval = |text: &str| -> Value {
        let document = scoring(
            "vendor.acme.evals.ticket-labels",
            &json!({
                "double-charge": {"assertions": [{"type": "contains", "value": text}]},
                "login-error": {"assertions": [{"type": "contains", "value": "technical"}]},
            }),
        );
        std::fs::write(
            home.path("my-agent/evals/label.scoring.json"),
            document.to_string(),
        )
        .unwrap();
        home.run(&["--json", "eval", "my-agent", "--lenient"])
            .document()
    };
    let (before, after) = (eval("billing"), eval("invoice"));
    assert_ne!(before["suite"]["version"], after["suite"]["version"]);
    assert_eq!(task_of(&before, "double-charge")["passed"], json!(true));
    assert_eq!(task_of(&after, "double-charge")["passed"], json!(false));
    let compared = home
        .run(&[
            "--json",
            "compare",
            &home.run_of(&before),
            &home.run_of(&after),
        ])
        .document();
    assert_eq!(
        compared["leftOut"],
        json!([{"taskId": "double-charge", "reason": "task_changed"}]),
        "{compared}"
    );
}

#[test]
fn a_run_without_a_scoring_document_records_none() {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let report = home.eval(&["--json"]).document();
    assert_eq!(report["suite"].get("scoringDigest"), None);
    assert_eq!(report.get("metrics"), None);
    let details = home.run(&[
        "--json",
        "run",
        "show",
        &home.run_of(&report),
        "--task",
        "charged-twice",
    ]);
    assert_eq!(details.document().get("assertions"), None);
}

const SUITE: &str = r#"{"suiteId": "local.test.evals.one", "version": "1.0.0", "modes": ["golden"], "tasks":
    [{"taskId": "greeting", "input": "x", "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "y"}}}]}"#;

fn lint(scoring: &str, more: &[&str]) -> Done {
    let home = Home::empty();
    std::fs::write(home.path("one.json"), SUITE).unwrap();
    std::fs::write(home.path("one.scoring.json"), scoring).unwrap();
    home.run(&[&["suite", "lint", "one.json"], more].concat())
}

#[test]
fn the_linter_names_line_and_column_of_a_faulty_assertion() {
    let scoring = "{\"scoringVersion\": 1, \"suiteId\": \"local.test.evals.one\",\n \"tasks\": {\n  \"greeting\": {\"assertions\": [\n   {\"type\": \"regex\", \"pattern\": \"(\"},\n   {\"type\": \"contians\", \"value\": \"x\"}]}}}";
    let done = lint(scoring, &[]);
    assert_eq!(done.code, 1, "{}", done.stdout);
    assert!(
        done.stderr
            .contains("one.scoring.json:5:13: /tasks/greeting/assertions/1/type"),
        "{}",
        done.stderr
    );
    assert!(
        done.stderr.contains("did you mean `contains`?"),
        "{}",
        done.stderr
    );
    let scoring = scoring
        .replace("contians", "contains")
        .replace("greeting", "greetings");
    let done = lint(&scoring.replace("\"(\"", "\"a\""), &["--json"]);
    let fault = done.document()["faults"][0].clone();
    assert_eq!(
        (fault["line"].clone(), fault["column"].clone()),
        (json!(3), json!(16))
    );
    assert!(
        fault["reason"]
            .as_str()
            .unwrap()
            .contains("did you mean `greeting`?")
    );
}

#[test]
fn a_scoring_document_is_imported_with_its_suite_and_belongs_to_its_version() {
    let home = Home::empty();
    std::fs::write(home.path("one.json"), SUITE).unwrap();
    let write = |value: &str| {
        let tasks = json!({"greeting": {"assertions": [{"type": "contains", "value": value}]}});
        let document = scoring("local.test.evals.one", &tasks);
        std::fs::write(home.path("one.scoring.json"), document.to_string()).unwrap();
    };
    write("y");
    let import = [
        "suite",
        "import",
        "one.json",
        "--scoring",
        "one.scoring.json",
    ];
    let done = home.run(&import);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(home.run(&import).code, 0);
    let listed = home.run(&["suite", "list"]);
    assert!(
        listed
            .stdout
            .contains("unsigned, imported, with assertions"),
        "{}",
        listed.stdout
    );
    write("z");
    let changed = home.run(&import);
    assert_ne!(changed.code, 0, "{}", changed.stdout);
    assert!(
        changed.stderr.contains("another version of the suite"),
        "{}",
        changed.stderr
    );
}

#[test]
fn a_scoring_document_without_its_suite_is_an_error_of_the_pack() {
    let home = Home::with_folder();
    let document = scoring("vendor.acme.evals.ticket-labels", &json!({}));
    std::fs::write(
        home.path("my-agent/evals/labels.scoring.json"),
        document.to_string(),
    )
    .unwrap();
    let done = home.run(&["pack", "lint", "my-agent"]);
    assert_eq!(done.code, 1, "{}", done.stdout);
    let said = format!("{}{}", done.stdout, done.stderr);
    assert!(said.contains("belongs to evals/labels.json"), "{said}");
}
