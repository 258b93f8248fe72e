//! Many consumers of one run, and consumers that do not read.

use axum::http::Method;
use futures_util::future::join_all;
use http_body_util::BodyExt as _;

use crate::http::support::host::{TestHost, says};
use crate::http::support::recorder::{Recorder, cancelled, padded, started, step};
use crate::http::support::sse::Frames;

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

/// The resident memory of this process.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
    kilobytes.parse::<usize>().unwrap() * 1024
}

/// Over real sockets: events that a consumer does not read are held in the log only.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn stalled_consumers_use_no_memory_and_lose_no_events() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    const SLOW: usize = 64;
    const EVENTS: u64 = 4096;
    const OCTETS: usize = 4096;
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let mut recorder = Recorder::of(&host).await;
    recorder.append(vec![started()]).await;
    let address = host.listen().await;
    let request = format!(
        "GET /v1/runs/{}/events?streamMode=debug HTTP/1.1\r\nhost: h\r\nconnection: close\r\nauthorization: Bearer {}\r\n\r\n",
        recorder.run, host.key
    );
    let mut slow = Vec::new();
    for _ in 0..SLOW {
        let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut status = [0; 15];
        socket.read_exact(&mut status).await.unwrap();
        assert_eq!(&status, b"HTTP/1.1 200 OK");
        slow.push(socket);
    }
    let path = format!("/v1/runs/{}/events?streamMode=debug", recorder.run);
    let quick = tokio::spawn(read(host.request(Method::GET, &path).open().await));
    let before = resident();
    for round in 0..EVENTS / 256 {
        let batch = (0..256).map(|n| padded(round * 256 + n, OCTETS)).collect();
        recorder.append(batch).await;
    }
    recorder.append(vec![cancelled()]).await;
    assert_eq!(
        quick.await.unwrap(),
        recorder.written(),
        "fast readers do not wait for slow ones"
    );
    let grown = resident().saturating_sub(before);
    let whole = SLOW * EVENTS as usize * OCTETS;
    assert!(
        grown < whole / 4,
        "{grown} of {whole} bytes are held for consumers"
    );
    // One of them finally reads everything, one reconnects at its position.
    let mut late = slow.pop().unwrap();
    let mut taken = Vec::new();
    late.read_to_end(&mut taken).await.unwrap();
    drop(slow);
    let ids: Vec<u64> = String::from_utf8_lossy(&taken)
        .lines()
        .filter_map(|line| line.strip_prefix("id: "))
        .map(|id| id.parse().unwrap())
        .collect();
    assert_eq!(ids, (1..=recorder.written()).collect::<Vec<_>>());
    let resumed = host
        .request(Method::GET, &path)
        .header("last-event-id", "4000");
    let rest = Frames::of(resumed.open().await).rest().await;
    assert_eq!(rest[0].id, "4001");
    assert_eq!(rest.len() as u64, recorder.written() - 4000);
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
