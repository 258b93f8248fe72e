//! The registry of a host: it serves the packs that the operator publishes, to everyone, and
//! nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};
use touchstone::database;
use touchstone_host::http::HttpSettings;
use touchstone_host::net::Client;
use touchstone_host::net::policy::Policy as NetPolicy;
use touchstone_host::ports::clock::Clock;
use touchstone_host::store::database::Database;
use touchstone_host::system::SystemClock;
use touchstone_kit::error::ErrorCode;
use touchstone_kit::keys::SecretKey;
use touchstone_packs::registry::http::HttpRegistry;
use touchstone_packs::rules::build;
use touchstone_packs::rules::build::template::new_pack;
use touchstone_packs::rules::build::{Files, SignedPack};
use touchstone_packs::rules::name::Namespaces;
use touchstone_packs::rules::publication::Publication;
use touchstone_packs::rules::trust::key_ring::KeyRing;
use touchstone_packs::rules::verify::{Policy, SigningMethod, Trust, TrustMode};
use touchstone_packs::service::publications::Publications;
use touchstone_ratings::rules::badge::host_url::HostUrl;
use url::Url;

use crate::http::support::host::{Lab, Reply, TestHost};
use crate::support::host_keys;
use crate::support::packs::fetch_and_verify;
use crate::support::postgres::TestDatabase;

const PUBLIC: &str = "vendor.bench.labels";
const SECOND: &str = "vendor.bench.mail";
const THIRD: &str = "vendor.bench.third";
const SECRET: &str = "vendor.secret.labels";
const UNSIGNED: &str = "vendor.bench.unsigned";
/// Installed by another tenant.
const FOREIGN: &str = "vendor.bench.foreign";

fn key() -> SecretKey {
    SecretKey::from_random([42; 32])
}

/// A new pack. All suites of one organization share one id, so each pack has a distinct version.
fn files(name: &str) -> Files {
    let mut files = new_pack(name).unwrap();
    let suite = files.get_mut("evals/label.json").unwrap();
    let mut document: Value = serde_json::from_slice(suite).unwrap();
    document["version"] = match name {
        SECOND => "0.2.0",
        UNSIGNED => "0.3.0",
        THIRD => "0.4.0",
        _ => "0.1.0",
    }
    .into();
    *suite = document.to_string().into_bytes();
    files
}

fn signed(name: &str, method: SigningMethod) -> SignedPack {
    build::sign(&files(name), method, &key(), "bench-1").unwrap()
}

fn trust() -> Trust {
    let mut keys = KeyRing::default();
    keys.pin("bench-1", key().public(), Namespaces::Any);
    Trust {
        // An unsigned pack can be installed but is not published.
        mode: TrustMode::Open,
        keys,
        ..Trust::default()
    }
}

async fn install(host: &TestHost, key: &str, body: &Value) -> Reply {
    let call = host.request(Method::POST, "/v1/host/touchstone/packs");
    let installed = call.key(key).json(body).send().await;
    assert_eq!(installed.status, StatusCode::CREATED, "{installed:?}");
    installed
}

fn upload(pack: &SignedPack) -> Value {
    json!({
        "tarball": STANDARD.encode(&pack.tgz), "served": STANDARD.encode(&pack.served),
        "signature": STANDARD.encode(pack.signature),
    })
}

fn publication(trust: Trust) -> Publication {
    Publication {
        tenant: "acme".into(),
        namespaces: Namespaces::These(vec!["vendor.bench.*".to_owned()]),
        trust,
    }
}

async fn host(store: Arc<Database>, trust: Trust, publishes: bool) -> TestHost {
    let lab = Lab {
        publication: publishes.then(|| publication(trust.clone())),
        trust,
        ..Lab::default()
    };
    let place = HostUrl::public("https://assess.example.org").unwrap();
    TestHost::lab(store, HttpSettings::default(), place, lab).await
}

/// A host that publishes `vendor.bench.*` of the first tenant, or nothing.
async fn publishing(location: &str, publishes: bool) -> TestHost {
    let store = database::open(location, host_keys::usual()).await.unwrap();
    let host = host(store, trust(), publishes).await;
    for (name, method) in [
        (PUBLIC, SigningMethod::Ed25519),
        (SECOND, SigningMethod::Manual),
        (SECRET, SigningMethod::Ed25519),
    ] {
        install(&host, &host.key, &upload(&signed(name, method))).await;
    }
    let foreign = signed(FOREIGN, SigningMethod::Ed25519);
    install(&host, &host.other_key, &upload(&foreign)).await;
    let unsigned = build::build(&files(UNSIGNED)).unwrap();
    let unsigned = json!({"tarball": STANDARD.encode(unsigned)});
    install(&host, &host.key, &unsigned).await;
    host
}

async fn get(host: &TestHost, path: &str) -> Reply {
    host.request(Method::GET, path).anonymous().send().await
}

fn names(found: &Value) -> Vec<&str> {
    let packs = found.as_array().unwrap().iter();
    packs.map(|pack| pack["name"].as_str().unwrap()).collect()
}

#[rstest]
#[tokio::test]
async fn published_packs_are_listed_searched_and_served(#[values(false, true)] postgres: bool) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("host.db");
    let database = match postgres {
        true => TestDatabase::create().await,
        false => None,
    };
    if postgres && database.is_none() {
        return;
    }
    let location = match &database {
        Some(database) => database.url(),
        None => file.to_str().unwrap().to_owned(),
    };
    let host = publishing(&location, true).await;

    let listed = get(&host, "/v1/packs").await.json();
    assert_eq!(names(&listed["packs"]), [PUBLIC, SECOND]);
    assert_eq!(
        listed["packs"][0]["agents"][0]["agentId"],
        format!("{PUBLIC}.default")
    );
    let all = get(&host, "/v1/packs/-/search?q=").await.json();
    assert_eq!(names(&all["results"]), [PUBLIC, SECOND]);
    let mail = get(&host, "/v1/packs/-/search?q=BENCH.mail").await.json();
    assert_eq!(names(&mail["results"]), [SECOND]);
    let first = get(&host, "/v1/packs/-/search?q=&limit=1").await.json();
    assert_eq!(names(&first["results"]), [PUBLIC]);
    let next = first["nextCursor"].as_str().unwrap();
    let rest = get(&host, &format!("/v1/packs?limit=1&cursor={next}")).await;
    assert_eq!(names(&rest.json()["packs"]), [SECOND]);
    assert!(rest.json().get("nextCursor").is_none());

    let pack = signed(PUBLIC, SigningMethod::Ed25519);
    let version = pack.id.version.to_string();
    let catalogue = get(&host, &format!("/v1/packs/{PUBLIC}")).await.json();
    assert_eq!(catalogue["name"], PUBLIC);
    assert_eq!(catalogue["dist-tags"]["latest"], version);
    assert_eq!(catalogue["versions"][&version]["signingMethod"], "ed25519");
    let index = get(&host, &format!("/v1/packs/{PUBLIC}/index.json")).await;
    assert_eq!(index.json(), catalogue);

    let at = |kind: &str| format!("/v1/packs/{PUBLIC}/-/{version}.{kind}");
    let manifest = get(&host, &at("json")).await.json();
    let digest = manifest["integrity"].as_str().unwrap();
    assert_eq!(
        manifest["signing"],
        json!({"method": "ed25519", "keyId": "bench-1"})
    );
    let archive = get(&host, &at("tgz")).await;
    assert_eq!(archive.body, pack.tgz);
    assert_eq!(archive.header("content-type"), Some("application/tar+gzip"));
    assert_eq!(
        archive.header("content-length"),
        Some(pack.tgz.len().to_string().as_str())
    );
    let tag = format!("\"{digest}\"");
    assert_eq!(archive.header("etag"), Some(tag.as_str()));
    let zipped = host
        .request(Method::GET, &at("tgz"))
        .anonymous()
        .header("accept-encoding", "gzip")
        .send()
        .await;
    assert_eq!(
        (zipped.header("etag"), &zipped.body),
        (Some(tag.as_str()), &archive.body)
    );
    let known = host
        .request(Method::GET, &at("tgz"))
        .anonymous()
        .header("if-none-match", &tag)
        .send()
        .await;
    assert_eq!(known.status, StatusCode::NOT_MODIFIED);
    assert_eq!(get(&host, &at("sig")).await.body, &pack.signature[..]);
    let keychain = get(&host, &format!("/v1/packs/{PUBLIC}/-/keychain"))
        .await
        .json();
    assert_eq!(keychain["namespace"], "vendor.bench");
    let listed = keychain["keys"][0]["publicKey"].as_str().unwrap();
    assert!(key().public().to_pem().contains(listed));
    let pem = get(&host, "/keys/bench-1.pub").await;
    assert_eq!(pem.text(), key().public().to_pem());
}

/// A clock whose uptime the test sets, in seconds.
#[derive(Default)]
struct Uptime(AtomicU64);

impl Clock for Uptime {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn uptime(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

async fn listed(registry: &Publications) -> Vec<String> {
    let page = registry.list("", None, 10).await.unwrap();
    let names = page.packs.iter().map(|it| it["name"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

#[tokio::test]
async fn the_registry_index_is_cached_for_five_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("host.db");
    let host = publishing(file.to_str().unwrap(), true).await;
    let clock = Arc::new(Uptime::default());
    let registry = || Publications::new(host.store.clone(), clock.clone(), publication(trust()));
    let (registry, other) = (registry(), registry());
    assert_eq!(listed(&registry).await, [PUBLIC, SECOND]);
    assert_eq!(other.discovery().await.unwrap().signing_keys.len(), 1);

    let third = signed(THIRD, SigningMethod::Ed25519);
    install(&host, &host.key, &upload(&third)).await;
    let version = signed(SECOND, SigningMethod::Manual).id.version;
    let path = format!("/v1/host/touchstone/packs/{SECOND}/{version}");
    let removed = host.request(Method::DELETE, &path).key(&host.key);
    let removed = removed.send().await;
    assert_eq!(removed.status, StatusCode::OK, "{removed:?}");
    clock.0.store(4, Ordering::SeqCst);
    assert_eq!(listed(&registry).await, [PUBLIC, SECOND]);
    assert!(registry.catalogue(THIRD).await.is_ok());
    let gone = registry.catalogue(SECOND).await.unwrap_err();
    assert_eq!(gone.code, ErrorCode::PackNotFound);
    // It knows the removed pack's name, but not its manifest.
    assert_eq!(listed(&other).await, [PUBLIC]);

    clock.0.store(5, Ordering::SeqCst);
    assert_eq!(listed(&registry).await, [PUBLIC, THIRD]);
}

#[tokio::test]
async fn a_client_installs_published_packs_and_trusts_keys_only_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("host.db");
    let host = publishing(file.to_str().unwrap(), true).await;
    let base = Url::parse(&format!("http://{}", host.listen().await)).unwrap();
    let client = Arc::new(Client::new(NetPolicy::registry(&base)).unwrap());
    let registry = HttpRegistry::new(client, base);
    let trust = Trust {
        registry_keys: true,
        ..Trust::default()
    };
    for (name, method) in [
        (PUBLIC, SigningMethod::Ed25519),
        (SECOND, SigningMethod::Manual),
    ] {
        let request = name.parse().unwrap();
        let policy = Policy::default();
        let found = fetch_and_verify(&registry, &request, &trust, &policy, None).await;
        let found = found.unwrap();
        assert_eq!(found.tgz, signed(name, method).tgz);
        assert_eq!(found.pack.signature.method, Some(method));
    }
    let discovery = get(&host, "/.well-known/openwop-registry").await.json();
    assert_eq!(
        discovery["signingKeys"][0]["permittedNamespaces"],
        json!([PUBLIC, SECOND])
    );
}

#[rstest]
#[case::dropped("bench-2", 42)]
#[case::replaced("bench-1", 43)]
#[tokio::test]
async fn packs_signed_by_an_untrusted_key_are_not_published(
    #[case] key_id: &str,
    #[case] secret: u8,
) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("host.db");
    let before = publishing(file.to_str().unwrap(), true).await;
    let version = signed(PUBLIC, SigningMethod::Ed25519).id.version;
    let mut trust = trust();
    trust.keys = KeyRing::default();
    let other = SecretKey::from_random([secret; 32]).public();
    trust.keys.pin(key_id, other, Namespaces::Any);
    let after = host(before.store.clone(), trust, true).await;
    let one = format!("/v1/packs/{PUBLIC}");
    let signature = format!("{one}/-/{version}.sig");
    for path in [
        one.clone(),
        format!("{one}/-/keychain"),
        format!("{one}/-/{version}.json"),
        format!("{one}/-/{version}.tgz"),
        signature,
        "/keys/bench-1.pub".to_owned(),
    ] {
        assert_eq!(get(&before, &path).await.status, StatusCode::OK, "{path}");
        let gone = get(&after, &path).await.status;
        assert_eq!(gone, StatusCode::NOT_FOUND, "{path}");
    }
    let listed = get(&after, "/v1/packs").await.json();
    assert_eq!(listed["packs"], json!([]));
    let discovery = get(&after, "/.well-known/openwop-registry").await.json();
    assert_eq!(discovery["signingKeys"], json!([]));
}

#[rstest]
#[case::another_name(SECRET)]
#[case::another_tenant(FOREIGN)]
#[case::unsigned(UNSIGNED)]
#[case::nowhere("private.conformance-probe.does-not-exist")]
#[tokio::test]
async fn unpublished_packs_look_missing(#[case] name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("host.db");
    let host = publishing(file.to_str().unwrap(), true).await;
    for (path, code) in [
        (format!("/v1/packs/{name}"), "pack_not_found"),
        (format!("/v1/packs/{name}/-/keychain"), "pack_not_found"),
        (format!("/v1/packs/{name}/-/0.1.0.json"), "pack_not_found"),
        (format!("/v1/packs/{name}/-/0.1.0.tgz"), "pack_not_found"),
        (
            format!("/v1/packs/{name}/-/0.0.0-conformance.sig"),
            "signature_not_available",
        ),
    ] {
        let reply = get(&host, &path).await;
        assert_eq!(
            (reply.status, reply.code()),
            (StatusCode::NOT_FOUND, code.to_owned()),
            "{path}"
        );
    }
}

#[tokio::test]
async fn malformed_names_and_versions_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("host.db");
    let host = publishing(file.to_str().unwrap(), true).await;
    for (path, code) in [
        ("/v1/packs/not-reverse-dns/-/1.0.json", "invalid_pack_name"),
        ("/v1/packs/not-reverse-dns", "invalid_pack_name"),
        ("/v1/packs/local.acme.x/-/1.0.0.sig", "invalid_pack_name"),
        (
            "/v1/packs/private.conformance-probe.none/-/not-a-version.json",
            "invalid_version",
        ),
        ("/v1/packs/vendor.bench.labels/-/1.0.sig", "invalid_version"),
        ("/v1/packs?limit=0", "validation_error"),
    ] {
        let reply = get(&host, path).await;
        assert_eq!(
            (reply.status, reply.code()),
            (StatusCode::BAD_REQUEST, code.to_owned()),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_host_that_publishes_nothing_has_no_registry() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("host.db");
    let host = publishing(file.to_str().unwrap(), false).await;
    let absent = get(&host, "/v1/nothing").await.json();
    for path in [
        "/.well-known/openwop-registry",
        "/keys/bench-1.pub",
        "/v1/packs",
        "/v1/packs?limit=0",
        "/v1/packs/-/search?q=",
        "/v1/packs/vendor.bench.labels",
        "/v1/packs/not-reverse-dns",
        "/v1/packs/vendor.bench.labels/index.json",
        "/v1/packs/vendor.bench.labels/-/keychain",
        "/v1/packs/vendor.bench.labels/-/0.1.0.json",
        "/v1/packs/vendor.bench.labels/-/0.1.0.tgz",
        "/v1/packs/vendor.bench.labels/-/0.1.0.sig",
        "/v1/packs/vendor.bench.labels/-/nonsense.sig",
    ] {
        let reply = get(&host, path).await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(reply.json(), absent, "{path}");
    }
}
