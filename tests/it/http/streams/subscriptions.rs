//! Event streams and polls.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use touchstone_host::access::Scope;
use touchstone_host::http::HttpSettings;
use touchstone_kit::ids::RunId;

use crate::http::runs::workflows::start;
use crate::http::support::host::{TestHost, id_of, says};
use crate::http::support::recorder::{Recorder, cancelled, started, step};
use crate::http::support::sse::{Frame, Frames};

async fn host() -> TestHost {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    host
}

async fn open(host: &TestHost, recorder: &Recorder, query: &str, last: Option<&str>) -> Frames {
    let call = host.request(
        Method::GET,
        &format!("/v1/runs/{}/events?{query}", recorder.run),
    );
    let call = match last {
        Some(id) => call.header("last-event-id", id),
        None => call,
    };
    Frames::of(call.open().await)
}

fn sequences(frames: &[Frame]) -> Vec<u64> {
    frames.iter().flat_map(Frame::sequences).collect()
}

#[tokio::test]
async fn debug_mode_streams_the_whole_log_and_updates_mode_a_part() {
    let host = host().await;
    let recorder = Recorder::log_of(&host, 700, true).await;
    let debug = open(&host, &recorder, "streamMode=debug", None)
        .await
        .rest()
        .await;
    assert_eq!(sequences(&debug), (1..=700).collect::<Vec<_>>());
    assert!(debug.iter().all(|frame| frame.data["type"] == frame.event
        && frame.sequences() == [frame.id.parse::<u64>().unwrap()]));
    let updates = open(&host, &recorder, "", None).await.rest().await;
    let expected: Vec<&Frame> = debug
        .iter()
        .filter(|frame| frame.event.starts_with("run.") || frame.event.starts_with("eval."))
        .collect();
    assert_eq!(updates.iter().collect::<Vec<_>>(), expected);
    assert!(
        open(&host, &recorder, "streamMode=messages", None)
            .await
            .rest()
            .await
            .is_empty()
    );
    let mixed = open(&host, &recorder, "streamMode=messages,updates", None)
        .await
        .rest()
        .await;
    assert_eq!(mixed, updates);
    let mixed = open(&host, &recorder, "streamMode=updates,debug", None)
        .await
        .rest()
        .await;
    assert_eq!(mixed, debug);
}

/// Resumes at every position, by sequence and by event id, with and without buffering, in both
/// modes.
#[tokio::test]
async fn a_resumed_stream_sends_exactly_the_rest() {
    let host = host().await;
    let recorder = Recorder::log_of(&host, 300, true).await;
    for mode in ["debug", "updates"] {
        let whole = open(&host, &recorder, &format!("streamMode={mode}"), None)
            .await
            .rest()
            .await;
        for (n, frame) in whole.iter().enumerate() {
            let event_id = frame.data["eventId"].as_str().unwrap();
            for (id, query) in [
                (frame.id.as_str(), format!("streamMode={mode}")),
                (event_id, format!("streamMode={mode}")),
                (
                    frame.id.as_str(),
                    format!("streamMode={mode}&bufferMs=5000"),
                ),
            ] {
                let rest = open(&host, &recorder, &query, Some(id)).await.rest().await;
                assert_eq!(
                    sequences(&rest),
                    sequences(&whole[n + 1..]),
                    "{query} after {id}"
                );
            }
        }
    }
}

#[tokio::test]
async fn an_invalid_resume_position_is_ignored_and_one_past_the_end_ends_the_stream() {
    let host = host().await;
    let recorder = Recorder::log_of(&host, 10, true).await;
    for id in [
        "evt_absent",
        "-1",
        "1.5",
        "canary !",
        "99999999999999999999999999",
        "",
    ] {
        let frames = open(&host, &recorder, "streamMode=debug", Some(id))
            .await
            .rest()
            .await;
        assert_eq!(frames.len(), 10, "{id:?}");
    }
    assert!(
        open(&host, &recorder, "streamMode=debug", Some("999"))
            .await
            .rest()
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn live_events_follow_the_backlog_without_gaps_or_duplicates() {
    let host = host().await;
    let mut recorder = Recorder::log_of(&host, 300, false).await;
    let mut frames = open(&host, &recorder, "streamMode=debug", None).await;
    let mut seen = Vec::new();
    for round in 0..20 {
        while seen.len() < recorder.written() as usize {
            seen.extend(frames.next().await.unwrap().sequences());
        }
        recorder
            .append((0..round * 7 + 1).map(step).collect())
            .await;
    }
    recorder.append(vec![cancelled()]).await;
    seen.extend(sequences(&frames.rest().await));
    assert_eq!(seen, (1..=recorder.written()).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_stream_opened_before_the_first_event_waits_for_it() {
    let host = host().await;
    let mut recorder = Recorder::of(&host).await;
    let frames = open(&host, &recorder, "", None).await;
    let reading = tokio::spawn(frames.rest());
    recorder.append(vec![started()]).await;
    recorder.append(vec![cancelled()]).await;
    assert_eq!(sequences(&reading.await.unwrap()), [1, 2]);
}

/// Repeats what takes less than the time of a buffer, 5 seconds, until it does. A slow machine may
/// delay some of the attempts; a buffer that has to be waited for delays all of them.
async fn is_soon(attempt: impl AsyncFn() -> Duration) {
    let mut times = Vec::new();
    for _ in 0..5 {
        let took = attempt().await;
        if took < Duration::from_millis(4500) {
            return;
        }
        times.push(took);
    }
    panic!("it is buffered: {times:?}");
}

#[tokio::test]
async fn a_buffer_gathers_events_and_the_end_of_the_run_empties_it_at_once() {
    let host = host().await;
    is_soon(async || gathered(&host).await).await;
}

/// The time from the last events of a run to the end of a stream with a buffer.
async fn gathered(host: &TestHost) -> Duration {
    let mut recorder = Recorder::log_of(host, 5, false).await;
    let frames = open(host, &recorder, "streamMode=debug&bufferMs=5000", None).await;
    let reading = tokio::spawn(frames.rest());
    let began = std::time::Instant::now();
    recorder.append((6..9).map(step).collect()).await;
    recorder.append(vec![cancelled()]).await;
    let batches = reading.await.unwrap();
    let took = began.elapsed();
    assert!(batches.iter().all(|frame| frame.event == "batch"));
    assert_eq!(sequences(&batches), (1..=9).collect::<Vec<_>>());
    for batch in &batches {
        assert_eq!(batch.id, batch.sequences().last().unwrap().to_string());
    }
    assert!(batches.len() < 9);
    took
}

#[tokio::test]
async fn a_short_buffer_passes_events_while_the_run_is_running() {
    let host = host().await;
    let recorder = Recorder::log_of(&host, 5, false).await;
    let mut frames = open(&host, &recorder, "streamMode=debug&bufferMs=50", None).await;
    let batch = frames.next().await.unwrap();
    assert_eq!(
        (batch.event.as_str(), batch.sequences()),
        ("batch", vec![1, 2, 3, 4, 5])
    );
}

#[tokio::test]
async fn values_mode_shows_the_run_on_connect_and_at_its_end() {
    let host = host().await;
    let mut recorder = Recorder::log_of(&host, 4, false).await;
    let mut frames = open(&host, &recorder, "streamMode=values", None).await;
    let first = frames.next().await.unwrap();
    assert_eq!(
        (first.event.as_str(), first.id.as_str()),
        ("state.snapshot", "4")
    );
    assert_eq!(first.data["payload"]["status"], "running");
    recorder.append(vec![cancelled()]).await;
    let last = frames.rest().await.pop().unwrap();
    assert_eq!(last.data["payload"]["status"], "cancelled");
    assert_eq!(
        last.data["payload"],
        host.get(&format!("/v1/runs/{}", recorder.run)).await.json()
    );
    let resumed = open(&host, &recorder, "streamMode=values", Some("4"))
        .await
        .rest()
        .await;
    assert_eq!(resumed.len(), 1, "only the snapshot to continue from");
}

/// The stream of a run that will ask for an approval, opened before its first event.
async fn asking(query: &str) -> (TestHost, RunId, Frames) {
    let host = TestHost::idle().await;
    let run = start(&host, &json!({"workflowId": "conformance-approval"})).await;
    let path = format!("/v1/runs/{run}/events?{query}");
    let frames = Frames::of(host.request(Method::GET, &path).open().await);
    host.work();
    (host, run, frames)
}

async fn approve(host: &TestHost, run: &RunId) {
    let path = format!("/v1/runs/{run}/interrupts/gate");
    let body = json!({"resumeValue": {"action": "accept"}});
    let resumed = host.post(&path, &body).await;
    assert_eq!(resumed.status, StatusCode::OK, "{resumed:?}");
}

#[tokio::test]
async fn values_mode_shows_each_run_state_once() {
    let (host, run, mut frames) = asking("streamMode=values").await;
    let mut shown: Vec<Value> = Vec::new();
    while let Some(frame) = frames.next().await {
        let snapshot = frame.data["payload"].clone();
        assert_ne!(shown.last(), Some(&snapshot));
        if snapshot["status"] == "waiting-approval"
            && shown
                .last()
                .is_none_or(|last| last["status"] != "waiting-approval")
        {
            approve(&host, &run).await;
        }
        shown.push(snapshot);
    }
    let mut statuses: Vec<&str> = shown
        .iter()
        .map(|snapshot| snapshot["status"].as_str().unwrap())
        .collect();
    statuses.dedup();
    assert!(
        statuses.ends_with(&["waiting-approval", "completed"])
            || statuses.ends_with(&["waiting-approval", "running", "completed"]),
        "{statuses:?}"
    );
}

#[tokio::test]
async fn interrupts_are_sent_without_buffering() {
    is_soon(interrupted).await;
}

/// The time from the start of a run to its interrupt in a stream with a buffer.
async fn interrupted() -> Duration {
    let (host, run, mut frames) = asking("streamMode=updates&bufferMs=5000").await;
    let began = std::time::Instant::now();
    let mut told = false;
    while !told {
        let batch = frames.next().await.unwrap();
        let documents = batch.data.as_array().unwrap();
        told = documents
            .iter()
            .any(|document| document["type"] == "node.suspended");
    }
    let took = began.elapsed();
    approve(&host, &run).await;
    let last = frames.rest().await.pop().unwrap();
    let documents = last.data.as_array().unwrap();
    assert_eq!(documents.last().unwrap()["type"], "run.completed");
    took
}

#[tokio::test]
async fn messages_mode_streams_model_output_and_mixed_modes_their_union() {
    let host = TestHost::idle().await;
    host.work();
    let key = host
        .issue(|issue| {
            issue.test = true;
            issue.scopes = vec![Scope::RunsCreate];
        })
        .await;
    let config = json!({"tokens": ["Hello", " ", "world"], "delayMsPerToken": 20});
    let body = json!({"workflowId": "conformance-stream-text",
        "configurable": {"mockProvider": {"id": "stream-text", "config": config}}});
    let call = host.request(Method::POST, "/v1/runs").key(&key);
    let created = call.json(&body).send().await.json();
    let run = RunId::from(created["runId"].as_str().unwrap());
    let stream = async |mode: &str| {
        let path = format!("/v1/runs/{run}/events?streamMode={mode}");
        Frames::of(host.request(Method::GET, &path).open().await)
            .rest()
            .await
    };
    // All four streams live at once; at any pace, each is a selection of the same log.
    let (messages, updates, mixed, all) = tokio::join!(
        stream("messages"),
        stream("updates"),
        stream("messages,updates"),
        stream("debug")
    );
    let kind = |frame: &Frame| frame.event.clone();
    assert_eq!(
        messages.iter().map(kind).collect::<Vec<_>>(),
        ["ai.message.chunk"; 3]
    );
    let said: Vec<&Value> = messages
        .iter()
        .map(|frame| &frame.data["payload"])
        .collect();
    assert_eq!(
        said.iter().map(|chunk| &chunk["chunk"]).collect::<Vec<_>>(),
        ["Hello", " ", "world"]
    );
    assert!(
        said.iter()
            .all(|chunk| chunk["runId"] == run.as_str() && chunk["nodeId"].is_string())
    );
    let union: Vec<Frame> = all
        .iter()
        .filter(|frame| updates.contains(frame) || messages.contains(frame))
        .cloned()
        .collect();
    assert_eq!(mixed, union);
    assert_eq!(union.len(), messages.len() + updates.len());
    assert!(all.len() > union.len());
}

#[tokio::test]
async fn an_idle_stream_sends_keepalives() {
    let settings = HttpSettings {
        keepalive: Duration::from_millis(20),
        ..HttpSettings::default()
    };
    let host = TestHost::with(settings).await;
    host.equip(&says(&["a"])).await;
    let mut recorder = Recorder::of(&host).await;
    let mut frames = open(&host, &recorder, "streamMode=messages", None).await;
    // One at once and one after each interval; four of the usual intervals last a minute.
    let silence = async {
        for _ in 0..5 {
            frames.comment().await;
        }
    };
    let silence = tokio::time::timeout(Duration::from_secs(30), silence);
    silence.await.unwrap();
    recorder.append(vec![started(), cancelled()]).await;
    assert_eq!(frames.next().await, None);
}

#[tokio::test]
async fn a_stream_ends_when_its_key_is_revoked() {
    let settings = HttpSettings {
        keepalive: Duration::from_millis(20),
        ..HttpSettings::default()
    };
    let host = TestHost::with(settings).await;
    host.equip(&says(&["a"])).await;
    let recorder = Recorder::log_of(&host, 2, false).await;
    let key = host.key_with(Scope::ALL).await;
    let call = host.request(
        Method::GET,
        &format!("/v1/runs/{}/events?streamMode=debug", recorder.run),
    );
    let frames = Frames::of(call.key(&key).open().await);
    host.keys.revoke(&id_of(&key)).await.unwrap();
    assert_eq!(sequences(&frames.rest().await), [1, 2]);
}

#[tokio::test]
async fn streams_and_polls_end_when_the_host_shuts_down() {
    let host = host().await;
    let recorder = Recorder::log_of(&host, 2, false).await;
    let debug = open(&host, &recorder, "streamMode=debug", None).await;
    let values = open(&host, &recorder, "streamMode=values", None).await;
    let buffered = open(&host, &recorder, "streamMode=debug&bufferMs=5000", None).await;
    let path = format!(
        "/v1/runs/{}/events/poll?lastSequence=2&timeout=60",
        recorder.run
    );
    let shutdown = host.shutdown.clone();
    let polling = async { host.get(&path).await };
    let ((), poll, debug, values, buffered) = tokio::join!(
        async { shutdown.cancel() },
        polling,
        debug.rest(),
        values.rest(),
        buffered.rest(),
    );
    assert_eq!(poll.json(), json!({"events": [], "isComplete": false}));
    assert_eq!(sequences(&debug), [1, 2]);
    assert_eq!(values.len(), 1);
    assert_eq!(
        sequences(&buffered),
        [1, 2],
        "a buffer that is flushed early holds nothing back"
    );
}

#[tokio::test]
async fn one_subscriber_too_many_is_429_until_another_leaves() {
    let settings = HttpSettings {
        max_subscribers: 4,
        ..HttpSettings::default()
    };
    let host = TestHost::with(settings).await;
    host.equip(&says(&["a"])).await;
    let recorder = Recorder::log_of(&host, 2, false).await;
    let path = format!("/v1/runs/{}/events", recorder.run);
    let first = host.request(Method::GET, &path).open().await;
    let _second = host.request(Method::GET, &path).open().await;
    let refused = host.get(&path).await;
    assert_eq!(
        (refused.status, refused.code()),
        (StatusCode::TOO_MANY_REQUESTS, "rate_limited".to_owned())
    );
    assert_eq!(refused.header("retry-after"), Some("5"));
    drop(first);
    assert_eq!(
        host.request(Method::GET, &path).open().await.status(),
        StatusCode::OK
    );
}

#[tokio::test]
async fn a_poll_gives_what_comes_after_a_position() {
    let host = host().await;
    let recorder = Recorder::log_of(&host, 600, true).await;
    for after in [0, 1, 255, 256, 257, 511, 512, 599, 600, 601, 99_999] {
        let path = format!(
            "/v1/runs/{}/events/poll?lastSequence={after}&timeout=60",
            recorder.run
        );
        let page = host.get(&path).await.json();
        let got: Vec<u64> = page["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["sequence"].as_u64().unwrap())
            .collect();
        assert_eq!(got, (after + 1..=600).collect::<Vec<_>>(), "after {after}");
        assert_eq!(page["isComplete"], true);
    }
}

#[tokio::test]
async fn a_poll_at_the_head_waits_for_the_next_event_and_no_longer_than_asked() {
    let host = host().await;
    let mut recorder = Recorder::log_of(&host, 2, false).await;
    let path = format!("/v1/runs/{}/events/poll?lastSequence=2", recorder.run);
    let empty = host.get(&format!("{path}&timeout=1")).await.json();
    assert_eq!(empty, json!({"events": [], "isComplete": false}));
    let path = format!("{path}&timeout=60");
    let (page, ()) = tokio::join!(host.get(&path), recorder.append(vec![step(3)]));
    let page = page.json();
    assert_eq!(
        (page["events"][0]["sequence"].as_u64(), &page["isComplete"]),
        (Some(3), &json!(false))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poll_is_complete_exactly_with_the_terminal_event_even_if_it_comes_while_the_page_is_read()
 {
    const ROUNDS: u64 = 40;
    const POLLERS: usize = 12;
    let host = host().await;
    for _ in 0..ROUNDS {
        let mut recorder = Recorder::log_of(&host, 2, false).await;
        let path = format!(
            "/v1/runs/{}/events/poll?lastSequence=0&timeout=1",
            recorder.run
        );
        let polls = futures_util::future::join_all((0..POLLERS).map(|_| host.get(&path)));
        let (pages, ()) = tokio::join!(polls, recorder.append(vec![step(3), cancelled()]));
        for page in pages {
            let page = page.json();
            let events = page["events"].as_array().unwrap();
            let ended = events.last().unwrap()["type"] == "run.cancelled";
            assert_eq!(page["isComplete"], ended, "{} events", events.len());
        }
    }
}

#[tokio::test]
async fn a_client_that_takes_only_json_gets_the_backlog() {
    let host = host().await;
    let recorder = Recorder::log_of(&host, 9, false).await;
    let call = host.request(
        Method::GET,
        &format!("/v1/runs/{}/events?streamMode=debug", recorder.run),
    );
    let page = call
        .header("accept", "application/json")
        .header("last-event-id", "4")
        .send()
        .await
        .json();
    assert_eq!(page["events"].as_array().unwrap().len(), 5);
    assert_eq!(page["isComplete"], false);
}
