//! The page of a run while it runs: one task folds and renders for everybody who watches the run.

pub mod frame;
pub mod hub;
mod stream;
pub mod view;

use crate::routes::Pages;
use touchstone_host::access::Scope;

pub fn routes(pages: Pages) -> Pages {
    pages.stream(
        "/console/runs/{runId}/live",
        Scope::RunsRead,
        stream::stream,
    )
}
