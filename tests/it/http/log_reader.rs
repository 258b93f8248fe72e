//! The shared reader, for any log and any way of asking.

use std::sync::Arc;

use proptest::prelude::*;
use touchstone::ports::Head;
use touchstone::service::log_reader::{Filter, LogReader};

use super::host::{TestHost, says};
use super::recorder::{Recorder, cancelled, step};

/// Frames after a position by filtering and printing, one by one.
fn expected(bodies: &[(u64, String, String)], after: u64, upto: u64, filter: Filter) -> String {
    bodies
        .iter()
        .filter(|(sequence, kind, _)| *sequence > after && *sequence <= upto && filter.passes(kind))
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
                    let log = host.store.read(&recorder.run, 0, 10_000).await.unwrap();
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
                            Filter::Everything,
                            Filter::Updates,
                            Filter::Messages,
                            Filter::UpdatesAndMessages,
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
async fn those_who_ask_for_the_same_page_share_it() {
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

#[tokio::test]
async fn a_head_the_store_does_not_keep_is_an_error_and_no_short_page() {
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
