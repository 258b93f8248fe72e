//! Owners that do not answer claims, such as a stopped host whose tasks are in the queue.

use std::collections::BTreeMap;
use std::time::Duration;

/// How often a silent owner is asked again.
pub const ASKED_AGAIN: Duration = Duration::from_secs(4);

/// The silent owners that a worker knows, and when it asks each of them again.
#[derive(Debug, Default)]
pub struct SilentOwners(BTreeMap<String, Duration>);

impl SilentOwners {
    /// Whether to claim a task of this owner. If it is silent, only one claim now and then finds out
    /// whether it answers again, so that a worker keeps its places for the tasks of others.
    pub fn may_ask(&mut self, replica: &str, now: Duration) -> bool {
        let Some(again) = self.0.get_mut(replica) else {
            return true;
        };
        let may_ask = now >= *again;
        if may_ask {
            *again = now.saturating_add(ASKED_AGAIN);
        }
        may_ask
    }

    /// The owner has not answered in time.
    pub fn no_answer(&mut self, replica: &str, now: Duration) {
        let again = now.saturating_add(ASKED_AGAIN);
        self.0.insert(replica.to_owned(), again);
    }

    /// The owner has answered, or the bus says that it has gone.
    pub fn answered(&mut self, replica: &str) {
        self.0.remove(replica);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_silent_owner_is_asked_seldom_until_it_answers() {
        let mut owners = SilentOwners::default();
        assert!(owners.may_ask("h1", at(0)));
        owners.no_answer("h1", at(2));
        assert!(!owners.may_ask("h1", at(3)));
        assert!(owners.may_ask("h2", at(3)), "another owner");
        assert!(owners.may_ask("h1", at(6)));
        assert!(!owners.may_ask("h1", at(6)), "one claim at a time");
        owners.answered("h1");
        assert!(owners.may_ask("h1", at(6)));
    }
}
