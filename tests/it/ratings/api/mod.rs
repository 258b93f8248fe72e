//! The AAAF API, through the real router; every response is checked against the API description.

pub mod agents;
pub mod appeals;
pub mod assessments;
pub mod badges;
mod dimensions;
mod evidence;
mod gates;
mod housekeeping;
mod organizations;
mod schedule;
mod specification;
mod walk;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use touchstone::database;
use touchstone_host::http::HttpSettings;
use touchstone_ratings::http::rates::RatingRates;

use crate::http::support::host::{Lab, Reply, TestHost, UNLIMITED, public_place};
use crate::store::{Engine, TestStore};
use crate::support::host_keys;
use crate::support::postgres::TestDatabase;

/// A host with two unrelated organizations.
pub struct Site {
    pub host: TestHost,
    pub ours: Organization,
    pub theirs: Organization,
    _database: Option<TestDatabase>,
}

pub struct Organization {
    pub id: String,
    pub key: String,
}

impl Site {
    /// Without rate limits; `None`, with a printed note, if the database is not available.
    pub async fn on(engine: Engine) -> Option<Self> {
        Self::with(engine, UNLIMITED).await
    }

    pub async fn with(engine: Engine, rates: RatingRates) -> Option<Self> {
        let (settings, lab) = (HttpSettings::default(), Lab::limited(rates));
        let (host, database) = match engine {
            Engine::Sqlite => (TestHost::with_lab(settings, lab).await, None),
            Engine::Postgres => {
                let database = TestDatabase::create().await?;
                let store = database::open(&database.url(), host_keys::usual())
                    .await
                    .unwrap();
                let host = TestHost::lab(store, settings, public_place(), lab).await;
                (host, Some(database))
            }
        };
        Some(Self::of(host, database).await)
    }

    /// On a database that the test can change, without rate limits.
    pub async fn over(database: &TestStore) -> Self {
        let host = TestHost::lab(
            database.open().await,
            HttpSettings::default(),
            public_place(),
            Lab::limited(UNLIMITED),
        )
        .await;
        Self::of(host, None).await
    }

    /// Adds two organizations to a host.
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

    /// Enrolls an agent with this name; returns its id.
    pub async fn enrol(&self, name: &str) -> String {
        let enrolled = self.post("agents", &json!({"name": name})).await;
        assert_eq!(enrolled.status, StatusCode::CREATED, "{enrolled:?}");
        enrolled.json()["id"].as_str().unwrap().to_owned()
    }
}

/// Creates an organization with the host operator's key.
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

/// Status and error code of a response.
pub fn refusal(reply: &Reply) -> (StatusCode, String) {
    let code = reply.json()["error"]["code"].as_str().unwrap().to_owned();
    (reply.status, code)
}

/// Starts a test with two organizations on an engine, or returns early.
macro_rules! site {
    ($engine:expr => $site:ident) => {
        let Some($site) = crate::ratings::api::Site::on($engine).await else {
            return;
        };
    };
}
use site;
