//! Secrets at rest in a real host: no file and no table shows one, and the encryption key can be
//! replaced while it serves.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use reqwest::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};

use super::walk;
use crate::process::Site;
use crate::process::api::Api;
use crate::store::{Engine, Raw, dump};

async fn site_on(engine: Engine) -> Option<Site> {
    let site = match engine {
        Engine::Sqlite => Site::embedded(),
        Engine::Postgres => Site::on_postgres().await?,
    };
    site.write(
        "touchstone.toml",
        "[webhooks]\nprivate_targets = [\"127.0.0.1\"]\n[conformance]\nenabled = true\n",
    );
    // With permissions that an operator may set by mistake: readable by everyone.
    let data = site.folder().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    Some(site)
}

/// The content of the database, as in a copy of its files.
async fn raw(site: &Site) -> Raw {
    let mut bytes = Vec::new();
    for file in walk(site.folder().join("data")) {
        if !file.ends_with("secrets.pem") {
            bytes.extend(std::fs::read(file).unwrap());
        }
    }
    if let Some(url) = site.database_url() {
        bytes.extend(dump(&url).await);
    }
    Raw(bytes)
}

/// Two requests whose responses contain secrets; repeated under the same keys, they give the same
/// responses.
async fn secrets(api: &Api) -> [String; 2] {
    let subscription = json!({"url": "http://127.0.0.1:9/h", "events": ["run.completed"]});
    let calling = json!({"workflowId": "conformance-noop", "callbackUrl": "http://127.0.0.1:9/c"});
    let mut found = Vec::new();
    for (path, body, member) in [
        ("/v1/webhooks", &subscription, "secret"),
        ("/v1/runs", &calling, "callbackSecret"),
    ] {
        let headers = [("idempotency-key", member)];
        let answer = api
            .send_with(Method::POST, path, Some(body), &headers)
            .await;
        let answer = answer.unwrap();
        assert_eq!(answer.status(), StatusCode::CREATED, "{path}");
        let answer: Value = answer.json().await.unwrap();
        found.push(answer[member].as_str().unwrap().to_owned());
    }
    found.try_into().unwrap()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_hides_its_secrets_and_its_key_is_replaced_while_it_serves(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(site) = site_on(engine).await else {
        return;
    };
    let data = site.folder().join("data");
    let key = site.key_of("acme", &["all"]);
    let host = site.serve("touchstone.toml");
    let api = host.api(&key);
    let told = secrets(&api).await;
    for file in walk(data.clone()) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    assert!(host.log().contains("chmod 700"), "{}", host.log());
    let shown = raw(&site).await;
    for secret in &told {
        assert!(
            !shown.holds(secret.as_bytes()),
            "the database shows a secret"
        );
    }

    let file = data.join("secrets.pem");
    let old = std::fs::read(&file).unwrap();
    let rotated: Value =
        serde_json::from_str(&site.run(&["--json", "key", "rotate-host"])).unwrap();
    assert!(rotated["reencrypted"].as_u64().unwrap() >= 4, "{rotated}");
    assert_ne!(std::fs::read(&file).unwrap(), old);
    assert_eq!(mode(&file), 0o600);
    assert_eq!(
        secrets(&api).await,
        told,
        "the host that serves uses the new key"
    );
    assert!(host.terminate());
    let host = site.serve("touchstone.toml");
    assert_eq!(secrets(&host.api(&key)).await, told);
    assert!(host.terminate());

    // With another key than the database's, the host neither starts nor writes.
    let new = std::fs::read(&file).unwrap();
    std::fs::write(&file, &old).unwrap();
    let refused = site
        .touchstone("touchstone.toml", &["key", "list"])
        .output();
    let refused = refused.unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        said.contains("secrets.pem") && said.contains("secrets.key_file"),
        "{said}"
    );
    std::fs::write(&file, &new).unwrap();
    site.run(&["key", "list"]);
}

#[rstest]
#[case::open(0o644, true)]
#[case::private(0o600, false)]
fn a_host_warns_of_key_files_that_others_can_read(#[case] bits: u32, #[case] warns: bool) {
    let site = Site::embedded();
    site.write(
        "touchstone.toml",
        "[secrets]\nkey_file = \"host.pem\"\n[attest]\nkey_file = \"attest.pem\"\n",
    );
    let files = ["host.pem", "attest.pem"].map(|name| site.folder().join(name));
    for file in &files {
        let name = file.file_name().unwrap().to_str().unwrap();
        site.run_on_files(&["pack", "keygen", "--out", name, "--key-id", "host"]);
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(bits)).unwrap();
    }
    let host = site.serve("touchstone.toml");
    let log = host.log();
    for file in &files {
        let name = file.to_str().unwrap();
        let warning = |line: &str| line.contains(name) && line.contains("chmod 600");
        assert_eq!(log.lines().any(warning), warns, "{name}: {log}");
        // The operator's files keep their permissions.
        assert_eq!(mode(file), bits);
    }
}

/// A process may be killed between any two steps of a rotation: the key file then holds both keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_rotation_resumes() {
    let site = site_on(Engine::Sqlite).await.unwrap();
    let file = site.folder().join("data/secrets.pem");
    let key = site.key_of("acme", &["all"]);
    let host = site.serve("touchstone.toml");
    let told = secrets(&host.api(&key)).await;
    assert!(host.terminate());
    let old = std::fs::read_to_string(&file).unwrap();
    site.run_on_files(&["pack", "keygen", "--out", "next.pem", "--key-id", "next"]);
    let next = std::fs::read_to_string(site.folder().join("next.pem")).unwrap();
    std::fs::write(&file, format!("{next}{old}")).unwrap();
    let host = site.serve("touchstone.toml");
    assert_eq!(secrets(&host.api(&key)).await, told);
    assert!(host.terminate());
    site.run(&["key", "rotate-host"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), next.trim());
    let host = site.serve("touchstone.toml");
    assert_eq!(secrets(&host.api(&key)).await, told);
}
