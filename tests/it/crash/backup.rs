//! A backup that is made while a run is in progress, restored elsewhere.

use std::time::Duration;

use serde_json::{Value, json};

use super::log::{self, Witness};
use super::{AGENT, AT_ONCE, SUITE, TASKS, TENANT, WRONG_EVERY, config, endpoint, furnish, item};
use crate::process::api::Api;
use crate::process::endpoint::Endpoint;
use crate::process::{Host, Site, TOO_LONG};

/// Tasks up to this item are answered before the backup; the others wait for the next era.
const ANSWERED: u64 = 40;

/// A site whose run has [`ANSWERED`] judged tasks and others in flight, and its backup.
struct Original {
    site: Site,
    host: Host,
    endpoint: Endpoint,
    key: String,
    run: String,
    witness: Witness,
}

async fn original() -> Original {
    let endpoint = endpoint().await;
    endpoint.hold(|body| item(body) > ANSWERED);
    let site = Site::embedded();
    site.configure("touchstone.toml", &config(&endpoint, 1.0));
    let key = site.key_of(
        TENANT,
        &[
            "runs:create",
            "runs:read",
            "runs:content",
            "packs:install",
            "suites:write",
            "manifest:read",
            "audit:read",
        ],
    );
    let host = site.serve("touchstone.toml");
    let api = host.api(&key);
    furnish(&site, &api);
    let run = api.start(SUITE, AGENT, json!({})).await;
    let mut witness = Witness::since(0);
    let in_flight = || endpoint.asked().len() as u64 >= ANSWERED + AT_ONCE;
    let judged = async {
        while witness.scored() < ANSWERED || !in_flight() {
            witness.look(&api, &run, 1).await;
        }
    };
    tokio::time::timeout(TOO_LONG, judged).await.unwrap();
    site.run(&["backup", "backup.tar", "--with-keys"]);
    Original {
        site,
        host,
        endpoint,
        key,
        run,
        witness,
    }
}

impl Original {
    /// Another site with this one's configuration and backup.
    fn restored(&self, more: &[&str]) -> (Site, String) {
        let copy = Site::embedded();
        let text = std::fs::read_to_string(self.site.folder().join("touchstone.toml")).unwrap();
        copy.write("touchstone.toml", &text);
        let backup = self.site.folder().join("backup.tar");
        let arguments = [&["restore", backup.to_str().unwrap()], more].concat();
        let told = copy.run(&arguments);
        (copy, told)
    }
}

async fn chain_is_valid(api: &Api) {
    let verified = api.get("/v1/audit/verify").await;
    assert_eq!(verified["chainValid"], true, "{verified}");
    assert!(verified["toSeq"].as_u64().unwrap() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_run_continues_and_no_judged_task_is_judged_again() {
    let mut original = original().await;
    let (copy, told) = original.restored(&["--take-over"]);
    assert!(!told.contains("held"), "{told}");
    let (endpoint, run) = (&original.endpoint, &original.run);
    original.host.kill();
    original.witness.killed(endpoint.next_era());

    let host = copy.serve("touchstone.toml");
    let api = host.api(&original.key);
    let full = api.log(run).await;
    original.witness.compare(&full);
    log::check_order(run, &full);
    log::check_scores(&full, TASKS, WRONG_EVERY);
    original.witness.check_requests(&endpoint.asked(), item);
    chain_is_valid(&api).await;
    assert!(host.terminate());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_beside_the_original_continues_no_run_until_it_takes_over() {
    let original = original().await;
    let (copy, told) = original.restored(&[]);
    assert!(told.contains("held: unfinished runs (1)"), "{told}");
    let (endpoint, run) = (&original.endpoint, &original.run);
    let asked = endpoint.asked().len();

    let host = copy.serve("touchstone.toml");
    let api = host.api(&original.key);
    let before = head(&api, run).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(head(&api, run).await, before);
    assert_eq!(endpoint.asked().len(), asked, "the copy called the model");
    assert!(host.log().contains("restored copy"), "{}", host.log());
    chain_is_valid(&api).await;

    original.host.kill();
    endpoint.next_era();
    let released = copy.run(&["restore", "--take-over"]);
    assert!(
        released.contains("released: unfinished runs (1)"),
        "{released}"
    );
    let full = api.log(run).await;
    log::check_order(run, &full);
    log::check_scores(&full, TASKS, WRONG_EVERY);
    assert!(host.terminate());
}

async fn head(api: &Api, run: &str) -> Value {
    let (events, complete) = api.poll(run, 0, 1).await.unwrap();
    assert!(!complete);
    events.last().unwrap()["sequence"].clone()
}
