//! The items that wait for their export. Recording never waits: beyond the limits an item is
//! dropped, and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prost::Message;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::otlp::sender::Sender;
use crate::rules::telemetry::settings::{Signal, SignalExport};
use crate::telemetry::{Metrics, names};

/// Maximum bytes of the items that wait.
const MAX_BYTES: usize = 16 << 20;
/// Bytes after which an export is sent; collectors accept 4 MiB by default.
const MAX_EXPORT_BYTES: usize = 1 << 20;

/// The items of one signal.
pub struct Queue<T> {
    signal: Signal,
    sender: mpsc::Sender<(T, usize)>,
    bytes: Arc<AtomicUsize>,
}

impl<T: Message> Queue<T> {
    /// Adds an item, or drops it if too many wait.
    pub fn put(&self, item: T) {
        let size = item.encoded_len();
        let before = self.bytes.fetch_add(size, Ordering::Relaxed);
        let is_full = before + size > MAX_BYTES;
        if is_full || self.sender.try_send((item, size)).is_err() {
            self.bytes.fetch_sub(size, Ordering::Relaxed);
            dropped(self.signal, "queue_full", 1);
        }
    }
}

/// Exports the counters of a signal before they count, so that their first increase is visible.
pub fn counted(signal: Signal) {
    Metrics::install();
    for reason in ["queue_full", "refused", "export_failed"] {
        dropped(signal, reason, 0);
    }
    metrics::counter!(names::TELEMETRY_FAILURES, "signal" => signal.lower()).increment(0);
}

pub fn dropped(signal: Signal, reason: &'static str, items: u64) {
    let signal = signal.lower();
    metrics::counter!(names::TELEMETRY_DROPPED, "signal" => signal, "reason" => reason)
        .increment(items);
}

/// Logs the first failure of a signal and its recovery, not each failure between.
pub struct Outage {
    signal: Signal,
    fails: bool,
}

impl Outage {
    pub const fn new(signal: Signal) -> Self {
        Self {
            signal,
            fails: false,
        }
    }

    /// Sends an export of this many items, without retries after `stop`.
    pub async fn send(
        &mut self,
        sender: &Sender,
        message: &[u8],
        items: usize,
        stop: &CancellationToken,
    ) {
        let signal = self.signal.lower();
        match sender.send(message, stop).await {
            Ok(refused) => {
                if refused > 0 {
                    dropped(self.signal, "refused", refused);
                }
                if std::mem::take(&mut self.fails) {
                    tracing::info!(signal, "the OTLP endpoint accepts telemetry again");
                }
            }
            Err(error) => {
                dropped(self.signal, "export_failed", items as u64);
                metrics::counter!(names::TELEMETRY_FAILURES, "signal" => signal).increment(1);
                if !std::mem::replace(&mut self.fails, true) {
                    tracing::error!(
                        signal,
                        cause = error.label,
                        "could not export telemetry to the OTLP endpoint; runs are not affected"
                    );
                }
            }
        }
    }
}

/// The export of a queue, until `stop`. What waits then is sent once, without retries.
pub struct Exporter<T> {
    receiver: mpsc::Receiver<(T, usize)>,
    bytes: Arc<AtomicUsize>,
    sender: Sender,
    outage: Outage,
    every: Duration,
    max_batch: usize,
}

/// A queue and its export.
///
/// # Errors
/// As [`Sender::new`].
pub fn queue<T: Message>(export: &SignalExport) -> Result<(Queue<T>, Exporter<T>), String> {
    let (sender, receiver) = mpsc::channel(export.max_queue);
    let bytes = Arc::new(AtomicUsize::new(0));
    let queue = Queue {
        signal: export.signal,
        sender,
        bytes: bytes.clone(),
    };
    let exporter = Exporter {
        receiver,
        bytes,
        sender: Sender::new(export)?,
        outage: Outage::new(export.signal),
        every: export.every,
        max_batch: export.max_batch,
    };
    Ok((queue, exporter))
}

impl<T: Message> Exporter<T> {
    /// `encode` makes the request message of a batch.
    pub async fn run(mut self, stop: CancellationToken, encode: impl Fn(Vec<T>) -> Vec<u8>) {
        loop {
            let batch = self.batch(&stop).await;
            if !batch.is_empty() {
                let items = batch.len();
                let message = encode(batch);
                self.outage.send(&self.sender, &message, items, &stop).await;
            } else if stop.is_cancelled() {
                return;
            }
        }
    }

    /// The next items: what arrives within the interval after the first one, up to the limits.
    async fn batch(&mut self, stop: &CancellationToken) -> Vec<T> {
        let (mut batch, mut size) = (Vec::new(), 0);
        let mut ends: Option<Instant> = None;
        while batch.len() < self.max_batch && size < MAX_EXPORT_BYTES {
            let waited = async {
                match ends {
                    Some(ends) => sleep_until(ends).await,
                    None => std::future::pending().await,
                }
            };
            let next = tokio::select! {
                biased;
                next = self.receiver.recv() => next,
                () = stop.cancelled() => None,
                () = waited => None,
            };
            let Some((item, bytes)) = next else {
                break;
            };
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            ends.get_or_insert_with(|| Instant::now() + self.every);
            size += bytes;
            batch.push(item);
        }
        batch
    }
}
