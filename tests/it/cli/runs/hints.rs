//! Files of other tools that are evaluated as they are, and hints that work as printed.

use serde_json::{Value, json};
use wiremock::matchers::{method, path};
use wiremock::{Mock, ResponseTemplate};

use super::support::{ModelServer, printed_command};
use crate::cli::home::{Done, Home};

/// A program that asks `get_weather` and answers with what it returned.
const WEATHER: &str = "import json, sys
for line in sys.stdin:
    question = json.loads(line)
    results = [it['text'] for it in question['messages'] if it['role'] == 'tool']
    answer = {'output': results[-1]} if results else {'toolCalls': [{'tool': 'get_weather', 'arguments': {}}]}
    print(json.dumps({'id': question['id'], **answer}), flush=True)
";

/// A program that answers `billing`, and keeps the questions.
const BILLING: &str = "import json, sys
for line in sys.stdin:
    question = json.loads(line)
    print(question['input'], file=open('.asked', 'a'), flush=True)
    print(json.dumps({'id': question['id'], 'output': 'billing'}), flush=True)
";

fn home(files: &[(&str, &str)]) -> Home {
    let home = Home::empty();
    for (name, text) in files {
        std::fs::write(home.path(name), text).unwrap();
    }
    home
}

/// A trace of a program that called a tool.
fn trace() -> String {
    let span = |start: u64, attributes: &[(&str, &str)]| {
        let attributes: Vec<Value> = attributes
            .iter()
            .map(|(key, text)| json!({"key": key, "value": {"stringValue": text}}))
            .collect();
        json!({"traceId": "a1", "startTimeUnixNano": start.to_string(),
            "endTimeUnixNano": (start + 5).to_string(), "attributes": attributes})
    };
    let spans = [
        span(
            10,
            &[
                (
                    "gen_ai.input.messages",
                    r#"[{"role": "user", "content": "And the weather?"}]"#,
                ),
                (
                    "gen_ai.output.messages",
                    r#"[{"role": "assistant", "content": "sunny"}]"#,
                ),
            ],
        ),
        span(
            12,
            &[
                ("gen_ai.operation.name", "execute_tool"),
                ("gen_ai.tool.name", "get_weather"),
                ("gen_ai.tool.call.result", "sunny"),
            ],
        ),
    ];
    json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).to_string()
}

#[test]
fn the_program_that_made_a_trace_is_evaluated_on_it() {
    let home = home(&[("trace.json", &trace()), ("agent.py", WEATHER)]);
    let agent = ["--agent-command", "python3 agent.py"];
    let cases = ["--cases", "trace.json"];
    let done = home.run(&[&["--json", "eval", "--lenient"], &agent[..], &cases].concat());
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let report = done.document();
    assert_eq!(report["summary"]["passedCount"], 1, "{report}");
    assert!(!done.stdout.contains("unsafe_tool_call"), "{report}");

    let both = [
        "--agent-command",
        "a=python3 agent.py",
        "--agent-command",
        "b=python3 agent.py",
    ];
    let done = home.run(&[&["--json", "matrix"], &both[..], &cases].concat());
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let scores: Vec<Value> = done.document()["variants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["score"].clone())
        .collect();
    assert_eq!(scores, [json!(1.0), json!(1.0)]);
}

const OWN_COLUMNS: &str = "nr,frage,antwort\nq-1,I was charged twice,billing\nq-2,Refund me,bill\n";

#[test]
fn columns_of_cases_are_named_as_in_an_import() {
    let home = home(&[("cases.csv", OWN_COLUMNS), ("agent.py", BILLING)]);
    let eval = |more: &[&str]| {
        let command = ["eval", "--lenient", "--agent-command", "python3 agent.py"];
        home.run(&[&command[..], &["--cases", "cases.csv"], more].concat())
    };
    let refused = eval(&[]);
    assert_eq!(refused.code, 2, "{}", refused.stdout);
    for part in [
        "frage",
        "--input COLUMN",
        "--expected COLUMN",
        "--format FORMAT",
    ] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    let columns = ["--input", "frage", "--expected", "antwort", "--id", "nr"];
    let options = [&columns[..], &["--match", "contains", "--format", "table"]].concat();
    let done = eval(&[&options[..], &["--json"]].concat());
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let report = done.document();
    assert_eq!(report["tasks"][1]["taskId"], "q-2", "{report}");
    assert_eq!(report["summary"]["passedCount"], 2, "{report}");

    let both = [
        "--agent-command",
        "a=python3 agent.py",
        "--agent-command",
        "b=python3 agent.py",
    ];
    let matrix = ["--json", "matrix", "--cases", "cases.csv"];
    let done = home.run(&[&matrix[..], &both, &options].concat());
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert_eq!(done.document()["variants"][0]["score"], 1.0);

    let unknown = eval(&["--input", "question"]);
    assert_eq!(unknown.code, 2, "{}", unknown.stdout);
    assert!(unknown.stderr.contains("frage"), "{}", unknown.stderr);
    let alone = home.run(&["eval", "my-agent", "--input", "frage"]);
    assert_eq!(alone.code, 2, "{}", alone.stdout);
    assert!(alone.stderr.contains("--input"), "{}", alone.stderr);
    let written = home.run(
        &[
            &["suite", "import", "cases.csv", "--out", "s.json"],
            &columns[..],
        ]
        .concat(),
    );
    assert_eq!(written.code, 0, "{}", written.stderr);
    std::fs::copy(home.path("s.json"), home.path("cases.csv")).unwrap();
    let suite = eval(&["--match", "contains"]);
    assert_eq!(suite.code, 2, "{}", suite.stdout);
    assert!(suite.stderr.contains("is a suite"), "{}", suite.stderr);
}

/// The words of a printed command with these values in place of the names in capitals.
fn filled(command: &[String], values: &[(&str, &str)]) -> Vec<String> {
    let value = |word: &String| {
        let known = values.iter().find(|(name, _)| name == word);
        known.map_or_else(|| word.clone(), |(_, value)| (*value).to_owned())
    };
    command.iter().map(value).collect()
}

/// An endpoint that answers chats and embeds texts.
fn endpoint() -> ModelServer {
    let answer = json!({
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "billing"}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
    });
    let chat = Mock::given(method("POST")).and(path("/v1/chat/completions"));
    let server =
        ModelServer::new(chat.respond_with(ResponseTemplate::new(200).set_body_json(answer)));
    server.also(
        Mock::given(method("POST"))
            .and(path("/v1/embeddings"))
            .respond_with(|request: &wiremock::Request| {
                let body: Value = request.body_json().unwrap();
                let texts = body["input"].as_array().unwrap().len();
                let data: Vec<Value> = (0..texts)
                    .map(|index| json!({"index": index, "embedding": [1.0, 0.0]}))
                    .collect();
                let usage = json!({"prompt_tokens": 10, "total_tokens": 10});
                ResponseTemplate::new(200).set_body_json(json!({"data": data, "usage": usage}))
            }),
    );
    server
}

/// A program that agrees with every assertion.
const AGREES: &str = "import json, sys
for line in sys.stdin:
    print(json.dumps({'id': json.loads(line)['id'], 'pass': True}), flush=True)
";

#[test]
fn the_command_after_an_import_has_every_flag_and_works() {
    let configuration = "prompts: ['Name the queue: {{text}}']\ntests:\n  - vars: {text: I was charged twice}\n    \
        assert: [{type: similar, value: the queue of billing}, {type: python, value: 'file://check.py'}]\n";
    let home = home(&[
        ("promptfooconfig.yaml", configuration),
        ("check.py", AGREES),
    ]);
    let done = home.run(&["suite", "import", "promptfooconfig.yaml", "--out", "queues"]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let command = printed_command(&done.stderr, "touchstone eval");
    let server = endpoint();
    let url = server.url();
    let values = [
        ("URL", url.as_str()),
        ("MODEL", "m-1"),
        ("EMBEDDINGS", "e-1"),
        ("COMMAND", "python3 check.py"),
    ];
    let command = filled(&command, &values);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let done = home.run(&[&["--json"], &command[..], &["--lenient"]].concat());
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert_eq!(done.document()["summary"]["passedCount"], 1);

    // A provider of the configuration answers for the agent only.
    let provider = format!("providers: [{{id: 'openai:m-1', config: {{apiBaseUrl: '{url}'}}}}]\n");
    std::fs::write(home.path("own.yaml"), provider + configuration).unwrap();
    let others = command
        .iter()
        .position(|it| *it == "--embeddings-url")
        .unwrap();
    let own = ["--json", "eval", "--cases", "own.yaml", "--lenient"];
    let done = home.run(&[&own[..], &command[others..]].concat());
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
}

#[test]
fn a_pass_score_of_1_is_not_answered_with_more_tasks() {
    let cases = "input,expected\nI was charged twice,billing\nRefund me,billing\n";
    let home = home(&[("cases.csv", cases), ("agent.py", BILLING)]);
    let command = [
        "eval",
        "--agent-command",
        "python3 agent.py",
        "--cases",
        "cases.csv",
    ];
    let done = home.run(&command);
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stdout.contains("a score of 1 can never be shown")
            && done.stderr.contains("--lenient"),
        "{}{}",
        done.stdout,
        done.stderr
    );
    assert!(!done.stderr.contains("more tasks"), "{}", done.stderr);
    let scored = "eval --cases cases.csv --agent-command 'python3 agent.py' --pass-score 0.8";
    assert!(done.stderr.contains(scored), "{}", done.stderr);
}

#[test]
fn a_run_has_one_verdict_in_every_output() {
    let cases = "input,expected\nI was charged twice,billing\nRefund me,billing\nPay,billing\n";
    let home = home(&[("cases.csv", cases), ("agent.py", BILLING)]);
    let eval = |more: &[&str]| {
        let command = ["eval", "--agent-command", "python3 agent.py", "--cases"];
        home.run(&[&command[..], &["cases.csv", "--pass-score", "0.7"], more].concat())
    };
    let files = [
        "--junit",
        "a.xml",
        "--markdown",
        "a.md",
        "--sarif",
        "a.sarif",
    ];
    let done = eval(&files);
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    let reason = "the score 1.000 reaches the pass score 0.700, but not with significance: the interval of the \
                  score 1.000 over 3 tasks is";
    let last = done.stdout.lines().last().unwrap_or_default();
    assert!(
        last.starts_with(&format!("INCONCLUSIVE: {reason}")),
        "{last}"
    );
    let files =
        ["a.xml", "a.md", "a.sarif"].map(|file| std::fs::read_to_string(home.path(file)).unwrap());
    for file in &files {
        assert!(
            file.contains("the score 1.000 reaches the pass score 0.700"),
            "{file}"
        );
        assert!(
            file.contains("INCONCLUSIVE") && !file.contains("PASS"),
            "{file}"
        );
    }
    assert!(files[1].starts_with("## INCONCLUSIVE: "), "{}", files[1]);

    let shown = home.run(&["--json", "run", "show", "latest"]);
    assert_eq!(shown.code, 4, "{}", shown.stderr);
    let report = shown.document();
    assert_eq!(
        (&report["verdict"], &report["lenientVerdict"]),
        (&json!("inconclusive"), &json!("pass"))
    );
    assert_eq!(report["summary"]["passed"], true);
    assert!(
        report["reasons"][0].as_str().unwrap().starts_with(reason),
        "{report}"
    );
    for (verdict, count) in [("pass", 0), ("inconclusive", 1)] {
        let listed = home
            .run(&["--json", "run", "list", "--verdict", verdict])
            .document();
        assert_eq!(listed["runs"].as_array().unwrap().len(), count, "{listed}");
    }

    let lenient = home.run(&["--json", "run", "show", "latest-passed", "--lenient"]);
    assert_eq!(lenient.code, 0, "{}", lenient.stderr);
    let report = lenient.document();
    assert_eq!(
        (&report["verdict"], &report["reasons"]),
        (&json!("pass"), &json!([]))
    );
    assert_eq!(eval(&["--lenient"]).stdout.lines().last(), Some("PASS"));
}

#[test]
fn eval_without_a_subject_names_what_can_be_evaluated() {
    let home = home(&[("agent.py", BILLING)]);
    let done = home.run(&["eval", "--agent-command", "python3 agent.py"]);
    assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    for part in ["--cases FILE", "FOLDER", "SUITE@VERSION"] {
        assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
    }
}

fn written(home: &Home, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(home.path(name)).unwrap()).unwrap()
}

#[test]
fn exported_lines_are_imported_without_a_loss() {
    let assertions = json!([{"type": "contains", "value": "bill"}, {"type": "tool-not-called", "name": "crm:delete"}]);
    let suite = json!({"suiteId": "vendor.acme.evals.x", "version": "1.0.0", "modes": ["golden"], "tasks": [
        {"taskId": "refund", "input": {"text": "Refund me"},
         "expected": {"kind": "golden", "match": {"strategy": "contains", "value": "bill"}},
         "fixtures": {"toolResponses": [{"tool": "crm:find", "response": {"id": 7}}]}}]});
    let scoring = json!({"scoringVersion": 1, "suiteId": "vendor.acme.evals.x",
        "tasks": {"refund": {"assertions": assertions, "tags": ["billing"]}}});
    let home = home(&[
        ("x.json", &suite.to_string()),
        ("x.scoring.json", &scoring.to_string()),
    ]);
    let run = |arguments: &[&str]| -> Done {
        let done = home.run(arguments);
        assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
        done
    };
    run(&[
        "suite", "export", "x.json", "--format", "jsonl", "--out", "x.jsonl",
    ]);
    let id = ["--suite-id", "vendor.acme.evals.x"];
    let import = [
        "suite",
        "import",
        "x.jsonl",
        "--strict",
        "--out",
        "again.json",
    ];
    let done = run(&[&import[..], &id].concat());
    assert!(
        done.stderr.contains("`suite export` wrote"),
        "{}",
        done.stderr
    );
    assert_eq!(written(&home, "again.json")["tasks"], suite["tasks"]);
    assert_eq!(written(&home, "again.scoring.json"), scoring);
    run(&[
        &["suite", "import", "x.jsonl", "--format", "touchstone"],
        &id[..],
    ]
    .concat());
}
