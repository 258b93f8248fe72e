//! What the fuzz targets and their seeds share.

use jiff::Timestamp;
use serde_json::Map;
use touchstone::domain::ids::TaskId;
use touchstone::domain::run::record::{BudgetSpec, EvalSpec, RunRecord, RunSpec};
use touchstone::protocol::openwop::suite::{EvalMode, ModelClass};

/// Length of the log that `last_event_id` reads.
pub const EVENTS: u64 = 40;

/// The id of one of its events.
pub fn event_id(sequence: u64) -> String {
    format!("evt_0199c0de-{sequence:04}")
}

/// The run it belongs to.
pub fn run_record() -> RunRecord {
    RunRecord {
        run_id: "run_fuzz".into(),
        tenant: "fuzz".into(),
        principal: "key_1".to_owned(),
        created_at: Timestamp::UNIX_EPOCH,
        spec: RunSpec {
            workflow_id: "eval:suite@1.0.0".to_owned(),
            eval: EvalSpec {
                suite_id: "suite".to_owned(),
                suite_version: "1.0.0".to_owned(),
                suite_digest: "sha256-suite".to_owned(),
                suite_signed: false,
                suite_task_count: 1,
                agent_id: "pack.agent".into(),
                agent_version: "1.0.0".to_owned(),
                pack_integrity: "sha256-pack".to_owned(),
                model_class: ModelClass::General,
                modes: vec![EvalMode::Golden],
                tasks: vec![TaskId::from("one".to_owned())],
                baseline: None,
                ignore: Vec::new(),
                concurrency: 1,
                temperature: None,
                max_tokens: None,
                cost_ceiling: None,
                budget: BudgetSpec::default(),
                run_timeout_ms: 1_000,
                retry_of: None,
            },
            configurable: Map::new(),
            inputs: Map::new(),
            tags: Vec::new(),
            metadata: Map::new(),
        },
    }
}
