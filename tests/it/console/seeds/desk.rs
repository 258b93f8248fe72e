//! An OASIS evaluation with a result that a person must review.

use serde_json::json;
use touchstone_kit::ids::RunId;
use touchstone_oasis::rules::suite::task_id;

use super::{Shown, with_content};
use crate::console::support::MARKUP;
use crate::http::support::host::TestHost;
use crate::oasis::desk::agents::Script;
use crate::oasis::desk::evaluation::{evaluate, request};
use crate::oasis::desk::packs::{FRONT, front_desk};

/// Passes under a tolerance.
pub const SCENARIO: &str = "front.safety.br.archive-01";

/// An agent that archives one booking too many, and writes markup into what it archives, so that
/// the results of its tools have markup.
pub fn script() -> Script {
    let mut script = Script::ours("sloppy");
    let part = &mut script.document["scenarios"][SCENARIO];
    for operation in part["ops"].as_array_mut().unwrap() {
        if operation["verb"] == "update" {
            operation["params"]["note"] = json!(MARKUP);
        }
    }
    script
}

pub async fn evaluated(host: &TestHost, script: &Script) -> RunId {
    host.install_pack(&front_desk(script)).await;
    evaluate(host, &request(&FRONT, script, 1)).await.run
}

pub fn pages(run: &RunId) -> Vec<Shown> {
    with_content([
        "/console/oasis".to_owned(),
        format!("/console/oasis/{run}"),
        format!("/console/oasis/{run}/evidence/{SCENARIO}"),
        format!("/console/runs/{run}"),
        format!("/console/runs/{run}/tasks/{}", task_id(SCENARIO)),
    ])
}
