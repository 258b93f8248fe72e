//! Whether hosts and workers can use the NATS servers.

use crate::cli::doctor::finding::{Area, Finding};
use touchstone_cluster::config::ClusterSettings;
use touchstone_cluster::nats::examination::{
    Examination, PoolState, QueueState, Unreachable, examine,
};
use touchstone_cluster::rules::access::pools::Pool;
use touchstone_cluster::rules::wire::MAX_BYTES;
use touchstone_host::render::words::{bytes, plain};

const AREA: Area = Area::Cluster;

/// Connects to the servers of the section `[cluster]`, if there are any.
pub async fn check(settings: &ClusterSettings, found: &mut Vec<Finding>) {
    let Some(servers) = &settings.nats else {
        return;
    };
    let servers = servers.split(',').count();
    match examine(settings).await {
        Ok(examination) => report(settings, servers, &examination, found),
        Err((reason, cause)) => found.push(unreachable(reason, &cause)),
    }
}

fn unreachable(reason: Unreachable, cause: &str) -> Finding {
    let remedy = match reason {
        Unreachable::NoAnswer => {
            "correct `cluster.nats`, or start the servers, and check the network and firewalls between"
        }
        Unreachable::Tls => {
            "give the servers certificates that name the hosts of `cluster.nats`, and name their authority in `cluster.ca_file` if it is your own"
        }
        Unreachable::Credentials => {
            "name a file with a NATS user's key in `cluster.nkey_file` (`touchstone cluster credentials` creates it), or with its credentials in `cluster.credentials_file`"
        }
    };
    let text = format!("there is no connection to NATS: {}", plain(cause));
    Finding::failure(AREA, text, remedy)
}

fn report(
    settings: &ClusterSettings,
    servers: usize,
    examination: &Examination,
    found: &mut Vec<Finding>,
) {
    let (server, version) = (plain(&examination.server), plain(&examination.version));
    let tls = match examination.has_tls {
        true => "with TLS",
        false => "without TLS",
    };
    found.push(Finding::ok(
        AREA,
        format!("the NATS server {server} answers {tls}, version {version}"),
    ));
    if !examination.takes_all_messages() {
        let most = examination.max_payload as u64;
        found.push(Finding::failure(
            AREA,
            format!(
                "the NATS server takes messages of at most {}, and tasks need up to {}",
                bytes(most),
                bytes(MAX_BYTES as u64)
            ),
            "set `max_payload: 1MB` in the configuration of each NATS server",
        ));
    }
    for state in &examination.pools {
        found.push(queues(settings.replicas, servers, state));
    }
    match &examination.other_pools {
        Ok(pools) => found.extend(pools.iter().map(not_configured)),
        Err(cause) => found.push(Finding::warning(
            AREA,
            format!(
                "the NATS server does not say which other pools have queues: {}",
                plain(cause)
            ),
            "copy the permissions that `touchstone cluster credentials --host` prints to the user of hosts",
        )),
    }
}

/// Queues of a pool that the configuration does not name.
fn not_configured(pool: &Pool) -> Finding {
    Finding::warning(
        AREA,
        format!("the pool `{pool}` has queues, and no `[[cluster.pools]]` names it"),
        format!(
            "name it in the configuration of all replicas, or delete its queues: nats stream rm {}",
            pool.stream()
        ),
    )
}

fn queues(wanted: usize, servers: usize, state: &PoolState) -> Finding {
    let PoolState { pool, queues, .. } = state;
    let of = match *pool == Pool::shared() {
        true => "the queues".to_owned(),
        false => format!("the queues of the pool `{pool}`"),
    };
    let copies = |count: usize| match count {
        1 => "1 copy".to_owned(),
        several => format!("{several} copies"),
    };
    match queues {
        QueueState::NoJetStream => Finding::failure(
            AREA,
            "JetStream is off for this server or account",
            "start nats-server with `-js`, or enable JetStream for the account",
        ),
        QueueState::TooManyCopies => Finding::failure(
            AREA,
            format!(
                "the NATS servers cannot keep {} of the queues",
                copies(wanted)
            ),
            "start as many servers as one cluster, or lower `cluster.replicas`",
        ),
        QueueState::Failed(cause) => Finding::failure(
            AREA,
            format!("{of} could not be examined: {}", plain(cause)),
            "look at the log of the NATS servers: free disk space, a majority of the servers, rights of the user",
        ),
        QueueState::Exist {
            has_leader: false, ..
        } => Finding::failure(
            AREA,
            format!("{of} have no leader, so no task can be offered"),
            "start the NATS servers that are down: a majority is needed",
        ),
        QueueState::Exist {
            offline,
            copies: all,
            ..
        } if *offline > 0 => Finding::warning(
            AREA,
            format!(
                "{} of {} of {of} are at servers that are down",
                offline,
                copies(*all)
            ),
            "start these NATS servers; without a majority, no task can be offered",
        ),
        QueueState::Exist { copies: all, .. } if *all != wanted => Finding::warning(
            AREA,
            format!(
                "{of} have {}, and `cluster.replicas` is {wanted}",
                copies(*all)
            ),
            format!("nats stream edit {} --replicas {wanted}", pool.stream()),
        ),
        QueueState::Exist { copies: 1, .. } | QueueState::Possible
            if wanted == 1 && servers > 1 =>
        {
            Finding::warning(
                AREA,
                format!(
                    "{servers} NATS servers are named, and {of} have 1 copy: without its server, no task can be offered"
                ),
                format!(
                    "set `cluster.replicas = 3` for hosts; if the queues exist: nats stream edit {} --replicas 3",
                    pool.stream()
                ),
            )
        }
        QueueState::Exist { copies: all, .. } => {
            Finding::ok(AREA, format!("{of} exist with {}", copies(*all)))
        }
        QueueState::Possible => Finding::ok(
            AREA,
            format!("the first task creates {of} with {}", copies(wanted)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::cli::doctor::finding::Status;

    const fn exist(copies: usize, offline: usize, has_leader: bool) -> QueueState {
        QueueState::Exist {
            copies,
            offline,
            has_leader,
        }
    }

    #[rstest]
    #[case::created_at_the_first_start(1, 1, QueueState::Possible, Status::Ok)]
    #[case::three_copies(3, 3, exist(3, 0, true), Status::Ok)]
    #[case::one_server(1, 1, exist(1, 0, true), Status::Ok)]
    #[case::one_copy_of_three_servers(1, 3, exist(1, 0, true), Status::Warning)]
    #[case::one_copy_will_be_created(1, 3, QueueState::Possible, Status::Warning)]
    #[case::other_number(3, 3, exist(1, 0, true), Status::Warning)]
    #[case::one_down(3, 3, exist(3, 1, true), Status::Warning)]
    #[case::no_majority(3, 3, exist(3, 2, false), Status::Failure)]
    #[case::too_many(3, 1, QueueState::TooManyCopies, Status::Failure)]
    #[case::no_jetstream(1, 1, QueueState::NoJetStream, Status::Failure)]
    #[case::failed(1, 1, QueueState::Failed("no space".to_owned()), Status::Failure)]
    fn the_state_of_the_queues_is_judged(
        #[case] wanted: usize,
        #[case] servers: usize,
        #[case] state: QueueState,
        #[case] expected: Status,
    ) {
        let state = PoolState {
            pool: Pool::shared(),
            queues: state,
        };
        let finding = queues(wanted, servers, &state);
        assert_eq!(finding.status, expected, "{finding:?}");
        assert_eq!(finding.remedy.is_none(), expected == Status::Ok);
    }

    #[test]
    fn every_pool_is_reported_by_name() {
        let pool = |name| PoolState {
            pool: Pool::parse(name).unwrap(),
            queues: exist(1, 0, true),
        };
        let examination = Examination {
            server: "n1".to_owned(),
            version: "2.10.0".to_owned(),
            has_tls: false,
            max_payload: 1024 * 1024,
            pools: vec![pool("acme"), pool("shared")],
            other_pools: Ok(vec![Pool::parse("old").unwrap()]),
        };
        let mut found = Vec::new();
        report(&ClusterSettings::default(), 1, &examination, &mut found);
        let texts: Vec<&str> = found.iter().map(|it| it.found.as_str()).collect();
        assert_eq!(
            texts[1..],
            [
                "the queues of the pool `acme` exist with 1 copy",
                "the queues exist with 1 copy",
                "the pool `old` has queues, and no `[[cluster.pools]]` names it",
            ]
        );
        let remedy = found[3].remedy.as_ref().unwrap();
        assert!(remedy.contains("nats stream rm TS1_Q_old"), "{remedy}");
    }

    #[test]
    fn a_server_that_names_no_queues_is_reported_with_the_remedy() {
        let examination = Examination {
            server: "n1".to_owned(),
            version: "2.10.0".to_owned(),
            has_tls: false,
            max_payload: 1024 * 1024,
            pools: Vec::new(),
            other_pools: Err("no answer".to_owned()),
        };
        let mut found = Vec::new();
        report(&ClusterSettings::default(), 1, &examination, &mut found);
        let last = found.last().unwrap();
        assert_eq!(last.status, Status::Warning, "{last:?}");
        let remedy = last.remedy.as_ref().unwrap();
        assert!(remedy.contains("cluster credentials --host"), "{remedy}");
    }

    #[test]
    fn a_small_max_payload_is_a_failure() {
        let examination = Examination {
            server: "n1".to_owned(),
            version: "2.10.0".to_owned(),
            has_tls: false,
            max_payload: 64 * 1024,
            pools: Vec::new(),
            other_pools: Ok(Vec::new()),
        };
        let mut found = Vec::new();
        report(&ClusterSettings::default(), 1, &examination, &mut found);
        let failures: Vec<&str> = found
            .iter()
            .filter(|it| it.status == Status::Failure)
            .map(|it| it.found.as_str())
            .collect();
        assert_eq!(failures.len(), 1, "{found:?}");
        assert!(failures[0].contains("64"), "{failures:?}");
    }
}
