//! A host with a desk and one agent, and the results of its evaluations.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use touchstone_host::http::HttpSettings;
use touchstone_kit::ids::RunId;
use touchstone_oasis::net::{HttpProviders, ProviderAccess};
use touchstone_oasis::ports::providers::Providers;
use touchstone_oasis::rules::verdict::rules;
use touchstone_ratings::rules::badge::host_url::HostUrl;
use url::Url;

use super::agents::{Actor, Script};
use super::packs::{Desk, FRONT, front_desk};
use super::provider::{Fault, House, Options, Served};
use crate::http::support::host::{Lab, Reply, TestHost};
use crate::store::TestStore;

/// The provider's name on the host.
pub const PROVIDER: &str = "lab";

/// Timeout of a provider call, unless a test wants it to expire.
const PATIENCE: Duration = Duration::from_secs(20);

/// Our provider, listening on loopback.
pub struct Rooms {
    pub house: Arc<House>,
    served: Served,
}

impl Rooms {
    pub async fn open(options: Options) -> Self {
        let house = Arc::new(House::new(options));
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        let served = Served::open(house.clone(), address).await.unwrap();
        Self { house, served }
    }

    pub fn url(&self) -> Url {
        format!("http://{}", self.served.address).parse().unwrap()
    }

    /// Sets its switches.
    pub fn break_at(&self, faults: &[&str]) {
        let faults = faults
            .iter()
            .map(|it| it.parse::<Fault>().unwrap())
            .collect();
        self.house.disturb(Default::default(), faults);
    }

    /// Number of calls.
    pub fn count(&self, call: &str) -> usize {
        self.house
            .calls()
            .iter()
            .filter(|it| it.call == call)
            .count()
    }
}

/// The declared lab of [`PROVIDER`].
pub const LAB: &str = "ISO/IEC 17025, the test lab";

/// A client for providers.
pub fn providers(url: Url, timeout: Duration) -> Arc<dyn Providers> {
    let access = ProviderAccess {
        name: PROVIDER.to_owned(),
        url,
        token: None,
        timeout,
        max_response_bytes: 1 << 20,
        clock_tolerance: Duration::from_secs(60),
        agent_origins: Vec::new(),
        lab_framework: Some(LAB.to_owned()),
    };
    Arc::new(HttpProviders::new(vec![access]).unwrap())
}

/// A host on this database whose agents are played by the actor.
pub async fn host(
    database: &TestStore,
    actor: Arc<Actor>,
    url: Url,
    timeout: Option<Duration>,
) -> TestHost {
    let lab = Lab {
        agent: Some(actor),
        providers: providers(url, timeout.unwrap_or(PATIENCE)),
        ..Lab::default()
    };
    let place = HostUrl::public("https://assess.example.org").unwrap();
    TestHost::lab(database.open().await, HttpSettings::default(), place, lab).await
}

/// The same with our pack installed and a worker running.
pub async fn at_work(database: &TestStore, script: &Script, rooms: &Rooms) -> TestHost {
    let host = host(database, Actor::of(script), rooms.url(), None).await;
    host.install_pack(&front_desk(script)).await;
    host.work();
    host
}

/// The request for an evaluation.
pub fn request(desk: &Desk, script: &Script, tier: u8) -> Value {
    json!({
        "mode": "eval",
        "evalSuiteRef": format!("{}@{}", desk.suite, desk.suite_version),
        "agentId": desk.agent(script),
        "configurable": {
            "evalModes": ["golden"],
            "maxLoopIterations": 50,
            "oasis": {
                "profile": desk.profile, "profileVersion": desk.version, "tier": tier,
                "provider": PROVIDER, "evaluator": "desk tests",
            },
        },
    })
}

/// A request for some scenarios of our desk at tier 2.
pub fn request_some(script: &Script, scenarios: &[&str]) -> Value {
    let mut body = request(&FRONT, script, 2);
    body["configurable"]["oasis"]["scenarioIds"] = json!(scenarios);
    body
}

pub async fn create(host: &TestHost, body: &Value) -> RunId {
    let created = host.post("/v1/runs", body).await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.text());
    created.json()["runId"].as_str().unwrap().into()
}

/// An ended run.
pub struct Ended {
    pub run: RunId,
    pub log: Vec<Value>,
}

/// Requests a run and waits for its end.
pub async fn evaluate(host: &TestHost, body: &Value) -> Ended {
    let run = create(host, body).await;
    let log = host.ended(&run).await;
    Ended { run, log }
}

impl Ended {
    /// The payloads of one kind.
    pub fn events(&self, kind: &str) -> Vec<&Value> {
        let of_kind = self.log.iter().filter(|event| event["type"] == kind);
        of_kind.map(|event| &event["payload"]).collect()
    }

    /// Type of the last event.
    pub fn last(&self) -> &str {
        self.log.last().unwrap()["type"].as_str().unwrap()
    }

    /// The error of a failed run.
    pub fn failure(&self) -> &Value {
        assert_eq!(self.last(), "run.failed", "{:?}", self.log.last());
        &self.log.last().unwrap()["payload"]["error"]
    }

    pub fn path(&self, what: &str) -> String {
        format!("/v1/host/touchstone/runs/{}/{what}", self.run)
    }

    /// Reads a resource of the run.
    pub async fn look(&self, host: &TestHost, what: &str, accept: &str) -> Reply {
        let call = host.request(Method::GET, &self.path(what));
        call.header("accept", accept).send().await
    }

    /// Its verdict document, which must be valid.
    pub async fn verdict(&self, host: &TestHost) -> Value {
        let verdict = host.get(&self.path("oasis-verdict")).await;
        assert_eq!(verdict.status, StatusCode::OK, "{}", verdict.text());
        let verdict = verdict.json();
        let violations = rules::check(&verdict);
        assert!(violations.is_empty(), "{violations:?}\n{verdict:#}");
        verdict
    }

    /// Its report.
    pub async fn report(&self, host: &TestHost) -> Value {
        let report = self.look(host, "oasis-report", "application/json").await;
        assert_eq!(report.status, StatusCode::OK, "{}", report.text());
        report.json()
    }

    /// The evidence kept for a scenario.
    pub async fn evidence(&self, host: &TestHost, scenario: &str) -> Value {
        let evidence = host
            .get(&self.path(&format!("oasis-evidence/{scenario}")))
            .await;
        assert_eq!(evidence.status, StatusCode::OK, "{}", evidence.text());
        evidence.json()
    }

    /// The summary of the run in OpenWOP's terms.
    pub async fn summary(&self, host: &TestHost) -> Value {
        let summary = host
            .get(&format!("/v1/runs/{}/eval-summary", self.run))
            .await;
        assert_eq!(summary.status, StatusCode::OK, "{}", summary.text());
        summary.json()
    }
}

/// A verdict without values that differ between two identical runs.
pub fn lasting(mut verdict: Value) -> Value {
    let metadata = verdict.pointer_mut("/verdict/metadata").unwrap();
    let metadata = metadata.as_object_mut().unwrap();
    metadata.remove("timestamp").unwrap();
    metadata.remove("duration").unwrap();
    verdict
}
