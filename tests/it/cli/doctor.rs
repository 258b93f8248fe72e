//! `touchstone doctor`: each fault is found, with a remedy that works as printed.

use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use axum::{Json, Router};
use rstest::rstest;
use serde_json::{Value, json};

use super::home::{Done, Home};
use crate::support::postgres::TestDatabase;

/// A value that must not be printed.
const SECRET: &str = "sk-never-printed-4711";

fn examined(home: &Home) -> (i32, Value) {
    let done = Done::of(
        home.touchstone()
            .env("DOCTOR_KEY", SECRET)
            .args(["--json", "doctor"]),
    );
    assert!(!format!("{}{}", done.stdout, done.stderr).contains(SECRET));
    let document = done.document();
    for check in document["checks"].as_array().unwrap() {
        let is_ok = check["status"] == "ok";
        assert_eq!(check["remedy"].is_string(), !is_ok, "{check}");
    }
    assert_eq!(document["ok"], json!(done.code == 0));
    (done.code, document)
}

/// The check of an area that says this.
fn check<'a>(document: &'a Value, area: &str, said: &str) -> &'a Value {
    let checks = document["checks"].as_array().unwrap();
    let fits = |it: &&Value| it["area"] == area && it["found"].as_str().unwrap().contains(said);
    checks
        .iter()
        .find(fits)
        .unwrap_or_else(|| panic!("no check of {area} says {said:?}: {document:#}"))
}

fn configure(home: &Home, text: &str) {
    let settings = std::fs::read_to_string(home.config()).unwrap();
    std::fs::write(home.config(), format!("{text}\n{settings}")).unwrap();
}

/// Runs a remedy in a shell, as a reader would who pastes it.
fn applied(home: &Home, remedy: &str) {
    applied_with(home, remedy, "");
}

/// The same with the variable that remedies name in place of a URL with a password.
fn applied_with(home: &Home, remedy: &str, database_url: &str) {
    let program = home.touchstone().get_program().to_owned();
    let folder = std::path::Path::new(&program).parent().unwrap().to_owned();
    let path = std::env::join_paths([folder, "/usr/bin".into(), "/bin".into()]).unwrap();
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", remedy])
        .current_dir(home.path(""))
        .env("PATH", path);
    if !database_url.is_empty() {
        command.env("TOUCHSTONE_DATABASE_URL", database_url);
    }
    let done = command.output().unwrap();
    assert!(
        done.status.success(),
        "{remedy}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn a_host_without_data_has_no_failure_and_gets_none() {
    let home = Home::empty();
    let (code, document) = examined(&home);
    assert_eq!(code, 0, "{document:#}");
    check(&document, "configuration", "touchstone.toml is valid");
    check(&document, "database", "the first start creates it");
    check(
        &document,
        "clock",
        "compared with the database once that exists",
    );
    check(&document, "disk", "free");
    check(&document, "limits", "open files");
    assert!(!home.data().exists());
    // A pipe gets lines, and a table only a terminal.
    let plain = home.run(&["doctor"]);
    assert!(
        plain.stdout.starts_with("ok       configuration  "),
        "{}",
        plain.stdout
    );
    assert!(
        plain.stdout.trim_end().ends_with("0 failures"),
        "{}",
        plain.stdout
    );
    let table = Done::of(
        home.touchstone()
            .env("CLICOLOR_FORCE", "1")
            .env("COLUMNS", "100")
            .arg("doctor"),
    );
    assert!(
        table.stdout.contains("✓") && table.stdout.contains("──"),
        "{}",
        table.stdout
    );
}

#[test]
fn a_folder_that_cannot_be_created_is_found() {
    let home = Home::empty();
    std::fs::write(home.path("file"), "").unwrap();
    for folder in ["file/data", "/proc/touchstone"] {
        let done = home.run(&["--json", "doctor", "--data", folder]);
        assert_eq!(done.code, 1, "{folder}: {}", done.stdout);
        let document = done.document();
        let found = check(&document, "database", "this user cannot create it");
        assert!(
            found["remedy"].as_str().unwrap().contains("--data"),
            "{found}"
        );
        let checks = document["checks"].as_array().unwrap();
        let of_disk = checks.iter().filter(|it| it["area"] == "disk");
        assert!(
            of_disk.clone().all(|it| it["status"] == "ok"),
            "{document:#}"
        );
    }
}

#[test]
fn the_remedy_for_a_host_without_keys_works_as_printed() {
    let home = Home::with_pack();
    let (code, document) = examined(&home);
    assert_eq!(code, 0, "{document:#}");
    check(&document, "database", "sound, current and writable");
    check(&document, "keys", "decrypts the");
    check(&document, "clock", "as in the database");
    let missing = check(&document, "keys", "no usable API key");
    let remedy = missing["remedy"].as_str().unwrap().to_owned();
    applied(&home, &remedy);
    let (_, document) = examined(&home);
    check(&document, "keys", "1 usable API key");

    configure(&home, "listen = \"0.0.0.0:7800\"");
    assert_eq!(examined(&home).0, 0);
    let keys = home.run(&["--json", "key", "list"]).document();
    home.run(&["key", "revoke", keys["keys"][0]["id"].as_str().unwrap()]);
    let (code, document) = examined(&home);
    assert_eq!(code, 1);
    check(&document, "keys", "the host does not start");
}

/// A remedy must act on the database that was checked, not on that of the default folder.
#[test]
fn a_remedy_names_the_given_database() {
    let home = Home::empty();
    std::fs::create_dir(home.path("the data")).unwrap();
    std::fs::rename(home.config(), home.path("other.toml")).unwrap();
    let given = [
        "--database-url",
        "sqlite:the data/t.db",
        "--config",
        "other.toml",
    ];
    let examined = || {
        home.run(&[&["--json", "doctor"], &given[..]].concat())
            .document()
    };
    let key = |arguments: &[&str]| {
        let done = home.run(&[&["--json", "key"], arguments, &given[..]].concat());
        assert_eq!(done.code, 0, "{}", done.stderr);
        done.document()
    };
    key(&["create", "--tenant", "default"]);
    let id = key(&["list"])["keys"][0]["id"].clone();
    key(&["revoke", id.as_str().unwrap()]);
    let document = examined();
    let remedy = check(&document, "keys", "no usable API key")["remedy"].clone();
    applied(&home, remedy.as_str().unwrap());
    check(&examined(), "keys", "1 usable API key");
}

/// `touchstone backup` copies SQLite databases only.
#[tokio::test]
async fn a_server_is_backed_up_with_its_own_tool() {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    let (home, url) = (Home::empty(), database.url());
    let outcome = tokio::task::spawn_blocking(move || {
        let given = ["--database-url", &url];
        let examined = || {
            home.run(&[&["--json", "doctor"], &given[..]].concat())
                .document()
        };
        let document = examined();
        let remedy = check(&document, "database", "earlier version")["remedy"].clone();
        let remedy = remedy.as_str().unwrap().to_owned();
        let created = home.run(&[&["key", "list"], &given[..]].concat());
        assert_eq!(created.code, 0, "{}", created.stderr);
        let document = examined();
        let key = check(&document, "keys", "no usable API key")["remedy"].clone();
        applied_with(&home, key.as_str().unwrap(), &url);
        check(&examined(), "keys", "1 usable API key");
        remedy
    });
    let remedy = outcome.await.unwrap();
    let command = "pg_dump --format=custom --file=before-upgrade.dump ";
    assert!(remedy.starts_with(command), "{remedy}");
}

#[cfg(unix)]
#[test]
fn a_key_that_others_can_read_is_found_and_the_remedy_closes_it() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = Home::with_pack();
    let open = |name: &str, mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(home.path(name), permissions).unwrap();
    };
    open(".touchstone/secrets.pem", 0o644);
    open(".touchstone", 0o755);
    let (code, document) = examined(&home);
    assert_eq!(code, 0, "{document:#}");
    for (area, said) in [
        ("keys", "other users can read the private key"),
        ("database", "other users"),
    ] {
        let remedy = check(&document, area, said)["remedy"].clone();
        applied(&home, remedy.as_str().unwrap());
    }
    let (_, document) = examined(&home);
    assert!(
        !document.to_string().contains("other users"),
        "{document:#}"
    );
}

#[test]
fn a_key_of_another_database_is_found() {
    let home = Home::with_pack();
    let key = home.path(".touchstone/secrets.pem");
    let right = std::fs::read(&key).unwrap();
    std::fs::remove_file(&key).unwrap();
    let (code, document) = examined(&home);
    assert_eq!(code, 1);
    check(&document, "keys", "is missing");
    assert!(!key.exists(), "no key is created that decrypts nothing");
    let made = home.run(&["pack", "keygen", "--out", "other.pem", "--key-id", "o"]);
    assert_eq!(made.code, 0);
    std::fs::copy(home.path("other.pem"), &key).unwrap();
    let (code, document) = examined(&home);
    assert_eq!(code, 1);
    check(&document, "keys", "cannot be decrypted");
    std::fs::write(&key, right).unwrap();
    assert_eq!(examined(&home).0, 0);
}

#[test]
fn a_damaged_database_is_found() {
    use std::io::{Seek as _, SeekFrom, Write as _};

    let home = Home::with_pack();
    for arguments in [
        &["backup", "b.tar", "--with-keys"][..],
        &["restore", "b.tar", "--data", "copy"],
    ] {
        let done = home.run(arguments);
        assert_eq!(done.code, 0, "{}", done.stderr);
    }
    // A restored database has no log that hides the damage. The first page holds the schema.
    let database = home.path("copy/touchstone.db");
    let length = std::fs::metadata(&database).unwrap().len();
    let mut file = std::fs::File::options()
        .write(true)
        .open(&database)
        .unwrap();
    file.seek(SeekFrom::Start(4096)).unwrap();
    let half = usize::try_from(length / 2).unwrap();
    file.write_all(&vec![0xa5; half]).unwrap();
    drop(file);
    let done = home.run(&["--json", "doctor", "--data", "copy"]);
    let document = done.document();
    assert_eq!(done.code, 1, "{document:#}");
    let checks = document["checks"].as_array().unwrap();
    let is_found = |it: &Value| it["area"] == "database" && it["status"] == "failure";
    assert!(checks.iter().any(is_found), "{document:#}");
}

#[test]
fn a_restored_copy_that_holds_work_is_found_and_the_remedy_releases_it() {
    let home = Home::with_pack();
    let added = home.run(&["--json", "webhook", "add", "https://hooks.example.com/h"]);
    assert_eq!(added.code, 0, "{}{}", added.stdout, added.stderr);
    for arguments in [
        &["backup", "b.tar", "--with-keys"][..],
        &["restore", "b.tar", "--data", "copy"],
    ] {
        let done = home.run(arguments);
        assert_eq!(done.code, 0, "{}", done.stderr);
    }
    std::fs::rename(home.data(), home.path("original")).unwrap();
    std::fs::rename(home.path("copy"), home.data()).unwrap();
    let (code, document) = examined(&home);
    assert_eq!(code, 0, "{document:#}");
    let held = check(&document, "database", "holds 1 webhooks");
    let remedy = held["remedy"].as_str().unwrap();
    applied(&home, remedy);
    let (_, document) = examined(&home);
    assert!(!document.to_string().contains("holds"), "{document:#}");
}

#[rstest]
#[case::not_toml("listen = ", "configuration", "TOML parse error", 1)]
#[case::unknown("listn = \"127.0.0.1:0\"", "configuration", "listn", 1)]
#[case::out_of_range("worker.lease_s = 1", "configuration", "worker.lease_s", 1)]
#[case::contradiction(
    "limits.default_concurrency = 300",
    "configuration",
    "limits.default_concurrency",
    0
)]
#[case::server("database_url = \"postgres://127.0.0.1:9/x\"", "database", "", 1)]
#[case::no_key_file("secrets.key_file = \"missing.pem\"", "keys", "does not exist", 1)]
#[case::no_signing_key("attest.key_file = \"missing.pem\"", "keys", "attest.key_file", 1)]
fn a_wrong_setting_is_found(
    #[case] text: &str,
    #[case] area: &str,
    #[case] said: &str,
    #[case] code: i32,
) {
    let home = Home::empty();
    configure(&home, text);
    let (found, document) = examined(&home);
    assert_eq!(found, code, "{document:#}");
    check(&document, area, said);
}

#[test]
fn a_misspelled_variable_is_found() {
    let done = Done::of(
        Home::empty()
            .touchstone()
            .env("TOUCHSTONE_LIMIT__MAX_CONCURRENCY", "8")
            .args(["--json", "doctor"]),
    );
    check(
        &done.document(),
        "configuration",
        "TOUCHSTONE_LIMIT__MAX_CONCURRENCY",
    );
}

/// A model endpoint that lists its models to callers with [`SECRET`]. Calls of the model fail the test.
fn endpoint(runtime: &tokio::runtime::Runtime) -> String {
    let models = get(|headers: HeaderMap| async move {
        let key = headers.get("authorization").and_then(|it| it.to_str().ok());
        match key == Some(&format!("Bearer {SECRET}")) {
            true => (
                StatusCode::OK,
                Json(json!({"data": [{"id": "small-1"}, {"id": "large:7b"}]})),
            ),
            false => (
                StatusCode::UNAUTHORIZED,
                Json(json!({"error": {"message": SECRET}})),
            ),
        }
    });
    let router = Router::new().route("/v1/models", models);
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
        .unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    runtime.spawn(async move { axum::serve(listener, router).await });
    url
}

#[rstest]
#[case::listed("small-1", "DOCTOR_KEY", "answers", 0)]
#[case::without_tag("large", "DOCTOR_KEY", "answers", 0)]
#[case::not_listed("tiny", "DOCTOR_KEY", "does not list the model `tiny`", 0)]
#[case::refused(
    "small-1",
    "DOCTOR_OTHER_KEY",
    "refuses the key in DOCTOR_OTHER_KEY",
    1
)]
#[case::not_set(
    "small-1",
    "DOCTOR_MISSING_KEY",
    "DOCTOR_MISSING_KEY, which is not set",
    1
)]
fn an_endpoint_is_asked_for_its_models(
    #[case] model: &str,
    #[case] variable: &str,
    #[case] said: &str,
    #[case] code: i32,
) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let url = endpoint(&runtime);
    let home = Home::empty();
    let entry = format!(
        "provider = \"openai\"\nbase_url = \"{url}\"\nmodel = \"{model}\"\napi_key_env = \"{variable}\"\n"
    );
    std::fs::write(
        home.config(),
        format!("[[models]]\nclass = \"*\"\n{entry}[judge]\n{entry}"),
    )
    .unwrap();
    let done = Done::of(
        home.touchstone()
            .envs([("DOCTOR_KEY", SECRET), ("DOCTOR_OTHER_KEY", "other")])
            .args(["--json", "doctor"]),
    );
    assert!(!done.stdout.contains(SECRET), "{}", done.stdout);
    let document = done.document();
    assert_eq!(done.code, code, "{document:#}");
    let checks = document["checks"].as_array().unwrap();
    let saying = |name: &str| {
        let is_it = |it: &&Value| it["found"].as_str().unwrap().contains(name);
        let mut found = checks.iter().filter(is_it);
        found.any(|it| it["found"].as_str().unwrap().contains(said))
    };
    assert!(saying("models[0].") && saying("judge."), "{document:#}");
}

#[test]
fn an_endpoint_that_does_not_answer_is_found() {
    let home = Home::empty();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let settings = format!(
        "[[models]]\nclass = \"*\"\nprovider = \"openai\"\nbase_url = \"http://{address}/v1\"\nmodel = \"m\"\n"
    );
    std::fs::write(home.config(), settings).unwrap();
    let (code, document) = examined(&home);
    assert_eq!(code, 1);
    let found = check(&document, "endpoints", "no connection");
    assert!(
        found["found"]
            .as_str()
            .unwrap()
            .contains(&address.to_string())
    );
}

/// A missing key does not hide what is wrong with further endpoints.
#[test]
fn every_provider_of_environments_is_asked() {
    let home = Home::empty();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let provider = |name: &str| {
        format!(
            "[[oasis.providers]]\nname = \"{name}\"\nurl = \"http://{address}\"\napi_key_env = \"NOT_SET_{name}\"\n"
        )
    };
    let settings = format!("{}{}", provider("a"), provider("b"));
    std::fs::write(home.config(), settings).unwrap();
    let (code, document) = examined(&home);
    assert_eq!(code, 1);
    for name in ["a", "b"] {
        check(&document, "endpoints", &format!("NOT_SET_{name}"));
        check(
            &document,
            "endpoints",
            &format!("oasis.providers.{name}.url"),
        );
    }
}

#[test]
fn the_archive_is_written_to() {
    let home = Home::empty();
    let folder = home.path("archive");
    let text = format!("[archive]\nurl = \"file://{}\"", folder.display());
    configure(&home, &text);
    let (code, document) = examined(&home);
    let missing = check(&document, "archive", "does not exist");
    assert_eq!((code, &missing["status"]), (1, &json!("failure")));
    applied(&home, missing["remedy"].as_str().unwrap());
    let (code, document) = examined(&home);
    assert_eq!(code, 0, "{document:#}");
    check(&document, "archive", "can be archived");
    assert_eq!(
        std::fs::read_dir(&folder).unwrap().count(),
        0,
        "nothing is left"
    );
}

#[test]
fn an_archive_without_its_access_key_names_the_variable() {
    let home = Home::empty();
    configure(
        &home,
        "[archive]\nurl = \"s3://runs\"\naccess_key_id_env = \"NO_SUCH_VARIABLE\"",
    );
    let (code, document) = examined(&home);
    let missing = check(&document, "archive", "NO_SUCH_VARIABLE");
    assert_eq!((code, &missing["status"]), (1, &json!("failure")));
}
