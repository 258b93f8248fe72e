//! The memory for responses in flight, shared by all clients of this process.
//!
//! A large response waits for room before it is read further. This limits the number of large
//! responses in memory without losing any, and the wait does not count as time of the endpoint.
//! Processing takes many times the size of a response, so the room stays reserved until the caller
//! has recorded the result ([`within`]).

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Maximum size in bytes of responses that are not counted.
pub(super) const SMALL: u64 = 64 << 10;
/// Room in bytes for one endpoint: the largest allowed response.
const OF_ONE: u64 = 8 << 20;
/// Room in bytes for all endpoints.
const OF_ALL: u64 = 2 * OF_ONE;
/// Bytes per semaphore permit.
const STEP: u64 = 1024;

static ALL: LazyLock<Arc<Semaphore>> = LazyLock::new(|| semaphore(OF_ALL));

fn semaphore(bytes: u64) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(steps(bytes)))
}

fn steps(bytes: u64) -> usize {
    usize::try_from(bytes.div_ceil(STEP)).unwrap_or(usize::MAX)
}

/// The room of one endpoint, so that an endpoint with endless responses does not block all others.
#[derive(Debug)]
pub(super) struct EndpointMemory(Arc<Semaphore>);

/// Reserved room; dropping it releases it.
#[derive(Debug)]
pub struct MemoryReservation {
    own: OwnedSemaphorePermit,
    all: OwnedSemaphorePermit,
}

impl EndpointMemory {
    pub fn new() -> Self {
        Self(semaphore(OF_ONE))
    }

    /// Waits for room for a number of bytes, and returns the duration of the wait. `None` if the
    /// current call has room already.
    pub async fn take(&self, bytes: u64) -> (Option<MemoryReservation>, Duration) {
        let call = CALL.try_with(Arc::clone).ok();
        if call
            .as_ref()
            .is_some_and(|call| call.state().room.is_some())
        {
            return (None, Duration::ZERO);
        }
        let steps = u32::try_from(steps(bytes.min(OF_ONE))).unwrap_or(u32::MAX);
        let began = Instant::now();
        let waiting = call.as_ref().map(|call| Waiting::begin(call, began));
        // Neither semaphore is ever closed.
        let own = self.0.clone().acquire_many_owned(steps).await;
        let all = ALL.clone().acquire_many_owned(steps).await;
        drop(waiting);
        let room = match (own, all) {
            (Ok(own), Ok(all)) => Some(MemoryReservation { own, all }),
            _ => None,
        };
        (room, began.elapsed())
    }
}

impl MemoryReservation {
    /// Releases the room beyond a number of bytes.
    pub fn shrink(&mut self, bytes: u64) {
        for permit in [&mut self.own, &mut self.all] {
            let excess = permit.num_permits().saturating_sub(steps(bytes));
            drop(permit.split(excess));
        }
    }

    /// Holds the room until the current call ends; outside a call it is released immediately.
    pub fn keep(self) {
        if let Ok(call) = CALL.try_with(Arc::clone) {
            call.state().room = Some(self);
        }
    }
}

tokio::task_local! {
    static CALL: Arc<Call>;
}

/// A call of an endpoint.
#[derive(Debug, Default)]
struct Call(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    room: Option<MemoryReservation>,
    waited: Duration,
    waits_since: Option<Instant>,
}

impl Call {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The total wait for room, including a current wait.
    fn waited(&self) -> Duration {
        let state = self.state();
        let now = state
            .waits_since
            .map_or(Duration::ZERO, |since| since.elapsed());
        state.waited + now
    }
}

/// The time from creation to drop counts as waiting.
struct Waiting<'a>(&'a Call);

impl<'a> Waiting<'a> {
    fn begin(call: &'a Call, at: Instant) -> Self {
        call.state().waits_since = Some(at);
        Self(call)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let Some(since) = state.waits_since.take() {
            state.waited += since.elapsed();
        }
    }
}

/// Runs a call with a time limit that excludes waiting for room. The room for its response is
/// returned with its result; `None` on timeout.
pub async fn within<F: Future>(
    limit: Duration,
    call: F,
) -> Option<(F::Output, Option<MemoryReservation>)> {
    let state = Arc::new(Call::default());
    let mut call = pin!(CALL.scope(Arc::clone(&state), call));
    let began = Instant::now();
    let mut ends = began + limit;
    loop {
        match timeout_at(ends, &mut call).await {
            Ok(output) => return Some((output, state.state().room.take())),
            Err(_) => {
                ends = began + limit + state.waited();
                if ends <= Instant::now() {
                    return None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waiting_for_memory_does_not_count_toward_the_call_timeout() {
        let rooms = EndpointMemory::new();
        let (held, _) = rooms.take(OF_ONE).await;
        let minute = Duration::from_secs(60);
        let large = async {
            let (room, _) = rooms.take(OF_ONE).await;
            room.unwrap().keep();
            tokio::time::sleep(minute / 2).await;
        };
        let release = async {
            tokio::time::sleep(10 * minute).await;
            drop(held);
        };
        let (answer, ()) = tokio::join!(within(minute, large), release);
        let ((), room) = answer.unwrap();
        assert_eq!(rooms.0.available_permits(), 0);
        drop(room);
        assert_eq!(rooms.0.available_permits(), steps(OF_ONE));
        let slow = within(minute, tokio::time::sleep(2 * minute));
        assert!(slow.await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_holds_memory_is_not_given_more() {
        let rooms = EndpointMemory::new();
        let twice = async {
            rooms.take(OF_ONE).await.0.unwrap().keep();
            rooms.take(OF_ONE).await.0.is_none()
        };
        let (again, _) = within(Duration::from_secs(1), twice).await.unwrap();
        assert!(again);
    }
}
