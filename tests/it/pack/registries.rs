//! Registries: a folder, a server, and a file with companions.

use std::path::Path;
use std::sync::Arc;

use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::net::Client;
use touchstone_host::net::policy::Policy as NetPolicy;
use touchstone_kit::error::ErrorCode;
use touchstone_packs::ports::PackSource;
use touchstone_packs::registry::directory::DirectoryRegistry;
use touchstone_packs::registry::file::read_pack_file;
use touchstone_packs::registry::http::HttpRegistry;
use touchstone_packs::rules::trust::key_ring::KeyOrigin;
use touchstone_packs::rules::verify::{Policy, SigningMethod, Trust, VerifiedPack};
use touchstone_packs::rules::{Refusal, lockfile};
use touchstone_packs::service::download::PackRequest;
use url::Url;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::publishing::{key, signed};
use crate::agent::raw_server::deserted;
use crate::support::packs::fetch_and_verify;

const NAME: &str = "vendor.bench.labels";
const VERSION: &str = "0.1.0";

fn discovery() -> Value {
    json!({
        "endpoints": {
            "packMetadata": "/v1/packs/{name}/index.json",
            "versionManifest": "/v1/packs/{name}/-/{version}.json",
            "versionTarball": "/v1/packs/{name}/-/{version}.tgz",
            "versionSignature": "/v1/packs/{name}/-/{version}.sig",
        },
        "signingKeys": [{
            "keyId": "bench-publisher", "algorithm": "ed25519", "status": "active",
            "publicKeyUrl": "/keys/bench-publisher.pub", "permittedNamespaces": ["vendor.bench.*"]
        }]
    })
}

fn index() -> Value {
    json!({"name": NAME, "latest": "9.0.0", "versions": [
        {"version": "9.0.0", "yanked": true}, {"version": "0.1.0-rc.1"}, {"version": VERSION}, {"version": "0.0.9"}
    ]})
}

/// The documents of a registry, by path.
fn documents() -> Vec<(String, Vec<u8>)> {
    let pack = signed(SigningMethod::Ed25519);
    let at = |suffix: &str| format!("v1/packs/{NAME}/-/{VERSION}.{suffix}");
    vec![
        (
            ".well-known/openwop-registry".to_owned(),
            discovery().to_string().into_bytes(),
        ),
        (
            format!("v1/packs/{NAME}/index.json"),
            index().to_string().into_bytes(),
        ),
        (at("json"), pack.served),
        (at("tgz"), pack.tgz),
        (at("sig"), pack.signature.to_vec()),
        (
            "keys/bench-publisher.pub".to_owned(),
            key().public().to_pem().into_bytes(),
        ),
    ]
}

fn write(root: &Path, documents: Vec<(String, Vec<u8>)>) {
    for (path, octets) in documents {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, octets).unwrap();
    }
}

async fn serve(documents: Vec<(String, Vec<u8>)>) -> (MockServer, HttpRegistry) {
    let server = MockServer::start().await;
    for (at, octets) in documents {
        let answer = ResponseTemplate::new(200).set_body_bytes(octets);
        Mock::given(method("GET"))
            .and(path(format!("/{at}")))
            .respond_with(answer)
            .mount(&server)
            .await;
    }
    let base = Url::parse(&server.uri()).unwrap();
    let client = Arc::new(Client::new(NetPolicy::registry(&base)).unwrap());
    let registry = HttpRegistry::new(client, base);
    (server, registry)
}

async fn judge(source: &dyn PackSource, request: &str) -> Result<VerifiedPack, Refusal> {
    let trust = Trust {
        registry_keys: true,
        ..Trust::default()
    };
    let request: PackRequest = request.parse().unwrap();
    fetch_and_verify(source, &request, &trust, &Policy::default(), None)
        .await
        .map(|found| found.pack)
}

#[rstest]
#[case("vendor.bench.labels@0.1.0", None)]
#[case("vendor.bench.labels", None)]
#[case("vendor.bench.labels@^0.1.0", None)]
#[case("vendor.bench.labels@>=9", Some(ErrorCode::PackVersionNotFound))]
#[case("vendor.bench.labels@0.2.0", Some(ErrorCode::PackVersionNotFound))]
#[case("vendor.bench.none", Some(ErrorCode::PackVersionNotFound))]
#[tokio::test]
async fn a_version_is_found_in_a_directory_and_on_a_server(
    #[case] request: &str,
    #[case] refused: Option<ErrorCode>,
) {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), documents());
    let (_server, http) = serve(documents()).await;
    for source in [
        &DirectoryRegistry::new(folder.path()) as &dyn PackSource,
        &http,
    ] {
        let outcome = judge(source, request).await;
        match (&outcome, refused) {
            (Ok(pack), None) => {
                assert_eq!(pack.id.to_string(), format!("{NAME}@{VERSION}"));
                assert_eq!(pack.signature.key_origin, Some(KeyOrigin::Discovery));
            }
            (Err(refusal), Some(code)) => assert_eq!(refusal.code, code),
            _ => panic!("{request}: {outcome:?}"),
        }
    }
}

#[tokio::test]
async fn the_keys_a_registry_lists_count_only_when_the_operator_says_so() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), documents());
    let request = format!("{NAME}@{VERSION}").parse().unwrap();
    let source = DirectoryRegistry::new(folder.path());
    let outcome = fetch_and_verify(
        &source,
        &request,
        &Trust::default(),
        &Policy::default(),
        None,
    )
    .await;
    assert_eq!(outcome.unwrap_err().code, ErrorCode::SignatureUnknownKey);
}

#[tokio::test]
async fn the_other_spelling_of_the_discovery_document_is_read_too() {
    let folder = tempfile::tempdir().unwrap();
    let renamed = documents().into_iter().map(|(at, octets)| {
        (
            at.replace("openwop-registry", "openwop-registry.json"),
            octets,
        )
    });
    write(folder.path(), renamed.collect());
    assert!(
        judge(&DirectoryRegistry::new(folder.path()), NAME)
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_missing_registry_is_unreachable() {
    let nowhere = tempfile::tempdir().unwrap().path().join("none");
    let refusal = judge(&DirectoryRegistry::new(nowhere), NAME)
        .await
        .unwrap_err();
    assert_eq!(refusal.code, ErrorCode::PackRegistryUnreachable);

    let base = Url::parse(&format!("http://{}", deserted())).unwrap();
    let client = Arc::new(Client::new(NetPolicy::registry(&base)).unwrap());
    let http = HttpRegistry::new(client, base);
    let refusal = judge(&http, NAME).await.unwrap_err();
    assert_eq!(refusal.code, ErrorCode::PackRegistryUnreachable);
}

#[rstest]
#[case::template("endpoints", "versionTarball", json!("https://elsewhere.example/{name}-{version}.tgz"))]
#[case::scheme_relative("endpoints", "versionManifest", json!("//elsewhere.example/x"))]
#[case::file("endpoints", "packMetadata", json!("file:///etc/passwd"))]
#[tokio::test]
async fn registry_endpoints_at_other_origins_are_rejected(
    #[case] block: &str,
    #[case] member: &str,
    #[case] value: Value,
) {
    let mut altered = discovery();
    altered[block][member] = value;
    let mut documents = documents();
    documents[0].1 = altered.to_string().into_bytes();
    let (_server, http) = serve(documents).await;
    let refusal = judge(&http, NAME).await.unwrap_err();
    assert_eq!(refusal.code, ErrorCode::PackRegistryUnreachable);
    assert!(refusal.reason.contains("outside the registry"), "{refusal}");
}

#[tokio::test]
async fn a_key_url_outside_the_registry_is_rejected() {
    let mut altered = discovery();
    altered["signingKeys"][0]["publicKeyUrl"] = "http://127.0.0.1:9/key.pub".into();
    let mut documents = documents();
    documents[0].1 = altered.to_string().into_bytes();
    let (_server, http) = serve(documents).await;
    let refusal = judge(&http, NAME).await.unwrap_err();
    assert!(refusal.reason.contains("outside the registry"), "{refusal}");
}

#[tokio::test]
async fn a_redirect_to_another_host_is_not_followed() {
    let mut documents = documents();
    documents.retain(|(at, _)| !at.ends_with(".tgz"));
    let (server, http) = serve(documents).await;
    let elsewhere =
        ResponseTemplate::new(302).insert_header("location", "http://127.0.0.1:9/x.tgz");
    Mock::given(method("GET"))
        .and(path(format!("/v1/packs/{NAME}/-/{VERSION}.tgz")))
        .respond_with(elsewhere)
        .mount(&server)
        .await;
    let refusal = judge(&http, NAME).await.unwrap_err();
    assert_eq!(refusal.code, ErrorCode::PackRegistryUnreachable);
}

#[tokio::test]
async fn an_archive_beyond_the_limit_is_refused_for_its_size() {
    let huge = vec![0; 11 * 1024 * 1024];
    let mut documents = documents();
    documents[3].1 = huge;
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), documents.clone());
    let (_server, http) = serve(documents).await;
    for source in [
        &DirectoryRegistry::new(folder.path()) as &dyn PackSource,
        &http,
    ] {
        assert_eq!(
            judge(source, NAME).await.unwrap_err().code,
            ErrorCode::TarballTooLarge
        );
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_symbolic_link_out_of_a_registry_directory_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let registry = folder.path().join("registry");
    write(&registry, documents());
    let tgz = registry.join(format!("v1/packs/{NAME}/-/{VERSION}.tgz"));
    let outside = folder.path().join("outside.tgz");
    std::fs::rename(&tgz, &outside).unwrap();
    std::os::unix::fs::symlink(&outside, &tgz).unwrap();
    let refusal = judge(&DirectoryRegistry::new(&registry), NAME)
        .await
        .unwrap_err();
    assert_eq!(refusal.code, ErrorCode::PackVersionNotFound);
}

#[tokio::test]
async fn the_lockfile_chooses_the_version_of_a_range() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), documents());
    let source = DirectoryRegistry::new(folder.path());
    let pack = judge(&source, NAME).await.unwrap();
    assert!(pack.pin.signature.is_some());
    let lock = lockfile::pin(None, pack.pin, "2026-01-01T00:00:00Z");
    let lock = lockfile::parse(lockfile::write(&lock).as_bytes()).unwrap();
    let trust = Trust {
        registry_keys: true,
        ..Trust::default()
    };
    let locked = |request: &str| {
        let request: PackRequest = request.parse().unwrap();
        let (source, trust, lock) = (&source, &trust, &lock);
        async move { fetch_and_verify(source, &request, trust, &Policy::default(), Some(lock)).await }
    };
    assert_eq!(
        locked(NAME).await.unwrap().pack.id.version.to_string(),
        VERSION
    );
    let outside = locked("vendor.bench.labels@>=1").await.unwrap_err();
    assert_eq!(outside.code, ErrorCode::PackVersionNotFound);
    let other = locked("vendor.bench.labels@0.0.9").await.unwrap_err();
    assert_eq!(other.code, ErrorCode::PackVersionNotFound);
}

#[tokio::test]
async fn a_file_brings_its_companions() {
    let folder = tempfile::tempdir().unwrap();
    let pack = signed(SigningMethod::Ed25519);
    let file = folder.path().join("labels-0.1.0.tgz");
    std::fs::write(&file, &pack.tgz).unwrap();
    let alone = read_pack_file(&file).await.unwrap();
    assert!(alone.served.is_none() && alone.signature.is_none());
    std::fs::write(file.with_extension("json"), &pack.served).unwrap();
    std::fs::write(file.with_extension("sig"), pack.signature).unwrap();
    let whole = read_pack_file(&file).await.unwrap();
    assert_eq!(whole.tgz, pack.tgz);
    assert_eq!(whole.served.unwrap(), pack.served);
    assert_eq!(whole.signature.unwrap(), pack.signature[..]);
}
