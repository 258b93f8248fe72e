//! What a process does not repeat at once: tasks that it may not execute, and warnings.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::rules::access::rights::Forbidden;
use crate::rules::lane::Lane;

/// How long a worker leaves a lane whose tasks it may not execute.
const LONGEST: Duration = Duration::from_secs(30);
/// The same after the first task of a tenant whose tasks it may not execute, or the first task that
/// is too large for it: the lane may have others. Doubled each time until it gets one. After the
/// longest pause, it begins again: messages that were set aside are delivered first, so a worker
/// that takes one at a time gets others only if its pause is shorter than [`SET_ASIDE`].
const FIRST: Duration = Duration::from_secs(1);
/// A message that a worker may not use is delivered again after at most this. Shorter than
/// [`LONGEST`], so that most of the time only others can take it.
const SET_ASIDE: Duration = Duration::from_secs(8);
/// The same warning is given again after this.
const REPEATED_AFTER: Duration = Duration::from_secs(60);
/// Most warnings that are remembered.
const MAX_RECENT: usize = 1_000;

/// When a message that its receiver may not use is delivered again, by the number of its
/// deliveries. Soon at first, because another worker may wait for it.
pub fn set_aside(deliveries: u64) -> Duration {
    let doublings = u32::try_from(deliveries.saturating_sub(1)).unwrap_or(u32::MAX);
    let seconds = 2_u64.saturating_pow(doublings.min(16));
    Duration::from_secs(seconds).min(SET_ASIDE)
}

/// The lanes from which a worker takes no tasks for a while.
#[derive(Debug, Default)]
pub struct Pauses(BTreeMap<Lane, Pause>);

#[derive(Debug)]
struct Pause {
    length: Duration,
    until: Duration,
}

impl Pauses {
    /// Pauses a lane after an owner has refused a task of it.
    pub fn pause(&mut self, lane: &Lane, forbidden: Forbidden, now: Duration) {
        let last = self.0.get(lane);
        // Several tasks that were taken at once are refused one after the other.
        if last.is_some_and(|last| last.until > now) {
            return;
        }
        let length = match (forbidden, last) {
            (
                Forbidden::Worker | Forbidden::Model | Forbidden::Label | Forbidden::MissingLabel,
                _,
            ) => LONGEST,
            (Forbidden::Tenant | Forbidden::TooLarge, Some(last)) if last.length < LONGEST => {
                last.length.saturating_mul(2).min(LONGEST)
            }
            (Forbidden::Tenant | Forbidden::TooLarge, _) => FIRST,
        };
        let until = now.saturating_add(length);
        self.0.insert(lane.clone(), Pause { length, until });
    }

    /// Ends the pause of a lane: an owner has granted a task of it.
    pub fn end(&mut self, lane: &Lane) {
        self.0.remove(lane);
    }

    pub fn is_paused(&self, lane: &Lane, now: Duration) -> bool {
        self.0.get(lane).is_some_and(|pause| pause.until > now)
    }
}

/// Warnings that would otherwise be repeated with each message.
#[derive(Debug, Default)]
pub struct RecentWarnings(BTreeMap<String, Duration>);

impl RecentWarnings {
    /// Whether to give a warning now: it was not given within the last minute.
    pub fn is_due(&mut self, warning: &str, now: Duration) -> bool {
        self.0
            .retain(|_, at| now.saturating_sub(*at) < REPEATED_AFTER);
        if self.0.contains_key(warning) || self.0.len() >= MAX_RECENT {
            return false;
        }
        self.0.insert(warning.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::rules::access::pools::Pool;
    use crate::rules::lane::tests::lane;

    #[test]
    fn a_message_is_set_aside_longer_each_time() {
        let seconds = [0, 1, 2, 3, 5, 6, 7, u64::MAX].map(|it| set_aside(it).as_secs());
        assert_eq!(seconds, [1, 1, 2, 4, 8, 8, 8, 8]);
    }

    #[test]
    fn a_worker_without_rights_leaves_a_lane_for_half_a_minute() {
        let (one, other) = (lane(&Pool::shared(), "a"), lane(&Pool::shared(), "b"));
        let mut pauses = Pauses::default();
        pauses.pause(&one, Forbidden::Worker, Duration::ZERO);
        let at = |lane, seconds| pauses.is_paused(lane, Duration::from_secs(seconds));
        assert!(at(&one, 29) && !at(&one, 30));
        assert!(!at(&other, 0));
    }

    #[rstest]
    #[case::of_another_tenant(Forbidden::Tenant)]
    #[case::too_large(Forbidden::TooLarge)]
    fn a_lane_that_may_have_other_tasks_is_left_longer_each_time(#[case] forbidden: Forbidden) {
        let lane = lane(&Pool::shared(), "a");
        let (mut pauses, mut now) = (Pauses::default(), Duration::ZERO);
        let mut pause = |pauses: &mut Pauses| {
            let begun = now;
            for _ in 0..3 {
                pauses.pause(&lane, forbidden, now);
            }
            while pauses.is_paused(&lane, now) {
                now += Duration::from_secs(1);
            }
            (now - begun).as_secs()
        };
        let lengths: Vec<u64> = (0..8).map(|_| pause(&mut pauses)).collect();
        assert_eq!(lengths, [1, 2, 4, 8, 16, 30, 1, 2]);
        pauses.end(&lane);
        assert_eq!(pause(&mut pauses), 1);
    }

    #[test]
    fn a_warning_is_given_once_a_minute() {
        let mut recent = RecentWarnings::default();
        assert!(recent.is_due("a", Duration::ZERO));
        assert!(!recent.is_due("a", Duration::from_secs(59)));
        assert!(recent.is_due("b", Duration::from_secs(59)));
        assert!(recent.is_due("a", Duration::from_secs(60)));
    }
}
