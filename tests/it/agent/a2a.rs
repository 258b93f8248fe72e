//! Remote agents on the A2A protocol.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rstest::rstest;
use serde_json::{Value, json};
use touchstone_agents::model::a2a::A2aAgent;
use touchstone_agents::model::scripted::ScriptedModel;
use touchstone_agents::model::scripted::script::Script;
use touchstone_agents::ports::agent::{Dialogue, InvocationResult, UserTurns};
use touchstone_agents::ports::model::*;
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::support::*;
use crate::process::TOO_LONG;

const KEY: &str = "canary-key";

type Bodies = Arc<Mutex<Vec<Value>>>;

fn agent_at(server: &MockServer, info: ModelInfo) -> ModelBinding {
    let url = format!("{}/agent", server.uri());
    bound(A2aAgent::new(access(&url, KEY, info)).unwrap())
}

/// An agent that returns these results in order and repeats the last one.
async fn serve(answers: Vec<Value>) -> (MockServer, Bodies, ModelBinding) {
    let server = MockServer::start().await;
    let bodies = Bodies::default();
    let kept = Arc::clone(&bodies);
    Mock::given(method("POST"))
        .and(path("/agent"))
        .and(header("authorization", format!("Bearer {KEY}")))
        .respond_with(move |request: &Request| {
            let mut bodies = kept.lock().unwrap();
            let nth = bodies.len().min(answers.len() - 1);
            bodies.push(serde_json::from_slice(&request.body).unwrap());
            let mut answer = answers[nth].clone();
            answer["jsonrpc"] = json!("2.0");
            answer["id"] = json!(1);
            ResponseTemplate::new(200).set_body_json(answer)
        })
        .mount(&server)
        .await;
    let binding = agent_at(&server, info());
    (server, bodies, binding)
}

fn text(text: &str) -> Value {
    json!({"kind": "text", "text": text})
}

fn task(state: &str, artifacts: Value, message: Value) -> Value {
    json!({"result": {"kind": "task", "id": "t-9", "contextId": "c", "artifacts": artifacts,
        "status": {"state": state, "message": message}}})
}

fn said(what: &str) -> Value {
    json!({"kind": "message", "role": "agent", "messageId": "m", "parts": [text(what)]})
}

#[tokio::test]
async fn a_task_is_asked_for_until_it_has_ended() {
    let done = json!([{"artifactId": "a", "parts": [text("{\"queue\":"), text("\"billing\"}")]}]);
    let (_server, bodies, binding) = serve(vec![
        task("submitted", json!(null), json!(null)),
        task("working", json!([]), said("thinking")),
        task("completed", done, json!(null)),
    ])
    .await;
    let trial = Trial::new(agent(
        &[],
        Some(json!({"type": "object", "required": ["queue"]})),
    ))
    .with_fixtures(json!({"memorySeed": [{"note": "a new customer"}]}));
    let result = trial.run(&binding).await;
    assert_eq!(decided(&result), &json!({"queue": "billing"}));

    let bodies = bodies.lock().unwrap();
    assert_eq!(bodies.len(), 3);
    let message = &bodies[0]["params"]["message"];
    assert_eq!(
        (&bodies[0]["method"], &message["role"]),
        (&json!("message/send"), &json!("user"))
    );
    assert_eq!(message["messageId"].as_str().unwrap().len(), 43);
    let parts = message["parts"].as_array().unwrap();
    assert!(
        parts[0]["text"]
            .as_str()
            .unwrap()
            .contains("a new customer")
    );
    assert_eq!(parts[1], text("{\"q\":\"canary-input\"}"));
    assert!(
        parts[2]["text"]
            .as_str()
            .unwrap()
            .contains("\"required\":[\"queue\"]")
    );
    assert!(
        !bodies[0].to_string().contains(PROMPT),
        "the system prompt is not sent to the agent"
    );
    assert_eq!(
        (&bodies[2]["method"], &bodies[2]["params"]),
        (&json!("tasks/get"), &json!({"id": "t-9"}))
    );
}

#[rstest]
#[case::message(json!({"result": said("fine")}))]
#[case::last_message(task("completed", json!([]), said("fine")))]
#[case::artifact_before_message(task("completed", json!([{"parts": [text("fine")]}]), said("done")))]
#[case::question(task("input-required", json!(null), said("fine")))]
#[tokio::test]
async fn the_last_message_is_the_decision(#[case] answer: Value) {
    let (_server, _, binding) = serve(vec![answer]).await;
    let trial = Trial::new(agent(&[], None));
    assert_eq!(decided(&trial.run(&binding).await), &json!("fine"));
}

#[tokio::test]
async fn a_data_part_is_returned_as_json() {
    let answer =
        json!([{"parts": [{"kind": "data", "data": {"queue": 1}}, {"kind": "file", "file": {}}]}]);
    let (_server, _, binding) = serve(vec![task("completed", answer, json!(null))]).await;
    let trial = Trial::new(agent(&[], Some(json!({"type": "object"}))));
    assert_eq!(decided(&trial.run(&binding).await), &json!({"queue": 1}));
}

#[rstest]
#[case(task("failed", json!(null), said("canary-leak")), "agent_failed", 1)]
#[case(task("canceled", json!(null), json!(null)), "agent_canceled", 1)]
#[case(task("auth-required", json!(null), json!(null)), "unauthorized", 1)]
#[case(task("a state of tomorrow", json!(null), json!(null)), "malformed_reply", 3)]
#[case(json!({"error": {"code": -32603, "message": "canary-leak"}}), "a2a_error", 3)]
#[case(json!({"error": {"code": -32001, "message": "canary-leak"}}), "a2a_error", 1)]
#[case(json!({"result": {"kind": "poem"}}), "malformed_reply", 3)]
#[case(json!({}), "malformed_reply", 3)]
#[tokio::test]
async fn an_invalid_answer_leaves_the_task_unjudged(
    #[case] answer: Value,
    #[case] reason: &str,
    #[case] asked: usize,
) {
    let (_server, bodies, binding) = serve(vec![answer]).await;
    let trial = Trial::new(agent(&[], None));
    assert_eq!(unjudged(&trial.run(&binding).await), reason);
    assert_eq!(bodies.lock().unwrap().len(), asked);
    let events = format!("{:?}", trial.recorder.events.lock().unwrap());
    assert!(!events.contains("canary-leak"), "{events}");
}

#[tokio::test]
async fn a_refusal_is_the_agents_own_failure() {
    let (_server, _, binding) = serve(vec![task("rejected", json!(null), said("no"))]).await;
    let trial = Trial::new(agent(&[], None));
    assert_eq!(failed(&trial.run(&binding).await), "refused");
}

/// A scripted conversation of two turns.
async fn converse(binding: &ModelBinding) -> InvocationResult {
    let turns = ["It is order 17.".to_owned()];
    let dialogue = Dialogue {
        files: &[],
        messages: &[],
        turns: UserTurns::Scripted(&turns),
    };
    Trial::new(agent(&[], None))
        .converse(binding, dialogue)
        .await
}

#[rstest]
#[case::new_task(
    task("completed", json!([{"parts": [text("Which order?")]}]), json!(null)),
    json!({"contextId": "c", "referenceTaskIds": ["t-9"]})
)]
#[case::waiting_task(
    task("input-required", json!(null), said("Which order?")),
    json!({"contextId": "c", "taskId": "t-9"})
)]
#[case::message(
    json!({"result": {"kind": "message", "role": "agent", "messageId": "m", "contextId": "c",
        "parts": [text("Which order?")]}}),
    json!({"contextId": "c"})
)]
#[case::waiting_task_alone(
    json!({"result": {"kind": "task", "id": "t-9",
        "status": {"state": "input-required", "message": said("Which order?")}}}),
    json!({"taskId": "t-9"})
)]
#[tokio::test]
async fn a_conversation_continues_where_the_agent_keeps_it(
    #[case] first: Value,
    #[case] ids: Value,
) {
    let done = json!([{"parts": [text("refunded")]}]);
    let (_server, bodies, binding) = serve(vec![first, task("completed", done, json!(null))]).await;
    assert_eq!(decided(&converse(&binding).await), &json!("refunded"));

    let bodies = bodies.lock().unwrap();
    let messages: Vec<&Value> = bodies.iter().map(|it| &it["params"]["message"]).collect();
    assert_eq!(messages.len(), 2);
    let ids_of = |message: &Value| {
        let mut ids = message.clone();
        let members = ids.as_object_mut().unwrap();
        for known in ["kind", "role", "messageId", "parts"] {
            members.remove(known).unwrap();
        }
        ids
    };
    assert_eq!(ids_of(messages[0]), json!({}));
    assert_eq!(ids_of(messages[1]), ids);
    // The agent knows what was said before.
    assert_eq!(messages[1]["parts"], json!([text("It is order 17.")]));
    assert_ne!(messages[0]["messageId"], messages[1]["messageId"]);
}

#[rstest]
#[case::no_context(json!({"result": said("Which order?")}), json!({"result": said("x")}), "a2a_no_context", 1)]
#[case::no_context_of_a_task(
    json!({"result": {"kind": "task", "id": "t-9", "artifacts": [{"parts": [text("x")]}],
        "status": {"state": "completed"}}}),
    json!({"result": said("x")}), "a2a_no_context", 1)]
#[case::other_context(
    task("completed", json!([{"parts": [text("x")]}]), json!(null)),
    json!({"result": {"kind": "message", "contextId": "other", "parts": [text("Which order?")]}}),
    "a2a_other_context", 2)]
#[tokio::test]
async fn a_conversation_that_the_agent_does_not_keep_is_unjudged(
    #[case] first: Value,
    #[case] second: Value,
    #[case] reason: &str,
    #[case] asked: usize,
) {
    let (_server, bodies, binding) = serve(vec![first, second]).await;
    assert_eq!(unjudged(&converse(&binding).await), reason);
    assert_eq!(bodies.lock().unwrap().len(), asked);
}

#[tokio::test]
async fn a_conversation_with_an_agent_that_streams_continues_in_its_context() {
    let events = [
        artifact("a", "Which order?", false),
        status("completed", json!(null)),
    ];
    let (_server, bodies, binding) = streaming(&events, json!({})).await;
    assert_eq!(decided(&converse(&binding).await), &json!("Which order?"));
    assert_eq!(methods(&bodies), ["message/stream"; 2]);
    let second = bodies.lock().unwrap()[1]["params"]["message"].clone();
    assert_eq!(second["contextId"], json!("c"));
    assert_eq!(second["referenceTaskIds"], json!(["t-9"]));
}

#[tokio::test]
async fn a_simulated_user_talks_to_an_a2a_agent() {
    let question = task("input-required", json!(null), said("Which order?"));
    let done = json!([{"parts": [text("refunded")]}]);
    let (_server, bodies, binding) =
        serve(vec![question, task("completed", done, json!(null))]).await;
    let says = |when: &str, reply: Value| json!({"when": {"contains": when}, "turns": [{"output": reply}]});
    let script = json!({"rules": [
        says("assistant: refunded", json!({"done": true, "message": ""})),
        says("assistant: Which order?", json!({"done": false, "message": "Order 17."})),
        says("write first", json!({"done": false, "message": "I want a refund."})),
    ]});
    let script = Script::parse(script.to_string().as_bytes()).unwrap();
    let model = bound(ScriptedModel::new(script, info()));
    let user = serde_json::from_value(json!({"goal": "A refund", "opens": true})).unwrap();
    let dialogue = Dialogue {
        files: &[],
        messages: &[],
        turns: UserTurns::Simulated {
            user: &user,
            model: &model,
        },
    };
    let trial = Trial::new(agent(&[], None));
    let result = trial.converse(&binding, dialogue).await;
    assert_eq!(decided(&result), &json!("refunded"));
    let bodies = bodies.lock().unwrap();
    let parts: Vec<&Value> = bodies
        .iter()
        .map(|it| &it["params"]["message"]["parts"])
        .collect();
    assert_eq!(
        parts,
        [
            &json!([text("I want a refund.")]),
            &json!([text("Order 17.")])
        ]
    );
}

/// An agent whose card says that it streams.
async fn streaming(events: &[Value], then: Value) -> (MockServer, Bodies, ModelBinding) {
    let server = MockServer::start().await;
    let url = format!("{}/agent", server.uri());
    let card = json!({"name": "x", "url": url, "capabilities": {"streaming": true}});
    Mock::given(method("GET"))
        .and(path("/.well-known/agent-card.json"))
        .respond_with(ResponseTemplate::new(200).set_body_json(card))
        .mount(&server)
        .await;
    let text: String = events
        .iter()
        .map(|event| {
            format!(
                "data: {}\n\n",
                json!({"jsonrpc": "2.0", "id": 1, "result": event})
            )
        })
        .collect();
    let bodies = Bodies::default();
    let kept = Arc::clone(&bodies);
    Mock::given(method("POST"))
        .and(path("/agent"))
        .respond_with(move |request: &Request| {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let streams = body["method"] == json!("message/stream");
            kept.lock().unwrap().push(body);
            if streams {
                return ResponseTemplate::new(200)
                    .set_body_raw(format!(": hello\n\n{text}"), "text/event-stream");
            }
            let mut answer = then.clone();
            answer["id"] = json!(1);
            ResponseTemplate::new(200).set_body_json(answer)
        })
        .mount(&server)
        .await;
    let binding = agent_at(&server, info());
    (server, bodies, binding)
}

fn methods(bodies: &Bodies) -> Vec<String> {
    let bodies = bodies.lock().unwrap();
    let name = |body: &Value| body["method"].as_str().unwrap().to_owned();
    bodies.iter().map(name).collect()
}

fn status(state: &str, message: Value) -> Value {
    json!({"kind": "status-update", "taskId": "t-9", "contextId": "c", "final": false,
           "status": {"state": state, "message": message}})
}

fn artifact(id: &str, what: &str, append: bool) -> Value {
    json!({"kind": "artifact-update", "taskId": "t-9", "contextId": "c", "append": append,
           "artifact": {"artifactId": id, "parts": [text(what)]}})
}

#[rstest]
#[case::pieces(&[task("submitted", json!(null), json!(null))["result"].clone(), status("working", said("hm")),
                 artifact("a", "fi", false), artifact("a", "ne", true), status("completed", json!(null))])]
#[case::anew(&[artifact("a", "bad", false), artifact("a", "fine", false), status("completed", said("done"))])]
#[case::a_message(&[said("fine")])]
#[case::a_question(&[status("input-required", said("fine"))])]
#[case::a_whole_task(&[task("completed", json!([{"parts": [text("fine")]}]), json!(null))["result"].clone()])]
#[tokio::test]
async fn an_agent_that_streams_is_followed(#[case] events: &[Value]) {
    let (_server, bodies, binding) = streaming(events, json!({})).await;
    let trial = Trial::new(agent(&[], None));
    assert_eq!(decided(&trial.run(&binding).await), &json!("fine"));
    assert_eq!(methods(&bodies), ["message/stream"]);
    assert_eq!(
        bodies.lock().unwrap()[0]["params"]["message"]["messageId"]
            .as_str()
            .unwrap()
            .len(),
        43
    );
}

#[tokio::test]
async fn a_task_whose_stream_ends_early_is_asked_for() {
    let then = task("completed", json!([{"parts": [text("fine")]}]), json!(null));
    let (_server, bodies, binding) = streaming(
        &[status("working", json!(null)), artifact("a", "half", false)],
        then,
    )
    .await;
    let trial = Trial::new(agent(&[], None));
    assert_eq!(decided(&trial.run(&binding).await), &json!("fine"));
    assert_eq!(methods(&bodies), ["message/stream", "tasks/get"]);
}

#[rstest]
#[case(&[status("failed", said("canary-leak"))], "agent_failed", 1)]
#[case(&[status("auth-required", json!(null))], "unauthorized", 1)]
#[case(&[], "malformed_reply", 3)]
#[case(&[json!({"kind": "poem"})], "malformed_reply", 3)]
#[case(&[artifact("a", "x", false), json!({"kind": "status-update", "taskId": "other", "status": {"state": "completed"}})],
       "malformed_reply", 3)]
#[tokio::test]
async fn an_invalid_stream_leaves_the_task_unjudged(
    #[case] events: &[Value],
    #[case] reason: &str,
    #[case] asked: usize,
) {
    let (_server, bodies, binding) = streaming(events, json!({})).await;
    let trial = Trial::new(agent(&[], None));
    assert_eq!(unjudged(&trial.run(&binding).await), reason);
    assert_eq!(methods(&bodies).len(), asked);
    let events = format!("{:?}", trial.recorder.events.lock().unwrap());
    assert!(!events.contains("canary-leak"), "{events}");
}

/// Waits until the agent receives the request to cancel the task.
async fn cancelled(bodies: &Bodies) -> Value {
    let last = || bodies.lock().unwrap().last().cloned();
    let begun = Instant::now();
    loop {
        match last() {
            Some(body) if body["method"] == "tasks/cancel" => return body["params"].clone(),
            _ => assert!(begun.elapsed() < TOO_LONG, "{:?}", methods(bodies)),
        }
        crate::support::pause().await;
    }
}

/// An agent that never ends its task, whether it streams or not.
async fn endless(streams: bool) -> (MockServer, Bodies) {
    let working = task("working", json!(null), json!(null));
    let (server, bodies, _) = match streams {
        true => streaming(&[status("working", json!(null))], working).await,
        false => serve(vec![working]).await,
    };
    (server, bodies)
}

#[rstest]
#[tokio::test]
async fn a_timed_out_task_is_cancelled_at_the_agent(#[values(true, false)] streams: bool) {
    let (server, bodies) = endless(streams).await;
    let hasty = ModelInfo {
        timeout: Duration::from_secs(3),
        ..info()
    };
    let trial = Trial::new(agent(&[], None));
    let result = trial.run(&agent_at(&server, hasty)).await;
    // Another attempt would only find the cancelled task.
    assert_eq!(unjudged(&result), "timeout");
    assert_eq!(cancelled(&bodies).await, json!({"id": "t-9"}));
    let methods = methods(&bodies);
    let count = |name: &str| methods.iter().filter(|method| *method == name).count();
    assert_eq!(
        count("message/stream") + count("message/send"),
        1,
        "{methods:?}"
    );
    assert_eq!(count("tasks/cancel"), 1, "{methods:?}");
}

#[rstest]
#[tokio::test]
async fn an_abandoned_task_is_cancelled_at_the_agent(#[values(true, false)] streams: bool) {
    let (server, bodies) = endless(streams).await;
    let binding = agent_at(&server, info());
    let run = tokio::spawn(async move { Trial::new(agent(&[], None)).run(&binding).await });
    while !methods(&bodies).contains(&"tasks/get".to_owned()) {
        crate::support::pause().await;
    }
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    assert_eq!(cancelled(&bodies).await, json!({"id": "t-9"}));
}
