//! `touchstone matrix` with commands, trials and configurations of promptfoo; `eval --cases` with a
//! configuration.

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use wiremock::matchers::{body_string_contains, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::cli::home::Home;

const CASES: &str = "id,input,expected\nrefund,I was charged twice,billing\nlogin,Error 500,technical\nlogout,Bye,technical\n";

/// An agent that answers the first argument.
const AGENT: &str = "import json, sys\n\
    for line in sys.stdin:\n    \
        question = json.loads(line)\n    \
        print(json.dumps({'id': question['id'], 'output': sys.argv[1]}), flush=True)\n";

pub fn home_with_commands() -> Home {
    let home = Home::empty();
    std::fs::write(home.path("cases.csv"), CASES).unwrap();
    std::fs::write(home.path("agent.py"), AGENT).unwrap();
    home
}

fn texts<'a>(rows: &'a Value, member: &str) -> Vec<&'a str> {
    let rows = rows.as_array().unwrap();
    rows.iter()
        .map(|row| row[member].as_str().unwrap())
        .collect()
}

#[test]
fn commands_are_compared_over_several_trials_and_written_as_a_page() {
    let home = home_with_commands();
    let done = home.run(&[
        "--json",
        "matrix",
        "--cases",
        "cases.csv",
        "--agent-command",
        "sales=python3 agent.py billing",
        "--agent-command",
        "support=python3 agent.py technical",
        "--trials",
        "2",
        "--html",
        "matrix.html",
    ]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let found = done.document();
    assert_eq!(texts(&found["variants"], "name"), ["sales", "support"]);
    assert_eq!(texts(&found["variants"], "verdict"), ["fail", "fail"]);
    let passed: Vec<&Value> = found["variants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["passed"])
        .collect();
    assert_eq!(passed, [&json!(1), &json!(2)]);
    let runs = found["variants"][0]["trialRunIds"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    assert_eq!(
        found["tasks"][0],
        json!({"taskId": "refund", "results": [{"outcome": "passed", "score": 1.0}, {"outcome": "failed", "score": 0.0}]})
    );
    let page = std::fs::read_to_string(home.path("matrix.html")).unwrap();
    assert!(
        page.contains("B (support) has the highest score, 0.667."),
        "{page}"
    );
    assert!(!page.contains("charged twice"), "{page}");

    let done = home.run(&[
        "matrix",
        "--cases",
        "cases.csv",
        "--agent-command",
        "python3 agent.py a",
        "--html",
        "no/matrix.html",
    ]);
    assert_eq!(done.code, 2, "{}", done.stdout);
    assert!(done.stderr.contains("mkdir -p no"), "{}", done.stderr);
}

/// An endpoint whose answer depends on the model: `large` answers the word in the message, others
/// always say `sure`.
fn endpoint(runtime: &Runtime) -> MockServer {
    let answer = |text: &str| {
        ResponseTemplate::new(200).set_body_json(json!({
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
        }))
    };
    runtime.block_on(async {
        let server = MockServer::start().await;
        Mock::given(method("POST"))
            .and(path("/v1/chat/completions"))
            .and(body_string_contains("\"large\""))
            .and(body_string_contains("maybe"))
            .respond_with(answer("maybe"))
            .with_priority(1)
            .mount(&server)
            .await;
        Mock::given(method("POST"))
            .and(path("/v1/chat/completions"))
            .respond_with(answer("sure"))
            .mount(&server)
            .await;
        server
    })
}

fn configuration(home: &Home, prompts: &str, providers: &str) {
    let text = format!(
        "prompts: {prompts}\nproviders: {providers}\ntests:\n  - vars: {{word: sure}}\n    assert: [{{type: equals, value: sure}}]\n  \
         - vars: {{word: maybe}}\n    assert: [{{type: equals, value: maybe}}]\n"
    );
    std::fs::write(home.path("promptfooconfig.yaml"), text).unwrap();
}

#[test]
fn prompts_and_providers_of_a_configuration_are_compared_by_one_command() {
    let runtime = Runtime::new().unwrap();
    let server = endpoint(&runtime);
    let home = Home::empty();
    let provider = |model: &str, label: &str| {
        format!(
            "{{id: 'openai:chat:{model}', label: {label}, config: {{apiBaseUrl: '{}/v1', temperature: 0}}}}",
            server.uri()
        )
    };
    let providers = format!(
        "[{}, {}, 'python:provider.py']",
        provider("small", "cheap"),
        provider("large", "good")
    );
    configuration(
        &home,
        "['Say {{word}}.', 'Please say {{word}}.']",
        &providers,
    );
    let command = [
        "matrix",
        "--cases",
        "promptfooconfig.yaml",
        "--markdown",
        "matrix.md",
    ];
    let done = home.run(&[&["--json"], &command[..]].concat());
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let found = done.document();
    assert_eq!(
        texts(&found["variants"], "name"),
        [
            "prompt-1, cheap",
            "prompt-1, good",
            "prompt-2, cheap",
            "prompt-2, good"
        ]
    );
    let scores: Vec<f64> = found["variants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["score"].as_f64().unwrap())
        .collect();
    assert_eq!(scores, [0.5, 1.0, 0.5, 1.0]);
    assert_eq!(
        texts(&found["variants"], "verdict"),
        ["fail", "inconclusive", "fail", "inconclusive"]
    );
    let shown = home.run(&command);
    for part in [
        "left out: provider python:provider.py",
        "settings of provider cheap: config.temperature",
    ] {
        assert!(shown.stderr.contains(part), "{part}: {}", shown.stderr);
    }

    let several = home.run(&["eval", "--cases", "promptfooconfig.yaml"]);
    assert_eq!(several.code, 2, "{}", several.stdout);
    assert!(
        several.stderr.contains("2 prompts and 2 providers")
            && several
                .stderr
                .contains("matrix --cases promptfooconfig.yaml"),
        "{}",
        several.stderr
    );

    configuration(
        &home,
        "['Say {{word}}.']",
        &format!("[{}]", provider("large", "good")),
    );
    let one = home.run(&[
        "--json",
        "eval",
        "--cases",
        "promptfooconfig.yaml",
        "--lenient",
    ]);
    assert_eq!(one.code, 0, "{}{}", one.stdout, one.stderr);
    assert_eq!(one.document()["evaluated"]["model"], "large");
    let alone = home.run(&["--json", "matrix", "--cases", "promptfooconfig.yaml"]);
    assert_eq!(alone.code, 0, "{}{}", alone.stdout, alone.stderr);
    assert_eq!(texts(&alone.document()["variants"], "name"), ["good"]);
}

#[test]
fn a_provider_without_a_key_or_an_address_is_refused_with_a_remedy() {
    let home = Home::empty();
    for (providers, part) in [
        ("['openai:gpt-4o-mini']", "set OPENAI_API_KEY"),
        ("['python:provider.py']", "--agent-command"),
        (
            "[{id: 'openai:gpt-4o', config: {apiBaseUrl: 'https://example.com/v1'}}]",
            "--model gpt-4o=URL",
        ),
    ] {
        configuration(&home, "['Say {{word}}.']", providers);
        for command in ["eval", "matrix"] {
            let done = home.run(&[command, "--cases", "promptfooconfig.yaml"]);
            assert_eq!(done.code, 2, "{command} {providers}: {}", done.stdout);
            assert!(
                done.stderr.contains(part),
                "{command} {providers}: {}",
                done.stderr
            );
        }
    }
}
