//! Signing in with OpenID Connect: what a provider gives, and what hostile answers do not.

mod fake;
mod real;

use axum::body::Body;
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{Method, Request, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::SignedDuration;
use rstest::rstest;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use touchstone_console::session::oidc::config::OidcConfig;
use touchstone_host::access::Scope;
use touchstone_host::ports::clock::Clock as _;
use touchstone_kit::ids::TenantId;
use url::Url;

use self::fake::{FakeProvider, Key, unsigned};
use super::support::{Person, Site, answer, is_html, token_of};
use crate::http::support::host::{Lab, OIDC_SECRET, Reply, public_place};
use crate::store::{Engine, Engine::*};

const BROWSER: &str = "__Host-touchstone-oidc";
const START: &str = "/console/sign-in/oidc?to=%2Fconsole%2Fruns%3Ftag%3Da";

/// People of two organizations, whose groups have rights.
fn config(issuer: &str) -> OidcConfig {
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
    assert!(caller.key_id.as_str().starts_with("session-"), "{caller:?}");
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
#[case::nonce(|it: &mut Value| it["nonce"] = json!("another"))]
#[case::no_nonce(|it: &mut Value| { it.as_object_mut().unwrap().remove("nonce"); })]
#[case::audience(|it: &mut Value| it["aud"] = json!("another"))]
#[case::further_audience(|it: &mut Value| it["aud"] = json!(["touchstone", "another"]))]
#[case::no_audience(|it: &mut Value| { it.as_object_mut().unwrap().remove("aud"); })]
#[case::issuer(|it: &mut Value| it["iss"] = json!("https://evil.example"))]
#[case::expired(|it: &mut Value| it["exp"] = json!(it["iat"].as_i64().unwrap() - 120))]
#[case::future(|it: &mut Value| it["iat"] = json!(it["exp"].as_i64().unwrap() + 120))]
#[case::party(|it: &mut Value| it["azp"] = json!("another"))]
#[case::access_token(|it: &mut Value| it["at_hash"] = json!("AAAAAAAAAAAAAAAAAAAAAA"))]
#[tokio::test]
async fn an_id_token_for_something_else_is_refused(#[case] change: fn(&mut Value)) {
    let stage = Stage::on(Sqlite).await.unwrap();
    let (flow, reply) = stage.sign_in(change).await;
    assert_refused(
        &reply,
        StatusCode::BAD_GATEWAY,
        "an answer that is not valid",
    );
    assert_eq!(open_sessions(&stage).await, 0);
    let again = flow.back(&stage.site).await;
    assert_refused(&again, StatusCode::BAD_REQUEST, "already used");
}

async fn open_sessions(stage: &Stage) -> usize {
    let store = &stage.site.host.store;
    let found = store.sessions(&TenantId::from("acme"), None, 100).await;
    found.unwrap().len()
}

/// Tokens that the provider did not sign, of claims that are right.
fn forged(claims: &Value, key: &Key) -> Vec<(&'static str, String)> {
    let part = |alg: &str| unsigned(&json!({"alg": alg, "kid": key.id}), claims);
    let shared = |secret: &str| {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        let text = part("HS256");
        mac.update(text.as_bytes());
        format!(
            "{text}.{}",
            URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
        )
    };
    let good = key.sign(claims);
    let (_, signature) = good.rsplit_once('.').unwrap();
    vec![
        ("no signature", format!("{}.", part("none"))),
        ("no signature, in capitals", format!("{}.", part("NONE"))),
        (
            "`none` with a signature",
            format!("{}.{signature}", part("none")),
        ),
        ("a shared secret", shared(OIDC_SECRET)),
        (
            "another key of the same id",
            Key::new("first", 8).sign(claims),
        ),
        ("an unknown key", Key::new("unknown", 9).sign(claims)),
        ("a cut signature", good[..good.len() - 8].to_owned()),
        ("text", "not.a.token".to_owned()),
        ("nothing", String::new()),
    ]
}

#[tokio::test]
async fn a_token_that_the_provider_did_not_sign_is_refused() {
    let stage = Stage::on(Sqlite).await.unwrap();
    for n in 0..9 {
        let flow = stage.begin().await;
        let (what, token) = forged(&stage.claims(&flow), &stage.key).swap_remove(n);
        stage.provider.give(&token);
        let reply = flow.back(&stage.site).await;
        assert_eq!(reply.status, StatusCode::BAD_GATEWAY, "{what}: {reply:?}");
        assert_refused(&reply, StatusCode::BAD_GATEWAY, "not valid");
    }
    assert_eq!(open_sessions(&stage).await, 0);
}

#[tokio::test]
async fn answers_of_a_token_endpoint_that_are_no_tokens_are_refused() {
    let stage = Stage::on(Sqlite).await.unwrap();
    let answers = [
        (StatusCode::BAD_REQUEST, json!({"error": "invalid_grant"})),
        (StatusCode::INTERNAL_SERVER_ERROR, json!("down")),
        (
            StatusCode::OK,
            json!({"access_token": "a", "token_type": "Bearer"}),
        ),
        (StatusCode::OK, json!({})),
    ];
    for (status, body) in answers {
        let flow = stage.begin().await;
        stage.provider.answer(status, body);
        let reply = flow.back(&stage.site).await;
        assert_refused(&reply, StatusCode::BAD_GATEWAY, "not valid");
    }
}

#[rstest]
#[tokio::test]
async fn a_sign_in_can_come_back_once_to_its_browser_within_ten_minutes(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(stage) = Stage::on(engine).await else {
        return;
    };
    let site = &stage.site;
    let (flow, reply) = stage.sign_in(|_| ()).await;
    assert!(token_of(&reply).is_some(), "{reply:?}");
    assert_refused(
        &flow.back(site).await,
        StatusCode::BAD_REQUEST,
        "already used",
    );

    let other = stage.begin().await;
    for cookie in [None, Some(flow.cookie.as_str()), Some("")] {
        let flow = stage.begin().await;
        stage.provider.give(&stage.key.sign(&stage.claims(&flow)));
        let reply = come_back(site, &flow.callback(), cookie).await;
        assert_refused(
            &reply,
            StatusCode::BAD_REQUEST,
            "https://assess.example.org/console",
        );
        assert_refused(
            &flow.back(site).await,
            StatusCode::BAD_REQUEST,
            "already used",
        );
    }
    let states = [
        "",
        "state=",
        "state=unknown",
        "state=%00",
        &"state=a".repeat(90),
    ];
    for state in states {
        let path = format!("/console/sign-in/oidc/callback?code=a&{state}");
        let reply = come_back(site, &path, Some(&other.cookie)).await;
        assert_refused(&reply, StatusCode::BAD_REQUEST, "This sign-in is over");
    }
    site.host.clock.pass(SignedDuration::from_mins(10));
    assert_refused(
        &other.back(site).await,
        StatusCode::BAD_REQUEST,
        "within ten minutes",
    );
    let forgotten = stage.begin().await;
    site.host.clock.pass(SignedDuration::from_mins(11));
    site.host.sessions.forget().await.unwrap();
    assert_refused(
        &forgotten.back(site).await,
        StatusCode::BAD_REQUEST,
        "already used",
    );
}

#[tokio::test]
async fn errors_of_the_provider_become_pages_without_its_text() {
    let stage = Stage::on(Sqlite).await.unwrap();
    let cases = [
        (
            "error=access_denied",
            StatusCode::FORBIDDEN,
            "You cancelled the sign-in",
        ),
        ("error=server_error", StatusCode::BAD_GATEWAY, "cannot use"),
        ("error=%3Cscript%3E", StatusCode::BAD_GATEWAY, "cannot use"),
        (
            "code=a&iss=https%3A%2F%2Fevil.example",
            StatusCode::BAD_REQUEST,
            "cannot use",
        ),
        ("nothing=1", StatusCode::BAD_REQUEST, "cannot use"),
    ];
    for (query, status, words) in cases {
        let flow = stage.begin().await;
        let state = flow.query("state");
        let text = "error_description=call+0800+evil";
        let path = format!("/console/sign-in/oidc/callback?{query}&state={state}&{text}");
        let reply = come_back(&stage.site, &path, Some(&flow.cookie)).await;
        assert_refused(&reply, status, words);
        assert!(!reply.text().contains("evil"), "{reply:?}");
    }
    assert!(stage.provider.forms().is_empty(), "no code was exchanged");
}

#[tokio::test]
async fn a_provider_that_does_not_answer_is_named_and_sign_in_with_a_key_still_works() {
    let site = site_with(Sqlite, config("http://127.0.0.1:9"))
        .await
        .unwrap();
    let request = Request::builder().uri(START).body(Body::empty()).unwrap();
    let reply = answer(&site.host, request, None).await;
    assert_refused(&reply, StatusCode::BAD_GATEWAY, "does not answer");
    assert!(site.person().await.is_in().await);
}

#[tokio::test]
async fn only_pages_of_the_console_are_opened_after_sign_in() {
    let stage = Stage::on(Sqlite).await.unwrap();
    let places = [
        "https://evil.example",
        "//evil.example",
        "/console//evil.example",
        "/v1/runs",
    ];
    for place in places
        .into_iter()
        .chain(["/console/\\evil.example", "javascript:alert(1)"])
    {
        let to: String = url::form_urlencoded::byte_serialize(place.as_bytes()).collect();
        let path = format!("/console/sign-in/oidc?to={to}");
        let flow = Flow::begin(&stage.site, &path).await;
        stage.provider.give(&stage.key.sign(&stage.claims(&flow)));
        let text = flow.back(&stage.site).await.text();
        assert!(
            text.contains("content=\"0;url=/console\""),
            "{place}: {text}"
        );
    }
}

#[tokio::test]
async fn claims_that_the_id_token_lacks_come_from_userinfo_of_the_same_person() {
    let stage = Stage::on(Sqlite).await.unwrap();
    let lacking = |claims: &mut Value| {
        claims.as_object_mut().unwrap().remove("groups");
    };
    stage
        .provider
        .tell(json!({"sub": "dana", "groups": ["evals"], "org": "Globex"}));
    let person = stage.person(lacking).await;
    let session = person.session().await.unwrap();
    assert_eq!(session.tenant.as_str(), "acme", "the ID token comes first");
    for userinfo in [
        json!({"sub": "kim", "groups": ["evals"]}),
        json!({"groups": ["evals"]}),
    ] {
        stage.provider.tell(userinfo);
        let (_, reply) = stage.sign_in(lacking).await;
        assert_refused(&reply, StatusCode::BAD_GATEWAY, "not valid");
    }
}

#[tokio::test]
async fn a_new_key_of_the_provider_is_found_and_the_old_one_no_longer_counts() {
    let stage = Stage::on(Sqlite).await.unwrap();
    stage.person(|_| ()).await;
    let newer = Key::new("second", 11);
    stage.provider.publish(newer.clone());
    let flow = stage.begin().await;
    stage.provider.give(&newer.sign(&stage.claims(&flow)));
    assert!(token_of(&flow.back(&stage.site).await).is_some());
    let (_, reply) = stage.sign_in(|_| ()).await;
    assert_refused(&reply, StatusCode::BAD_GATEWAY, "not valid");
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
