//! A thousand consumers of one run.

use axum::http::Method;
use futures_util::future::join_all;
use http_body_util::BodyExt as _;

use super::host::{TestHost, says};
use super::recorder::{Recorder, cancelled, step};

const CONSUMERS: usize = 1000;
const ROUNDS: u64 = 20;
const PER_ROUND: u64 = 50;

/// Counts frames and checks that their ids are 1, 2, 3, … without keeping them.
async fn read(response: axum::response::Response) -> u64 {
    let mut body = response.into_body();
    let (mut next, mut carry) = (1_u64, Vec::new());
    while let Some(frame) = body.frame().await {
        carry.extend_from_slice(&frame.unwrap().into_data().unwrap());
        let mut from = 0;
        while let Some(end) = carry[from..].windows(2).position(|pair| pair == b"\n\n") {
            let block = &carry[from..from + end];
            from += end + 2;
            if block.starts_with(b"id: ") {
                let id = block[4..].split(|b| *b == b'\n').next().unwrap();
                assert_eq!(
                    std::str::from_utf8(id).unwrap().parse::<u64>().unwrap(),
                    next
                );
                next += 1;
            }
        }
        carry.drain(..from);
    }
    next - 1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_consumers_of_one_run_each_get_every_event() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let mut recorder = Recorder::log_of(&host, 500, false).await;
    let path = format!("/v1/runs/{}/events?streamMode=debug", recorder.run);
    let opened = join_all((0..CONSUMERS).map(|_| host.request(Method::GET, &path).open())).await;
    let reading: Vec<_> = opened
        .into_iter()
        .map(|response| tokio::spawn(read(response)))
        .collect();
    for round in 0..ROUNDS {
        recorder
            .append(
                (0..PER_ROUND)
                    .map(|n| step(round * PER_ROUND + n))
                    .collect(),
            )
            .await;
        tokio::task::yield_now().await;
    }
    recorder.append(vec![cancelled()]).await;
    for consumer in reading {
        assert_eq!(consumer.await.unwrap(), recorder.written());
    }
}
