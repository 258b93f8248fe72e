//! Pieces of Markdown that nothing inside can break out of.

use crate::render::markdown::escaped;
use crate::render::oasis::particulars::Fact;

/// Cells of a bar.
const BAR: usize = 10;

/// Text on one line, shown as it is.
pub fn safe(text: &str) -> String {
    escaped(text)
}

/// A row of a table.
#[derive(Default)]
pub struct Row(String);

impl Row {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more cell.
    pub fn with(mut self, cell: &str) -> Self {
        self.0.push_str(&safe(cell));
        self.0.push_str(" | ");
        self
    }

    /// One more cell, to be seen first if `on`.
    pub fn strong(self, cell: &str, on: bool) -> Self {
        if !on {
            return self.with(cell);
        }
        let Self(row) = self;
        Self(format!("{row}**{}** | ", safe(cell)))
    }
}

/// A table. Names of columns are ours.
pub fn table(text: &mut String, columns: &[&str], rows: impl Iterator<Item = Row>) {
    text.push_str(&format!(
        "| {} |\n|{}\n",
        columns.join(" | "),
        " --- |".repeat(columns.len())
    ));
    for Row(row) in rows {
        text.push_str(&format!("| {}\n", row.trim_end()));
    }
}

/// Names and what they stand for.
pub fn facts(text: &mut String, facts: &[Fact]) {
    let rows = facts
        .iter()
        .map(|it| Row::new().with(&it.name).with(&it.value));
    table(text, &["", ""], rows);
}

/// Text of several lines, shown as it is: the fence is longer than any run of backticks in it.
pub fn fence(text: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}", text.trim_end_matches('\n'))
}

/// A share as a bar.
pub fn bar(share: f64) -> String {
    // 0..=BAR: a share lies within 0 and 1.
    let filled = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    format!("{}{}", "█".repeat(filled), "░".repeat(BAR - filled))
}
