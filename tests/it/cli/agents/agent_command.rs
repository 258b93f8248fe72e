//! `eval --agent-command`: a program instead of a model.

use serde_json::json;

use crate::cli::home::{Done, Home, right_outputs};

/// A program that answers every task correctly from its input alone.
fn write_agent(home: &Home, before: &str) {
    let answers = right_outputs();
    let program = format!(
        "import json, sys, os\n\
         answers = json.loads({:?})\n\
         for line in sys.stdin:\n    \
             question = json.loads(line)\n    \
             output = next(a['output'] for a in answers if a['input'] == question['input'])\n    \
             {before}\n    \
             print(json.dumps({{'id': question['id'], 'output': output}}), flush=True)\n",
        serde_json::to_string(&answers).unwrap()
    );
    std::fs::write(home.path("agent.py"), program).unwrap();
}

fn eval(home: &Home, more: &[&str]) -> Done {
    let arguments = [&["--agent-command", "python3 agent.py"], more].concat();
    home.eval(&arguments)
}

#[test]
fn a_command_agent_is_evaluated_recorded_and_replayed() {
    let home = Home::with_pack();
    write_agent(&home, "pass");
    let done = eval(&home, &["--record", "tape.jsonl", "--json"]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let replayed = home.eval(&["--replay", "tape.jsonl"]);
    assert_eq!(replayed.code, 0, "{}{}", replayed.stdout, replayed.stderr);
}

#[test]
fn a_command_agent_that_exits_is_restarted() {
    let home = Home::with_pack();
    // Every process gives one answer and exits before the next question.
    write_agent(
        &home,
        "print(json.dumps({'id': question['id'], 'output': output}), flush=True); os._exit(1)",
    );
    let done = eval(&home, &["--concurrency", "1"]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
}

#[test]
fn invalid_output_leaves_the_task_unjudged() {
    let home = Home::with_pack();
    for (says, reason) in [
        ("print('canary-chatter', flush=True)", "malformed_reply"),
        (
            "print(json.dumps({'id': question['id'], 'error': 'canary-chatter'}), flush=True)",
            "agent_failed",
        ),
        ("os._exit(3)", "agent_exited"),
    ] {
        write_agent(&home, &format!("{says}; continue"));
        let done = eval(&home, &["--concurrency", "1", "--json"]);
        assert_eq!(done.code, 4, "{reason}: {}{}", done.stdout, done.stderr);
        assert!(done.stdout.contains(reason), "{reason}: {}", done.stdout);
        assert!(!done.stdout.contains("canary-chatter"), "{}", done.stdout);
    }
}

#[test]
fn a_command_agent_works_only_with_the_embedded_host() {
    let home = Home::with_pack();
    let done = eval(&home, &["--server", "http://127.0.0.1:9"]);
    assert_eq!(done.code, 2);
    assert!(
        done.stderr.contains("works only with the embedded host"),
        "{}",
        done.stderr
    );
    // A configuration file cannot name it either.
    let config = std::fs::read_to_string(home.config()).unwrap();
    std::fs::write(home.config(), format!("agent_command = \"true\"\n{config}")).unwrap();
    let done = home.run(&["suite", "list"]);
    assert_eq!(done.code, 2, "{}", done.stderr);
    assert!(done.stderr.contains("agent_command"), "{}", done.stderr);
    assert_eq!(json!(done.stdout), json!(""));
}

#[tokio::test]
async fn a_command_agent_may_report_its_identity() {
    let folder = tempfile::tempdir().unwrap();
    let told = json!({"identity": {"name": "clerk", "version": "1.2.0"}, "configuration": {"writing": "never"}});
    // The last ones answer an unknown question.
    let programs = [
        (
            format!(
                "print(json.dumps({{'id': q['id'], **json.loads({:?})}}), flush=True)",
                told.to_string()
            ),
            Some(told),
        ),
        (
            "print(json.dumps({'id': q['id'], 'output': 'hello'}), flush=True)".to_owned(),
            None,
        ),
        ("raise KeyError('input')".to_owned(), None),
    ];
    for (answer, expected) in programs {
        let program = format!(
            "import json, sys\nfor line in sys.stdin:\n    q = json.loads(line)\n    \
             assert q['identify'] and q['messages'] == [] and q['input'] is None\n    {answer}\n"
        );
        let path = folder.path().join("who.py");
        std::fs::write(&path, program).unwrap();
        let command = format!("python3 {} 2>/dev/null", path.display());
        let model = touchstone_agents::model::command::CommandModel::new(command);
        assert_eq!(
            touchstone_agents::ports::model::Model::adapter(&model).await,
            expected
        );
    }
}
