//! One log under both majors: numbers, polls, streams, forks and differences.

use axum::http::Method;
use http_body_util::BodyExt as _;
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::access::Scope;
use touchstone_host::ports::ids::Ids as _;
use touchstone_host::system::SystemIds;
use touchstone_kit::ids::RunId;
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::log::LogMark;
use touchstone_runs::store as run_store;

use crate::http::majors::{both, under_v2};
use crate::http::support::host::{TestHost, create_body, says};
use crate::http::support::recorder::{Recorder, cancelled, started, step};
use crate::support::asyncapi;

/// What made a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    /// A version of this host before major 2.
    Before,
    UnderV1,
    UnderV2,
}

impl Made {
    const ALL: [Self; 3] = [Self::Before, Self::UnderV1, Self::UnderV2];

    /// The number of its first event under both majors.
    fn first(self) -> (u64, u64) {
        match self {
            Self::Before => (1, 1),
            Self::UnderV1 => (1, 0),
            Self::UnderV2 => (0, 0),
        }
    }

    async fn run(self, host: &TestHost) -> RunId {
        match self {
            Self::UnderV1 => host.create().await,
            Self::UnderV2 => {
                let created = under_v2(host, "POST", "/runs").json(&create_body());
                let created = created.send().await.json();
                let id = created["runId"].as_str().unwrap();
                id.strip_prefix("acme/").unwrap().into()
            }
            Self::Before => {
                let new = host.create().await;
                let found = run_store::runs::find(&host.store, &"acme".into(), &new).await;
                let mut record = found.unwrap().unwrap();
                record.run_id = SystemIds.mint("run").into();
                record.log = LogMark::default();
                run_store::runs::create(&host.store, &record, None)
                    .await
                    .unwrap();
                record.run_id
            }
        }
    }

    /// A log of `count` events that a test writes.
    async fn recorder(self, host: &TestHost, count: u64, ended: bool) -> Recorder {
        let run = self.run(host).await;
        let mut recorder = Recorder::of_run(host, run).await;
        let events = (1..=count).map(|n| match n {
            1 => started(),
            n if n == count && ended => cancelled(),
            n => step(n),
        });
        recorder.append(events.collect()).await;
        recorder
    }
}

async fn host() -> TestHost {
    let host = both().await;
    host.equip(&says(&["a"])).await;
    host
}

async fn poll_v1(host: &TestHost, run: &RunId, query: &str) -> Value {
    let path = format!("/v1/runs/{run}/events/poll?timeout=1{query}");
    host.get(&path).await.json()
}

async fn poll_v2(host: &TestHost, run: &RunId, query: &str) -> Value {
    let path = format!("/runs/acme~2F{run}/events/poll?timeout=1{query}");
    let reply = under_v2(host, "GET", &path).send().await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text());
    reply.json()
}

fn numbers(page: &Value) -> Vec<u64> {
    let events = page["events"].as_array().unwrap();
    let number = |event: &Value| event["sequence"].as_u64().unwrap();
    events.iter().map(number).collect()
}

#[derive(Debug)]
struct Frame {
    id: Option<u64>,
    event: String,
    data: Value,
}

/// The frames of a stream that ends.
async fn stream(
    host: &TestHost,
    (path, version): (String, &str),
    last: Option<&str>,
) -> Vec<Frame> {
    let major = match version {
        "1.0" => Major::V1,
        _ => Major::V2,
    };
    let call = host.request(Method::GET, &path);
    let call = call.header("openwop-version", version);
    let call = match last {
        Some(id) => call.header("last-event-id", id),
        None => call,
    };
    let response = call.open().await;
    assert_eq!(response.status().as_u16(), 200, "{path}");
    let text = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(text.to_vec()).unwrap();
    let blocks = text.split_terminator("\n\n");
    blocks
        .filter(|block| !block.starts_with(':'))
        .map(|block| {
            let field = |name: &str| {
                let value = block.lines().find_map(|line| line.strip_prefix(name));
                value.map(str::to_owned)
            };
            let frame = Frame {
                id: field("id: ").map(|id| id.parse().unwrap()),
                event: field("event: ").unwrap(),
                data: serde_json::from_str(&field("data: ").unwrap()).unwrap(),
            };
            asyncapi::check_frame(major, &frame.event, &frame.data);
            frame
        })
        .collect()
}

async fn stream_v1(host: &TestHost, run: &RunId, query: &str, last: Option<&str>) -> Vec<Frame> {
    let path = format!("/v1/runs/{run}/events?{query}");
    stream(host, (path, "1.0"), last).await
}

async fn stream_v2(host: &TestHost, run: &RunId, query: &str, last: Option<&str>) -> Vec<Frame> {
    let path = format!("/runs/acme~2F{run}/events?{query}");
    stream(host, (path, "2.0"), last).await
}

fn ids(frames: &[Frame]) -> Vec<u64> {
    frames.iter().map(|frame| frame.id.unwrap()).collect()
}

#[tokio::test]
async fn a_log_begins_with_the_number_of_the_major_that_made_its_run() {
    let host = host().await;
    for made in Made::ALL {
        let recorder = made.recorder(&host, 300, true).await;
        let run = &recorder.run;
        let (v1, v2) = made.first();
        let expected = |first: u64| (first..first + 300).collect::<Vec<_>>();
        assert_eq!(
            numbers(&poll_v1(&host, run, "").await),
            expected(v1),
            "{made:?}"
        );
        assert_eq!(
            numbers(&poll_v2(&host, run, "").await),
            expected(v2),
            "{made:?}"
        );
        for query in ["streamMode=debug", "streamMode=updates,debug"] {
            let frames = stream_v1(&host, run, query, None).await;
            assert_eq!(ids(&frames), expected(v1), "{made:?}");
            let frames = stream_v2(&host, run, query, None).await;
            assert_eq!(ids(&frames), expected(v2), "{made:?}");
        }
        let bundle = host.get(&format!("/v1/runs/{run}/debug-bundle")).await;
        assert_eq!(numbers(&bundle.json()), expected(v1), "{made:?}");
        let era = match made {
            Made::Before => 2,
            Made::UnderV1 | Made::UnderV2 => 3,
        };
        let in_v1 = host.get(&format!("/v1/runs/{run}")).await.json();
        let in_v2 = under_v2(&host, "GET", &format!("/runs/acme~2F{run}"));
        let in_v2 = in_v2.send().await.json();
        assert_eq!(in_v1["eventLogSchemaVersion"], era, "{made:?}");
        assert_eq!(in_v2["eventLogSchemaVersion"], era, "{made:?}");
    }
}

#[tokio::test]
async fn events_have_the_same_ids_and_times_under_both_majors() {
    let host = host().await;
    for made in Made::ALL {
        let recorder = made.recorder(&host, 20, true).await;
        let of = |page: &Value| -> Vec<Value> {
            let events = page["events"].as_array().unwrap();
            let fact = |event: &Value| json!([event["eventId"], event["timestamp"]]);
            events.iter().map(fact).collect()
        };
        let in_v1 = poll_v1(&host, &recorder.run, "").await;
        let in_v2 = poll_v2(&host, &recorder.run, "").await;
        assert_eq!(of(&in_v1), of(&in_v2), "{made:?}");
        assert_eq!(in_v2["events"][0]["engineVersion"], 1);
        let run = format!("acme/{}", recorder.run);
        assert_eq!(in_v2["events"][0]["runId"], json!(run));
        assert_eq!(in_v2["runId"], json!(run));
    }
}

#[tokio::test]
async fn a_poll_of_each_major_goes_on_after_the_last_event() {
    let host = host().await;
    for made in Made::ALL {
        let recorder = made.recorder(&host, 12, true).await;
        let run = &recorder.run;
        let (v1, v2) = made.first();
        for n in v1.max(1)..v1 + 12 {
            let page = poll_v1(&host, run, &format!("&lastSequence={n}")).await;
            let rest: Vec<u64> = (n + 1..v1 + 12).collect();
            assert_eq!(numbers(&page), rest, "{made:?} {n}");
            assert_eq!(page["isComplete"], true);
        }
        // It stands for nothing, also in a log that has an event 0.
        let page = poll_v1(&host, run, "&lastSequence=0").await;
        assert_eq!(page, poll_v1(&host, run, "").await, "{made:?}");
        for n in v2..v2 + 12 {
            let page = poll_v2(&host, run, &format!("&afterSequence={n}")).await;
            let rest: Vec<u64> = (n + 1..v2 + 12).collect();
            assert_eq!(numbers(&page), rest, "{made:?} {n}");
            assert_eq!(
                (&page["lastSequence"], &page["isTerminal"], &page["status"]),
                (&json!(v2 + 11), &json!(true), &json!("cancelled")),
            );
        }
        let whole = poll_v2(&host, run, "").await;
        for query in ["&afterSequence=-1", "&lastSequence=7", "&since=7"] {
            assert_eq!(poll_v2(&host, run, query).await, whole, "{made:?} {query}");
        }
        let past = poll_v2(&host, run, "&afterSequence=999").await;
        assert_eq!(
            (&past["events"], &past["lastSequence"]),
            (&json!([]), &whole["lastSequence"])
        );
    }
}

#[tokio::test]
async fn a_poll_of_an_empty_log_has_no_last_sequence() {
    let host = host().await;
    let run = Made::UnderV2.run(&host).await;
    let page = poll_v2(&host, &run, "").await;
    let expected = json!({"runId": format!("acme/{run}"), "events": [], "lastSequence": -1,
        "status": "pending", "isTerminal": false});
    assert_eq!(page, expected);
}

#[rstest]
#[case("afterSequence=abc", "afterSequence")]
#[case("afterSequence=-2", "afterSequence")]
#[case("timeout=0", "timeout")]
#[tokio::test]
async fn a_poll_of_major_2_names_what_is_wrong(#[case] query: &str, #[case] field: &str) {
    let host = host().await;
    let recorder = Made::UnderV2.recorder(&host, 2, true).await;
    let path = format!("/runs/acme~2F{}/events/poll?{query}", recorder.run);
    let reply = under_v2(&host, "GET", &path).send().await;
    assert_eq!(reply.code(), "validation_error");
    assert_eq!(reply.json()["details"]["field"], field);
}

#[tokio::test]
async fn a_stream_of_each_major_resumes_after_any_event() {
    let host = host().await;
    for made in Made::ALL {
        let recorder = made.recorder(&host, 30, true).await;
        let run = &recorder.run;
        for query in [
            "streamMode=debug",
            "streamMode=updates",
            "streamMode=debug&bufferMs=5000",
        ] {
            let in_v1 = stream_v1(&host, run, "streamMode=debug", None).await;
            let in_v2 = stream_v2(&host, run, "streamMode=debug", None).await;
            for (n, (one, two)) in in_v1.iter().zip(&in_v2).enumerate() {
                let whole = stream_v1(&host, run, query, None).await;
                let id = one.id.unwrap().to_string();
                let rest = stream_v1(&host, run, query, Some(&id)).await;
                check_rest(&whole, &rest, one.id.unwrap());
                let whole = stream_v2(&host, run, query, None).await;
                let id = two.id.unwrap().to_string();
                let rest = stream_v2(&host, run, query, Some(&id)).await;
                check_rest(&whole, &rest, two.id.unwrap());
                assert_eq!(one.data["eventId"], two.data["eventId"], "{n}");
                if n > 3 {
                    break;
                }
            }
        }
        let past = stream_v2(
            &host,
            run,
            "streamMode=debug",
            Some("999999999999999999999"),
        )
        .await;
        assert!(past.is_empty());
    }
}

/// Fails unless a stream has exactly the entries of the whole one after a number.
fn check_rest(whole: &[Frame], rest: &[Frame], last: u64) {
    let entries = |frames: &[Frame]| -> Vec<u64> {
        let of_frame = |frame: &Frame| match &frame.data {
            Value::Array(entries) => entries.clone(),
            entry => vec![entry.clone()],
        };
        let entries = frames.iter().flat_map(of_frame);
        entries.map(|it| it["sequence"].as_u64().unwrap()).collect()
    };
    let expected: Vec<u64> = entries(whole).into_iter().filter(|n| *n > last).collect();
    assert_eq!(entries(rest), expected);
}

#[rstest]
#[case("evt_1")]
#[case("-1")]
#[case("1.5")]
#[case("")]
#[tokio::test]
async fn a_stream_of_major_2_resumes_after_a_number_only(#[case] last: &str) {
    let host = host().await;
    let recorder = Made::UnderV2.recorder(&host, 2, true).await;
    let path = format!("/runs/acme~2F{}/events", recorder.run);
    let call = under_v2(&host, "GET", &path).header("last-event-id", last);
    let reply = call.send().await;
    assert_eq!(reply.code(), "validation_error");
    assert_eq!(reply.json()["details"]["field"], "Last-Event-ID");
}

#[tokio::test]
async fn modes_of_major_2_show_this_hosts_types_in_debug_alone() {
    let host = host().await;
    let recorder = Made::UnderV2.recorder(&host, 12, true).await;
    let run = &recorder.run;
    let debug = stream_v2(&host, run, "streamMode=debug", None).await;
    let log = poll_v2(&host, run, "").await;
    let shown: Vec<&Value> = debug.iter().map(|frame| &frame.data).collect();
    assert_eq!(
        shown,
        log["events"].as_array().unwrap().iter().collect::<Vec<_>>()
    );
    assert!(debug.iter().all(|it| it.data["type"] == it.event));
    let updates = stream_v2(&host, run, "", None).await;
    let kinds: Vec<&str> = updates.iter().map(|it| it.event.as_str()).collect();
    let expected = [
        "run.started",
        "eval.scored",
        "eval.scored",
        "eval.scored",
        "run.cancelled",
    ];
    assert_eq!(kinds, expected);
    // A frame of a mixed mode names the mode that admits it.
    let mixed = stream_v2(&host, run, "streamMode=debug,updates", None).await;
    assert_eq!(mixed.len(), 12);
    for frame in &mixed {
        let kind = frame.data["type"].as_str().unwrap();
        let mode = match expected.contains(&kind) {
            true => "updates",
            false => "debug",
        };
        assert_eq!(frame.event, mode, "{kind}");
    }
}

#[tokio::test]
async fn chunks_and_snapshots_are_bare_under_major_2() {
    let host = host().await;
    let run = Made::UnderV2.run(&host).await;
    let mut recorder = Recorder::of_run(&host, run).await;
    recorder.append(vec![started()]).await;
    let chunk = json!({"nodeId": "ask", "runId": recorder.run, "chunk": "Hi", "isLast": false});
    recorder.append_raw("ai.message.chunk", chunk).await;
    recorder.append(vec![cancelled()]).await;
    let run = &recorder.run;
    let chunk =
        json!({"nodeId": "ask", "runId": format!("acme/{run}"), "chunk": "Hi", "isLast": false});
    let messages = stream_v2(&host, run, "streamMode=messages", None).await;
    assert_eq!(messages.len(), 1);
    let found = (
        messages[0].id,
        messages[0].event.as_str(),
        &messages[0].data,
    );
    assert_eq!(found, (Some(1), "ai.message.chunk", &chunk));
    let mixed = stream_v2(&host, run, "streamMode=messages,updates", None).await;
    let modes: Vec<&str> = mixed.iter().map(|it| it.event.as_str()).collect();
    assert_eq!(modes, ["updates", "messages", "updates"]);
    assert_eq!(mixed[1].data["type"], "output.chunk");
    assert_eq!(mixed[1].data["payload"], chunk);
    let values = stream_v2(&host, run, "streamMode=values", None).await;
    assert_eq!(values.len(), 1);
    assert_eq!(
        (values[0].id, values[0].event.as_str()),
        (Some(2), "state.snapshot")
    );
    let snapshot = under_v2(&host, "GET", &format!("/runs/acme~2F{run}"));
    assert_eq!(values[0].data, snapshot.send().await.json());
    let resumed = stream_v2(&host, run, "streamMode=values", Some("0")).await;
    assert_eq!(resumed.len(), 1);
}

#[tokio::test]
async fn a_log_with_an_event_that_major_2_lacks_is_not_shown_in_part() {
    let host = host().await;
    let mut recorder = Made::UnderV2.recorder(&host, 3, false).await;
    recorder.append_raw("later.invented", json!({"a": 1})).await;
    recorder.append(vec![cancelled()]).await;
    let run = &recorder.run;
    let path = format!("/runs/acme~2F{run}/events/poll?timeout=1");
    let reply = under_v2(&host, "GET", &path).at_fault().send().await;
    assert_eq!(reply.status.as_u16(), 500);
    assert_eq!(reply.code(), "event_type_unmapped");
    let details = &reply.json()["details"];
    assert_eq!(
        (&details["type"], &details["sequence"]),
        (&json!("later.invented"), &json!(3))
    );
    // A stream that ended at once would say that the run is over.
    let path = format!("/runs/acme~2F{run}/events?streamMode=debug");
    let reply = under_v2(&host, "GET", &path).at_fault().send().await;
    assert_eq!(reply.code(), "event_type_unmapped");
    let in_v1 = host.request(
        Method::GET,
        &format!("/v1/runs/{run}/events/poll?timeout=1"),
    );
    assert_eq!(in_v1.open().await.status().as_u16(), 200);
}

#[tokio::test]
async fn a_decision_names_an_interrupt_from_an_earlier_page() {
    let host = host().await;
    let run = Made::UnderV1.run(&host).await;
    let mut recorder = Recorder::of_run(&host, run).await;
    recorder.append(vec![started()]).await;
    let suspended =
        json!({"nodeId": "gate", "interruptId": "int-gate-1", "kind": "approval", "key": "k"});
    recorder.append_raw("node.suspended", suspended).await;
    recorder.append((3..=300).map(step).collect()).await;
    let granted = json!({"gateId": "gate", "principal": "key_1"});
    recorder
        .append_raw("approval.granted", granted.clone())
        .await;
    let first = poll_v2(&host, &recorder.run, "&afterSequence=299").await;
    // The tail has been read; it grows.
    recorder.append_raw("approval.granted", granted).await;
    recorder.append(vec![cancelled()]).await;
    let whole = poll_v2(&host, &recorder.run, "").await;
    let events = whole["events"].as_array().unwrap();
    assert_eq!(first["events"][0], events[300]);
    let interrupt = &events[1]["payload"]["interruptId"];
    assert!(
        interrupt.as_str().unwrap().starts_with("acme/int_"),
        "{interrupt}"
    );
    for decided in [&events[300], &events[301]] {
        assert_eq!(&decided["payload"]["interruptId"], interrupt);
    }
}

#[tokio::test]
async fn task_content_is_masked_before_the_names_change() {
    let host = host().await;
    let mut recorder = Made::UnderV2.recorder(&host, 2, false).await;
    let called = json!({"agentId": "a.b.c", "toolName": "look", "callId": "c1", "inputs": {"secret": "canary"}});
    recorder.append_raw("agent.toolCalled", called).await;
    recorder.append(vec![cancelled()]).await;
    let reader = host.key_with(&[Scope::RunsRead]).await;
    let path = format!("/runs/acme~2F{}/events/poll?timeout=1", recorder.run);
    let reply = under_v2(&host, "GET", &path).key(&reader).send().await;
    assert!(
        reply.text().contains("agent.tool-called"),
        "{}",
        reply.text()
    );
    assert!(!reply.text().contains("canary"), "{}", reply.text());
    assert!(
        under_v2(&host, "GET", &path)
            .send()
            .await
            .text()
            .contains("canary")
    );
}

#[tokio::test]
async fn a_fork_counts_like_its_source() {
    let host = host().await;
    host.work();
    for made in Made::ALL {
        let run = made.run(&host).await;
        host.ended_of(&run).await;
        let source = poll_v2(&host, &run, "").await;
        let (v1, v2) = made.first();
        let last = source["lastSequence"].as_u64().unwrap();
        let path = format!("/runs/acme~2F{run}:fork");
        let fork = |body: Value| {
            let call = under_v2(&host, "POST", &path).json(&body);
            async move { call.send().await }
        };
        let past = fork(json!({"mode": "replay", "fromSeq": last + 1})).await;
        assert_eq!(past.code(), "fork_point_invalid", "{made:?}");
        assert_eq!(past.json()["details"]["lastSequence"], last, "{made:?}");
        let replay = fork(json!({"mode": "replay", "fromSeq": last}))
            .await
            .json();
        assert_eq!(replay["fromSeq"], last, "{replay}");
        let replay: RunId = opaque(&replay).into();
        host.ended_of(&replay).await;
        let copy = poll_v2(&host, &replay, "").await;
        let kinds = |page: &Value| -> Vec<(u64, String)> {
            let events = page["events"].as_array().unwrap();
            let of = |event: &Value| {
                let kind = event["type"].as_str().unwrap().to_owned();
                (event["sequence"].as_u64().unwrap(), kind)
            };
            events.iter().map(of).collect()
        };
        assert_eq!(kinds(&copy), kinds(&source), "{made:?}");
        assert_eq!(
            kinds(&poll_v1(&host, &replay, "").await),
            kinds(&poll_v1(&host, &run, "").await),
            "{made:?}"
        );
        // A branch keeps the events before `fromSeq`.
        for kept in [0, 1, 3] {
            let from = v2 + kept;
            let branch = fork(json!({"mode": "branch", "fromSeq": from}))
                .await
                .json();
            let branch: RunId = opaque(&branch).into();
            host.ended_of(&branch).await;
            let record = run_store::runs::find(&host.store, &"acme".into(), &branch).await;
            let record = record.unwrap().unwrap();
            assert_eq!(record.fork.unwrap().history, kept, "{made:?}");
            let found = kinds(&poll_v2(&host, &branch, "").await);
            let count = usize::try_from(kept).unwrap();
            assert_eq!(found[..count], kinds(&source)[..count], "{made:?}");
            let first = match kept {
                0 => 0,
                _ => v2,
            };
            assert_eq!(found[0].0, first, "{made:?}");
        }
        // Under major 1, its own numbers count.
        let body = json!({"mode": "branch", "fromSeq": v1 + 2});
        let branch = host
            .post(&format!("/v1/runs/{run}:fork"), &body)
            .await
            .json();
        assert_eq!(branch["fromSeq"], v1 + 2);
        let branch: RunId = branch["runId"].as_str().unwrap().into();
        let record = run_store::runs::find(&host.store, &"acme".into(), &branch).await;
        assert_eq!(
            record.unwrap().unwrap().fork.unwrap().history,
            2,
            "{made:?}"
        );
        let snapshot = host.get(&format!("/v1/runs/{branch}")).await.json();
        assert_eq!(snapshot["fork"]["fromSeq"], v1 + 2, "{made:?}");
    }
}

fn opaque(created: &Value) -> &str {
    let id = created["runId"]
        .as_str()
        .unwrap_or_else(|| panic!("{created}"));
    id.strip_prefix("acme/").unwrap()
}

#[tokio::test]
async fn differences_have_the_form_of_their_major() {
    let host = host().await;
    for made in Made::ALL {
        let (v1, v2) = made.first();
        let one = made.recorder(&host, 6, true).await;
        let two = made.recorder(&host, 8, true).await;
        let path = format!("/v1/runs/{}:diff?against={}", one.run, two.run);
        let in_v1 = host.get(&path).await.json();
        let path = format!("/runs/acme~2F{}:diff?against=acme~2F{}", one.run, two.run);
        let reply = under_v2(&host, "GET", &path).send().await;
        let in_v2 = reply.json();
        // The sixth event ends the first run.
        assert_eq!(in_v1["divergedAtSeq"], v1 + 5, "{made:?}");
        assert_eq!(in_v2["divergedAtSeq"], v2 + 5, "{in_v2}");
        let of = |diff: &Value, run: &str| {
            let one = &diff["eventDiffs"][0];
            assert_eq!(one["seq"], one["bEvent"]["sequence"]);
            assert_eq!(one["aEvent"]["runId"], run);
        };
        of(&in_v1, one.run.as_str());
        of(&in_v2, &format!("acme/{}", one.run));
        assert_eq!(in_v2["eventDiffs"][2]["bEvent"]["engineVersion"], 1);
    }
}
