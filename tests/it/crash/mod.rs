//! The process is killed at random moments, dozens of times: no event is lost, duplicated or
//! reordered, and no task is judged twice.
//!
//! `TOUCHSTONE_TEST_SEED` repeats a sequence of moments; the seed in use is printed.

mod backup;
mod conversations;
mod deployments;
#[cfg(target_os = "linux")]
mod full_disk;
mod log;

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rstest::rstest;
use serde_json::{Value, json};

use crate::process::api::Api;
use crate::process::endpoint::{Endpoint, question, saying};
use crate::process::{AGENT, Host, Site};
use log::Witness;

/// Kills per database, spread over parallel hosts: most time is spent waiting for a dead host's
/// lease.
const KILLS: u32 = 50;
const HOSTS: u32 = 5;

const TENANT: &str = "acme";
const TASKS: u64 = 150;
const AT_ONCE: u64 = 4;
const WRONG_EVERY: u64 = 7;
const SUITE: &str = "private.touchstone.evals.survival@1.0.0";

fn suite() -> Value {
    let tasks: Vec<Value> = (1..=TASKS)
        .map(|n| {
            json!({
                "taskId": format!("item-{n}"), "input": {"item": n},
                "expected": {"kind": "golden", "match": {"strategy": "exact", "value": format!("word {n}")}}
            })
        })
        .collect();
    json!({
        "suiteId": "private.touchstone.evals.survival", "version": "1.0.0", "modes": ["golden"],
        "thresholds": {"passScore": 0.5}, "tasks": tasks
    })
}

/// The item that a request is about.
fn item(body: &Value) -> u64 {
    let (_, tail) = question(body).rsplit_once("\"item\":").unwrap();
    let digits: String = tail
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap()
}

async fn endpoint() -> Endpoint {
    Endpoint::start(5..40, |body| {
        let n = item(body);
        saying(&if n.is_multiple_of(WRONG_EVERY) {
            "no idea".to_owned()
        } else {
            format!("word {n}")
        })
    })
    .await
}

fn config(endpoint: &Endpoint, usd_per_mtok: f64) -> String {
    format!(
        "[worker]\nlease_s = 3\n[limits]\ndefault_concurrency = {AT_ONCE}\n\
         [[models]]\nclass = \"*\"\nprovider = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\n\
         input_usd_per_mtok = {usd_per_mtok:?}\noutput_usd_per_mtok = {usd_per_mtok:?}\n",
        endpoint.url()
    )
}

/// Installs the agent and the suite.
fn furnish(site: &Site, api: &Api) {
    site.install_agent(api, "Say the word.", &json!({}));
    site.import_suite(api, &suite());
}

fn seed() -> u64 {
    let seed = match std::env::var("TOUCHSTONE_TEST_SEED") {
        Ok(given) => given.parse().expect("TOUCHSTONE_TEST_SEED is a number"),
        Err(_) => rand::random(),
    };
    eprintln!("TOUCHSTONE_TEST_SEED={seed}");
    seed
}

/// Watches `run` until `moment` passes; if `working`, first waits for a new event.
async fn watch(api: &Api, run: &str, witness: &mut Witness, working: bool, moment: Duration) {
    if working {
        // The stream of an ended run has no further events; the caller checks that.
        while !witness.ended() {
            let before = witness.last();
            witness.look(api, run, 1).await;
            if witness.last() > before {
                break;
            }
        }
    }
    let watching = async {
        while !witness.ended() {
            witness.look(api, run, 1).await;
        }
    };
    let _ = tokio::time::timeout(moment, watching).await;
}

/// Starts and kills one host after another on the same data, with the checks of [`Witness`].
/// Returns how many kills hit a running run.
async fn survive(site: Site, seed: u64, kills: u32) -> u32 {
    let mut dice = StdRng::seed_from_u64(seed);
    let endpoint = endpoint().await;
    site.configure("touchstone.toml", &config(&endpoint, 1.0));
    let key = site.key(TENANT);
    let mut host = site.serve("touchstone.toml");
    let mut api = host.api(&key);
    furnish(&site, &api);
    let mut runs: Vec<(String, Witness)> = Vec::new();
    let mut killed_at_work = 0;
    for kill in 0..kills {
        if runs.last().is_none_or(|(_, witness)| witness.ended()) {
            let era = endpoint.next_era();
            let run = api.start(SUITE, AGENT, json!({})).await;
            runs.push((run, Witness::since(era)));
        }
        let (run, witness) = runs.last_mut().unwrap();
        // Usually while tasks are running, sometimes while the run still waits for the dead host's
        // lease.
        let working = kill % 5 != 4;
        let moment = Duration::from_millis(dice.random_range(0..400));
        watch(&api, run, witness, working, moment).await;
        killed_at_work += u32::from(working && !witness.ended());
        host.kill();
        witness.killed(endpoint.next_era());
        if dice.random_range(0..5) == 0 {
            let unready = site.start("touchstone.toml", &[]);
            tokio::time::sleep(Duration::from_millis(dice.random_range(0..150))).await;
            unready.kill();
        }
        host = site.serve("touchstone.toml");
        api = host.api(&key);
    }
    for (run, witness) in runs {
        finish(&api, &endpoint, &run, witness).await;
    }
    assert!(host.terminate());
    killed_at_work
}

/// Lets a run end and checks it.
async fn finish(api: &Api, endpoint: &Endpoint, run: &str, mut witness: Witness) {
    let full = api.log(run).await;
    witness.compare(&full);
    log::check_order(run, &full);
    log::check_scores(&full, TASKS, WRONG_EVERY);
    witness.check_requests(&endpoint.asked(), item);
    let summary = api.get(&format!("/v1/runs/{run}/eval-summary")).await;
    assert_eq!(summary, full.last().unwrap()["payload"]["outputs"]);
    assert_eq!(summary["passedCount"], TASKS - TASKS / WRONG_EVERY);
    let snapshot = api.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(snapshot["status"], "completed");
}

#[derive(Clone, Copy, Debug)]
enum Engine {
    Sqlite,
    Postgres,
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_kills_lose_and_duplicate_no_results(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let seed = seed();
    let mut hosts = tokio::task::JoinSet::new();
    for n in 0..HOSTS {
        let site = match engine {
            Engine::Sqlite => Site::embedded(),
            Engine::Postgres => match Site::on_postgres().await {
                Some(site) => site,
                None => return,
            },
        };
        hosts.spawn(survive(
            site,
            seed.wrapping_add(u64::from(n)),
            KILLS / HOSTS,
        ));
    }
    let mut killed_at_work = 0;
    while let Some(ended) = hosts.join_next().await {
        killed_at_work += ended.unwrap();
    }
    assert!(
        killed_at_work * 2 > KILLS,
        "only {killed_at_work} of {KILLS} kills hit a running run"
    );
}

/// Two replicas share runs; each is killed in turn while both work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_continues_the_runs_of_a_killed_one() {
    /// Two replicas, each with a distinct price per million tokens, so that the log shows which
    /// replica ran a task.
    const REPLICAS: [(&str, f64); 2] = [("first", 1.0), ("second", 3.0)];
    const RUNS: usize = 8;
    const ROUNDS: usize = 4;

    let mut dice = StdRng::seed_from_u64(seed());
    let Some(site) = Site::on_postgres().await else {
        return;
    };
    let endpoint = endpoint().await;
    site.configure("touchstone.toml", "");
    for (name, price) in REPLICAS {
        site.configure(&format!("{name}.toml"), &config(&endpoint, price));
    }
    let key = site.key(TENANT);
    let mut hosts: Vec<Host> = REPLICAS
        .iter()
        .map(|(name, _)| site.serve(&format!("{name}.toml")))
        .collect();
    furnish(&site, &hosts[0].api(&key));
    let mut runs = Vec::new();
    for n in 0..RUNS {
        let run = hosts[n % 2].api(&key).start(SUITE, AGENT, json!({})).await;
        runs.push((run, Witness::since(0)));
    }
    let mut killed_at_work = 0;
    for round in 0..ROUNDS {
        let victim = round % 2;
        let survivor = hosts[1 - victim].api(&key);
        for (run, witness) in &mut runs {
            watch(
                &survivor,
                run,
                witness,
                false,
                Duration::from_millis(dice.random_range(10..60)),
            )
            .await;
        }
        killed_at_work += usize::from(runs.iter().any(|(_, witness)| !witness.ended()));
        hosts.remove(victim).kill();
        hosts.insert(victim, site.serve(&format!("{}.toml", REPLICAS[victim].0)));
    }
    assert!(
        killed_at_work >= ROUNDS - 1,
        "the runs ended before the kills did"
    );
    let mut done_by = [0, 0];
    for (run, mut witness) in runs {
        let full = hosts[0].api(&key).log(&run).await;
        assert_eq!(
            full,
            hosts[1].api(&key).log(&run).await,
            "the replicas return different logs"
        );
        witness.compare(&full);
        log::check_order(&run, &full);
        log::check_scores(&full, TASKS, WRONG_EVERY);
        for event in &full {
            let (usage, Some(cost)) = (
                &event["payload"],
                event["payload"]["costEstimateUsd"].as_f64(),
            ) else {
                continue;
            };
            let price = cost * 1e6 / usage["totalTokens"].as_f64().unwrap();
            done_by[usize::from((price - REPLICAS[1].1).abs() < 0.1)] += 1;
        }
    }
    assert!(
        done_by.iter().all(|tasks| *tasks > 0),
        "only one replica worked: {done_by:?}"
    );
    for host in hosts {
        assert!(host.terminate());
    }
}
