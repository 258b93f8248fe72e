//! Archives in a bucket of an S3-compatible service.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use futures_util::StreamExt as _;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use touchstone_host::http::HttpSettings;
use touchstone_host::objects::settings::{AccessKey, Bucket};
use touchstone_host::objects::{ObjectError, ObjectStorage};
use touchstone_runs::rules::archive::reader::read;
use touchstone_runs::storage::Retention;

use crate::client::python;
use crate::http::support::host::{Lab, TestHost, says};

/// A service with the bucket `runs`. It ends with this value.
struct Service {
    child: Child,
    port: u16,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Service {
    /// `None`, with a printed note, without the Python packages of the tests.
    async fn start() -> Option<Self> {
        let python = python("moto")?;
        let mut child = Command::new(python)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/s3.py"))
            .env("AWS_ACCESS_KEY_ID", "id")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let port = line.trim().parse().unwrap();
        Some(Self { child, port })
    }

    fn bucket(&self, name: &str) -> Bucket {
        Bucket {
            name: name.to_owned(),
            prefix: "prod/eu".to_owned(),
            endpoint: Some(format!("http://127.0.0.1:{}", self.port).parse().unwrap()),
            region: "us-east-1".to_owned(),
        }
    }

    fn storage(&self, name: &str) -> ObjectStorage {
        ObjectStorage::bucket(&self.bucket(name), &key()).unwrap()
    }
}

fn key() -> AccessKey {
    AccessKey {
        id: "id".into(),
        secret: "secret".into(),
        session_token: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_stores_what_was_written_and_lists_it() {
    let Some(service) = Service::start().await else {
        return;
    };
    let storage = service.storage("runs");
    storage.check().await.unwrap();
    for size in [10, 20 << 20] {
        let name = ["acme inc", "2026", "run_1.gz"];
        let content: Vec<u8> = (0..size).map(|at: usize| (at % 251) as u8).collect();
        let mut upload = storage.write(&name, "application/gzip").unwrap();
        for part in content.chunks(1 << 20) {
            upload.add(part.to_vec()).await.unwrap();
        }
        let written = upload.finish().await.unwrap();
        assert_eq!(storage.stored(&name).await.unwrap(), written);
        let listed: Vec<_> = storage.list(&["acme inc"]).unwrap().collect().await;
        let [Ok(entry)] = listed.as_slice() else {
            panic!("{listed:?}")
        };
        assert_eq!(entry.bytes, content.len() as u64);
        let mut copy = Vec::new();
        storage
            .copy_to(&entry.name, u64::MAX, &mut copy)
            .await
            .unwrap();
        assert!(copy == content, "the copy differs");
    }
    let missing = storage.stored(&["acme", "none"]).await;
    assert_eq!(missing, Err(ObjectError::NotFound));
    let no_bucket = service.storage("other").check().await;
    assert_eq!(
        no_bucket,
        Err(ObjectError::Service("NoSuchBucket".to_owned()))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retention_archives_in_a_bucket_and_keeps_runs_while_it_does_not_answer() {
    let Some(service) = Service::start().await else {
        return;
    };
    let storage = service.storage("runs");
    let lab = Lab {
        retention: Retention {
            runs_days: 30,
            ..Retention::default()
        },
        archive: Some(storage.clone()),
        ..Lab::default()
    };
    let host = TestHost::with_lab(HttpSettings::default(), lab).await;
    host.equip(&says(&["a"])).await;
    host.work();
    let run = host.create().await;
    host.ended(&run).await;
    host.clock.ahead(31);
    let shutdown = CancellationToken::new();
    assert_eq!(host.retention.sweep(&shutdown).await.unwrap(), 1);
    let listed: Vec<_> = storage.list(&["acme"]).unwrap().collect().await;
    let [Ok(entry)] = listed.as_slice() else {
        panic!("{listed:?}")
    };
    let mut file = Vec::new();
    storage
        .copy_to(&entry.name, u64::MAX, &mut file)
        .await
        .unwrap();
    let archive = read(file.as_slice(), None, |_, _| {}).unwrap();
    assert_eq!(archive.manifest.run_id, run);

    host.clock.ahead(0);
    let kept = host.create().await;
    host.ended(&kept).await;
    drop(service);
    host.clock.ahead(31);
    assert_eq!(host.retention.sweep(&shutdown).await.unwrap(), 0);
    let refused = host
        .post(
            &format!("/v1/host/touchstone/runs/{kept}:archive"),
            &json!({}),
        )
        .await;
    assert_eq!(refused.code(), "unavailable");
}

#[tokio::test]
async fn only_an_endpoint_that_the_operator_named_may_be_private() {
    let bucket = |endpoint: &str| Bucket {
        name: "runs".to_owned(),
        prefix: String::new(),
        endpoint: Some(endpoint.parse().unwrap()),
        region: "us-east-1".to_owned(),
    };
    // A name that leads to no allowed address is refused by the guarded client.
    let storage = ObjectStorage::bucket(&bucket("http://storage.invalid"), &key()).unwrap();
    let found = storage.stored(&["a"]).await;
    assert!(matches!(found, Err(ObjectError::Net(_))), "{found:?}");
}
