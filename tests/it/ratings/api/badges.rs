//! Badges over the API: issuing with the assessment, display, verification from served documents,
//! revocation.

use std::path::{Path, PathBuf};

use axum::http::{Method, StatusCode};
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};
use touchstone::database;
use touchstone_host::access::Scope;
use touchstone_host::http::HttpSettings;
use touchstone_ratings::credential::baking::extract;
use touchstone_ratings::credential::did::DidDocument;
use touchstone_ratings::credential::parse;
use touchstone_ratings::rules::badge::host_url::HostUrl;
use touchstone_ratings::rules::badge::{VerificationContext, verify};

use super::assessments::{assessed, collecting_for, tasks_since, work};
use super::{Engine, Site, refusal, site};
use crate::http::support::host::{Lab, Reply, TestHost, UNLIMITED};
use crate::support::badges::Case;
use crate::support::host_keys;

/// Public address of the host.
const HOST: &str = "https://assess.example.org";

/// Has an agent with this name rated; returns the id of its badge.
pub async fn certified(site: &Site, name: &str) -> String {
    let assessing = site.host.assess();
    let agent = site.enrol(name).await;
    work(site, &agent, name, 36, "accepted").await;
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let found = assessed(site, &order).await;
    assessing.cancel();
    assert_eq!(found["badge_state"], "issued", "{found}");
    found["badge_id"].as_str().unwrap().to_owned()
}

/// Makes the badges of the first organization private.
pub async fn keep_private(site: &Site) {
    let path = format!("organizations/{}", site.ours.id);
    let body = json!({"badges": "private"});
    let kept = site.send(Method::PATCH, &path, Some(&body)).await;
    assert_eq!(kept.json()["badges"], "private", "{kept:?}");
}

/// The documents a verifier fetches for a credential: its status list and its issuer's DID
/// document.
pub async fn beside(site: &Site, credential: &Value) -> (Reply, Option<Reply>) {
    let list = credential["credentialStatus"]["statusListCredential"].as_str();
    let list = site
        .anonymous(list.unwrap().strip_prefix(HOST).unwrap())
        .await;
    assert_eq!(list.status, StatusCode::OK, "{list:?}");
    let did = credential["issuer"]["id"].as_str().unwrap();
    let Some(rest) = did.strip_prefix("did:web:") else {
        return (list, None);
    };
    let (host, path) = rest.split_once(':').unwrap();
    assert_eq!(format!("https://{host}"), HOST);
    let path = format!("/{}/did.json", path.replace(':', "/"));
    let document = site.anonymous(&path).await;
    assert_eq!(document.status, StatusCode::OK, "{document:?}");
    (list, Some(document))
}

/// Whether an outside verifier accepts a credential from the served documents alone, and its
/// reasons.
async fn believed(site: &Site, credential: &Value) -> (bool, Vec<&'static str>) {
    let (list, document) = beside(site, credential).await;
    let list = parse(&list.body).unwrap();
    let document: Option<DidDocument> =
        document.map(|it| serde_json::from_value(it.json()).unwrap());
    let documents: Vec<DidDocument> = document.into_iter().collect();
    let standing = VerificationContext {
        status_list: Some(&list),
        documents: &documents,
        ..VerificationContext::default()
    };
    let checked = verify(credential, &standing, Timestamp::now());
    let reasons = checked.reasons.iter().map(|it| it.code).collect();
    (checked.valid, reasons)
}

async fn shown(site: &Site, badge: &str, extension: &str) -> Reply {
    let shown = site
        .anonymous(&format!("/api/v1/badges/{badge}{extension}"))
        .await;
    assert_eq!(shown.status, StatusCode::OK, "{shown:?}");
    shown
}

#[rstest]
#[tokio::test]
async fn a_badge_can_be_verified_publicly_until_it_is_revoked(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let badge = certified(&site, "invoice-reader").await;
    let credential = shown(&site, &badge, "/credential").await;
    assert_eq!(credential.header("content-type"), Some("application/vc"));
    for (extension, kind) in [
        (".svg", "image/svg+xml"),
        (".png", "image/png"),
        (".png?scale=2", "image/png"),
    ] {
        let picture = shown(&site, &badge, extension).await;
        assert_eq!(picture.header("content-type"), Some(kind));
        assert_eq!(
            extract(&picture.body).unwrap(),
            credential.body,
            "{extension}"
        );
        let known = picture.header("etag").unwrap();
        let path = format!("/api/v1/badges/{badge}{extension}");
        let again = site.host.request(Method::GET, &path).anonymous();
        let again = again.header("if-none-match", known).send().await;
        assert_eq!(again.status, StatusCode::NOT_MODIFIED);
    }
    let written = shown(&site, &badge, ".md").await.text();
    assert!(written.contains("invoice-reader"), "{written}");
    let credential = parse(&credential.body).unwrap();
    let plain = shown(&site, &badge, ".json").await.json();
    assert_eq!(
        (&plain["credential"], &plain["type"], &plain["badge_id"]),
        (&credential, &json!("AgentAssessmentBadge"), &json!(badge))
    );
    let did = format!("did:web:assess.example.org:orgs:{}", site.ours.id);
    assert_eq!(credential["issuer"]["id"], json!(did));
    assert_eq!(believed(&site, &credential).await, (true, vec![]));
    let found = shown(&site, &badge, "/verify").await.json();
    assert_eq!(
        (&found["valid"], &found["revoked"], &found["credential_id"]),
        (&json!(true), &json!(false), &credential["id"])
    );
    assert_eq!(credential["evidence"][0]["id"], plain["verification_url"]);
    assert_eq!(
        plain["verification_url"],
        json!(format!("{HOST}/api/v1/badges/{badge}/verify"))
    );

    let other = certified(&site, "other").await;
    let revoke = format!("badges/{badge}/revoke");
    let unknown = site.post(&revoke, &json!({"reason": "dislike"})).await;
    assert_eq!(unknown.json()["error"]["details"]["field"], "reason");
    let revoked = site
        .post(
            &revoke,
            &json!({"reason": "evidence_invalid", "note": "A test was wrong."}),
        )
        .await;
    assert_eq!(revoked.status, StatusCode::OK, "{revoked:?}");
    assert_eq!(revoked.json()["revoke_reason"], "evidence_invalid");
    let twice = site.post(&revoke, &json!({"reason": "withdrawn"})).await;
    assert_eq!(
        refusal(&twice),
        (StatusCode::CONFLICT, "CONFLICT".to_owned())
    );

    assert_eq!(believed(&site, &credential).await, (false, vec!["revoked"]));
    let found = shown(&site, &badge, "/verify").await.json();
    assert_eq!(
        (&found["valid"], &found["revoked"], &found["revoke_reason"]),
        (&json!(false), &json!(true), &json!("evidence_invalid"))
    );
    assert!(
        shown(&site, &badge, ".svg")
            .await
            .text()
            .contains("REVOKED")
    );
    assert!(shown(&site, &badge, ".md").await.text().contains("REVOKED"));
    let kept = shown(&site, &badge, "/credential").await;
    assert_eq!(
        parse(&kept.body).unwrap(),
        credential,
        "the signed document does not change"
    );
    let other = parse(&shown(&site, &other, "/credential").await.body).unwrap();
    assert_eq!(
        believed(&site, &other).await,
        (true, vec![]),
        "the other badge's bit is not set"
    );
    let states: Vec<Value> = site.get("assessments").await.json()["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["badge_state"].clone())
        .collect();
    assert_eq!(states, ["revoked", "issued"]);
}

#[tokio::test]
async fn a_private_badge_is_shown_to_its_organization_alone() {
    site!(Engine::Sqlite => site);
    let badge = certified(&site, "invoice-reader").await;
    keep_private(&site).await;
    for extension in ["", ".json", ".svg", ".png", ".md", "/verify", "/credential"] {
        let path = format!("/api/v1/badges/{badge}{extension}");
        let nothing = (StatusCode::NOT_FOUND, "NOT_FOUND".to_owned());
        assert_eq!(
            refusal(&site.anonymous(&path).await),
            nothing,
            "{extension}"
        );
        let theirs = site.host.request(Method::GET, &path).key(&site.theirs.key);
        assert_eq!(refusal(&theirs.send().await), nothing, "{extension}");
        let ours = site
            .host
            .request(Method::GET, &path)
            .key(&site.ours.key)
            .send()
            .await;
        assert_eq!(ours.status, StatusCode::OK, "{extension}");
        let wrong = site
            .host
            .request(Method::GET, &path)
            .key("ak_wrong")
            .send()
            .await;
        assert_eq!(wrong.status, StatusCode::UNAUTHORIZED, "{extension}");
    }
    let unknown = site.get(&format!("badges/{badge}.gif")).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    let scaled = site.get(&format!("badges/{badge}.svg?scale=2")).await;
    assert_eq!(scaled.json()["error"]["details"]["field"], "scale");
}

#[rstest]
#[tokio::test]
async fn every_badge_waits_for_a_review_where_the_organization_says_so(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    site.host.assess();
    let config = format!("organizations/{}/config", site.ours.id);
    let set = async |policy: Value| {
        let body = json!({"review_policy": policy});
        site.send(Method::PATCH, &config, Some(&body)).await
    };
    let refused = set(json!("sometimes")).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    let changed = set(json!("always")).await;
    assert_eq!(changed.json()["review_policy"], "always", "{changed:?}");
    let agent = site.enrol("triage").await;
    work(&site, &agent, "good", 36, "accepted").await;
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let first = assessed(&site, &order).await;
    assert_eq!(
        (&first["badge_state"], &first["review_required"]),
        (&json!("withheld"), &json!(true)),
        "{first}"
    );
    assert_eq!(first["calibration"]["flags"], json!([]), "nothing moved");
    let badge = first["badge_id"].as_str().unwrap();
    let shown = site.anonymous(&format!("/api/v1/badges/{badge}")).await;
    assert_eq!(shown.status, StatusCode::NOT_FOUND);

    let tenant = site.ours.id.clone();
    let reviewer = site.host.issue(|issue| {
        issue.tenant = tenant.as_str().into();
        issue.scopes = vec![Scope::AssessmentsReview];
        issue.principal = Some("dana".to_owned());
    });
    let id = first["id"].as_str().unwrap();
    let review = format!("/api/v1/assessments/{id}/review");
    let review = site.host.request(Method::POST, &review);
    let review = review.key(&reviewer.await);
    let reviewed = review.json(&json!({"decision": "approve"})).send().await;
    assert_eq!(reviewed.json()["badge_state"], "issued", "{reviewed:?}");
    let store = &site.host.store;
    let audit = store.audit_entries(&tenant.as_str().into(), 0, 100).await;
    let decided = audit.unwrap().into_iter().find(|it| {
        it.body.contains("assessments:approve") && it.body.contains("\"principal\":\"dana\"")
    });
    assert!(decided.is_some_and(|it| it.body.contains(id)));

    // Without the policy, the same scores need no review.
    let changed = set(json!(null)).await;
    assert_eq!(changed.json()["review_policy"], "anomalies", "{changed:?}");
    let second = assessed(&site, &order).await;
    assert_eq!(
        (&second["badge_state"], &second["review_required"]),
        (&json!("issued"), &json!(false)),
        "{second}"
    );
}

#[rstest]
#[case(json!({"decision": "approve"}), "issued")]
#[case(json!({"decision": "reject", "reason": "It was another agent."}), "rejected")]
#[tokio::test]
async fn a_withheld_badge_waits_for_the_review(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
    #[case] decision: Value,
    #[case] state: &str,
) {
    site!(engine => site);
    site.host.assess();
    let agent = site.enrol("triage").await;
    work(&site, &agent, "good", 36, "accepted").await;
    let order = json!({"agent_id": agent, "type": "passive_only"});
    assessed(&site, &order).await;
    work(&site, &agent, "bad", 60, "rejected").await;
    let moved = assessed(&site, &order).await;
    assert_eq!(moved["badge_state"], "withheld", "{moved}");
    let badge = moved["badge_id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/badges/{badge}");
    let withheld = site.get(&format!("badges/{badge}.svg")).await;
    assert_eq!(
        refusal(&withheld),
        (StatusCode::CONFLICT, "REVIEW_REQUIRED".to_owned())
    );
    assert_eq!(site.anonymous(&path).await.status, StatusCode::NOT_FOUND);
    let early = site
        .post(
            &format!("badges/{badge}/revoke"),
            &json!({"reason": "withdrawn"}),
        )
        .await;
    assert_eq!(
        refusal(&early),
        (StatusCode::CONFLICT, "CONFLICT".to_owned())
    );

    let tenant = site.ours.id.clone();
    let reviewer = site.host.issue(|issue| {
        issue.tenant = tenant.as_str().into();
        issue.scopes = vec![Scope::AssessmentsReview];
    });
    let review = format!(
        "/api/v1/assessments/{}/review",
        moved["id"].as_str().unwrap()
    );
    let review = site
        .host
        .request(Method::POST, &review)
        .key(&reviewer.await);
    let reviewed = review.json(&decision).send().await.json();
    assert_eq!(
        (&reviewed["badge_state"], &reviewed["badge_id"]),
        (&json!(state), &json!(badge))
    );
    let public = site.anonymous(&path).await;
    match state {
        "issued" => {
            let credential = parse(&shown(&site, &badge, "/credential").await.body).unwrap();
            assert_eq!(believed(&site, &credential).await, (true, vec![]));
            let reviewed_at: Timestamp =
                reviewed["review"]["at"].as_str().unwrap().parse().unwrap();
            let certified: Timestamp = public.json()["certified_date"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap();
            assert!(certified >= reviewed_at, "it is valid from the decision on");
        }
        _ => assert_eq!(public.status, StatusCode::NOT_FOUND),
    }
}

#[rstest]
#[tokio::test]
async fn an_older_badge_names_the_newer_rating_and_that_its_agent_is_archived(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    site.host.assess();
    let agent = site.enrol("triage").await;
    work(&site, &agent, "good", 36, "accepted").await;
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let verify = async |of: &Value| {
        let badge = of["badge_id"].as_str().unwrap();
        shown(&site, badge, "/verify").await.json()
    };
    let first = assessed(&site, &order).await;
    let found = verify(&first).await;
    assert_eq!(
        (&found["newer_rating"], &found["agent_archived"]),
        (&Value::Null, &json!(false))
    );
    let second = assessed(&site, &order).await;
    let found = verify(&first).await;
    assert_eq!(
        (&found["valid"], &found["newer_rating"]["assessment_id"]),
        (&json!(true), &second["id"])
    );
    assert_eq!(
        (
            &found["newer_rating"]["badge_id"],
            &found["newer_rating"]["badge_state"]
        ),
        (&second["badge_id"], &json!("issued"))
    );
    // An assessment that waits for a reviewer is listed without its badge.
    work(&site, &agent, "bad", 60, "rejected").await;
    let third = assessed(&site, &order).await;
    assert_eq!(third["badge_state"], "withheld", "{third}");
    let found = verify(&second).await;
    assert_eq!(
        found["newer_rating"],
        json!({"assessment_id": third["id"], "completed_at": third["completed_at"], "badge_id": null,
            "badge_state": "withheld"})
    );
    // A rejected assessment is not listed.
    let tenant = site.ours.id.clone();
    let reviewer = site.host.issue(|issue| {
        issue.tenant = tenant.as_str().into();
        issue.scopes = vec![Scope::AssessmentsReview];
    });
    let path = format!(
        "/api/v1/assessments/{}/review",
        third["id"].as_str().unwrap()
    );
    let call = site.host.request(Method::POST, &path).key(&reviewer.await);
    let body = json!({"decision": "reject", "reason": "It was another agent."});
    let reviewed = call.json(&body).send().await;
    assert_eq!(reviewed.status, StatusCode::OK, "{reviewed:?}");
    assert_eq!(verify(&second).await["newer_rating"], Value::Null);
    assert_eq!(
        verify(&first).await["newer_rating"]["assessment_id"],
        second["id"]
    );
    let path = format!("agents/{agent}");
    let archived = site.send(Method::DELETE, &path, None).await;
    assert_eq!(archived.status, StatusCode::NO_CONTENT);
    let found = verify(&second).await;
    assert_eq!(
        (&found["valid"], &found["agent_archived"]),
        (&json!(true), &json!(true))
    );
}

#[tokio::test]
async fn a_badge_that_expires_is_marked_and_stays_verifiable() {
    site!(Engine::Sqlite => site);
    let badge = certified(&site, "invoice-reader").await;
    site.host.clock.ahead(89);
    assert_eq!(shown(&site, &badge, "/verify").await.json()["valid"], true);
    site.host.clock.ahead(91);
    let found = shown(&site, &badge, "/verify").await.json();
    assert_eq!(
        (
            &found["valid"],
            &found["expired"],
            &found["revoked"],
            &found["reasons"][0]["code"]
        ),
        (
            &json!(false),
            &json!(true),
            &json!(false),
            &json!("expired")
        )
    );
    assert!(
        shown(&site, &badge, ".svg")
            .await
            .text()
            .contains("EXPIRED")
    );
    assert_eq!(shown(&site, &badge, "").await.json()["expired"], true);
}

#[tokio::test]
async fn without_a_public_name_the_issuer_is_its_own_key() {
    let folder = tempfile::tempdir().unwrap();
    let store = database::open(
        folder.path().join("host.db").to_str().unwrap(),
        host_keys::usual(),
    )
    .await;
    let place = HostUrl::listening("127.0.0.1:7800");
    let lab = Lab::limited(UNLIMITED);
    let host = TestHost::lab(store.unwrap(), HttpSettings::default(), place, lab).await;
    let site = Site::of(host, None).await;
    let badge = certified(&site, "invoice-reader").await;
    let credential = parse(&shown(&site, &badge, "/credential").await.body).unwrap();
    let did = credential["issuer"]["id"].as_str().unwrap();
    assert!(did.starts_with("did:key:z6Mk"), "{did}");
    let list = credential["credentialStatus"]["statusListCredential"]
        .as_str()
        .unwrap();
    let list = site
        .anonymous(list.strip_prefix("http://127.0.0.1:7800").unwrap())
        .await;
    let list = parse(&list.body).unwrap();
    let standing = VerificationContext {
        status_list: Some(&list),
        ..VerificationContext::default()
    };
    let checked = verify(&credential, &standing, Timestamp::now());
    assert!(checked.valid, "{:?}", checked.reasons);
    let path = format!("/orgs/{}/did.json", site.ours.id);
    assert_eq!(site.anonymous(&path).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn unknown_status_lists_and_issuer_documents_are_not_found() {
    site!(Engine::Sqlite => site);
    certified(&site, "invoice-reader").await;
    for path in [
        "/status/2",
        "/status/01",
        "/status/x",
        "/status/-1",
        "/status/99999999999999999999",
    ] {
        assert_eq!(
            site.anonymous(path).await.status,
            StatusCode::NOT_FOUND,
            "{path}"
        );
    }
    // This organization has signed nothing yet.
    for organization in [site.theirs.id.as_str(), "x", "a%00b"] {
        let path = format!("/orgs/{organization}/did.json");
        assert_eq!(
            site.anonymous(&path).await.status,
            StatusCode::NOT_FOUND,
            "{path}"
        );
    }
}

/// Badges as a host serves them, in a folder: valid ones in every form, the same ones after
/// revocation over the API, and an expired one. Once with issuers identified by their own keys,
/// once with issuers identified by the host's name.
pub async fn served(folder: &Path) -> Vec<Case> {
    let mut cases = Vec::new();
    for place in [
        HostUrl::listening("127.0.0.1:7800"),
        HostUrl::public(HOST).unwrap(),
    ] {
        let at = folder.join(match place.did("") {
            Some(_) => "web",
            None => "key",
        });
        std::fs::create_dir(&at).unwrap();
        let store = database::open(at.join("host.db").to_str().unwrap(), host_keys::usual()).await;
        let (settings, lab) = (HttpSettings::default(), Lab::limited(UNLIMITED));
        let host = TestHost::lab(store.unwrap(), settings, place.clone(), lab).await;
        let site = Site::of(host, None).await;
        let write = |name: &str, bytes: &[u8]| {
            let file = at.join(name);
            std::fs::write(&file, bytes).unwrap();
            file
        };
        // A short validity, from two days ago.
        let path = format!("organizations/{}/config", site.ours.id);
        let short = json!({"validity_period_days": 1});
        let short = site.send(Method::PATCH, &path, Some(&short)).await;
        assert_eq!(short.status, StatusCode::OK, "{short:?}");
        let agent = site.enrol("long ago").await;
        collecting_for(&site, &agent, 40).await;
        let batch = tasks_since(&agent, "old", 36, "accepted", 3 * 86_400);
        assert_eq!(
            site.post("events/batch", &batch).await.json()["rejected"],
            0
        );
        site.host.clock.ahead(-2);
        let assessing = site.host.assess();
        let order = json!({"agent_id": agent, "type": "passive_only"});
        let old = assessed(&site, &order).await["badge_id"].clone();
        assessing.cancel();
        site.host.clock.ahead(0);
        let fresh = certified(&site, "Zoë \"the reader\" & <Söhne>").await;

        let did = match place.did(&site.ours.id) {
            None => None,
            Some(_) => {
                let path = format!("/orgs/{}/did.json", site.ours.id);
                Some(write("did.json", &site.anonymous(&path).await.body))
            }
        };
        let status = |name| {
            let (site, write) = (&site, &write);
            async move { write(name, &site.anonymous("/status/1").await.body) }
        };
        let mut case = |good, file: &PathBuf, status: &PathBuf| {
            cases.push(Case {
                file: file.clone(),
                status: Some(status.clone()),
                did: did.clone(),
                good,
            });
        };
        let clear = status("clear.list.json").await;
        let mut files = Vec::new();
        for (extension, name) in [
            ("/credential", "good.json"),
            (".svg", "good.svg"),
            (".png", "good.png"),
        ] {
            files.push(write(name, &shown(&site, &fresh, extension).await.body));
        }
        files.iter().for_each(|file| case(true, file, &clear));
        let over = shown(&site, old.as_str().unwrap(), "/credential").await;
        case(false, &write("expired.json", &over.body), &clear);
        let changed = shown(&site, &fresh, "/credential").await.text();
        let changed = changed.replace("the reader", "the writer");
        case(false, &write("changed.json", changed.as_bytes()), &clear);
        let revoke = format!("badges/{fresh}/revoke");
        let revoked = site.post(&revoke, &json!({"reason": "withdrawn"})).await;
        assert_eq!(revoked.status, StatusCode::OK, "{revoked:?}");
        let revoking = status("revoking.list.json").await;
        files.iter().for_each(|file| case(false, file, &revoking));
    }
    cases
}
