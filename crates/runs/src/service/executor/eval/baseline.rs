//! The answers of a baseline run, read from its log.

use std::collections::HashMap;

use serde_json::Value;

use crate::ports::storage::ContentKept;
use crate::store;
use touchstone_host::ports::run_log::reaches_end;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_openwop::events::{Event, EventDocument};

const PAGE: u32 = 1024;

/// The answers that a run's answers are compared with.
#[derive(Debug)]
pub(super) enum BaselineAnswers {
    /// By task. A task whose agent gave no answer is absent.
    Kept(HashMap<TaskId, Value>),
    /// The content of the baseline run was deleted after this run was created.
    Deleted,
}

/// Reads the answers to these tasks.
///
/// # Errors
/// The store failed.
pub(super) async fn answers(
    store: &Database,
    run: &RunId,
    is_needed: impl Fn(&TaskId) -> bool,
) -> Result<BaselineAnswers, StoreError> {
    if store::storage::content_kept(store, run).await? != Some(ContentKept::All) {
        return Ok(BaselineAnswers::Deleted);
    }
    let mut answers = HashMap::new();
    let mut after = 0;
    loop {
        let page = store::runs::read(store, run, after, PAGE).await?;
        for stored in &page {
            after = stored.sequence;
            let Ok(document) = EventDocument::read(&stored.body) else {
                continue;
            };
            let Some(task) = document.node_id.clone().filter(|task| is_needed(task)) else {
                continue;
            };
            match document.event() {
                // An attempt that was cut off does not count.
                Ok(Some(Event::AgentInvocationStarted(started))) if !started.is_of_worker() => {
                    answers.remove(&task);
                }
                Ok(Some(Event::AgentDecided(decided))) => {
                    answers.insert(task, decided.decision);
                }
                _ => {}
            }
        }
        if reaches_end(&page, PAGE) {
            return Ok(BaselineAnswers::Kept(answers));
        }
    }
}
