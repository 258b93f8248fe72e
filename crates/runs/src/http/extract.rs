//! Extractors of the run that a path names.

use std::sync::Arc;

use axum::Extension;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::rules::run::record::RunRecord;
use crate::service::runs::Runs;
use touchstone_host::http::answer::Failure;
use touchstone_host::http::extract::{is_run_id, no_such_run, path_parameter};
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::ids::RunId;

/// The run id in the path.
pub struct RunPath(pub RunId);

impl<S: Send + Sync> FromRequestParts<S> for RunPath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let id = path_parameter(parts, state, "runId").await;
        id.filter(|id| is_run_id(id))
            .map(|id| Self(id.into()))
            .ok_or_else(|| no_such_run().into())
    }
}

/// The run in the path; it exists and belongs to the caller's tenant.
pub struct OwnRun(pub Arc<RunRecord>);

impl<S: AsRef<Runs> + Send + Sync> FromRequestParts<Arc<S>> for OwnRun {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<S>) -> Result<Self, Failure> {
        let RunPath(run) = RunPath::from_request_parts(parts, state).await?;
        let caller = Extension::<Caller>::from_request_parts(parts, state).await;
        let caller = caller.map_err(|cause| internal(&cause))?;
        Ok(Self(
            AsRef::<Runs>::as_ref(state.as_ref())
                .record(&caller.tenant, &run)
                .await?,
        ))
    }
}
