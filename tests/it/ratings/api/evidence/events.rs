//! Evidence: recorded once, rejected per event, read in pages.

use axum::http::{Method, StatusCode};
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::access::Scope;
use touchstone_ratings::http::rates::RatingRates;

use crate::ratings::api::{Engine, Site, refusal, site};

fn ago(seconds: i64) -> String {
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    (now - SignedDuration::from_secs(seconds)).to_string()
}

fn completed(agent: &str, id: &str, seconds_ago: i64) -> Value {
    json!({"id": id, "agent_id": agent, "type": "task_completed", "timestamp": ago(seconds_ago),
        "data": {"task_id": format!("task-{id}"), "completion_status": "accepted", "time_to_complete_seconds": 60,
            "revision_count": 0, "errors": []}})
}

fn with(mut event: Value, pointer: &str, value: Value) -> Value {
    *event.pointer_mut(pointer).unwrap() = value;
    event
}

#[rstest]
#[tokio::test]
async fn invalid_events_of_a_batch_are_refused_individually(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let agent = site.enrol("triage").await;
    let foreign = site
        .send_as(
            &site.theirs,
            Method::POST,
            "agents",
            Some(&json!({"name": "b"})),
        )
        .await;
    let foreign = foreign.json()["id"].as_str().unwrap().to_owned();
    // An event just beyond the limit would come within it while the request is on its way.
    site.host.clock.stop_at(Timestamp::now());
    let sound = completed(&agent, "e1", 100);
    let mut batch = vec![
        sound.clone(),
        sound.clone(),
        with(completed(&agent, "e2", 100), "/type", json!("task_done")),
        completed(&agent, "e3", -302),
        completed(&agent, "e4", 181 * 86_400),
        completed(&foreign, "e5", 100),
        with(
            completed(&agent, "e6", 100),
            "/data/completion_status",
            json!("done"),
        ),
        completed(&agent, "e7", 90),
    ];
    batch.push(json!({"agent_id": agent}));
    let answer = site.post("events/batch", &json!({"events": batch})).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
    let answer = answer.json();
    assert_eq!(
        (&answer["accepted"], &answer["rejected"]),
        (&json!(3), &json!(6))
    );
    let errors = answer["errors"].as_array().unwrap();
    let errors: Vec<(u64, &str)> = errors
        .iter()
        .map(|it| (it["index"].as_u64().unwrap(), it["error"].as_str().unwrap()))
        .collect();
    assert_eq!(
        errors,
        [
            (2, "Invalid event type"),
            (3, "Timestamp in future"),
            (4, "Timestamp older than retention"),
            (5, "Unknown agent_id"),
            (6, "Invalid value: data.completion_status"),
            (8, "Missing required field: type"),
        ]
    );
    let kept = site.get(&format!("events?agent_id={agent}")).await.json();
    let ids: Vec<&str> = kept["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["e1", "e7"], "by time");
    // Sending the same batch again records nothing new.
    let again = site.post("events/batch", &json!({"events": [sound]})).await;
    assert_eq!(again.json()["accepted"], 1);
    let again = site.get(&format!("events?agent_id={agent}")).await.json();
    assert_eq!(again, kept);
    let nothing = site
        .post("events/batch", &json!({"events": [{"agent_id": agent}]}))
        .await;
    assert_eq!(
        refusal(&nothing),
        (StatusCode::BAD_REQUEST, "INVALID_REQUEST".to_owned())
    );
    assert_eq!(nothing.json()["error"]["details"]["rejected"], 1);
    for many in [0, 1001] {
        let batch = vec![json!({}); many];
        let refused = site.post("events/batch", &json!({"events": batch})).await;
        assert_eq!(refused.json()["error"]["details"]["field"], "events");
    }
    let archived = site
        .send(Method::DELETE, &format!("agents/{agent}"), None)
        .await;
    assert_eq!(archived.status, StatusCode::NO_CONTENT);
    let late = site.post("events", &completed(&agent, "late", 10)).await;
    assert_eq!(
        late.json()["error"]["message"],
        "This agent is archived or suspended"
    );
}

#[rstest]
#[tokio::test]
async fn an_event_is_recorded_once_with_scored_members_only(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let agent = site.enrol("triage").await;
    let mut event = completed(&agent, "e1", 100);
    event["data"]["transcript"] = json!("canary-content");
    event["data"]["errors"] = json!([{"severity": "minor", "text": "canary-content"}]);
    let first = site.post("events", &event).await;
    assert_eq!(first.status, StatusCode::CREATED, "{first:?}");
    assert_eq!(
        first.json()["data"]["errors"],
        json!([{"severity": "minor"}])
    );
    let again = site.post("events", &event).await;
    assert_eq!(again.status, StatusCode::OK);
    assert_eq!(
        again.json(),
        first.json(),
        "the first recording is returned"
    );
    // The id belongs to this event only.
    let conflict = (StatusCode::CONFLICT, "CONFLICT".to_owned());
    let other = site.enrol("other").await;
    let status = ("/data/completion_status", json!("rejected"));
    for (pointer, value) in [
        status,
        ("/timestamp", json!(ago(99))),
        ("/agent_id", json!(other)),
    ] {
        let changed = with(event.clone(), pointer, value);
        let refused = site.post("events", &changed).await;
        assert_eq!(refusal(&refused), conflict, "{pointer}");
        let batch = json!({"events": [changed, changed, completed(&agent, pointer, 50)]});
        let answer = site.post("events/batch", &batch).await.json();
        assert_eq!(
            (&answer["accepted"], &answer["rejected"]),
            (&json!(1), &json!(2)),
            "{answer}"
        );
        let errors = answer["errors"].as_array().unwrap();
        for (place, error) in errors.iter().enumerate() {
            assert_eq!(
                (&error["index"], &error["code"]),
                (&json!(place), &json!("CONFLICT"))
            );
        }
        let alone = json!({"events": [changed]});
        let refused = site.post("events/batch", &alone).await;
        assert_eq!(refusal(&refused), conflict, "{pointer}");
    }
    let mut twice = completed(&agent, "twice", 40);
    let first_of_two = twice.clone();
    twice["data"]["revision_count"] = json!(3);
    let batch = json!({"events": [first_of_two, twice]});
    let answer = site.post("events/batch", &batch).await.json();
    assert_eq!(answer["errors"][0]["index"], 1, "{answer}");
    let kept = site.get(&format!("events?agent_id={other}")).await.json();
    assert_eq!(kept["data"], json!([]));
    assert!(!site.get("events").await.text().contains("canary-content"));
    event.as_object_mut().unwrap().remove("id");
    let minted = site.post("events", &event).await;
    assert_eq!(minted.status, StatusCode::CREATED);
    assert_eq!(minted.json()["id"].as_str().unwrap().len(), 36);
    let unknown = site
        .post("events", &with(event, "/type", json!("task_done")))
        .await;
    assert_eq!(
        refusal(&unknown),
        (StatusCode::BAD_REQUEST, "INVALID_EVENT_TYPE".to_owned())
    );
    // The same id from another organization is a different event.
    let theirs = site
        .send_as(
            &site.theirs,
            Method::POST,
            "agents",
            Some(&json!({"name": "b"})),
        )
        .await;
    let theirs = theirs.json()["id"].as_str().unwrap().to_owned();
    let event = completed(&theirs, "e1", 100);
    let recorded = site
        .send_as(&site.theirs, Method::POST, "events", Some(&event))
        .await;
    assert_eq!(recorded.status, StatusCode::CREATED);
}

#[rstest]
#[tokio::test]
async fn evidence_is_found_by_agent_type_and_time_page_by_page(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let agents = [site.enrol("a").await, site.enrol("b").await];
    for agent in &agents {
        let mut events: Vec<Value> = (0..9)
            .map(|n| completed(agent, &format!("{agent}-{n}"), 1000 - n * 100))
            .collect();
        // Events with the same time are ordered by arrival.
        events.push(completed(agent, &format!("{agent}-same"), 1000));
        events.push(json!({"id": format!("{agent}-tool"), "agent_id": agent, "type": "tool_invoked", "timestamp": ago(500),
            "data": {"task_id": "t", "tool": "grep", "success": true, "unnecessary": false, "error_recovered": null}}));
        let answer = site.post("events/batch", &json!({"events": events})).await;
        assert_eq!(answer.json()["accepted"], 11, "{answer:?}");
    }
    let walk = async |query: &str| {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = site
                .get(&format!("events?limit=4{query}{cursor}"))
                .await
                .json();
            let data = page["data"].as_array().unwrap();
            seen.extend(data.iter().map(|it| it["id"].as_str().unwrap().to_owned()));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return seen,
            }
        }
    };
    let all = walk("").await;
    assert_eq!(all.len(), 22);
    let first = &agents[0];
    let of_first = walk(&format!("&agent_id={first}")).await;
    assert_eq!(of_first.len(), 11);
    assert_eq!(
        of_first[..2],
        [format!("{first}-0"), format!("{first}-same")]
    );
    assert_eq!(walk("&type=tool_invoked").await.len(), 2);
    let none = walk("&agent_id=00000000-0000-4000-8000-000000000000").await;
    assert!(none.is_empty());
    let tool = walk(&format!("&agent_id={first}&type=tool_invoked")).await;
    assert_eq!(tool, [format!("{first}-tool")]);
    let window = format!("&agent_id={first}&from={}&to={}", ago(900), ago(600));
    let within = walk(&window).await;
    let near = |n: i64| format!("{first}-{n}");
    assert!(
        within.contains(&near(2))
            && within.contains(&near(3))
            && !within.contains(&near(0))
            && !within.contains(&near(5)),
        "{within:?}"
    );
    let refused = site.get("events?type=task_done").await;
    assert_eq!(
        refusal(&refused),
        (StatusCode::BAD_REQUEST, "INVALID_EVENT_TYPE".to_owned())
    );
    let day = |seconds: i64| ago(seconds)[..10].to_owned();
    let days = format!("&agent_id={first}&from={}&to={}", day(86_400), day(-86_400));
    assert_eq!(walk(&days).await, of_first);
    let before = walk(&format!("&agent_id={first}&to={}", day(86_400))).await;
    assert!(before.is_empty(), "{before:?}");
    // A time without an offset is not a day.
    let refused = site.get("events?from=2026-04-16T12:00:00").await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    let refused = site.get("events?from=yesterday").await;
    assert_eq!(refused.json()["error"]["details"]["field"], "from");
}

#[rstest]
#[case::no_id("id", json!(""))]
#[case::no_task("data.task_id", json!(""))]
#[case::a_story_for_a_name("data.domain", json!("canary ".repeat(100)))]
#[case::short_to_send_and_long_to_keep("data.errors", json!(vec![0; 501]))]
#[case::names_of_names("data.review_checklist", json!({"canary ".repeat(100): true}))]
#[case::many_short("data.tools_used", json!(vec![json!({"tool": "t", "invocations": 1, "successes": 1}); 501]))]
#[case::long_altogether("data", json!(null))]
#[tokio::test]
async fn an_event_that_holds_too_much_is_refused_by_the_member(
    #[case] member: &str,
    #[case] value: Value,
) {
    site!(Engine::Sqlite => site);
    let agent = site.enrol("triage").await;
    let mut event = completed(&agent, "e1", 10);
    match member {
        "id" => event["id"] = value,
        "data" => {
            let tool = |n: usize| json!({"tool": format!("{n}{}", "t".repeat(200)), "invocations": 1, "successes": 1});
            event["data"]["tools_used"] = (0..80).map(tool).collect();
        }
        _ => event["data"][member.trim_start_matches("data.")] = value,
    }
    let refused = site.post("events", &event).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    let message = format!("Invalid value: {member}");
    assert_eq!(refused.json()["error"]["message"], message);
    assert!(!refused.text().contains("canary"));
    let none = site.get("events").await.json();
    assert_eq!(none["data"], json!([]));
}

#[tokio::test]
async fn an_agent_cannot_report_its_stress_tests_or_use_projected_event_ids() {
    site!(Engine::Sqlite => site);
    let agent = site.enrol("triage").await;
    let assessment = crate::ratings::api::assessments::ordered(&site, &agent).await;
    let tenant = site.ours.id.clone();
    let own = site.host.issue(|issue| {
        issue.tenant = tenant.as_str().into();
        issue.scopes = vec![Scope::EventsWrite, Scope::ConfigWrite];
        issue.principal = Some(agent.clone());
    });
    let own = own.await;
    let mut active = completed(&agent, "e1", 10);
    active["data"]["assessment_id"] = json!(assessment);
    let projected = completed(&agent, "2a7d3a3c-2f1d-5b5e-9c11-6f2f0d3b1a77", 10);
    for (event, why) in [(active, "Stress test results"), (projected, "version 5")] {
        let call = site.host.request(Method::POST, "/api/v1/events").key(&own);
        let refused = call.json(&event).send().await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
        assert!(refused.text().contains(why), "{refused:?}");
        let taken = site.post("events", &event).await;
        assert_eq!(taken.status, StatusCode::CREATED, "{taken:?}");
    }
    // An agent cannot set its own measurement basis either.
    let call = site
        .host
        .request(Method::PUT, "/api/v1/config/taxonomy")
        .key(&own);
    let body = json!({"domain_taxonomy": ["easy"]});
    let refused = call.json(&body).send().await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{refused:?}");
}

#[tokio::test]
async fn an_idempotent_repeat_is_answered_without_counting_again() {
    let rates = RatingRates {
        requests_per_minute: 0,
        events_per_minute: 1,
        assessments_per_hour: 1,
    };
    let site = Site::with(Engine::Sqlite, rates).await.unwrap();
    let agent = site.enrol("triage").await;
    let mut event = completed(&agent, "e1", 10);
    event.as_object_mut().unwrap().remove("id");
    let send = async |key: &str| {
        let call = site.host.request(Method::POST, "/api/v1/events");
        let call = call.key(&site.ours.key).header("idempotency-key", key);
        call.json(&event).send().await
    };
    let first = send("k1").await;
    assert_eq!(first.status, StatusCode::CREATED, "{first:?}");
    for _ in 0..3 {
        let again = send("k1").await;
        assert_eq!((again.status, again.json()), (first.status, first.json()));
    }
    assert_eq!(send("k2").await.status, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn an_agents_key_cannot_record_the_ground_truth_of_its_decisions() {
    site!(Engine::Sqlite => site);
    let agent = site.enrol("triage").await;
    let tenant = site.ours.id.clone();
    let own = site
        .host
        .issue(|issue| {
            issue.tenant = tenant.as_str().into();
            issue.scopes = vec![Scope::EventsWrite];
            issue.principal = Some(agent.clone());
        })
        .await;
    let decision = |truth: Value| {
        json!({"agent_id": agent, "type": "delegation_decision", "timestamp": ago(10), "data": {"task_id": "t",
            "task_fragment": "f", "decision": "self", "delegate_to": null, "ground_truth": truth}})
    };
    let mut embedded = completed(&agent, "e1", 10);
    embedded["data"]["delegation_decisions"] = json!([{"task_fragment": "f", "decision": "self", "delegate_to": null,
        "ground_truth": null, "correct": true}]);
    let send = async |key: &str, event: &Value| {
        let call = site.host.request(Method::POST, "/api/v1/events").key(key);
        call.json(event).send().await
    };
    assert_eq!(
        send(&own, &decision(json!(null))).await.status,
        StatusCode::CREATED
    );
    for told in [decision(json!("self")), embedded] {
        let refused = send(&own, &told).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        assert!(
            refused.text().contains("Ground truth"),
            "{}",
            refused.text()
        );
        assert_eq!(
            send(&site.ours.key, &told).await.status,
            StatusCode::CREATED
        );
    }
}

#[tokio::test]
async fn requests_and_events_are_rate_limited_per_key() {
    let rates = RatingRates {
        requests_per_minute: 4,
        events_per_minute: 3,
        assessments_per_hour: 1,
    };
    let site = Site::with(Engine::Sqlite, rates).await.unwrap();
    let agent = site.enrol("triage").await;
    let batch = |ids: &[&str]| {
        let events: Vec<Value> = ids.iter().map(|id| completed(&agent, id, 10)).collect();
        json!({"events": events})
    };
    let taken = site.post("events/batch", &batch(&["a", "b"])).await;
    assert_eq!(taken.status, StatusCode::CREATED);
    let refused = site.post("events/batch", &batch(&["c", "d"])).await;
    assert_eq!(
        refusal(&refused),
        (StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED".to_owned())
    );
    assert!(
        refused
            .header("retry-after")
            .unwrap()
            .parse::<u64>()
            .unwrap()
            >= 1
    );
    assert_eq!(refused.json()["error"]["details"]["scope"], "events");
    let listed = site.get("events").await.json();
    assert_eq!(
        listed["data"].as_array().unwrap().len(),
        2,
        "no event of the batch was recorded"
    );
    let refused = site.get("events").await;
    assert_eq!(refused.json()["error"]["details"]["scope"], "requests");
    let theirs = site
        .send_as(&site.theirs, Method::GET, "events", None)
        .await;
    assert_eq!(theirs.status, StatusCode::OK);
}
