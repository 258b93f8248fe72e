//! Outside influences on a run during execution: cancel, pause, lease loss, shutdown.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use crate::ports::pauses::PauseRequest;
use crate::ports::queue::CancelRequest;
use touchstone_host::service::lease::Lease;
use touchstone_openwop::events::DrainPolicy;

/// The worker's hold on a run.
pub struct RunControl {
    pub cancelled: watch::Receiver<Option<CancelRequest>>,
    pub paused: watch::Receiver<Option<PauseRequest>>,
    pub lease: Lease,
    /// The lease is lost: stop at once, write nothing.
    pub lost: CancellationToken,
    /// The replica shuts down: start no more tasks.
    pub draining: CancellationToken,
    /// How long running tasks may continue after that.
    pub drain: Duration,
}

/// Why a run stops before it is complete.
#[derive(Debug)]
pub enum Stop {
    Cancelled(CancelRequest),
    Paused,
    TimedOut,
    /// The replica shuts down; another one continues.
    Draining,
    /// This replica does not reach its workers; another one may.
    CutOff,
    /// The lease or the log is lost; everything that is not durable is void.
    Lost,
}

/// A signal to the running work.
pub enum Signal {
    /// Stop now.
    Stop(Stop),
    /// Check whether the run [is held](RunSignals::is_held): if so, start nothing more; tasks in
    /// flight may finish, and the run stops with [`RunSignals::hold_reason`]. A withdrawn pause no
    /// longer holds the run.
    HoldChanged,
}

/// All reasons that may stop a run, to be awaited in one place.
pub struct RunSignals {
    control: RunControl,
    /// Cancelled when the run's log is closed; cancelling it closes the log.
    log_closed: CancellationToken,
    deadline: Pin<Box<Sleep>>,
    draining: bool,
    pause: Option<PauseRequest>,
}

impl RunSignals {
    /// `pause` is a request that is already recorded.
    pub(super) fn new(
        control: RunControl,
        log_closed: CancellationToken,
        left: Option<Duration>,
        pause: Option<PauseRequest>,
    ) -> Self {
        let deadline = Box::pin(tokio::time::sleep(left.unwrap_or(Duration::MAX)));
        Self {
            control,
            log_closed,
            deadline,
            draining: false,
            pause,
        }
    }

    /// Whether no further work may start.
    pub fn is_held(&self) -> bool {
        self.draining || self.pause.is_some()
    }

    /// Whether a pause is requested.
    pub fn pause_requested(&self) -> bool {
        self.pause.is_some()
    }

    /// Whether the run's log is closed.
    pub fn is_lost(&self) -> bool {
        self.log_closed.is_cancelled()
    }

    /// Why a held run stops once nothing is in flight. The pause takes precedence: after a drain,
    /// the next worker would have to pause at once.
    pub fn hold_reason(&self) -> Stop {
        if self.pause_requested() {
            Stop::Paused
        } else {
            Stop::Draining
        }
    }

    /// Waits for the next signal. Cancel-safe.
    pub async fn next(&mut self) -> Signal {
        loop {
            tokio::select! {
                () = self.log_closed.cancelled() => return Signal::Stop(Stop::Lost),
                () = self.control.lost.cancelled() => {
                    self.log_closed.cancel();
                    return Signal::Stop(Stop::Lost);
                }
                changed = self.control.cancelled.changed() => {
                    let request = self.control.cancelled.borrow_and_update().clone();
                    match (changed, request) {
                        (Ok(()), Some(request)) => return Signal::Stop(Stop::Cancelled(request)),
                        (Ok(()), None) => {}
                        (Err(_), _) => return Signal::Stop(Stop::Lost),
                    }
                }
                changed = self.control.paused.changed() => {
                    let request = self.control.paused.borrow_and_update().clone();
                    match (changed, request) {
                        (Ok(()), Some(request)) if request.drain_policy == DrainPolicy::Immediate => {
                            return Signal::Stop(Stop::Paused);
                        }
                        (Ok(()), request) => {
                            self.pause = request;
                            return Signal::HoldChanged;
                        }
                        (Err(_), _) => return Signal::Stop(Stop::Lost),
                    }
                }
                () = &mut self.deadline => {
                    return Signal::Stop(if self.draining { Stop::Draining } else { Stop::TimedOut });
                }
                () = self.control.draining.cancelled(), if !self.draining => {
                    self.draining = true;
                    self.deadline.as_mut().reset(Instant::now() + self.control.drain);
                    return Signal::HoldChanged;
                }
            }
        }
    }
}
