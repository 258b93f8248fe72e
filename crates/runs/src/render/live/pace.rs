//! Estimates the remaining time of a run.
//!
//! Based on the timestamps in the log, not on when events arrive: a client that joins a running run
//! receives an hour of events at once. Tasks reused from another run take no time and are ignored.

use std::time::Duration;

use jiff::Timestamp;

#[derive(Default)]
pub struct Pace {
    began: Option<Timestamp>,
    /// Number of executed tasks that have ended.
    ended: u32,
    /// Their total time.
    took: Duration,
    /// When the end of the last one was received.
    seen: Duration,
}

impl Pace {
    /// Records the start of a task.
    pub fn begins(&mut self, at: Option<Timestamp>) {
        self.began = self.began.or(at);
    }

    /// Records the end of an executed task, received at `now`.
    pub fn ends(&mut self, at: Option<Timestamp>, now: Duration) {
        let (Some(began), Some(at)) = (self.began, at) else {
            return;
        };
        self.ended = self.ended.saturating_add(1);
        self.took = at.duration_since(began).try_into().unwrap_or_default();
        self.seen = now;
    }

    /// Remaining time for `to_come` tasks. Counts down between task ends, but never below the
    /// estimate for the other tasks: a slow task does not make the later ones faster.
    pub fn left(&self, to_come: usize, now: Duration) -> Option<Duration> {
        let each = self.took.checked_div(self.ended)?;
        let others = u32::try_from(to_come).ok()?.checked_sub(1)?;
        let this = each.saturating_sub(now.saturating_sub(self.seen));
        let left = each.saturating_mul(others).saturating_add(this);
        (left >= LEAST).then_some(left)
    }
}

/// Shorter remaining times are not shown.
const LEAST: Duration = Duration::from_secs(1);
