//! `GET /host/effect-seams`: the manifest, and the outbound paths of the code.

use std::collections::BTreeSet;
use std::path::Path;

use axum::http::Method;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use touchstone::http::seams::SEAMS;
use touchstone_host::access::Scope;
use touchstone_kit::hex::hex;

use crate::architecture::{crates, production, sources};
use crate::http::majors::{both, under_v2};

const PATH: &str = "/host/effect-seams";

/// The files that leave the host, and the seams that they are.
const WAYS_OUT: &[(&str, &[&str])] = &[
    ("crates/agent-cards/src/prober.rs", &["agent-card-probe"]),
    ("crates/agents/src/line_process.rs", &["command"]),
    (
        "crates/agents/src/model/endpoint/mod.rs",
        &["model-endpoint", "agent-endpoint"],
    ),
    ("crates/agents/src/tools/child.rs", &["tool-process"]),
    ("crates/agents/src/tools/server.rs", &["tool-server"]),
    ("crates/cluster/src/nats/mod.rs", &["worker-queue"]),
    (
        "crates/console/src/session/oidc/transport.rs",
        &["identity-provider"],
    ),
    ("crates/host/src/objects/mod.rs", &["archive"]),
    ("crates/host/src/otlp/sender.rs", &["telemetry"]),
    ("crates/oasis/src/net/connection.rs", &["oasis-provider"]),
    ("crates/runs/src/webhook_client.rs", &["webhook"]),
];

/// How code leaves the host: the guarded client, other clients, processes, folders outside of the data.
const MARKS: &[&str] = &[
    "Policy::model(",
    "Policy::registry(",
    "Policy::storage(",
    "Policy::webhook(",
    "Policy::probe(",
    "Policy::public(",
    "TcpStream::connect",
    "UdpSocket",
    "UnixStream",
    "async_nats::",
    "lettre::",
    "LocalFileSystem::new",
    "std::process::Command",
    "std::process::{Child",
    "tokio::process::",
];

/// Files that cannot be a way out of a host: the client itself, and other files of a way out above.
const OTHERS: &[&str] = &["crates/host/src/net/", "crates/cluster/src/nats/"];

fn ways_out() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeSet::new();
    for file in crates().iter().flat_map(|folder| sources(folder)) {
        let path = file.strip_prefix(root).unwrap().to_str().unwrap();
        let listed = WAYS_OUT.iter().any(|(of, _)| *of == path);
        // Commands are not part of a host.
        let is_command = path.contains("/cli/") || path.contains("/tests/");
        let is_other = OTHERS.iter().any(|folder| path.starts_with(folder));
        if is_command || (is_other && !listed) {
            continue;
        }
        let text = production(&file);
        let lines = text.lines();
        let mut code = lines.filter(|line| !line.trim_start().starts_with("//"));
        if code.any(|line| MARKS.iter().any(|mark| line.contains(mark))) {
            found.insert(path.to_owned());
        }
    }
    found
}

#[test]
fn every_way_out_of_the_host_is_a_seam() {
    let listed = WAYS_OUT.iter().map(|(path, _)| (*path).to_owned());
    assert_eq!(ways_out(), listed.collect());
    let of_code: BTreeSet<&str> = WAYS_OUT
        .iter()
        .flat_map(|(_, seams)| *seams)
        .copied()
        .collect();
    let of_manifest: BTreeSet<&str> = SEAMS.iter().map(|seam| seam.name).collect();
    assert_eq!(of_manifest, of_code);
    assert_eq!(SEAMS.len(), of_manifest.len(), "a seam is listed once");
}

#[tokio::test]
async fn the_manifest_lists_the_seams_and_names_the_program() {
    let host = both().await;
    let key = host.key_with(&[Scope::ManifestRead]).await;
    let reply = under_v2(&host, "GET", PATH).key(&key).send().await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text());
    assert_eq!(reply.header("openwop-version"), Some("2.0"));
    let manifest = reply.json();
    let members: Vec<&String> = manifest.as_object().unwrap().keys().collect();
    assert_eq!(members, ["host", "manifestVersion", "seams"]);
    assert_eq!(manifest["manifestVersion"], "1");
    assert_eq!(manifest["host"]["name"], "touchstone");
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let build = &manifest["host"]["build"];
    assert_eq!(build["kind"], "artifact-sha256");
    assert_eq!(build["id"], hex(&Sha256::digest(&program)));

    let seams = manifest["seams"].as_array().unwrap();
    assert_eq!(seams.len(), SEAMS.len());
    let kinds = [
        "http",
        "smtp",
        "queue",
        "storage",
        "provider-sdk",
        "webhook-fanout",
        "other",
    ];
    let has_text = |value: &Value| value.as_str().is_some_and(|it| !it.is_empty());
    for seam in seams {
        assert!(kinds.contains(&seam["kind"].as_str().unwrap()), "{seam}");
        assert_eq!(seam["guarded"], true);
        assert!(has_text(&seam["seam"]) && has_text(&seam["guardedBy"]));
        assert!(seam["branchReFires"].is_boolean());
        assert!(seam["kind"] != "other" || has_text(&seam["note"]), "{seam}");
    }
}

#[tokio::test]
async fn only_major_2_has_the_manifest_and_its_scope_is_needed() {
    let host = both().await;
    for (path, version) in [(PATH, "1.0"), ("/v1/host/effect-seams", "1.0")] {
        let call = host.request(Method::GET, path);
        let reply = call.header("openwop-version", version).send().await;
        let found = (reply.status.as_u16(), reply.code());
        assert_eq!(found, (404, "not_found".to_owned()), "{path}");
    }
    let reader = host.key_with(&[Scope::RunsRead]).await;
    let reply = under_v2(&host, "GET", PATH).key(&reader).send().await;
    assert_eq!(reply.status.as_u16(), 403);
}
