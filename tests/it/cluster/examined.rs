//! `touchstone doctor` about NATS servers.

use bytes::Bytes;
use rstest::rstest;
use serde_json::Value;
use touchstone_cluster::ports::bus::Bus as _;
use touchstone_cluster::rules::access::pools::Pool;
use touchstone_cluster::rules::lane::Lane;

use super::nats::NatsServer;
use super::{host_bus, served_model};
use crate::process::Site;

/// The findings about the cluster, with the settings of a host.
fn examined(settings: &str) -> Vec<Value> {
    let site = Site::embedded();
    site.write("touchstone.toml", &format!("[cluster]\n{settings}"));
    let mut command = site.touchstone("touchstone.toml", &["--json", "doctor"]);
    let output = command.output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let checks = document["checks"].as_array().unwrap().iter();
    let checks = checks.filter(|it| it["area"] == "cluster");
    checks.cloned().collect()
}

#[rstest]
#[case::usable(
    "jetstream: {}",
    "",
    "ok",
    "the first task creates the queues with 1 copy"
)]
#[case::too_few_servers("jetstream: {}", "replicas = 3", "failure", "cannot keep 3 copies")]
#[case::no_jetstream("", "", "failure", "JetStream is off")]
#[case::small_messages(
    "jetstream: {}\nmax_payload: 64KB",
    "",
    "failure",
    "takes messages of at most 64.0 KiB"
)]
fn doctor_finds_what_a_nats_server_lacks(
    #[case] server: &str,
    #[case] host: &str,
    #[case] status: &str,
    #[case] said: &str,
) {
    let Some(nats) = NatsServer::start_with(server) else {
        return;
    };
    // Twice: an examination leaves nothing behind.
    for _ in 0..2 {
        let checks = examined(&format!("nats = \"{}\"\n{host}\n", nats.url()));
        let fits = |it: &&Value| it["found"].as_str().unwrap().contains(said);
        let found = checks.iter().find(fits);
        let found = found.unwrap_or_else(|| panic!("no check says {said}: {checks:?}"));
        assert_eq!(found["status"], status, "{found}");
        let answers = checks[0]["found"].as_str().unwrap();
        assert!(answers.contains("answers without TLS"), "{answers}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_examines_the_queues_of_all_pools() {
    let Some(nats) = NatsServer::start() else {
        return;
    };
    let (bus, model) = (host_bus(&nats), served_model());
    for pool in ["acme", "old"] {
        let lane = Lane::of(&Pool::parse(pool).unwrap(), &model, None).unwrap();
        let message = Bytes::from_static(b"{}");
        bus.publish(&lane, "host_1", message).await.unwrap();
    }
    let pools = "[[cluster.pools]]\nname = \"acme\"\ntenants = [\"acme\"]\n\
                 [[cluster.pools]]\nname = \"new\"\ntenants = [\"other\"]\n";
    let settings = format!("nats = \"{}\"\n{pools}", nats.url());
    let checks = tokio::task::spawn_blocking(move || examined(&settings));
    let found: Vec<String> = checks
        .await
        .unwrap()
        .iter()
        .skip(1)
        .map(|it| {
            format!(
                "{}: {}",
                it["status"].as_str().unwrap(),
                it["found"].as_str().unwrap()
            )
        })
        .collect();
    let expected = [
        "ok: the queues of the pool `acme` exist with 1 copy",
        "ok: the first task creates the queues of the pool `new` with 1 copy",
        "ok: the first task creates the queues with 1 copy",
        "warning: the pool `old` has queues, and no `[[cluster.pools]]` names it",
    ];
    assert_eq!(found, expected);
}

#[rstest]
#[case::no_server("nats://127.0.0.1:1", "", "correct `cluster.nats`")]
#[case::no_file(
    "nats://127.0.0.1:1",
    "credentials_file = \"missing.creds\"",
    "`cluster.credentials_file`"
)]
fn doctor_says_why_there_is_no_connection(
    #[case] url: &str,
    #[case] more: &str,
    #[case] remedy: &str,
) {
    let checks = examined(&format!("nats = \"{url}\"\n{more}\n"));
    assert_eq!(checks.len(), 1, "{checks:?}");
    assert_eq!(checks[0]["status"], "failure");
    let given = checks[0]["remedy"].as_str().unwrap();
    assert!(given.contains(remedy), "{given}");
}

#[test]
fn doctor_says_that_the_server_has_no_tls() {
    let Some(nats) = NatsServer::start() else {
        return;
    };
    let url = nats.url().replace("nats://", "tls://");
    let checks = examined(&format!("nats = \"{url}\"\n"));
    assert_eq!(checks.len(), 1, "{checks:?}");
    assert_eq!(checks[0]["status"], "failure");
}
