//! How fast a run gets on, and so how much longer it takes.
//!
//! Told by the moments in the log, not by when somebody saw them: whoever looks at a run that is under way gets the events
//! of an hour at once. Tasks that were taken over from another run cost no time and say nothing of the rest.

use std::time::Duration;

use jiff::Timestamp;

/// What is known of it.
#[derive(Default)]
pub struct Pace {
    /// When the first task began.
    began: Option<Timestamp>,
    /// Tasks that were worked on and have ended.
    ended: u32,
    /// How long that took, all in all.
    took: Duration,
    /// When the last of them was seen to end.
    seen: Duration,
}

impl Pace {
    /// A task begins.
    pub fn begins(&mut self, at: Option<Timestamp>) {
        self.began = self.began.or(at);
    }

    /// A task that was worked on ends, and is seen to at `now`.
    pub fn ends(&mut self, at: Option<Timestamp>, now: Duration) {
        let (Some(began), Some(at)) = (self.began, at) else {
            return;
        };
        self.ended = self.ended.saturating_add(1);
        self.took = at.duration_since(began).try_into().unwrap_or_default();
        self.seen = now;
    }

    /// How long this many more take. It counts down between two that end, but never below what the others will take: one
    /// that is slow does not make those after it fast.
    pub fn left(&self, to_come: usize, now: Duration) -> Option<Duration> {
        let each = self.took.checked_div(self.ended)?;
        let others = u32::try_from(to_come).ok()?.checked_sub(1)?;
        let this = each.saturating_sub(now.saturating_sub(self.seen));
        let left = each.saturating_mul(others).saturating_add(this);
        (left >= LEAST).then_some(left)
    }
}

/// Less than this is not worth a word.
const LEAST: Duration = Duration::from_secs(1);
