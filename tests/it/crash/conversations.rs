//! The process is killed inside a conversation. It begins again, because the state of an agent
//! between two turns cannot be restored; conversations that ended are not repeated.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::endpoint::{Asked, Endpoint, saying};
use crate::process::{AGENT, Site, TOO_LONG};

const SUITE_ID: &str = "private.touchstone.evals.talks";

/// Messages of the user in a request.
fn messages_of_user(body: &Value) -> usize {
    let messages = body["messages"].as_array().unwrap();
    messages.iter().filter(|it| it["role"] == "user").count()
}

/// A suite with the tasks `first` and `second`, each a conversation of three turns.
fn write_suite(site: &Site) {
    let task = |id: &str| {
        json!({
            "taskId": id, "input": format!("about {id}"),
            "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "answer 3"}}
        })
    };
    let suite = json!({
        "suiteId": SUITE_ID, "version": "1.0.0", "modes": ["golden"],
        "thresholds": {"passScore": 1.0}, "tasks": [task("first"), task("second")]
    });
    let conversation = json!({"conversation": {"turns": ["Go on.", "And then?"]}});
    let scoring = json!({
        "scoringVersion": 1, "suiteId": SUITE_ID,
        "tasks": {"first": conversation, "second": conversation}
    });
    site.write("talks.json", &suite.to_string());
    site.write("talks.scoring.json", &scoring.to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_inside_a_conversation_repeats_only_this_conversation() {
    let site = Site::embedded();
    let endpoint = Endpoint::start(0..1, |body| {
        saying(&format!("answer {}", messages_of_user(body)))
    })
    .await;
    endpoint.hold(|body| body.to_string().contains("about second") && messages_of_user(body) == 2);
    let config = format!(
        "[limits]\ndefault_concurrency = 1\n[[models]]\nclass = \"*\"\nprovider = \"openai\"\n\
         base_url = \"{}\"\nmodel = \"m\"\n",
        endpoint.url()
    );
    site.configure("touchstone.toml", &config);
    let key = site.key("acme");
    let host = site.serve("touchstone.toml");
    let api = host.api(&key);
    site.install_agent(&api, "Talk.", &json!({}));
    write_suite(&site);
    let import = [
        "suite",
        "import",
        "talks.json",
        "--scoring",
        "talks.scoring.json",
    ];
    site.run_at(&api, &import);
    let run = api
        .start(&format!("{SUITE_ID}@1.0.0"), AGENT, json!({}))
        .await;

    let is_second = |asked: &Asked| asked.text.contains("about second");
    let in_second_turn = |asked: &Asked| is_second(asked) && messages_of_user(&asked.body) == 2;
    let first_turn_recorded = async || {
        let answered =
            |it: &Value| it["type"] == "touchstone.turn.answered" && it["nodeId"] == "second";
        api.poll(&run, 0, 1)
            .await
            .is_some_and(|(log, _)| log.iter().any(answered))
    };
    let begun = Instant::now();
    while !endpoint.asked().iter().any(in_second_turn) || !first_turn_recorded().await {
        assert!(begun.elapsed() < TOO_LONG, "{}", host.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    host.kill();
    let era = endpoint.next_era();
    let host = site.serve("touchstone.toml");
    let log = host.api(&key).log(&run).await;

    let asked = endpoint.asked();
    let later: Vec<&Asked> = asked.iter().filter(|it| it.era == era).collect();
    assert!(later.iter().all(|it| is_second(it)), "{later:?}");
    let turns: Vec<usize> = later.iter().map(|it| messages_of_user(&it.body)).collect();
    assert_eq!(turns, [1, 2, 3]);

    let answers = |task: &str| {
        let of_task = log
            .iter()
            .filter(|it| it["type"] == "touchstone.turn.answered" && it["nodeId"] == task);
        let turns = of_task.map(|it| it["payload"]["turn"].as_u64().unwrap());
        turns.collect::<Vec<u64>>()
    };
    // The answer before the kill is recorded too, and does not count.
    assert_eq!(answers("first"), [1, 2, 3]);
    assert_eq!(answers("second"), [1, 1, 2, 3]);
    let scored = log.iter().filter(|it| it["type"] == "eval.scored");
    assert_eq!(scored.count(), 2);
    let summary = &log.last().unwrap()["payload"]["outputs"];
    assert_eq!(summary["passedCount"], 2, "{summary}");
    assert!(host.terminate());
}
