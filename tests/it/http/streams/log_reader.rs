//! The shared log reader, for any log and any query.

use std::sync::Arc;

use proptest::prelude::*;
use touchstone_host::ports::run_log::Head;
use touchstone_openwop::wire::Major;
use touchstone_runs::service::log_reader::filter::Filter;
use touchstone_runs::service::log_reader::page::PAGE_BYTES;
use touchstone_runs::service::log_reader::{LogForm, LogReader};
use touchstone_runs::store as run_store;

use crate::http::support::host::{TestHost, says};
use crate::http::support::recorder::{Recorder, cancelled, padded, started, step};

/// The frames after a position, filtered and printed one by one.
fn expected(bodies: &[(u64, String, String)], after: u64, upto: u64, filter: Filter) -> String {
    bodies
        .iter()
        .filter(|(sequence, _, _)| *sequence > after && *sequence <= upto)
        .filter(|(_, kind, _)| filter.passes(Major::V1, kind))
        .map(|(sequence, kind, body)| format!("id: {sequence}\nevent: {kind}\ndata: {body}\n\n"))
        .collect()
}

#[test]
fn pages_hold_exactly_the_log_after_any_position_whatever_was_asked_before() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let host = runtime.block_on(async {
        let host = TestHost::idle().await;
        host.equip(&says(&["a"])).await;
        host
    });
    let config = ProptestConfig {
        cases: 24,
        ..ProptestConfig::default()
    };
    let asks = proptest::collection::vec((0_usize..1000, 0_usize..4), 1..40);
    let growth = proptest::collection::vec(1_u64..300, 1..6);
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&(growth, asks), |(growth, asks)| {
            runtime.block_on(async {
                let reader = LogReader::with_cache_bytes(host.store.clone(), 200_000);
                let mut recorder = Recorder::of(&host).await;
                let mut asks = asks.iter().cycle();
                for grown in growth {
                    recorder
                        .append((0..grown).map(|n| step(n + recorder.written())).collect())
                        .await;
                    let head = reader.head(&recorder.run).await.unwrap();
                    assert_eq!(
                        head,
                        Head {
                            sequence: recorder.written(),
                            ended: false
                        }
                    );
                    let log = run_store::runs::read(&host.store, &recorder.run, 0, 10_000)
                        .await
                        .unwrap();
                    let bodies: Vec<_> = log
                        .iter()
                        .map(|event| {
                            (
                                event.sequence,
                                event.kind.to_string(),
                                String::from_utf8(event.body.to_vec()).unwrap(),
                            )
                        })
                        .collect();
                    for _ in 0..8 {
                        let (position, filter) = asks.next().unwrap();
                        let position = *position as u64 % head.sequence;
                        let filter = [
                            Filter::DEBUG,
                            Filter::UPDATES,
                            Filter::MESSAGES,
                            Filter::UPDATES_AND_MESSAGES,
                        ][*filter];
                        let page = reader
                            .page_after(&recorder.run, position, head.sequence)
                            .await
                            .unwrap();
                        assert!(page.last() > position && page.last() <= head.sequence);
                        let frames = page.frames_after(position, filter).unwrap_or_default();
                        assert_eq!(
                            String::from_utf8(frames.to_vec()).unwrap(),
                            expected(&bodies, position, page.last(), filter)
                        );
                        let got: Vec<u64> = page
                            .events_after(position)
                            .iter()
                            .map(|event| event.sequence)
                            .collect();
                        assert_eq!(got, (position + 1..=page.last()).collect::<Vec<_>>());
                    }
                }
                recorder.append(vec![cancelled()]).await;
            });
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn concurrent_readers_of_a_page_share_one_read() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let recorder = Recorder::log_of(&host, 300, false).await;
    let reader = LogReader::new(host.store.clone());
    for position in [0, 299] {
        let asks = (0..16).map(|_| reader.page_after(&recorder.run, position, 300));
        let pages = futures_util::future::try_join_all(asks).await.unwrap();
        assert!(pages.iter().all(|page| Arc::ptr_eq(page, &pages[0])));
    }
}

/// Sixty-four consumers that do not read would otherwise hold the memory of all readers.
#[tokio::test]
async fn large_pages_are_read_once_while_a_reader_holds_them() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let mut recorder = Recorder::of(&host).await;
    recorder.append(vec![started()]).await;
    for count in [256, 200] {
        let events = (0..count).map(|n| padded(n, 24 * 1024)).collect();
        recorder.append(events).await;
    }
    let reader = LogReader::with_cache_bytes(host.store.clone(), 1024 * 1024);
    let stored = run_store::runs::find(&host.store, &"acme".into(), &recorder.run).await;
    let record = stored.unwrap().unwrap();
    let run = &recorder.run;
    let cut = reader.page_after(run, 0, 257).await.unwrap().last();
    assert!(cut < 256, "the first page is full because of its size");
    // A reader that knows one event of the second page gets what the page has by then.
    for (position, head) in [(0, 257), (cut, 257), (256, 257), (256, 457)] {
        for major in [Major::V1, Major::V2] {
            let form = LogForm::of(&record, major);
            let asks = (0..16).map(|_| reader.page_for(run, position, head, &form));
            let pages = futures_util::future::try_join_all(asks).await.unwrap();
            assert!(pages.iter().all(|page| Arc::ptr_eq(page, &pages[0])));
            let again = reader.page_for(run, position, head, &form).await.unwrap();
            assert!(Arc::ptr_eq(&again, &pages[0]));
        }
    }
}

#[tokio::test]
async fn a_head_beyond_the_stored_log_is_an_error() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let recorder = Recorder::log_of(&host, 10, false).await;
    let reader = LogReader::new(host.store.clone());
    assert!(reader.page_after(&recorder.run, 0, 11).await.is_err());
    assert!(reader.page_after(&recorder.run, 0, 500).await.is_err());
    assert_eq!(
        reader
            .page_after(&recorder.run, 0, 10)
            .await
            .unwrap()
            .last(),
        10
    );
}

/// As many events as a page holds, each of half a megabyte: the log ends with the last one.
async fn large_log(host: &TestHost) -> Recorder {
    let mut recorder = Recorder::of(host).await;
    for n in 1..=40_u64 {
        let event = match n {
            1 => started(),
            40 => cancelled(),
            _ => padded(n, 512 * 1024),
        };
        recorder.append(vec![event]).await;
    }
    recorder
}

#[tokio::test]
async fn a_page_of_large_events_is_cut_by_its_bytes() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let recorder = large_log(&host).await;
    let reader = LogReader::new(host.store.clone());
    for start in [0, 3, 8, 17, 39] {
        let mut position = start;
        while position < 40 {
            let page = reader
                .page_after(&recorder.run, position, 40)
                .await
                .unwrap();
            let events = page.events_after(position);
            let bytes: usize = events.iter().map(|event| event.body.len()).sum();
            assert!(bytes < PAGE_BYTES + 600_000, "{bytes}");
            let got: Vec<u64> = events.iter().map(|event| event.sequence).collect();
            assert_eq!(got, (position + 1..=page.last()).collect::<Vec<_>>());
            assert!(page.last() > position);
            position = page.last();
        }
    }
}

#[tokio::test]
async fn polls_and_streams_of_large_events_bring_all_of_them() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let recorder = large_log(&host).await;
    let (mut last, mut polls) = (0, 0);
    loop {
        let path = format!("/v1/runs/{}/events/poll?lastSequence={last}", recorder.run);
        let reply = host.get(&path).await;
        assert_eq!(reply.status, 200);
        assert!(reply.text().len() <= PAGE_BYTES + 100);
        let page = reply.json();
        for event in page["events"].as_array().unwrap() {
            assert_eq!(event["sequence"], last + 1);
            last += 1;
        }
        polls += 1;
        if page["isComplete"] == true {
            break;
        }
    }
    assert_eq!(last, 40);
    assert!(polls >= 5, "{polls}");
    for buffer in ["", "&bufferMs=50"] {
        let path = format!("/v1/runs/{}/events?streamMode=debug{buffer}", recorder.run);
        let stream = host.get(&path).await.text();
        assert_eq!(stream.matches("\"eventId\"").count(), 40);
    }
    // No event passes the filter, so the response is an empty page.
    let path = format!("/v1/runs/{}/events?streamMode=messages", recorder.run);
    let json = host
        .request(axum::http::Method::GET, &path)
        .header("accept", "application/json");
    let page = json.send().await.json();
    assert_eq!(
        (&page["isComplete"], &page["events"]),
        (&true.into(), &serde_json::json!([]))
    );
}
