//! Names of places on the message bus. They hold ids only, no content and no secrets.

use std::fmt;

use crate::rules::access::pools::Pool;
use crate::rules::lane::Lane;

/// The protocol. Hosts and workers of an incompatible protocol use another prefix.
pub const PROTOCOL: &str = "ts1";
/// Longest token that is used as it is.
const MAX_TOKEN: usize = 48;

/// A name without dots, wildcards and spaces: one token of a subject.
pub fn is_token(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=MAX_TOKEN).contains(&text.len()) && text.bytes().all(plain)
}

/// What a worker asks of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Claim,
    Facts,
    Meter,
    Beat,
}

impl Operation {
    pub const ALL: [Self; 4] = [Self::Claim, Self::Facts, Self::Meter, Self::Beat];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Facts => "facts",
            Self::Meter => "meter",
            Self::Beat => "beat",
        }
    }
}

/// Where a worker's request goes: `ts1.<operation>.<replica>.<worker>`. The worker is part of the
/// address, so that a server of the bus can check who sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub operation: Operation,
    pub replica: String,
    pub worker: String,
}

impl Address {
    /// The addresses of all requests to a replica.
    pub fn pattern(replica: &str) -> String {
        format!("{PROTOCOL}.*.{replica}.*")
    }

    pub fn parse(subject: &str) -> Option<Self> {
        let mut tokens = subject.split('.');
        let protocol = tokens.next()?;
        let operation = tokens.next()?;
        let (replica, worker) = (tokens.next()?, tokens.next()?);
        let known = Operation::ALL.into_iter();
        let operation = known.into_iter().find(|it| it.as_str() == operation)?;
        let valid = protocol == PROTOCOL && is_token(replica) && is_token(worker);
        (valid && tokens.next().is_none()).then(|| Self {
            operation,
            replica: replica.to_owned(),
            worker: worker.to_owned(),
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            operation,
            replica,
            worker,
        } = self;
        write!(f, "{PROTOCOL}.{}.{replica}.{worker}", operation.as_str())
    }
}

/// The subject of a replica's messages in the queue of a lane: `ts1.q.<pool>.<lane>.<replica>`.
/// More tokens may follow in later versions.
pub fn queued(lane: &Lane, replica: &str) -> String {
    format!("{PROTOCOL}.q.{}.{}.{replica}", lane.pool(), lane.name())
}

/// The subjects of all messages in the queue of a lane.
pub fn queue(lane: &Lane) -> String {
    format!("{PROTOCOL}.q.{}.{}.>", lane.pool(), lane.name())
}

/// The name of the lane of a message, from its subject.
pub fn lane_of(queued: &str) -> Option<&str> {
    queued.split('.').nth(3)
}

/// The subjects of all queues of a pool.
pub fn queues(pool: &Pool) -> String {
    format!("{PROTOCOL}.q.{pool}.>")
}

/// Where answers to hosts arrive, and messages that they take from JetStream.
pub const HOSTS_INBOX: &str = "ts1.hosts";

/// The same for a worker. No other worker may subscribe to it.
pub fn inbox(worker: &str) -> String {
    format!("{PROTOCOL}.inbox.{worker}")
}

/// Where the orders of hosts to a worker arrive. It is in the inbox, so that other workers may
/// neither read nor write there.
pub fn orders(worker: &str) -> String {
    format!("{}.orders", inbox(worker))
}

/// The inboxes of all workers.
pub fn inboxes() -> String {
    format!("{PROTOCOL}.inbox.>")
}

/// Whether answers to a worker may be sent to this subject. A sender names the subject of its
/// answer itself. Without this check, a worker could make a host write where only hosts may write.
pub fn is_in_inbox(subject: &str, worker: &str) -> bool {
    let own = subject.strip_prefix(&inbox(worker));
    let rest = own.and_then(|it| it.strip_prefix('.'));
    rest.is_some_and(|it| it.split('.').all(is_token))
}

/// A stream that is only created to learn how many copies the servers can keep, and deleted.
pub const PROBE_STREAM: &str = "TS1_DOCTOR";

/// The subject of [`PROBE_STREAM`].
pub fn probe() -> String {
    format!("{PROTOCOL}.doctor")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_written() {
        for operation in Operation::ALL {
            let address = Address {
                operation,
                replica: "host_1".to_owned(),
                worker: "gpu-7".to_owned(),
            };
            assert_eq!(Address::parse(&address.to_string()), Some(address));
        }
    }

    #[rstest]
    #[case("ts1.inbox.w1.x", true)]
    #[case("ts1.inbox.w1.x.y", true)]
    #[case("ts1.inbox.w1", false)]
    #[case("ts1.inbox.w1.", false)]
    #[case("ts1.inbox.w1.*", false)]
    #[case("ts1.inbox.w1.x.>", false)]
    #[case("ts1.inbox.w10.x", false)]
    #[case("ts1.inbox.w2.x", false)]
    #[case("_INBOX.w1.x", false)]
    #[case("$JS.API.STREAM.PURGE.TS1_Q_shared", false)]
    fn a_worker_gets_answers_in_its_inbox_only(#[case] subject: &str, #[case] expected: bool) {
        assert_eq!(is_in_inbox(subject, "w1"), expected);
    }

    #[rstest]
    #[case("")]
    #[case("ts2.claim.a.b")]
    #[case("ts1.run.a.b")]
    #[case("ts1.claim.a")]
    #[case("ts1.claim.a.b.c")]
    #[case("ts1.claim..b")]
    #[case("ts1.claim.a.*")]
    #[case("ts1.claim.a.>")]
    fn other_subjects_are_no_addresses(#[case] subject: &str) {
        assert_eq!(Address::parse(subject), None);
    }
}
