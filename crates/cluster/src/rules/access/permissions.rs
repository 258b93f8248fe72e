//! The permissions that hosts and workers need at NATS servers.

use std::fmt;

use serde::Serialize;

use crate::rules::access::pools::Pool;
use crate::rules::announcements::Topic;
use crate::rules::subjects::{self, Address, Operation, PROBE_STREAM};

/// The subjects that a NATS user may publish and subscribe to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Permissions {
    pub publish: Vec<String>,
    pub subscribe: Vec<String>,
}

impl Permissions {
    /// A worker takes tasks of its pools, writes as itself, and reads only what is sent to it.
    pub fn of_worker(worker: &str, pools: &[Pool]) -> Self {
        let mut publish: Vec<String> = pools.iter().flat_map(queues_of_worker).collect();
        publish.extend(Operation::ALL.map(|operation| {
            // Requests to all replicas.
            Address {
                operation,
                replica: "*".to_owned(),
                worker: worker.to_owned(),
            }
            .to_string()
        }));
        publish.push(Topic::Presence.subject(worker));
        Self {
            publish,
            subscribe: vec![format!("{}.>", subjects::inbox(worker))],
        }
    }

    /// A host offers the tasks of these pools and answers all workers.
    pub fn of_host(pools: &[Pool]) -> Self {
        let mut publish = vec!["$JS.API.INFO".to_owned()];
        publish.extend(pools.iter().flat_map(queues_of_host));
        // `touchstone doctor` looks for queues of other pools, and asks whether queues can be created.
        publish.push("$JS.API.STREAM.NAMES".to_owned());
        publish.push(format!("$JS.API.STREAM.CREATE.{PROBE_STREAM}"));
        publish.push(format!("$JS.API.STREAM.DELETE.{PROBE_STREAM}"));
        publish.push(subjects::inboxes());
        publish.extend([Topic::Signals, Topic::Presence].map(Topic::pattern));
        let mut subscribe = vec![
            format!("{}.>", subjects::HOSTS_INBOX),
            Address::pattern("*"),
        ];
        subscribe.extend([Topic::Signals, Topic::Presence].map(Topic::pattern));
        Self { publish, subscribe }
    }
}

fn queues_of_worker(pool: &Pool) -> [String; 4] {
    let stream = pool.stream();
    [
        format!("$JS.API.CONSUMER.INFO.{stream}.*"),
        format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.*"),
        // Which queues have messages, such as those of large tasks and of tasks with labels.
        format!("$JS.API.STREAM.INFO.{stream}"),
        format!("$JS.ACK.{stream}.>"),
    ]
}

fn queues_of_host(pool: &Pool) -> [String; 6] {
    let stream = pool.stream();
    [
        format!("$JS.API.STREAM.INFO.{stream}"),
        format!("$JS.API.STREAM.CREATE.{stream}"),
        format!("$JS.API.CONSUMER.CREATE.{stream}.>"),
        format!("$JS.API.CONSUMER.INFO.{stream}.*"),
        format!("$JS.API.CONSUMER.LIST.{stream}"),
        subjects::queues(pool),
    ]
}

/// A user in the configuration of a NATS server, which the public key identifies.
pub struct ServerUser<'a> {
    pub key: &'a str,
    pub permissions: &'a Permissions,
}

impl fmt::Display for ServerUser<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Permissions { publish, subscribe } = self.permissions;
        writeln!(f, "{{\n  nkey: {}\n  permissions: {{", self.key)?;
        for (name, subjects) in [("publish", publish), ("subscribe", subscribe)] {
            writeln!(f, "    {name}: {{ allow: [")?;
            for subject in subjects {
                writeln!(f, "      \"{subject}\"")?;
            }
            writeln!(f, "    ] }}")?;
        }
        write!(f, "  }}\n}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_writes_only_as_itself_and_reads_only_its_inbox() {
        let pool = Pool::parse("acme").unwrap();
        let permissions = Permissions::of_worker("w1", &[pool]);
        let expected = [
            "$JS.API.CONSUMER.INFO.TS1_Q_acme.*",
            "$JS.API.CONSUMER.MSG.NEXT.TS1_Q_acme.*",
            "$JS.API.STREAM.INFO.TS1_Q_acme",
            "$JS.ACK.TS1_Q_acme.>",
            "ts1.claim.*.w1",
            "ts1.facts.*.w1",
            "ts1.meter.*.w1",
            "ts1.beat.*.w1",
            "ts1.presence.w1",
        ];
        assert_eq!(permissions.publish, expected);
        assert_eq!(permissions.subscribe, ["ts1.inbox.w1.>"]);
    }

    #[test]
    fn a_user_is_written_as_the_server_reads_it() {
        let permissions = Permissions {
            publish: vec!["a".to_owned(), "b".to_owned()],
            subscribe: vec!["c".to_owned()],
        };
        let user = ServerUser {
            key: "UKEY",
            permissions: &permissions,
        };
        let expected = "{\n  nkey: UKEY\n  permissions: {\n    publish: { allow: [\n      \"a\"\n      \"b\"\n    ] }\n    subscribe: { allow: [\n      \"c\"\n    ] }\n  }\n}";
        assert_eq!(user.to_string(), expected);
    }
}
