//! The permits of one endpoint: limits concurrent calls, adapted to its answers, and calls per
//! minute; allows none while the endpoint is down.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::ports::model::{EndpointHealth, ModelError, Permit, Permits};
use crate::rules::{Admission, Circuit, Concurrency};

/// The reason of calls that were not made because the endpoint is down.
pub const CIRCUIT_OPEN: &str = "circuit_open";

/// The permits that all callers of an endpoint share.
#[derive(Clone, Debug)]
pub struct EndpointPermits(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    semaphore: Arc<Semaphore>,
    /// Calls per minute.
    pace: Option<DefaultDirectRateLimiter>,
    state: Mutex<State>,
    /// Notifies when the circuit breaker changes.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    concurrency: Concurrency,
    circuit: Circuit,
    /// Permits to withdraw as soon as they are returned.
    owed: usize,
}

impl EndpointPermits {
    /// With a maximum of concurrent calls.
    pub fn new(most: u32) -> Self {
        Self::paced(most, None)
    }

    /// With a maximum of concurrent calls and of calls per minute; a burst may have as many calls
    /// as one second allows.
    pub fn paced(most: u32, per_minute: Option<NonZeroU32>) -> Self {
        let pace = per_minute.map(|calls| {
            let a_second = NonZeroU32::new(calls.get() / 60).unwrap_or(NonZeroU32::MIN);
            RateLimiter::direct(Quota::per_minute(calls).allow_burst(a_second))
        });
        let concurrency = Concurrency::new(most);
        let permits = size(concurrency.limit()).min(Semaphore::MAX_PERMITS);
        Self(Arc::new(Shared {
            semaphore: Arc::new(Semaphore::new(permits)),
            pace,
            state: Mutex::new(State {
                concurrency,
                circuit: Circuit::default(),
                owed: 0,
            }),
            changed: Notify::new(),
        }))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adjusts the semaphore to the rule's limit.
    fn follow(&self, state: &mut State, before: u32) {
        let (before, after) = (size(before), size(state.concurrency.limit()));
        if let Some(more) = after.checked_sub(before) {
            let paid = more.min(state.owed);
            state.owed -= paid;
            self.semaphore.add_permits(more - paid);
        } else {
            let fewer = before - after;
            state.owed += fewer - self.semaphore.forget_permits(fewer);
        }
    }
}

fn size(permits: u32) -> usize {
    usize::try_from(permits).unwrap_or(usize::MAX)
}

#[async_trait]
impl Permits for EndpointPermits {
    async fn acquire(&self) -> Result<Box<dyn Permit>, ModelError> {
        let mut due = self.0.pace.as_ref();
        loop {
            let permit = Arc::clone(&self.0.semaphore)
                .acquire_owned()
                .await
                .map_err(|_| ModelError::unavailable("shutting_down", false))?;
            if let Some(pace) = due.take() {
                pace.until_ready().await;
            }
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            // No change is missed from here on.
            changed.as_mut().enable();
            let (admission, stamp) = {
                let mut state = self.0.state();
                let admission = state.circuit.admit(Instant::now().into_std());
                (admission, state.concurrency.stamp())
            };
            // Dropping `HeldPermit` withdraws owed permits, so the permit is wrapped in every case.
            let held = HeldPermit {
                of: Arc::clone(&self.0),
                permit: Some(permit),
                stamp,
                probe: admission == Admission::Probe,
                health: None,
            };
            match admission {
                Admission::Go | Admission::Probe => return Ok(Box::new(held)),
                Admission::Refuse => return Err(ModelError::unavailable(CIRCUIT_OPEN, false)),
                Admission::Wait(until) => {
                    drop(held);
                    match until {
                        Some(until) => {
                            let _ = tokio::time::timeout_at(until.into(), changed).await;
                        }
                        None => changed.await,
                    }
                }
            }
        }
    }

    fn acquire_now(&self) -> Option<Box<dyn Permit>> {
        if self.0.pace.is_some() {
            return None;
        }
        let acquired = tokio::task::unconstrained(self.acquire()).now_or_never();
        acquired.and_then(Result::ok)
    }
}

struct HeldPermit {
    of: Arc<Shared>,
    permit: Option<OwnedSemaphorePermit>,
    stamp: u64,
    probe: bool,
    health: Option<EndpointHealth>,
}

impl Permit for HeldPermit {
    fn report(mut self: Box<Self>, health: EndpointHealth) {
        self.health = Some(health);
    }
}

impl Drop for HeldPermit {
    fn drop(&mut self) {
        let mut state = self.of.state();
        let circuit = state.circuit;
        let limit = state.concurrency.limit();
        match self.health {
            Some(EndpointHealth::Answered) => {
                state.circuit.answered();
                state.concurrency.answered(self.stamp);
            }
            // The endpoint is up, but busy.
            Some(EndpointHealth::Throttled) => {
                state.circuit.answered();
                state.concurrency.throttled(self.stamp);
            }
            Some(EndpointHealth::Failed) => {
                state.circuit.failed(self.probe, Instant::now().into_std())
            }
            None if self.probe => state.circuit.abandoned(Instant::now().into_std()),
            None => {}
        }
        self.of.follow(&mut state, limit);
        let permit = self.permit.take();
        if state.owed > 0 {
            state.owed -= 1;
            if let Some(permit) = permit {
                permit.forget();
            }
        } else {
            drop(permit);
        }
        if state.circuit != circuit {
            self.of.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rules::{FIRST_BREAK, OPENS_AFTER};

    type Taken = Box<dyn Permit>;

    /// As many permits as are available without waiting.
    fn take_all(permits: &EndpointPermits) -> Vec<Taken> {
        std::iter::from_fn(|| permits.acquire().now_or_never()?.ok()).collect()
    }

    async fn hears(permits: &EndpointPermits, health: EndpointHealth) {
        permits.acquire().await.unwrap().report(health);
    }

    #[tokio::test]
    async fn calls_are_limited_to_the_configured_rate() {
        let permits = EndpointPermits::paced(8, NonZeroU32::new(120));
        let began = Instant::now();
        let all = || take_all(&permits).len() as u128;
        // Two at once, then one every half second. If the machine stops meanwhile, more are due.
        let due = || 2 + began.elapsed().as_millis() / 500;
        let mut taken = all();
        assert!((2..=due()).contains(&taken), "{taken}");
        taken += all();
        assert!(taken <= due(), "{taken}");
        permits
            .acquire()
            .await
            .unwrap()
            .report(EndpointHealth::Answered);
        taken += 1 + all();
        assert!(taken <= due(), "{taken}");
    }

    #[tokio::test]
    async fn a_permit_that_is_given_back_unused_counts_as_no_call() {
        let permits = EndpointPermits::new(1);
        let taken = permits.acquire_now();
        assert!(taken.is_some() && permits.acquire_now().is_none());
        drop(taken);
        assert!(permits.acquire_now().is_some());
        let paced = EndpointPermits::paced(8, NonZeroU32::new(120));
        assert!(paced.acquire_now().is_none());
        assert_eq!(take_all(&paced).len(), 2, "no call was counted");
    }

    #[tokio::test]
    async fn a_throttled_endpoint_gets_half_as_many_calls_and_then_more_again() {
        let permits = EndpointPermits::new(8);
        let mut all = take_all(&permits);
        assert_eq!(all.len(), 8);
        all.pop().unwrap().report(EndpointHealth::Throttled);
        assert!(
            permits.acquire().now_or_never().is_none(),
            "seven are in flight, four may be"
        );
        // The other permits report the same overload.
        for permit in all {
            permit.report(EndpointHealth::Throttled);
        }
        let all = take_all(&permits);
        assert_eq!(all.len(), 4);
        for permit in all {
            permit.report(EndpointHealth::Answered);
        }
        assert_eq!(take_all(&permits).len(), 5);
        for _ in 0..64 {
            hears(&permits, EndpointHealth::Answered).await;
        }
        assert_eq!(take_all(&permits).len(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_wait_while_one_probes_an_open_circuit() {
        let permits = EndpointPermits::new(8);
        for _ in 0..OPENS_AFTER {
            hears(&permits, EndpointHealth::Failed).await;
        }
        let began = Instant::now();
        let probe = permits.acquire().await.unwrap();
        assert_eq!(began.elapsed(), FIRST_BREAK);
        let mut waiting: Vec<_> = (0..20).map(|_| permits.acquire()).collect();
        for waits in &mut waiting {
            assert!(waits.now_or_never().is_none());
        }
        #[expect(clippy::disallowed_methods, reason = "the test awaits the task")]
        let waiting = tokio::spawn({
            let permits = permits.clone();
            async move { permits.acquire().await.map(drop) }
        });
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!waiting.is_finished());
        probe.report(EndpointHealth::Answered);
        assert_eq!(waiting.await.unwrap(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_that_stays_down_is_not_waited_for() {
        let permits = EndpointPermits::new(8);
        for _ in 0..OPENS_AFTER {
            hears(&permits, EndpointHealth::Failed).await;
        }
        hears(&permits, EndpointHealth::Failed).await;
        let down = permits.acquire().await.map(drop).unwrap_err();
        assert_eq!(down, ModelError::unavailable(CIRCUIT_OPEN, false));
        tokio::time::sleep(2 * FIRST_BREAK).await;
        // A cancelled probe decides nothing: the next call is another probe.
        drop(permits.acquire().await.unwrap());
        hears(&permits, EndpointHealth::Answered).await;
        assert_eq!(take_all(&permits).len(), 8);
    }
}
