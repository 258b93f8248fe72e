//! The AAAF API, through the real router; every answer is held against the API description.

mod agent_cards;
mod agents;
pub mod appeals;
pub mod assessments;
mod audits;
pub mod badges;
mod config;
mod corrections;
mod dimensions;
pub mod elsewhere;
mod events;
mod gates;
mod housekeeping;
mod issuer_keys;
mod organizations;
mod profiles;
mod records;
mod schedule;
mod sources;
mod specification;
mod stress_tests;
mod suspended;
mod walk;
mod webhooks;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use touchstone::http::{AaafRates, HttpSettings};
use touchstone::store;

use crate::http::host::{Reply, TestHost};
use crate::store::{Database, Engine};
use crate::support::host_keys;
use crate::support::postgres::TestDatabase;

/// A host with two organizations that share nothing else.
pub struct Site {
    pub host: TestHost,
    pub ours: Organization,
    pub theirs: Organization,
    _database: Option<TestDatabase>,
}

/// An organization and its first key.
pub struct Organization {
    pub id: String,
    pub key: String,
}

impl Site {
    /// Without limits; `None`, said aloud, when there is no such database.
    pub async fn on(engine: Engine) -> Option<Self> {
        let rates = AaafRates {
            requests_per_minute: 0,
            events_per_minute: 0,
            assessments_per_hour: 0,
        };
        Self::with(engine, rates).await
    }

    pub async fn with(engine: Engine, aaaf: AaafRates) -> Option<Self> {
        let settings = HttpSettings {
            aaaf,
            ..HttpSettings::default()
        };
        let (host, database) = match engine {
            Engine::Sqlite => (TestHost::with(settings).await, None),
            Engine::Postgres => {
                let database = TestDatabase::create().await?;
                let store = store::open(&database.url(), host_keys::usual())
                    .await
                    .unwrap();
                (TestHost::over(store, settings).await, Some(database))
            }
        };
        Some(Self::of(host, database).await)
    }

    /// On a database that the test has a hand in, without limits.
    pub async fn over(database: &Database) -> Self {
        let settings = HttpSettings {
            aaaf: AaafRates {
                requests_per_minute: 0,
                events_per_minute: 0,
                assessments_per_hour: 0,
            },
            ..HttpSettings::default()
        };
        let host = TestHost::over(database.open().await, settings).await;
        Self::of(host, None).await
    }

    /// Two organizations of a host.
    pub async fn of(host: TestHost, database: Option<TestDatabase>) -> Self {
        let ours = found(&host, &json!({"name": "Acme Evaluations"})).await;
        let theirs = found(&host, &json!({"name": "Globex"})).await;
        Self {
            host,
            ours,
            theirs,
            _database: database,
        }
    }

    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Reply {
        self.send_as(&self.ours, method, path, body).await
    }

    pub async fn send_as(
        &self,
        who: &Organization,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Reply {
        let call = self
            .host
            .request(method, &format!("/api/v1/{path}"))
            .key(&who.key);
        match body {
            Some(body) => call.json(body).send().await,
            None => call.send().await,
        }
    }

    /// Sends the request without a key.
    pub async fn anonymous(&self, path: &str) -> Reply {
        self.host
            .request(Method::GET, path)
            .anonymous()
            .send()
            .await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send(Method::POST, path, Some(body)).await
    }

    /// Enrols an agent of this name; gives its id.
    pub async fn enrol(&self, name: &str) -> String {
        let enrolled = self.post("agents", &json!({"name": name})).await;
        assert_eq!(enrolled.status, StatusCode::CREATED, "{enrolled:?}");
        enrolled.json()["id"].as_str().unwrap().to_owned()
    }
}

/// Makes an organization by the key of the host's operator.
pub async fn found(host: &TestHost, body: &Value) -> Organization {
    let made = host.post("/api/v1/organizations", body).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    let made = made.json();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    Organization {
        id: text("id"),
        key: text("api_key"),
    }
}

/// Status and code of a refusal.
pub fn refusal(reply: &Reply) -> (StatusCode, String) {
    let code = reply.json()["error"]["code"].as_str().unwrap().to_owned();
    (reply.status, code)
}

/// Begins a test: two organizations on an engine, or an early return.
macro_rules! site {
    ($engine:expr => $site:ident) => {
        let Some($site) = super::Site::on($engine).await else {
            return;
        };
    };
}
use site;
