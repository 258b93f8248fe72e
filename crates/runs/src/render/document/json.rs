//! The report as JSON, with both lists of its tasks.

use std::io;

use serde::Serialize;

use super::list::{JsonForm, JsonList};
use super::{Next, Out, RunDocument, TaskRow};
use crate::rules::eval::report::RunTotals;

/// The report as JSON. Reads the tasks twice: for the scorecard, and for their reasons.
#[derive(Debug)]
pub struct ReportJson {
    /// The text between the lists.
    parts: [String; 3],
    lists: [JsonList; 2],
    is_second: bool,
}

/// A report with further members.
#[derive(Serialize)]
struct Extended<'a, T> {
    #[serde(flatten)]
    report: &'a RunTotals,
    #[serde(flatten)]
    other: T,
}

impl ReportJson {
    /// # Errors
    /// The report does not serialize.
    pub fn new(totals: &RunTotals, form: JsonForm) -> serde_json::Result<Self> {
        Self::of(&whole(totals), form)
    }

    /// The members of `other` follow those of the report.
    ///
    /// # Errors
    /// The report or `other` does not serialize.
    pub fn extended(
        totals: &RunTotals,
        other: &impl Serialize,
        form: JsonForm,
    ) -> serde_json::Result<Self> {
        let report = &whole(totals);
        Self::of(&Extended { report, other }, form)
    }

    fn of(report: &impl Serialize, form: JsonForm) -> serde_json::Result<Self> {
        let text = form.text(report)?;
        // A quotation mark within a string is escaped, so these are members. The first two are the
        // lists of the report; members of kinds follow them.
        let empty = form.empty_list("tasks");
        let mut parts = text.splitn(3, &empty).map(str::to_owned);
        let mut part = || parts.next().unwrap_or_default();
        let name = empty.trim_end_matches("[]");
        Ok(Self {
            parts: [part() + name, part() + name, part()],
            lists: [JsonList::new(form, 4), JsonList::new(form, 2)],
            is_second: false,
        })
    }
}

/// A report with its tasks has no totals of them.
fn whole(totals: &RunTotals) -> RunTotals {
    RunTotals {
        task_totals: None,
        ..totals.clone()
    }
}

impl RunDocument for ReportJson {
    fn begin(&mut self, out: &mut Out<'_>) -> io::Result<()> {
        let [before, _, _] = &self.parts;
        out.write_all(before.as_bytes())
    }

    fn add(&mut self, tasks: &[TaskRow], out: &mut Out<'_>) -> io::Result<()> {
        let [summary, reasons] = &mut self.lists;
        for (numbers, task) in tasks {
            match self.is_second {
                false => summary.add(numbers, out)?,
                true => reasons.add(task, out)?,
            }
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Out<'_>) -> io::Result<Next> {
        let [_, between, after] = &self.parts;
        let [summary, reasons] = &self.lists;
        if self.is_second {
            reasons.end(out)?;
            out.write_all(after.as_bytes())?;
            return Ok(Next::Done);
        }
        self.is_second = true;
        summary.end(out)?;
        out.write_all(between.as_bytes())?;
        Ok(Next::Again)
    }
}
