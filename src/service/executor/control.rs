//! What may happen to a run from outside while it is carried out.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use crate::ports::{CancelRequest, PauseRequest};
use crate::protocol::openwop::events::DrainPolicy;
use crate::service::lease::Lease;
use crate::service::run_writer::RunWriter;

/// The worker's hold on a run.
pub struct RunControl {
    /// A cancel request.
    pub cancelled: watch::Receiver<Option<CancelRequest>>,
    /// A pause request.
    pub paused: watch::Receiver<Option<PauseRequest>>,
    /// How long the lease surely holds.
    pub lease: Lease,
    /// The lease is lost: stop at once, write nothing.
    pub lost: CancellationToken,
    /// The replica shuts down: start no more tasks.
    pub draining: CancellationToken,
    /// How long running tasks may go on then.
    pub drain: Duration,
}

/// Why a run stops before its work is done.
pub(super) enum Stop {
    Cancelled(CancelRequest),
    Paused,
    TimedOut,
    /// The replica shuts down; others go on.
    Draining,
    /// The lease or the log is lost; whatever is not durable is void.
    Lost,
}

/// What work is told.
pub(super) enum Signal {
    /// Stop now.
    Stop(Stop),
    /// See whether the run [is held](Watch::is_held) now: then begin nothing more; what runs may end, and the run stops with
    /// [`Watch::held`]. A pause that is taken back holds it no longer.
    Look,
}

/// Everything that may stop a run, in one place to wait.
pub(super) struct Watch {
    control: RunControl,
    writer: RunWriter,
    deadline: Pin<Box<Sleep>>,
    draining: bool,
    pause: Option<PauseRequest>,
}

impl Watch {
    /// `pause` is a request that is on record already.
    pub(super) fn new(
        control: RunControl,
        writer: RunWriter,
        left: Option<Duration>,
        pause: Option<PauseRequest>,
    ) -> Self {
        let deadline = Box::pin(tokio::time::sleep(left.unwrap_or(Duration::MAX)));
        Self {
            control,
            writer,
            deadline,
            draining: false,
            pause,
        }
    }

    /// Whether nothing more is to be begun.
    pub(super) fn is_held(&self) -> bool {
        self.draining || self.pause.is_some()
    }

    /// Whether a pause is asked for.
    pub(super) fn is_to_pause(&self) -> bool {
        self.pause.is_some()
    }

    /// Why a run stops that begins nothing more, once nothing is in flight. The pause first: whoever goes on after a drain
    /// would have to stop for it at once.
    pub(super) fn held(&mut self) -> Stop {
        match self.pause.take() {
            Some(_) => Stop::Paused,
            None => Stop::Draining,
        }
    }

    /// Waits for the next signal. Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> Signal {
        loop {
            tokio::select! {
                () = self.writer.closed() => return Signal::Stop(Stop::Lost),
                () = self.control.lost.cancelled() => {
                    self.writer.close();
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
                            return Signal::Look;
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
                    return Signal::Look;
                }
            }
        }
    }
}
