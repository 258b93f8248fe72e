//! Messages that a process sends to all replicas, and orders of replicas to workers. Losing one has
//! little effect.

use serde::{Deserialize, Serialize};

use crate::rules::subjects::{PROTOCOL, is_token};
use crate::rules::wire::{Message, Unreadable, check_most};

/// Most signals in one message.
pub const MAX_SIGNALS: usize = 1_000;

/// What an announcement is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Logs have grown, or there is new work.
    Signals,
    /// A replica or a worker is there.
    Presence,
}

impl Topic {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Signals => "signals",
            Self::Presence => "presence",
        }
    }

    /// Where a process announces: `ts1.<topic>.<sender>`.
    pub fn subject(self, sender: &str) -> String {
        format!("{PROTOCOL}.{}.{sender}", self.as_str())
    }

    /// The subjects of all senders.
    pub fn pattern(self) -> String {
        format!("{PROTOCOL}.{}.*", self.as_str())
    }

    /// The sender of an announcement.
    pub fn sender(self, subject: &str) -> Option<&str> {
        let sender = subject.strip_prefix(PROTOCOL)?.strip_prefix('.')?;
        let sender = sender.strip_prefix(self.as_str())?.strip_prefix('.')?;
        is_token(sender).then_some(sender)
    }
}

/// Signals to the other replicas of a database, as the store writes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signals {
    pub signals: Vec<String>,
}

impl Message for Signals {
    const NAME: &'static str = "signals";

    fn check(&self) -> Result<(), Unreadable> {
        check_most("signals", self.signals.len(), MAX_SIGNALS)
    }
}

/// What a host asks of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Order {
    /// To take no further tasks, and to end after those that it has.
    Drain,
}

impl Message for Order {
    const NAME: &'static str = "an order";

    fn check(&self) -> Result<(), Unreadable> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::subjects::{self, Address};
    use crate::rules::wire::{self, Offered};

    #[test]
    fn a_sender_is_read_from_the_subject() {
        let subject = Topic::Signals.subject("host_1");
        assert_eq!(Topic::Signals.sender(&subject), Some("host_1"));
        assert_eq!(Topic::Signals.sender("ts1.signals.a.b"), None);
        assert_eq!(Topic::Signals.sender("ts1.other.a"), None);
        assert_eq!(Topic::Signals.sender("ts2.signals.a"), None);
    }

    #[test]
    fn a_message_of_a_queue_is_not_an_order() {
        let order = wire::write(&Order::Drain).unwrap();
        assert_eq!(wire::read::<Order>(&order), Ok(Order::Drain));
        // A worker could have it delivered there.
        let offered = Offered {
            replica: "host_1".to_owned(),
            offer: "inv_1".to_owned(),
        };
        let offered = wire::write(&offered).unwrap();
        assert!(wire::read::<Order>(&offered).is_err());
        assert!(subjects::is_in_inbox(&subjects::orders("w1"), "w1"));
    }

    #[test]
    fn an_announcement_is_not_a_request() {
        assert_eq!(Address::parse(&Topic::Signals.subject("host_1")), None);
    }
}
