//! Signing in with OpenID Connect: what a provider gives, and what hostile answers do not.

mod fake;
mod hostile;
mod real;

use axum::body::Body;
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{Method, Request, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::SignedDuration;
use rstest::rstest;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use touchstone_console::session::oidc::config::OidcConfig;
use touchstone_host::access::Scope;
use touchstone_host::ports::clock::Clock as _;
use touchstone_kit::ids::TenantId;
use url::Url;

use self::fake::{FakeProvider, Key};
use super::support::{Person, Site, answer, is_html, token_of};
use crate::http::support::host::{Lab, Reply, public_place};
use crate::store::{Engine, Engine::*};

const BROWSER: &str = "__Host-touchstone-oidc";
const START: &str = "/console/sign-in/oidc?to=%2Fconsole%2Fruns%3Ftag%3Da";

/// People of two organizations, whose groups have rights.
pub fn config(issuer: &str) -> OidcConfig {
    serde_json::from_value(json!({
        "issuer": issuer, "client_id": "touchstone", "client_secret_env": "SECRET",
        "scopes": ["profile", "groups"], "button": "Sign in with Acme",
        "tenant_claim": "org",
        "tenants": [
            {"value": "Acme Inc", "tenant": "acme"}, {"value": "Globex", "tenant": "globex"},
        ],
        "grants": [
            {"value": "evals", "scopes": ["runs:read", "manifest:read"]},
            {"value": "releasers", "roles": ["release-manager"]},
            {"value": "admins", "scopes": ["all", "keys:manage"]},
        ],
    }))
    .unwrap()
}

async fn site_with(engine: Engine, oidc: OidcConfig) -> Option<Site> {
    let oidc = Some(oidc);
    let lab = Lab {
        oidc,
        ..Lab::default()
    };
    Site::with(engine, public_place(), lab).await
}

/// A host whose provider answers as the test says.
struct Stage {
    site: Site,
    provider: FakeProvider,
    key: Key,
}

impl Stage {
    async fn on(engine: Engine) -> Option<Self> {
        let key = Key::new("first", 7);
        let provider = FakeProvider::start(key.clone()).await;
        let site = site_with(engine, config(&provider.issuer)).await?;
        Some(Self {
            site,
            provider,
            key,
        })
    }

    async fn begin(&self) -> Flow {
        Flow::begin(&self.site, START).await
    }

    /// The claims of a person for a sign-in, as a good provider gives them.
    fn claims(&self, flow: &Flow) -> Value {
        let now = self.site.host.clock.now().as_second();
        json!({
            "iss": self.provider.issuer, "aud": "touchstone", "sub": "dana",
            "iat": now, "exp": now + 60, "nonce": flow.query("nonce"),
            "org": "Acme Inc", "groups": ["evals", "releasers"],
        })
    }

    /// A sign-in for which the provider answers with claims that the test changes.
    async fn sign_in(&self, change: impl FnOnce(&mut Value)) -> (Flow, Reply) {
        let flow = self.begin().await;
        let mut claims = self.claims(&flow);
        change(&mut claims);
        self.provider.give(&self.key.sign(&claims));
        let reply = flow.back(&self.site).await;
        (flow, reply)
    }

    async fn person(&self, change: impl FnOnce(&mut Value)) -> Person<'_> {
        let (_, reply) = self.sign_in(change).await;
        let token = token_of(&reply);
        assert!(token.is_some(), "{reply:?}");
        Person {
            host: &self.site.host,
            token,
        }
    }

    /// Actions, principals and outcomes of the audit log, and their reasons.
    async fn audit(&self, tenant: &str) -> Vec<(String, String, String, String)> {
        let tenant = TenantId::from(tenant);
        let links = self.site.host.store.audit_entries(&tenant, 0, 1000).await;
        let entries = links.unwrap().into_iter().map(|link| {
            let entry: Value = serde_json::from_str(&link.body).unwrap();
            let text = |name: &str| entry[name].as_str().unwrap().to_owned();
            let reasons = entry["reasons"].to_string();
            (text("action"), text("principal"), text("outcome"), reasons)
        });
        entries.collect()
    }
}

/// A sign-in of one browser.
struct Flow {
    /// The page of the provider.
    page: Url,
    cookie: String,
}

impl Flow {
    async fn begin(site: &Site, path: &str) -> Self {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let reply = answer(&site.host, request, None).await;
        assert_eq!(reply.status, StatusCode::SEE_OTHER, "{reply:?}");
        let cookie = reply.header("set-cookie").unwrap();
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        let expected = "Path=/; HttpOnly; SameSite=Lax; Secure; Max-Age=600";
        assert_eq!(attributes, expected);
        Self {
            page: reply.header("location").unwrap().parse().unwrap(),
            cookie: pair.split_once('=').unwrap().1.to_owned(),
        }
    }

    fn query(&self, name: &str) -> String {
        let mut found = self.page.query_pairs().filter(|(key, _)| key == name);
        found.next().expect(name).1.into_owned()
    }

    /// The address at which the provider sends the browser back.
    fn callback(&self) -> String {
        let state = self.query("state");
        format!("/console/sign-in/oidc/callback?code=a-code&state={state}")
    }

    async fn back(&self, site: &Site) -> Reply {
        come_back(site, &self.callback(), Some(&self.cookie)).await
    }
}

/// A browser that the provider sent back.
async fn come_back(site: &Site, path: &str, cookie: Option<&str>) -> Reply {
    let mut request = Request::builder().method(Method::GET).uri(path);
    request = request.header("sec-fetch-site", "cross-site");
    if let Some(cookie) = cookie {
        request = request.header(COOKIE, format!("{BROWSER}={cookie}"));
    }
    answer(&site.host, request.body(Body::empty()).unwrap(), None).await
}

/// A page that tells of a refusal, and no session.
fn assert_refused(reply: &Reply, status: StatusCode, words: &str) {
    assert_eq!(reply.status, status, "{reply:?}");
    let text = reply.text();
    assert!(is_html(reply) && text.contains(words), "{words}: {text}");
    assert!(text.contains("Sign in again"), "{text}");
    assert_eq!(token_of(reply), None);
}

#[rstest]
#[tokio::test]
async fn a_person_gets_the_tenant_and_the_rights_that_the_claims_stand_for(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(stage) = Stage::on(engine).await else {
        return;
    };
    let (flow, reply) = stage.sign_in(|_| ()).await;
    let redirect = "https://assess.example.org/console/sign-in/oidc/callback";
    assert_eq!(flow.query("redirect_uri"), redirect);
    assert_eq!(flow.query("response_type"), "code");
    assert_eq!(flow.query("code_challenge_method"), "S256");
    assert_eq!(flow.query("scope"), "openid profile groups");
    let form = &stage.provider.forms()[0];
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"]));
    assert_eq!(challenge, flow.query("code_challenge"));
    // The browser would not send the new cookie after a redirect from the other site.
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    let text = reply.text();
    assert!(
        text.contains("content=\"0;url=/console/runs?tag=a\""),
        "{text}"
    );
    let cookies: Vec<_> = reply.headers.get_all(SET_COOKIE).iter().collect();
    let removed = format!("{BROWSER}=; Path=/; HttpOnly; SameSite=Lax; Secure; Max-Age=0");
    assert!(cookies.iter().any(|it| **it == removed), "{cookies:?}");
    let mut person = Person {
        host: &stage.site.host,
        token: token_of(&reply),
    };
    let page = person.get("/console/runs").await.text();
    assert!(
        page.contains("oidc:dana") && page.contains("acme"),
        "{page}"
    );
    let refused = person.get("/console/webhooks").await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let token = person.token.clone().unwrap();
    let caller = stage
        .site
        .host
        .sessions
        .recognise(&token)
        .await
        .unwrap()
        .caller;
    let scopes = [Scope::ManifestRead, Scope::RunsRead, Scope::DeployPromote];
    assert_eq!(caller.grants.scopes, scopes.into());
    assert_eq!(caller.grants.roles, ["release-manager".to_owned()].into());
    assert!(caller.key_id.as_str().starts_with("person-"), "{caller:?}");
    let raw = stage.site.database.raw().await;
    for secret in [
        &flow.cookie,
        &flow.query("state"),
        &flow.query("nonce"),
        &form["code_verifier"],
    ] {
        assert!(!raw.holds(secret.as_bytes()), "the database holds {secret}");
    }
}

#[rstest]
#[tokio::test]
async fn sign_in_and_sign_out_are_in_the_audit_log(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(stage) = Stage::on(engine).await else {
        return;
    };
    let mut person = stage.person(|_| ()).await;
    let reply = person.send("/console/sign-out", &[]).await;
    assert_eq!(reply.status, StatusCode::SEE_OTHER);
    let (_, reply) = stage
        .sign_in(|claims| claims["groups"] = json!(["guests"]))
        .await;
    assert_refused(
        &reply,
        StatusCode::FORBIDDEN,
        "no value of the claim `groups` gives rights",
    );
    let host = &stage.site.host;
    let key = host
        .issue(|issue| issue.principal = Some("kim".to_owned()))
        .await;
    let mut by_key = Person::signed_in(host, &key).await;
    by_key.send("/console/sign-out", &[]).await;
    host.keys
        .revoke(&crate::http::support::host::id_of(&key))
        .await
        .unwrap();
    Person::new(host)
        .send("/console/sign-in", &[("key", &key)])
        .await;
    Person::new(host)
        .send("/console/sign-in", &[("key", "tsk_none")])
        .await;
    let entries = stage.audit("acme").await;
    let short = entries
        .iter()
        .map(|(action, who, outcome, _)| format!("{action} {who} {outcome}"));
    let short: Vec<String> = short.collect();
    let expected = [
        "console:sign-in oidc:dana done",
        "console:sign-out oidc:dana done",
        "console:sign-in oidc:dana denied",
        "console:sign-in kim done",
        "console:sign-out kim done",
        "console:sign-in kim denied",
    ];
    assert_eq!(short, expected);
    assert!(entries[0].3.contains(&stage.provider.issuer), "{entries:?}");
    assert!(entries[2].3.contains("gives rights"), "{entries:?}");
    assert!(entries[5].3.contains("key_revoked"), "{entries:?}");
}

#[rstest]
#[tokio::test]
async fn a_session_of_a_provider_ends_like_others(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(stage) = Stage::on(engine).await else {
        return;
    };
    let clock = &stage.site.host.clock;
    let minutes = SignedDuration::from_mins;
    let mut person = stage.person(|_| ()).await;
    let first = person.token.clone();
    clock.pass(minutes(15));
    assert!(
        person.is_in().await && person.token != first,
        "the token is replaced"
    );
    clock.pass(minutes(30));
    assert!(!person.is_in().await, "30 minutes without a request");
    let mut person = stage.person(|_| ()).await;
    let mut admin = stage
        .person(|claims| {
            claims["sub"] = json!("alex");
            claims["groups"] = json!(["admins"]);
        })
        .await;
    let list = admin.get("/console/sessions").await.text();
    let by = format!("Single sign-on, {}", stage.provider.issuer);
    assert!(list.contains(&by) && list.contains("oidc:dana"), "{list}");
    let id = person.session().await.unwrap().id;
    let ended = admin
        .send(&format!("/console/sessions/{id}/end"), &[])
        .await;
    assert_eq!(ended.status, StatusCode::SEE_OTHER);
    assert!(!person.is_in().await && admin.is_in().await);
    // Neither `all` nor the way of sign-in gives what reaches beyond the tenant.
    let token = admin.token.clone().unwrap();
    let caller = stage
        .site
        .host
        .sessions
        .recognise(&token)
        .await
        .unwrap()
        .caller;
    assert!(caller.has(Scope::KeysManage) && !caller.has(Scope::MetricsRead));
}

#[tokio::test]
async fn the_sign_in_page_leads_to_the_provider_and_back_to_the_wanted_page() {
    let stage = Stage::on(Sqlite).await.unwrap();
    let mut person = Person::new(&stage.site.host);
    let page = person
        .get("/console/sign-in?to=%2Fconsole%2Fruns%3Ftag%3Da")
        .await
        .text();
    assert!(page.contains("Sign in with Acme"), "{page}");
    assert!(page.contains(&format!("href=\"{START}\"")), "{page}");
    assert!(page.contains("name=\"key\""), "a key still works: {page}");
    let without = Site::on(Sqlite).await.unwrap();
    let mut person = Person::new(&without.host);
    assert!(
        !person
            .get("/console/sign-in")
            .await
            .text()
            .contains("/oidc")
    );
    for path in [START, "/console/sign-in/oidc/callback?code=a&state=b"] {
        assert_eq!(person.get(path).await.status, StatusCode::NOT_FOUND);
    }
}
