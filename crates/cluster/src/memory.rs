//! A message bus within one process, for tests.
//!
//! Like a server, it delivers a message of a queue again unless it is acknowledged in time.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::ports::bus::{Bus, BusError, Delivery, Receipt, Request};
use crate::rules::access::pools::Pool;
use crate::rules::lane::Lane;
use crate::rules::subjects::Address;

/// How long a delivered message waits for its acknowledgement.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(5);
/// Requests to one replica that may wait.
const MAX_REQUESTS: usize = 256;

#[derive(Clone, Default)]
pub struct MemoryBus(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    published: Notify,
}

#[derive(Default)]
struct State {
    queues: HashMap<Lane, VecDeque<Queued>>,
    replicas: HashMap<String, mpsc::Sender<Request>>,
    messages: u64,
}

struct Queued {
    id: u64,
    message: Bytes,
    deliveries: u64,
    /// Delivered, and delivered again at this time.
    again: Option<Instant>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryBus {
    fn take(&self, lane: &Lane, most: usize) -> Vec<Delivery> {
        let mut state = self.0.state();
        let now = Instant::now();
        let queue = state.queues.entry(lane.clone()).or_default();
        let ready = queue.iter_mut();
        let ready = ready.filter(|it| it.again.is_none_or(|again| again <= now));
        let taken = ready.take(most).map(|queued| {
            queued.again = Some(now + ACKNOWLEDGED_WITHIN);
            queued.deliveries += 1;
            let receipt = MemoryReceipt {
                bus: self.clone(),
                lane: lane.clone(),
                id: queued.id,
            };
            Delivery {
                message: queued.message.clone(),
                deliveries: queued.deliveries,
                receipt: Box::new(receipt),
            }
        });
        taken.collect()
    }
}

struct MemoryReceipt {
    bus: MemoryBus,
    lane: Lane,
    id: u64,
}

#[async_trait]
impl Receipt for MemoryReceipt {
    async fn acknowledge(self: Box<Self>) {
        if let Some(queue) = self.bus.0.state().queues.get_mut(&self.lane) {
            queue.retain(|queued| queued.id != self.id);
        }
    }

    async fn release(self: Box<Self>, after: Duration) {
        if let Some(queue) = self.bus.0.state().queues.get_mut(&self.lane) {
            let released = queue.iter_mut().find(|queued| queued.id == self.id);
            if let Some(queued) = released {
                queued.again = Some(Instant::now() + after);
            }
        }
    }
}

#[async_trait]
impl Bus for MemoryBus {
    async fn publish(&self, lane: &Lane, _replica: &str, message: Bytes) -> Result<(), BusError> {
        let mut state = self.0.state();
        state.messages += 1;
        let id = state.messages;
        let queue = state.queues.entry(lane.clone()).or_default();
        queue.push_back(Queued {
            id,
            message,
            deliveries: 0,
            again: None,
        });
        drop(state);
        self.0.published.notify_waiters();
        Ok(())
    }

    async fn waiting(&self, lane: &Lane) -> Result<u64, BusError> {
        let state = self.0.state();
        Ok(state.queues.get(lane).map_or(0, |queue| queue.len() as u64))
    }

    async fn filled(&self, pool: &Pool) -> Result<BTreeSet<String>, BusError> {
        let state = self.0.state();
        let queues = state.queues.iter();
        let filled = queues.filter(|(lane, queue)| lane.pool() == pool && !queue.is_empty());
        Ok(filled.map(|(lane, _)| lane.name().to_owned()).collect())
    }

    async fn pull(
        &self,
        lane: &Lane,
        most: usize,
        longest: Duration,
    ) -> Result<Vec<Delivery>, BusError> {
        let until = Instant::now() + longest;
        loop {
            let published = self.0.published.notified();
            let taken = self.take(lane, most);
            if !taken.is_empty() || Instant::now() >= until {
                return Ok(taken);
            }
            // Messages are delivered again without a signal.
            let look = until.min(Instant::now() + Duration::from_secs(1));
            let _ = tokio::time::timeout_at(look, published).await;
        }
    }

    async fn request(
        &self,
        address: &Address,
        message: Bytes,
        longest: Duration,
    ) -> Result<Bytes, BusError> {
        let replica = self.0.state().replicas.get(&address.replica).cloned();
        let replica = replica.filter(|it| !it.is_closed());
        let replica = replica.ok_or(BusError::NoResponder)?;
        let (request, answer) = Request::new(address.clone(), message);
        let answered = async {
            let sent = replica.send(request).await;
            sent.map_err(|_| BusError::NoResponder)?;
            match answer.await {
                Ok(answer) => Ok(answer),
                // A server does not know that there will be no answer.
                Err(_) => std::future::pending().await,
            }
        };
        let answered = tokio::time::timeout(longest, answered).await;
        answered.unwrap_or(Err(BusError::NoAnswer))
    }

    async fn serve(&self, replica: &str) -> Result<mpsc::Receiver<Request>, BusError> {
        let (sender, requests) = mpsc::channel(MAX_REQUESTS);
        let mut state = self.0.state();
        state.replicas.insert(replica.to_owned(), sender);
        Ok(requests)
    }
}
