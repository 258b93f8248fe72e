//! Archives of runs: retention, requests, and what remains readable.

mod s3;

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use axum::http::{Method, StatusCode};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use rstest::rstest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use touchstone::kinds::KINDS;
use touchstone_host::access::Scope;
use touchstone_host::http::HttpSettings;
use touchstone_host::objects::ObjectStorage;
use touchstone_kit::ids::RunId;
use touchstone_kit::keys::{PublicKey, SecretKey};
use touchstone_runs::rules::archive::reader::{ArchiveFault, read};
use touchstone_runs::rules::archive::view::ArchivedRun;
use touchstone_runs::storage::{ContentRetention, Retention};

use crate::http::support::host::{Lab, SIGNING_KEY, TestHost, create_body, public_place, says};
use crate::store::{Engine, Engine::*, TestStore};

fn key() -> PublicKey {
    SecretKey::from_random(SIGNING_KEY).public()
}

/// A host that archives in `folder`, with a retention of 30 days.
async fn host(database: &TestStore, folder: &Path, content: ContentRetention) -> TestHost {
    let lab = Lab {
        retention: Retention {
            runs_days: 30,
            ..Retention::default()
        },
        content,
        archive: Some(ObjectStorage::folder(folder.to_owned()).unwrap()),
        ..Lab::default()
    };
    let host = TestHost::lab(
        database.open().await,
        HttpSettings::default(),
        public_place(),
        lab,
    );
    host.await
}

/// The files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

async fn audited(host: &TestHost, action: &str) -> Vec<String> {
    let entries = host.store.audit_entries(&"acme".into(), 0, 100).await;
    let bodies = entries.unwrap().into_iter().map(|entry| entry.body);
    bodies.filter(|body| body.contains(action)).collect()
}

async fn sweep(host: &TestHost) -> u64 {
    host.retention
        .sweep(&CancellationToken::new())
        .await
        .unwrap()
}

/// An annotated and tagged run that has ended.
async fn ended(host: &TestHost) -> RunId {
    let mut body = create_body();
    body["metadata"] = json!({"note": "canary-metadata"});
    let created = host.post("/v1/runs", &body).await.json();
    let run: RunId = created["runId"].as_str().unwrap().into();
    host.ended(&run).await;
    let noted = json!({"signal": {"kind": "flag"}, "note": "odd"});
    let annotated = host
        .post(&format!("/v1/runs/{run}/annotations"), &noted)
        .await;
    assert!(annotated.status.is_success(), "{annotated:?}");
    run
}

async fn report(host: &TestHost, run: &RunId) -> Value {
    let answer = host
        .get(&format!("/v1/host/touchstone/runs/{run}/report"))
        .await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    answer.json()
}

fn archived(file: &Path) -> ArchivedRun {
    let bytes = std::fs::read(file).unwrap();
    ArchivedRun::read(bytes.as_slice(), Some(&key()), |_| {}).unwrap()
}

#[rstest]
#[tokio::test]
async fn retention_archives_a_run_and_deletes_it(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(database) = engine.database().await else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let host = host(&database, folder.path(), ContentRetention::Always).await;
    host.equip(&says(&["a", "wrong"])).await;
    host.work();
    let (run, held) = (ended(&host).await, ended(&host).await);
    let hold = format!("/v1/host/touchstone/runs/{held}:hold");
    host.post(&hold, &json!({"reason": "case 17"})).await;
    let before = report(&host, &run).await;
    assert_eq!(sweep(&host).await, 0);
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new());

    host.clock.ahead(31);
    assert_eq!(sweep(&host).await, 1);
    host.clock.ahead(0);
    let status = async |run: &RunId| host.get(&format!("/v1/runs/{run}")).await.status;
    assert_eq!(status(&run).await, StatusCode::NOT_FOUND);
    assert_eq!(status(&held).await, StatusCode::OK);
    let [file] = files(folder.path()).try_into().unwrap();
    let name = file
        .strip_prefix(folder.path())
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let parts: Vec<&str> = name.split('/').collect();
    assert_eq!((parts.len(), parts[0]), (5, "acme"));
    assert_eq!(parts[4], format!("{run}.run.jsonl.gz"));

    let found = archived(&file);
    let shown = serde_json::to_value(found.report(KINDS).unwrap()).unwrap();
    assert_eq!(
        shown, before,
        "the archive gives the report that the host gave"
    );
    assert_eq!(found.archive.manifest.status, "completed");
    for action in ["runs:archive", "runs:delete"] {
        let [entry] = audited(&host, action).await.try_into().unwrap();
        assert!(
            entry.contains("host:retention") && entry.contains(&name),
            "{entry}"
        );
    }
}

#[rstest]
#[tokio::test]
async fn nothing_is_deleted_while_the_archive_cannot_be_written(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("mount");
    let host = host(&database, &place, ContentRetention::Always).await;
    host.equip(&says(&["a"])).await;
    host.work();
    let runs = [ended(&host).await, ended(&host).await];
    host.clock.ahead(31);
    assert_eq!(sweep(&host).await, 0);
    host.clock.ahead(0);
    for run in &runs {
        let status = host.get(&format!("/v1/runs/{run}")).await.status;
        assert_eq!(status, StatusCode::OK);
    }
    assert_eq!(audited(&host, "runs:archive").await, Vec::<String>::new());
    let refused = host
        .post(
            &format!("/v1/host/touchstone/runs/{}:archive", runs[0]),
            &json!({}),
        )
        .await;
    assert_eq!(
        (refused.status, refused.code()),
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable".to_owned())
    );

    // The next round succeeds.
    std::fs::create_dir(&place).unwrap();
    host.clock.ahead(31);
    assert_eq!(sweep(&host).await, 2);
    assert_eq!(files(&place).len(), 2);
}

#[rstest]
#[tokio::test]
async fn a_run_that_was_archived_before_a_crash_gives_the_same_file_again(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let host = host(&database, folder.path(), ContentRetention::Always).await;
    host.equip(&says(&["a"])).await;
    host.work();
    let run = ended(&host).await;
    // Archived, and not deleted, as by a host that stopped in between.
    let path = format!("/v1/host/touchstone/runs/{run}:archive");
    let answer = host.post(&path, &json!({})).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    let [file] = files(folder.path()).try_into().unwrap();
    let first = std::fs::read(&file).unwrap();
    assert_eq!(answer.json()["archive"]["bytes"], first.len());
    host.clock.ahead(31);
    assert_eq!(sweep(&host).await, 1);
    assert_eq!(files(folder.path()), std::slice::from_ref(&file));
    assert!(std::fs::read(&file).unwrap() == first, "the bytes differ");
    assert_eq!(audited(&host, "runs:archive").await.len(), 2);
}

#[rstest]
#[tokio::test]
async fn replicas_that_sweep_at_once_archive_and_delete_every_run(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let one = host(&database, folder.path(), ContentRetention::Always).await;
    let two = host(&database, folder.path(), ContentRetention::Always).await;
    one.equip(&says(&["a"])).await;
    one.work();
    for _ in 0..4 {
        ended(&one).await;
    }
    one.clock.ahead(31);
    two.clock.ahead(31);
    let (first, second) = tokio::join!(sweep(&one), sweep(&two));
    assert_eq!(first + second, 4);
    let files = files(folder.path());
    assert_eq!(files.len(), 4);
    for file in &files {
        archived(file);
    }
}

#[tokio::test]
async fn deleted_content_is_not_in_the_archive() {
    let database = Sqlite.database().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let host = host(&database, folder.path(), ContentRetention::Days(20)).await;
    host.equip(&says(&["canary-answer"])).await;
    host.work();
    ended(&host).await;
    let text = |file: &Path| {
        let mut text = String::new();
        let bytes = std::fs::read(file).unwrap();
        GzDecoder::new(bytes.as_slice())
            .read_to_string(&mut text)
            .unwrap();
        text
    };
    // The content is due at the same time as the run, and is deleted first.
    host.clock.ahead(31);
    assert_eq!(sweep(&host).await, 1);
    let [file] = files(folder.path()).try_into().unwrap();
    let text = text(&file);
    assert!(text.contains("[REDACTED]") && !text.contains("canary-answer"));
    archived(&file);
}

#[tokio::test]
async fn only_ended_runs_of_the_tenant_are_archived_on_request() {
    let database = Sqlite.database().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let host = host(&database, folder.path(), ContentRetention::Always).await;
    host.equip(&says(&["a"])).await;
    let run = host.create().await;
    let path = format!("/v1/host/touchstone/runs/{run}:archive");
    assert_eq!(
        host.post(&path, &json!({})).await.status,
        StatusCode::CONFLICT
    );
    let other = host
        .request(Method::POST, &path)
        .key(&host.other_key)
        .json(&json!({}));
    assert_eq!(other.send().await.status, StatusCode::NOT_FOUND);
    let reader = host.key_with(&[Scope::RunsRead]).await;
    let reader = host
        .request(Method::POST, &path)
        .key(&reader)
        .json(&json!({}));
    assert_eq!(reader.send().await.status, StatusCode::FORBIDDEN);
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new());

    let without = TestHost::working(&says(&["a"])).await;
    let run = without.create().await;
    let path = format!("/v1/host/touchstone/runs/{run}:archive");
    let refused = without.post(&path, &json!({})).await;
    assert_eq!(refused.code(), "capability_not_provided");
}

/// The lines of an archive, changed and compressed again.
fn with_lines(bytes: &[u8], change: impl FnOnce(&mut Vec<String>)) -> Vec<u8> {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    let mut lines: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
    change(&mut lines);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(lines.concat().as_bytes()).unwrap();
    gzip.finish().unwrap()
}

#[tokio::test]
async fn every_change_of_an_archive_is_found_and_named() {
    let database = Sqlite.database().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let host = host(&database, folder.path(), ContentRetention::Always).await;
    host.equip(&says(&["a"])).await;
    host.work();
    let (run, other) = (ended(&host).await, ended(&host).await);
    let mut archives = Vec::new();
    for run in [&run, &other] {
        let path = format!("/v1/host/touchstone/runs/{run}:archive");
        let answer = host.post(&path, &json!({})).await.json();
        let name = answer["archive"]["object"].as_str().unwrap();
        archives.push(std::fs::read(folder.path().join(name)).unwrap());
    }
    let [bytes, other] = archives.try_into().unwrap();
    let mut signature_of_other = String::new();
    with_lines(&other, |lines| signature_of_other = lines.pop().unwrap());
    let fault = |bytes: &[u8]| read(bytes, Some(&key()), |_, _| {}).unwrap_err();
    let changed = |change: &dyn Fn(&mut Vec<String>)| fault(&with_lines(&bytes, change));

    assert_eq!(
        changed(&|lines| lines[1] = lines[1].replace("canary-metadata", "something-else!")),
        ArchiveFault::Digest("the run's record")
    );
    assert_eq!(
        changed(&|lines| lines[2] =
            lines[2].replacen("\"engineVersion\":\"", "\"engineVersion\":\"9", 1)),
        ArchiveFault::Digest("the run's log")
    );
    assert_eq!(
        changed(&|lines| lines[0] = lines[0].replacen(',', ", ", 1)),
        ArchiveFault::Digest("the archive")
    );
    assert_eq!(
        changed(&|lines| drop(lines.remove(4))),
        ArchiveFault::Sequence { after: 2, found: 4 }
    );
    assert_eq!(
        changed(&|lines| drop(lines.remove(lines.len() - 2))),
        ArchiveFault::Contradiction("events")
    );
    assert_eq!(
        changed(&|lines| drop(lines.pop())),
        ArchiveFault::NoSignature
    );
    assert_eq!(
        changed(&|lines| *lines.last_mut().unwrap() = signature_of_other.clone()),
        ArchiveFault::Contradiction("runId")
    );
    assert!(matches!(
        changed(&|lines| *lines.last_mut().unwrap() =
            lines
                .last()
                .unwrap()
                .replacen("\"payload\":\"e", "\"payload\":\"f", 1)),
        ArchiveFault::Unverified(_)
    ));
    assert_eq!(
        changed(&|lines| lines.push("{}\n".to_owned())),
        ArchiveFault::FurtherData
    );
    assert_eq!(
        changed(&|lines| lines[0] = lines[0].replace("\"version\":1", "\"version\":2")),
        ArchiveFault::Version(2)
    );
    assert_eq!(
        changed(&|lines| lines[0].insert(1, 'x')),
        ArchiveFault::NotAnArchive
    );

    assert_eq!(fault(&bytes[..bytes.len() / 2]), ArchiveFault::Truncated);
    assert_eq!(fault(&bytes[..bytes.len() - 1]), ArchiveFault::Truncated);
    assert_eq!(
        fault(&[bytes.as_slice(), b"x"].concat()),
        ArchiveFault::FurtherData
    );
    assert_eq!(fault(b"{}\n"), ArchiveFault::NotAnArchive);
    assert_eq!(fault(b""), ArchiveFault::NotAnArchive);
    let wrong = SecretKey::from_random([0x5a; 32]).public();
    let found = read(bytes.as_slice(), Some(&wrong), |_, _| {});
    assert!(matches!(found, Err(ArchiveFault::Unverified(_))));
    // Any flipped bit. The bits that fill up the last byte of the compression change nothing.
    let content = |bytes: &[u8]| {
        let mut content = Vec::new();
        GzDecoder::new(bytes)
            .read_to_end(&mut content)
            .map(|_| content)
    };
    let whole = content(&bytes).unwrap();
    for at in (10..bytes.len())
        .step_by(97)
        .chain(bytes.len() - 10..bytes.len())
    {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x10;
        let unchanged = content(&flipped).is_ok_and(|content| content == whole);
        assert_eq!(
            read(flipped.as_slice(), Some(&key()), |_, _| {}).is_ok(),
            unchanged,
            "byte {at}"
        );
    }
    read(bytes.as_slice(), Some(&key()), |_, _| {}).unwrap();
}
