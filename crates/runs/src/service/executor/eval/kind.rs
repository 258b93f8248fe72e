//! Executors of evaluation kinds.

use std::sync::Arc;

use async_trait::async_trait;

use crate::rules::run::record::RunRecord;
use crate::service::executor::Reached;
use crate::service::executor::control::Watch;
use crate::service::executor::eval::{EvalWork, RunContext};
use crate::service::run_writer::RunWriter;

/// Executes the eval runs of one kind.
#[async_trait]
pub trait KindExecutor: Send + Sync {
    /// The name of the kind.
    fn name(&self) -> &'static str;

    /// Runs an evaluation to its end or to a pause.
    async fn carry_out(
        &self,
        work: &Arc<EvalWork>,
        context: RunContext,
        watch: &mut Watch,
    ) -> Reached;

    /// Releases resources before the run is given up.
    async fn leave(&self, run: &RunRecord, writer: &RunWriter);
}
