//! `GET /host/effect-seams`: where this host reaches other systems, and what keeps a replay from
//! doing so again (OpenWOP v2 replay, "The effect-seam manifest").
//!
//! A replay of a run copies the events of its source and executes nothing, so the seams of the
//! executor are guarded by one fact. The others are not reached by runs, or serve the host itself.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;

use axum::http::StatusCode;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;

use touchstone_host::http::answer::{Answer, json};
use touchstone_host::service::fault::internal;
use touchstone_kit::hex::hex;

/// An outbound path of this host.
#[derive(Clone, Copy, Debug)]
pub struct Seam {
    pub name: &'static str,
    /// The mechanism by which the host is left.
    pub kind: &'static str,
    /// What keeps a replay from it.
    pub guarded_by: &'static str,
    /// Whether a branch reaches it again, for the events that it executes itself.
    pub branch_refires: bool,
    pub note: Option<&'static str>,
}

const COPIED: &str = "a replay copies recorded events and executes no task";
const NOT_IN_RUNS: &str = "no run reaches it";

/// All outbound paths. `tests/it/http/majors/seams.rs` compares them with the code.
pub const SEAMS: &[Seam] = &[
    Seam {
        name: "model-endpoint",
        kind: "provider-sdk",
        guarded_by: COPIED,
        branch_refires: true,
        note: Some("Models of agents, judges and simulated users, and embeddings."),
    },
    Seam {
        name: "agent-endpoint",
        kind: "http",
        guarded_by: COPIED,
        branch_refires: true,
        note: Some("Remote agents over A2A and OpenWOP."),
    },
    Seam {
        name: "tool-server",
        kind: "http",
        guarded_by: COPIED,
        branch_refires: true,
        note: Some("Live tools over the Model Context Protocol, in `live-shadow` runs."),
    },
    Seam {
        name: "tool-process",
        kind: "other",
        guarded_by: COPIED,
        branch_refires: true,
        note: Some("The same over the standard input and output of a child process."),
    },
    Seam {
        name: "command",
        kind: "other",
        guarded_by: COPIED,
        branch_refires: true,
        note: Some(
            "Commands that answer for an agent or decide assertions, over the standard input and \
             output of a child process.",
        ),
    },
    Seam {
        name: "oasis-provider",
        kind: "http",
        guarded_by: COPIED,
        branch_refires: true,
        note: Some("Environments of OASIS evaluations."),
    },
    Seam {
        name: "worker-queue",
        kind: "queue",
        guarded_by: COPIED,
        branch_refires: true,
        note: Some(
            "Tasks for workers over NATS. Signals between the replicas of this host use it too; \
             they contain no event.",
        ),
    },
    Seam {
        name: "webhook",
        kind: "webhook-fanout",
        guarded_by: "events of a replay, and copied events of a branch, are not delivered",
        branch_refires: true,
        note: Some(
            "Subscriptions, callbacks of runs, and notifications of ratings and scores, which \
             leave replays out.",
        ),
    },
    Seam {
        name: "archive",
        kind: "storage",
        guarded_by: "runs are archived by retention, not by being executed",
        branch_refires: false,
        note: Some(
            "A folder or an S3-compatible bucket. A replay is archived as a run of its own; the \
             archive of its source is not written again.",
        ),
    },
    Seam {
        name: "telemetry",
        kind: "http",
        guarded_by: "spans of tasks and calls are recorded where they are executed",
        branch_refires: true,
        note: Some("OTLP. A replay has one span, which names its source."),
    },
    Seam {
        name: "agent-card-probe",
        kind: "http",
        guarded_by: NOT_IN_RUNS,
        branch_refires: false,
        note: Some("Requests to the agents of A2A cards."),
    },
    Seam {
        name: "identity-provider",
        kind: "http",
        guarded_by: NOT_IN_RUNS,
        branch_refires: false,
        note: Some("Sign-in with OpenID Connect."),
    },
];

/// SHA-256 of the running program, in lower-case hexadecimal. It takes a while, so it is computed
/// once.
static PROGRAM: OnceCell<String> = OnceCell::const_new();

/// `GET /host/effect-seams`, only under major 2.
pub async fn get() -> Answer {
    let program = PROGRAM.get_or_try_init(|| async {
        let digest = tokio::task::spawn_blocking(digest_of_program).await;
        digest
            .map_err(|cause| internal(&cause))?
            .map_err(|cause| internal(&cause))
    });
    json(StatusCode::OK, &manifest(program.await?))
}

fn manifest(program: &str) -> Value {
    let seams: Vec<Value> = SEAMS.iter().map(row).collect();
    json!({
        "manifestVersion": "1",
        "host": {
            "name": "touchstone",
            "version": env!("CARGO_PKG_VERSION"),
            "build": {"kind": "artifact-sha256", "id": program},
        },
        "seams": seams,
    })
}

fn row(seam: &Seam) -> Value {
    json!({
        "seam": seam.name,
        "kind": seam.kind,
        "guarded": true,
        "guardedBy": seam.guarded_by,
        "branchReFires": seam.branch_refires,
        "note": seam.note,
    })
}

fn digest_of_program() -> io::Result<String> {
    let mut program = File::open(path_of_program()?)?;
    let (mut hash, mut part) = (Sha256::new(), vec![0; 64 * 1024]);
    loop {
        match program.read(&mut part)? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(part.get(..read).unwrap_or_default()),
        }
    }
}

/// On Linux, the program that runs, even if its file was replaced by an upgrade.
fn path_of_program() -> io::Result<PathBuf> {
    match cfg!(target_os = "linux") {
        true => Ok(PathBuf::from("/proc/self/exe")),
        false => std::env::current_exe(),
    }
}
