//! Executors of evaluation kinds.

use std::sync::Arc;

use async_trait::async_trait;

use crate::rules::run::record::RunRecord;
use crate::service::executor::WorkEnd;
use crate::service::executor::control::RunSignals;
use crate::service::executor::eval::EvalExecutor;
use crate::service::executor::eval::context::RunContext;
use crate::service::run_writer::RunWriter;

/// Executes the eval runs of one kind.
#[async_trait]
pub trait KindExecutor: Send + Sync {
    /// The name of the kind.
    fn name(&self) -> &'static str;

    /// Runs an evaluation to its end or to a pause.
    async fn execute(
        &self,
        executor: &Arc<EvalExecutor>,
        context: RunContext,
        signals: &mut RunSignals,
    ) -> WorkEnd;

    /// Releases resources before the run is given up.
    async fn release(&self, run: &RunRecord, writer: &RunWriter);
}
