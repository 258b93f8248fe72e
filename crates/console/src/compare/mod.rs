//! Two runs side by side, and scores over time.

mod chart;
mod history;
mod pair;
mod runs;
mod task;

use crate::routes::Pages;
use touchstone_host::access::Scope;

pub fn routes(pages: Pages) -> Pages {
    pages
        .page("/console/compare", Scope::RunsRead, runs::page)
        .page(
            "/console/compare/tasks/{taskId}",
            Scope::RunsContent,
            task::page,
        )
        .page("/console/history", Scope::RunsRead, history::page)
}
