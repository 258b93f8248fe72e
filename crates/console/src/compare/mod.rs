//! Two runs side by side, scores over time, flaky tasks and judges.

mod chart;
mod differences;
mod flaky;
mod history;
mod judges;
mod lines;
mod matrix;
mod pair;
mod releases;
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
        .page(
            "/console/suites/{suiteId}/flaky",
            Scope::RunsRead,
            flaky::page,
        )
        .page("/console/judges", Scope::RunsRead, judges::page)
}
