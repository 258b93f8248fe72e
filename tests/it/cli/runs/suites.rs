//! `suite init`, `lint`, `import` and `export`: creating suites.

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
fn a_suite_of_lines_is_imported_while_it_is_read() {
    let home = Home::empty();
    let header =
        json!({"suiteId": "vendor.acme.evals.lines", "version": "1.0.0", "modes": ["golden"]});
    let tasks = (0..2_000).map(|n| {
        json!({"taskId": format!("item-{n}"), "input": {"text": format!("item {n}")},
               "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "a"}}})
    });
    let lines: Vec<String> = std::iter::once(header.clone())
        .chain(tasks.clone())
        .map(|it| it.to_string())
        .collect();
    std::fs::write(home.path("lines.jsonl"), lines.join("\n")).unwrap();
    let imported = home.run(&["suite", "import", "lines.jsonl", "--json"]);
    assert_eq!(imported.code, 0, "{}{}", imported.stdout, imported.stderr);

    let mut document = header;
    document["tasks"] = tasks.collect();
    std::fs::write(home.path("suite.json"), document.to_string()).unwrap();
    let linted = home.run(&["suite", "lint", "suite.json", "--json"]);
    let listed = home.run(&["suite", "list", "--json"]);
    let suite = &listed.document()["suites"][0];
    assert_eq!(suite["digest"], linted.document()["digest"]);
    assert_eq!(suite["taskCount"], 2_000);

    let broken = lines
        .join("\n")
        .replace("\"taskId\":\"item-7\"", "\"taskId\":\"item-6\"");
    std::fs::write(home.path("broken.jsonl"), broken).unwrap();
    let refused = home.run(&["suite", "import", "broken.jsonl"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("line 9"), "{}", refused.stderr);
    let refused = home.run(&["suite", "import", "lines.jsonl", "--out", "other.json"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("--out"), "{}", refused.stderr);
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
#[case::openai("samples.jsonl", SAMPLES, 2, 0)]
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
#[case::nothing("x.csv", "note,remark\na,b\n", &[])]
#[case::another("x.csv", "note,remark\na,b\n", &["--format", "table"])]
#[case::no_column("x.csv", "question,answer\na,b\n", &["--input", "query"])]
#[case::no_row("x.csv", "question,answer\na\n", &[])]
#[case::no_answer("x.jsonl", "{\"input\": 1}\n", &["--from", "openai-evals"])]
#[case::no_score("x.csv", "input,expected\na,b\n", &["--pass-score", "2"])]
#[case::no_id("x.csv", "input,expected\na,b\n", &["--suite-id", "X"])]
#[case::no_format("x.csv", "input,expected\na,b\n", &["--format", "excel"])]
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

const CONFIG_IN_FILES: &str = "
prompts: [file://short.txt, file://long.txt]
providers: [openai:gpt-4o-mini]
tests: cases/*.csv
";

fn home_with_configuration() -> Home {
    let home = Home::empty();
    std::fs::create_dir(home.path("cases")).unwrap();
    for (file, text) in [
        ("promptfooconfig.yaml", CONFIG_IN_FILES),
        ("short.txt", "Say {{word}}."),
        ("long.txt", "Please say the word {{word}}."),
        (
            "cases/words.csv",
            "word,__expected,__expected2\nyes,yes,\nno,contains: no,not-contains: yes\n",
        ),
    ] {
        std::fs::write(home.path(file), text).unwrap();
    }
    home
}

/// An agent that says the word of its task.
const ECHO: &str = "import json, sys\nfor line in sys.stdin:\n    question = json.loads(line)\n    \
    print(json.dumps({'id': question['id'], 'output': question['input']['word']}), flush=True)\n";

#[test]
fn a_configuration_becomes_a_pack_that_is_evaluated_as_it_is() {
    let home = home_with_configuration();
    let done = home.run(&["suite", "import", "promptfooconfig.yaml", "--out", "words"]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert_eq!(done.stdout, "words: 2 agents, 2 tasks\n");
    for part in [
        "read promptfooconfig.yaml as a promptfoo configuration",
        "not imported: `providers` (openai:gpt-4o-mini)",
        "eval words --agent private.imported.promptfooconfig.short",
    ] {
        assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
    }
    let again = home.run(&["suite", "import", "promptfooconfig.yaml", "--out", "words"]);
    assert_eq!(again.code, 2, "{}", again.stdout);
    assert!(again.stderr.contains("--force"), "{}", again.stderr);
    std::fs::write(home.path("agent.py"), ECHO).unwrap();
    let agent = "private.imported.promptfooconfig.long";
    let done = home.run(&[
        "--json",
        "eval",
        "words",
        "--agent",
        agent,
        "--lenient",
        "--agent-command",
        "python3 agent.py",
    ]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert_eq!(done.document()["summary"]["passedCount"], 2);
}

#[test]
fn an_imported_suite_is_exported_with_its_scoring_document() {
    let home = home_with_configuration();
    let done = home.run(&[
        "suite",
        "import",
        "promptfooconfig.yaml",
        "--out",
        "words.json",
    ]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stdout
            .contains("words.scoring.json: assertions of 1 task"),
        "{}",
        done.stdout
    );
    let lines = home.run(&["suite", "export", "words.json", "--format", "jsonl"]);
    assert_eq!(lines.code, 0, "{}", lines.stderr);
    let second: Value = serde_json::from_str(lines.stdout.lines().nth(1).unwrap()).unwrap();
    assert_eq!(
        second["assertions"][1],
        json!({"type": "contains", "value": "yes", "not": true})
    );
    let exported = home.run(&[
        "suite",
        "export",
        "words.json",
        "--format",
        "promptfoo",
        "--out",
        "again.yaml",
    ]);
    assert_eq!(exported.code, 0, "{}", exported.stderr);
    let again = home.run(&["suite", "import", "again.yaml", "--out", "again.json"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    let [first, second] = ["words", "again"].map(|name| {
        let text = std::fs::read(home.path(&format!("{name}.scoring.json"))).unwrap();
        serde_json::from_slice::<Value>(&text).unwrap()["tasks"]["task-2"].clone()
    });
    assert_eq!(first, second);
}

#[test]
fn an_installed_suite_is_exported_as_its_file() {
    let home = home_with_configuration();
    let done = home.run(&[
        "suite",
        "import",
        "promptfooconfig.yaml",
        "--suite-id",
        "vendor.acme.evals.words",
    ]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let written = home.run(&[
        "suite",
        "import",
        "promptfooconfig.yaml",
        "--suite-id",
        "vendor.acme.evals.words",
        "--out",
        "words.json",
    ]);
    assert_eq!(written.code, 0, "{}", written.stderr);
    let export = |source: &str| home.run(&["suite", "export", source, "--format", "jsonl"]);
    let installed = export("vendor.acme.evals.words@1.0.0");
    assert_eq!(installed.code, 0, "{}", installed.stderr);
    assert!(
        installed.stdout.contains("\"assertions\""),
        "{}",
        installed.stdout
    );
    assert_eq!(installed.stdout, export("words.json").stdout);
    let absent = export("vendor.acme.evals.absent@1.0.0");
    assert_eq!(absent.code, 2, "{}", absent.stdout);
    assert!(absent.stderr.contains("suite list"), "{}", absent.stderr);
}

#[test]
fn a_parquet_file_is_imported_with_named_columns() {
    let home = Home::empty();
    let data = "crates/runs/src/rules/eval/import/parquet/testdata/zstd.parquet";
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(data);
    std::fs::copy(file, home.path("questions.parquet")).unwrap();
    let done = home.run(&[
        "suite",
        "import",
        "questions.parquet",
        "--out",
        "suite.json",
    ]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    for part in [
        "as Parquet with the input in `question` and the expected answer in `answer`",
        "a sample without `question`, left out (row 3)",
    ] {
        assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
    }
    let done = home.run(&[
        "suite",
        "import",
        "questions.parquet",
        "--input",
        "meta.n",
        "--expected",
        "day",
        "--out",
        "days.json",
    ]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let days: Value =
        serde_json::from_slice(&std::fs::read(home.path("days.json")).unwrap()).unwrap();
    assert_eq!(days["tasks"][0]["expected"]["match"]["value"], "2026-01-02");
    std::fs::write(home.path("cut.parquet"), b"PAR1 and no more").unwrap();
    let done = home.run(&["suite", "import", "cut.parquet", "--out", "cut.json"]);
    assert_eq!(done.code, 2, "{}", done.stdout);
    assert!(
        done.stderr.contains("not a complete Parquet file"),
        "{}",
        done.stderr
    );
}
