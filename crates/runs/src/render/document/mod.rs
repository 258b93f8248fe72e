//! Documents about a run that are written while its tasks are read, page by page, so that their
//! memory does not depend on the number of tasks.

pub mod json;
pub mod list;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use crate::render::words::rows;
use crate::rules::eval::report::{EvalReport, TaskReport};
use touchstone_openwop::summary::TaskSummary;

/// A scored task: its numbers, and its reasons.
pub type TaskRow = (TaskSummary, TaskReport);

/// The output of a document.
pub type Out<'a> = dyn Write + Send + 'a;

/// Tasks of a page of a report in memory.
const PAGE: usize = 1000;

/// What a document needs after the last task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// All tasks once more.
    Again,
    /// Nothing; it is complete.
    Done,
}

/// A document that is written page by page.
pub trait RunDocument: Send {
    /// Writes what precedes the tasks.
    ///
    /// # Errors
    /// Writing failed.
    fn begin(&mut self, out: &mut Out<'_>) -> io::Result<()>;

    /// Takes the next tasks in suite order.
    ///
    /// # Errors
    /// Writing failed.
    fn add(&mut self, tasks: &[TaskRow], out: &mut Out<'_>) -> io::Result<()>;

    /// Writes what follows the tasks.
    ///
    /// # Errors
    /// Writing failed.
    fn end(&mut self, out: &mut Out<'_>) -> io::Result<Next>;
}

/// The text of a document about a report in memory.
///
/// # Errors
/// The document cannot be written.
pub fn written(document: &mut dyn RunDocument, report: &EvalReport) -> io::Result<String> {
    paged(document, report, PAGE)
}

/// The same with pages of `page` tasks.
fn paged(document: &mut dyn RunDocument, report: &EvalReport, page: usize) -> io::Result<String> {
    let mut text = Vec::new();
    document.begin(&mut text)?;
    loop {
        let mut tasks = rows(report).map(|(numbers, task)| (numbers.clone(), task.clone()));
        loop {
            let page: Vec<TaskRow> = tasks.by_ref().take(page).collect();
            if page.is_empty() {
                break;
            }
            document.add(&page, &mut text)?;
        }
        if document.end(&mut text)? == Next::Done {
            break;
        }
    }
    String::from_utf8(text).map_err(io::Error::other)
}
