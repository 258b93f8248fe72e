//! `suite init`, `lint` and `import`: creating suites.

use rstest::rstest;
use serde_json::{Value, json};

use crate::cli::home::{Done, Home};

fn warnings(done: &Done) -> Vec<String> {
    let document = done.document();
    let warnings = document["warnings"].as_array().unwrap();
    warnings
        .iter()
        .map(|it| it["rule"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn suite_init_creates_a_commented_suite_that_can_be_imported() {
    let home = Home::empty();
    let done = home.run(&["suite", "init", "vendor.acme.evals.triage"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let text = std::fs::read_to_string(home.path("triage.yaml")).unwrap();
    assert!(
        text.matches('#').count() > 20 && !text.contains("SUITE_ID"),
        "{text}"
    );
    let again = home.run(&["suite", "init", "vendor.acme.evals.triage"]);
    assert_eq!(again.code, 2, "{}", again.stdout);

    // The linter reports only that two tasks are an example, not evidence.
    let done = home.run(&["suite", "lint", "triage.yaml", "--json"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(warnings(&done), ["underpowered", "underpowered"]);
    let done = home.run(&["suite", "lint", "triage.yaml", "--strict"]);
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    assert!(done.stderr.contains("16 tasks"), "{}", done.stderr);

    let done = home.run(&["suite", "import", "triage.yaml", "--out", "triage.json"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let [yaml, json] = ["triage.yaml", "triage.json"]
        .map(|file| home.run(&["--json", "suite", "lint", file]).document()["digest"].clone());
    assert_eq!(yaml, json);
    let done = home.run(&["suite", "import", "triage.yaml"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let done = home.run(&["suite", "list"]);
    assert!(
        done.stdout.contains("vendor.acme.evals.triage@1.0.0"),
        "{}",
        done.stdout
    );
}

#[test]
fn likely_mistakes_are_warnings_and_fail_only_on_request() {
    let home = Home::empty();
    let tasks: Vec<Value> = (0..40)
        .map(|n| {
            let text = if n < 2 {
                "the same".to_owned()
            } else {
                format!("number {n}")
            };
            json!({"taskId": format!("t{n}"), "input": text,
                "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "billing"}}})
        })
        .collect();
    let suite = json!({"suiteId": "vendor.acme.evals.x", "version": "1.0.0", "modes": ["golden", "rubric"],
        "thresholds": {"passScore": 0.9}, "tasks": tasks});
    std::fs::write(home.path("suite.json"), suite.to_string()).unwrap();
    let done = home.run(&["suite", "lint", "suite.json", "--json"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(warnings(&done), ["duplicate-input", "mode-without-tasks"]);
    let done = home.run(&["suite", "lint", "suite.json", "--strict", "--json"]);
    assert_eq!((done.code, &done.document()["ok"]), (1, &json!(false)));
    let done = home.run(&["suite", "lint", "suite.json"]);
    assert!(
        done.stdout.contains("40 tasks, no errors, 2 warnings"),
        "{}",
        done.stdout
    );
    assert!(
        done.stderr
            .contains("/tasks/1/input: t1 has the same input as t0"),
        "{}",
        done.stderr
    );
}

const SUITE: &str = r#"{"suiteId": "local.test.evals.one", "version": "1.0.0", "modes": ["golden"], "tasks":
    [{"taskId": "a", "input": "x", "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "y"}}}]}"#;
const CONFIG: &str = "prompts: ['Say {{what}}']\ntests:\n  - vars: {what: hello}\n    assert: [{type: contains, value: '{{what}}'}]\n";
const SAMPLES: &str = "{\"input\": \"2+2?\", \"ideal\": [\"4\", \"four\"]}\n{\"input\": \"1+1?\", \"ideal\": \"2\"}\n";

#[rstest]
#[case::promptfoo("promptfooconfig.yaml", CONFIG, 1, 1)]
#[case::openai("samples.jsonl", SAMPLES, 2, 1)]
#[case::inspect(
    "dataset.json",
    r#"[{"input": "2+2?", "target": "4", "metadata": {"a": 1}}]"#,
    1,
    1
)]
#[case::inspect_table("dataset.csv", "input,target\n2+2?,4\n", 1, 0)]
#[case::table("Answers v2.csv", "input,expected\n2+2?,4\n1+1?,2\n", 2, 0)]
fn tasks_of_other_tools_are_imported_and_losses_are_reported(
    #[case] file: &str,
    #[case] text: &str,
    #[case] tasks: usize,
    #[case] losses: usize,
) {
    let home = Home::empty();
    std::fs::write(home.path(file), text).unwrap();
    let done = home.run(&["--json", "suite", "import", file]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let said = done.document();
    assert_eq!(said["suite"]["taskCount"], tasks, "{said}");
    assert_eq!(said["suite"]["signed"], false);
    assert_eq!(
        said["notCarriedOver"].as_array().unwrap().len(),
        losses,
        "{said}"
    );
    let strict = home.run(&[
        "suite",
        "import",
        file,
        "--strict",
        "--suite-id",
        "vendor.acme.evals.x",
    ]);
    assert_eq!(strict.code, i32::from(losses > 0), "{}", strict.stderr);
    let told = strict.stderr.matches("not imported: ").count();
    assert_eq!(told, losses, "{}", strict.stderr);
    let done = home.run(&[
        "suite",
        "import",
        file,
        "--match",
        "contains",
        "--suite-id",
        "vendor.acme.evals.y",
        "--suite-version",
        "2.0.0",
        "--pass-score",
        "0.5",
        "--agent",
        "vendor.acme.a.default",
        "--out",
        "suite.json",
    ]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let suite: Value =
        serde_json::from_slice(&std::fs::read(home.path("suite.json")).unwrap()).unwrap();
    assert_eq!(suite["suiteId"], "vendor.acme.evals.y");
    assert_eq!(
        (&suite["version"], &suite["thresholds"]["passScore"]),
        (&json!("2.0.0"), &json!(0.5))
    );
    assert_eq!(suite["targetAgentId"], "vendor.acme.a.default");
    assert_eq!(
        suite["tasks"][0]["expected"]["match"]["strategy"],
        "contains"
    );
    assert_eq!(home.run(&["suite", "lint", "suite.json"]).code, 0);
}

#[rstest]
#[case::nothing("x.csv", "question,answer\na,b\n", &[])]
#[case::another("x.csv", "question,answer\na,b\n", &["--from", "csv"])]
#[case::no_answer("x.jsonl", "{\"input\": 1}\n", &["--from", "openai-evals"])]
#[case::no_score("x.csv", "input,expected\na,b\n", &["--pass-score", "2"])]
#[case::no_id("x.csv", "input,expected\na,b\n", &["--suite-id", "X"])]
#[case::no_format("x.csv", "input,expected\na,b\n", &["--from", "excel"])]
#[case::no_yaml("x.yaml", "suiteId: [\n", &[])]
#[case::a_suite_has_its_own_bar("suite.json", SUITE, &["--pass-score", "0.5"])]
#[case::a_suite_has_its_own_name("suite.json", SUITE, &["--suite-id", "vendor.acme.evals.x"])]
#[case::a_suite_says_how_to_compare("suite.json", SUITE, &["--match", "contains"])]
fn a_file_that_cannot_be_imported_exits_2(
    #[case] file: &str,
    #[case] text: &str,
    #[case] more: &[&str],
) {
    let home = Home::empty();
    std::fs::write(home.path(file), text).unwrap();
    let done = home.run(&[&["suite", "import", file], more].concat());
    assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    assert!(!done.stderr.is_empty());
}
