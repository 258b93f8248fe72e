//! Answers of a provider, and of others in its name, that must not begin a session.

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use std::net::SocketAddr;
use std::sync::Arc;
use touchstone_host::http::Peer;
use touchstone_host::ports::sessions::OpenSessions;
use touchstone_host::service::sessions::{SessionLimits, Sessions};
use touchstone_host::system::SystemIds;

use super::fake::unsigned;
use super::*;
use crate::http::support::host::OIDC_SECRET;

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
    let wanted = OpenSessions {
        principal: None,
        before: None,
        used_after: Timestamp::MIN,
        begun_after: Timestamp::MIN,
        limit: 100,
    };
    let found = store.sessions(&TenantId::from("acme"), &wanted).await;
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
async fn invalid_answers_of_a_token_endpoint_are_refused() {
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
    let states = ["", "state=", "state=unknown", &"state=a".repeat(90)];
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

#[tokio::test]
async fn an_answer_that_names_nobody_writes_nothing_to_the_audit_log() {
    let provider = FakeProvider::start(Key::new("first", 7)).await;
    let mut oidc = config(&provider.issuer);
    (oidc.tenant, oidc.tenant_claim) = (Some("acme".to_owned()), None);
    oidc.tenants.clear();
    let site = site_with(Sqlite, oidc).await.unwrap();
    let entries = async || {
        let acme = TenantId::from("acme");
        let found = site.host.store.audit_entries(&acme, 0, 100).await;
        found.unwrap().len()
    };
    let before = entries().await;
    for answer in [
        "error=approved-by-dana",
        "error=access_denied",
        "code=wrong",
        "code=a&iss=https%3A%2F%2Fevil.example",
        "nothing=1",
    ] {
        let flow = Flow::begin(&site, START).await;
        let state = flow.query("state");
        let path = format!("/console/sign-in/oidc/callback?{answer}&state={state}");
        let reply = come_back(&site, &path, Some(&flow.cookie)).await;
        assert!(!reply.status.is_success(), "{answer}: {reply:?}");
        assert_eq!(entries().await, before, "{answer}");
    }
}

/// A request of one address.
async fn near(site: &Site, path: &str) -> Reply {
    let peer: SocketAddr = "192.0.2.1:50000".parse().unwrap();
    let request = Request::builder().uri(path).extension(Peer(peer));
    let request = request.header("host", "evals.example");
    answer(&site.host, request.body(Body::empty()).unwrap(), None).await
}

#[tokio::test]
async fn refused_callbacks_of_an_address_do_not_keep_its_people_from_signing_in() {
    let stage = Stage::on(Sqlite).await.unwrap();
    let callback = "/console/sign-in/oidc/callback?code=a";
    let mut last = StatusCode::OK;
    // The allowance of 600 is filled again all the time.
    for _ in 0..5000 {
        last = near(&stage.site, callback).await.status;
        if last == StatusCode::TOO_MANY_REQUESTS {
            break;
        }
    }
    assert_eq!(last, StatusCode::TOO_MANY_REQUESTS);
    let start = near(&stage.site, START).await;
    assert_eq!(start.status, StatusCode::SEE_OTHER, "{start:?}");
}

#[rstest]
#[tokio::test]
async fn other_settings_end_the_sessions_of_the_former_ones(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(stage) = Stage::on(engine).await else {
        return;
    };
    let host = &stage.site.host;
    let person = stage.person(|_| ()).await;
    let token = person.token.clone().unwrap();
    assert!(host.sessions.recognise(&token).await.is_ok());
    let with = |settings: &str| {
        let (store, clock, keys) = (host.store.clone(), host.clock.clone(), host.keys.clone());
        let sessions = Sessions::new(
            store,
            clock,
            Arc::new(SystemIds),
            keys,
            SessionLimits::default(),
        );
        sessions.trusting(Some(settings.to_owned()))
    };
    let refused = with("other").recognise(&token).await;
    assert_eq!(refused.unwrap_err().code.status(), 401);
}

#[rstest]
#[tokio::test]
async fn single_sign_on_ends_the_session_that_the_browser_had(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(stage) = Stage::on(engine).await else {
        return;
    };
    let mut before = stage.site.person().await;
    let request = before.request(Method::GET, START);
    let reply = answer(&stage.site.host, request.body(Body::empty()).unwrap(), None).await;
    let flow = Flow {
        page: reply.header("location").unwrap().parse().unwrap(),
        cookie: {
            let cookie = reply.header("set-cookie").unwrap();
            let (pair, _) = cookie.split_once(';').unwrap();
            pair.split_once('=').unwrap().1.to_owned()
        },
    };
    assert!(before.is_in().await, "the sign-in has not come back");
    stage.provider.give(&stage.key.sign(&stage.claims(&flow)));
    let reply = flow.back(&stage.site).await;
    let mut person = Person {
        host: &stage.site.host,
        token: token_of(&reply),
    };
    assert!(person.is_in().await);
    assert!(!before.is_in().await, "its token may be known to others");
}

#[rstest]
#[tokio::test]
async fn sign_ins_that_never_come_back_do_not_pile_up(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(stage) = Stage::on(engine).await else {
        return;
    };
    let abandoned = stage.begin().await;
    stage.site.host.clock.pass(SignedDuration::from_mins(11));
    stage.begin().await;
    let reply = abandoned.back(&stage.site).await;
    assert_refused(&reply, StatusCode::BAD_REQUEST, "already used");
}

#[tokio::test]
async fn the_limits_of_a_person_are_those_of_all_its_sessions() {
    let stage = Stage::on(Sqlite).await.unwrap();
    let counted = async |person: Person<'_>| {
        let sessions = &stage.site.host.sessions;
        let found = sessions.recognise(person.token.as_deref().unwrap()).await;
        found.unwrap().caller.key_id
    };
    let first = counted(stage.person(|_| ()).await).await;
    let again = counted(stage.person(|_| ()).await).await;
    assert_eq!(first, again);
    let kim = stage.person(|claims| claims["sub"] = json!("kim")).await;
    assert_ne!(counted(kim).await, first);
    let elsewhere = stage.person(|claims| claims["org"] = json!("Globex")).await;
    assert_ne!(counted(elsewhere).await, first);
}
