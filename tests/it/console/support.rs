//! A host with a console, and people who use it without a browser.

use std::net::SocketAddr;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, COOKIE, SET_COOKIE};
use axum::http::request::Builder;
use axum::http::{Method, Request, StatusCode};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use regex::Regex;
use serde_json::{Value, json};
use touchstone_console::routes::PageRoute;
use touchstone_console::session::csrf::masked;
use touchstone_host::http::{HttpSettings, Peer};
use touchstone_host::ports::sessions::SessionRecord;
use touchstone_kit::ids::RunId;
use touchstone_ratings::rules::badge::host_url::HostUrl;
use tower::ServiceExt as _;

use crate::http::support::host::{
    AGENT, Lab, Reply, SUITE, TestHost, create_body, public_place, suite,
};
use crate::store::{Engine, TestStore};

/// The cookie of a session on a host that people reach over TLS.
pub const COOKIE_NAME: &str = "__Host-touchstone";
/// Text that a browser would run if a page showed it without escaping.
pub const MARKUP: &str = "\"'><img src=x onerror=window.ran=1><script>window.ran=1</script>";

/// A host on one engine.
pub struct Site {
    pub host: TestHost,
    pub database: TestStore,
}

impl Site {
    /// `None`, with a printed note, if the engine is not available.
    pub async fn on(engine: Engine) -> Option<Self> {
        Self::at(engine, public_place()).await
    }

    /// A host without TLS, as browsers of the tests reach it.
    pub async fn plain(engine: Engine) -> Option<Self> {
        Self::at(engine, HostUrl::listening("127.0.0.1:0")).await
    }

    async fn at(engine: Engine, place: HostUrl) -> Option<Self> {
        Self::with(engine, place, Lab::default()).await
    }

    pub async fn with(engine: Engine, place: HostUrl, lab: Lab) -> Option<Self> {
        let database = engine.database().await?;
        let store = database.open().await;
        let host = TestHost::lab(store, HttpSettings::default(), place, lab).await;
        Some(Self { host, database })
    }

    /// A person who has signed in with a key of every scope.
    pub async fn person(&self) -> Person<'_> {
        Person::signed_in(&self.host, &self.host.key).await
    }
}

/// Answers each task with its text; the third one does not pass, and the last one is markup.
pub fn inputs() -> Vec<Value> {
    ["yes", "no", "wrong", MARKUP]
        .map(|say| json!({ "say": say }))
        .into()
}

/// A run of [`inputs`] that has ended, with tags.
pub async fn ended_run(host: &TestHost) -> RunId {
    host.equip(&inputs()).await;
    let _worker = host.work();
    let mut body = create_body();
    body["tags"] = json!(["nightly", "release"]);
    let created = host.post("/v1/runs", &body).await;
    assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
    let run: RunId = created.json()["runId"].as_str().unwrap().into();
    host.ended(&run).await;
    run
}

/// The id of a new review.
pub async fn review(host: &TestHost, request: &Value) -> String {
    let created = host.post("/v1/host/touchstone/reviews", request).await;
    assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
    created.json()["reviewId"].as_str().unwrap().to_owned()
}

/// Imports a suite whose task ids and texts are markup.
pub fn hostile_suite() -> Value {
    let mut suite = suite(&inputs());
    suite["tasks"][0]["taskId"] = json!(MARKUP);
    suite
}

/// Sends a request as if `peer` had sent it. The body of a stream of events is not read.
pub async fn answer(host: &TestHost, request: Request<Body>, peer: Option<SocketAddr>) -> Reply {
    let mut request = request;
    if let Some(peer) = peer {
        request.extensions_mut().insert(Peer(peer));
    }
    let response = host.router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let kind = parts.headers.get(CONTENT_TYPE);
    let is_stream = kind.is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream"));
    let body = match is_stream {
        true => Bytes::new(),
        false => body.collect().await.unwrap().to_bytes(),
    };
    Reply {
        status: parts.status,
        headers: parts.headers,
        body,
    }
}

/// A person with the cookie of a session, if it has one.
pub struct Person<'h> {
    pub host: &'h TestHost,
    pub token: Option<String>,
}

impl<'h> Person<'h> {
    pub fn new(host: &'h TestHost) -> Self {
        Self { host, token: None }
    }

    pub async fn signed_in(host: &'h TestHost, key: &str) -> Self {
        let mut person = Self::new(host);
        let reply = person.send("/console/sign-in", &[("key", key)]).await;
        assert_eq!(reply.status, StatusCode::SEE_OTHER, "{reply:?}");
        assert!(person.token.is_some(), "{reply:?}");
        person
    }

    /// The token of a new session of a person with this key.
    pub async fn token(host: &'h TestHost, key: &str) -> String {
        Self::signed_in(host, key).await.token.unwrap()
    }

    /// The same person in another tab: cookies that one tab gets do not reach the other.
    pub fn copy(&self) -> Self {
        Self {
            host: self.host,
            token: self.token.clone(),
        }
    }

    pub fn request(&self, method: Method, path: &str) -> Builder {
        let builder = Request::builder().method(method).uri(path);
        match &self.token {
            Some(token) => builder.header(COOKIE, format!("{COOKIE_NAME}={token}")),
            None => builder,
        }
    }

    /// Sends a request and keeps the cookie that comes back.
    pub async fn ask(&mut self, request: Request<Body>) -> Reply {
        let reply = answer(self.host, request, None).await;
        if let Some(token) = token_of(&reply) {
            self.token = Some(token).filter(|token| !token.is_empty());
        }
        reply
    }

    pub async fn get(&mut self, path: &str) -> Reply {
        let request = self.request(Method::GET, path);
        self.ask(request.body(Body::empty()).unwrap()).await
    }

    /// Sends a form with the token of the session.
    pub async fn send(&mut self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let csrf = self.csrf().await;
        let csrf = csrf.as_deref().map(|it| ("csrf", it));
        let fields: Vec<(&str, &str)> = csrf.into_iter().chain(fields.iter().copied()).collect();
        self.send_only(path, &fields).await
    }

    /// Sends a form with these fields only.
    pub async fn send_only(&mut self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let request = self.request(Method::POST, path);
        self.ask(form(request, fields)).await
    }

    /// The stored session.
    pub async fn session(&self) -> Option<SessionRecord> {
        let (id, _) = self.token.as_ref()?.split_once('.')?;
        self.host.store.session(id).await.unwrap()
    }

    /// The token for forms.
    pub async fn csrf(&self) -> Option<String> {
        let session = self.session().await?;
        Some(masked(&session.csrf, &[3; 32]))
    }

    /// Whether the session is open.
    pub async fn is_in(&mut self) -> bool {
        let reply = self.get("/console/runs").await;
        match reply.status {
            StatusCode::OK => true,
            StatusCode::SEE_OTHER => false,
            _ => panic!("{reply:?}"),
        }
    }
}

pub fn form(request: Builder, fields: &[(&str, &str)]) -> Request<Body> {
    let mut body = url::form_urlencoded::Serializer::new(String::new());
    let body = body.extend_pairs(fields).finish();
    let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    request.body(Body::from(body)).unwrap()
}

/// The token in the session's cookie of a response; empty if the cookie is removed.
pub fn token_of(reply: &Reply) -> Option<String> {
    let cookies = reply.headers.get_all(SET_COOKIE).iter();
    let mut tokens = cookies.filter_map(|cookie| {
        let pair = cookie.to_str().unwrap().split(';').next()?;
        let (name, token) = pair.split_once('=')?;
        ["touchstone", COOKIE_NAME]
            .contains(&name)
            .then(|| token.to_owned())
    });
    tokens.next()
}

pub fn is_html(reply: &Reply) -> bool {
    let kind = reply.header("content-type").unwrap_or_default();
    let file = reply.header("content-disposition").unwrap_or_default();
    kind.starts_with("text/html") && !file.starts_with("attachment")
}

/// Values for the parameters of addresses.
#[derive(Clone, Debug)]
pub struct Names {
    pub run: String,
    pub task: String,
    pub agent: String,
    pub suite: String,
    pub pack: String,
    pub review: String,
    /// An OASIS evaluation, and one of its scenarios.
    pub evaluation: String,
    pub scenario: String,
    /// A run with a question.
    pub waiting: String,
    pub webhook: String,
    pub key: String,
    pub session: String,
    /// An agent of an organization.
    pub rated: String,
    pub assessment: String,
    pub appeal: String,
    /// A webhook of an organization, and one of its deliveries.
    pub notice: String,
    pub delivery: String,
}

impl Names {
    pub fn of(run: &RunId) -> Self {
        Self {
            run: run.to_string(),
            task: "task-2".to_owned(),
            agent: AGENT.to_owned(),
            suite: SUITE.to_owned(),
            pack: "community.bench.echo".to_owned(),
            review: "review_none".to_owned(),
            evaluation: run.to_string(),
            scenario: "scenario-none".to_owned(),
            waiting: run.to_string(),
            webhook: "webhook-none".to_owned(),
            key: "key-none".to_owned(),
            session: "session-none".to_owned(),
            rated: "agent-none".to_owned(),
            assessment: "assessment-none".to_owned(),
            appeal: "appeal-none".to_owned(),
            notice: "notice-none".to_owned(),
            delivery: "delivery-none".to_owned(),
        }
    }

    /// The same with a review of the run.
    pub async fn reviewed(host: &TestHost, run: &RunId) -> Self {
        Self {
            review: review(host, &json!({ "runId": run })).await,
            ..Self::of(run)
        }
    }

    /// This text for each name.
    pub fn all_of(text: &str) -> Self {
        let mut names = Self::of(&text.into());
        for name in names.each() {
            text.clone_into(name);
        }
        names
    }

    /// Names of the same form and length that nothing has.
    pub fn unused(&self) -> Self {
        let none = |text: &str| {
            // The same form, so that it is looked up.
            let (kept, rest) = text.split_at(4);
            let other = rest.replace(|it: char| it.is_ascii_alphanumeric(), "z");
            format!("{kept}{other}")
        };
        // Ids that have to be hexadecimal numbers stay so.
        let next = |text: &str| {
            let (kept, last) = text.split_at(text.len() - 1);
            format!("{kept}{}", if last == "0" { "1" } else { "0" })
        };
        Self {
            run: none(&self.run),
            task: none(&self.task),
            agent: none(&self.agent),
            suite: none(&self.suite),
            // Only names in a known namespace are looked up.
            pack: format!("{}-unused", self.pack),
            review: none(&self.review),
            // Another one than the run: a comparison needs two.
            evaluation: none(&self.evaluation).replace('z', "y"),
            scenario: none(&self.scenario),
            waiting: none(&self.waiting),
            webhook: next(&self.webhook),
            key: next(&self.key),
            session: next(&self.session),
            rated: next(&self.rated),
            assessment: next(&self.assessment),
            appeal: next(&self.appeal),
            notice: next(&self.notice),
            delivery: next(&self.delivery),
        }
    }

    /// All of them.
    pub fn each(&mut self) -> [&mut String; 17] {
        [
            &mut self.run,
            &mut self.task,
            &mut self.agent,
            &mut self.suite,
            &mut self.pack,
            &mut self.review,
            &mut self.evaluation,
            &mut self.scenario,
            &mut self.waiting,
            &mut self.webhook,
            &mut self.key,
            &mut self.session,
            &mut self.rated,
            &mut self.assessment,
            &mut self.appeal,
            &mut self.notice,
            &mut self.delivery,
        ]
    }

    /// All of them, to compare pages that differ in names alone.
    pub fn all(&self) -> Vec<String> {
        let mut names = self.clone();
        names.each().map(std::mem::take).into()
    }
}

/// The address of a page about things that exist; `None` if a parameter has no value here.
pub fn example(route: PageRoute, names: &Names) -> Option<String> {
    let path = known(route, names);
    (!path.contains('{')).then_some(path)
}

/// The same, with any value for the other parameters.
pub fn filled(route: PageRoute, names: &Names) -> String {
    let parameter = Regex::new(r"\{[A-Za-z]+\}").unwrap();
    let path = known(route, names);
    parameter.replace_all(&path, "none").into_owned()
}

fn known(route: PageRoute, names: &Names) -> String {
    let is_in = |folder: &str| route.path.starts_with(folder);
    let run = match () {
        () if is_in("/console/oasis/") => &names.evaluation,
        () if is_in("/console/approvals/") => &names.waiting,
        () => &names.run,
    };
    let agent = match is_in("/console/ratings/") {
        true => &names.rated,
        false => &names.agent,
    };
    let file = match is_in("/console/packs/") {
        true => &names.pack,
        false => "report.html",
    };
    route
        .path
        .replace("{runId}", run)
        .replace("{taskId}", &names.task)
        .replace("{agentId}", agent)
        .replace("{suiteId}", &names.suite)
        .replace("{name}", file)
        .replace("{version}", "1.0.0")
        .replace("{channel}", "canary")
        .replace("{reviewId}", &names.review)
        .replace("{item}", "1")
        .replace("{scenarioId}", &names.scenario)
        .replace("{nodeId}", "gate")
        .replace("{webhookId}", &names.webhook)
        .replace("{number}", "1")
        .replace("{keyId}", &names.key)
        .replace("{sessionId}", &names.session)
        .replace("{assessmentId}", &names.assessment)
        .replace("{appealId}", &names.appeal)
        .replace("{dimension}", "accuracy")
        .replace("{noticeId}", &names.notice)
        .replace("{deliveryId}", &names.delivery)
        .replace("{*rest}", "no-such-page")
}
