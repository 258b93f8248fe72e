//! Markdown building blocks that their content cannot break out of.

use crate::render::particulars::Fact;
use touchstone_runs::render::markdown::escaped;

/// Width of a bar in characters.
const BAR: usize = 10;

/// Escapes text for one line.
pub fn safe(text: &str) -> String {
    escaped(text)
}

#[derive(Default)]
pub struct Row(String);

impl Row {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a cell.
    pub fn with(mut self, cell: &str) -> Self {
        self.0.push_str(&safe(cell));
        self.0.push_str(" | ");
        self
    }

    /// Adds a cell, in bold if `on`.
    pub fn strong(self, cell: &str, on: bool) -> Self {
        if !on {
            return self.with(cell);
        }
        let Self(row) = self;
        Self(format!("{row}**{}** | ", safe(cell)))
    }
}

/// A table. Column names must be trusted.
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

/// A table of name-value pairs.
pub fn facts(text: &mut String, facts: &[Fact]) {
    let rows = facts
        .iter()
        .map(|it| Row::new().with(&it.name).with(&it.value));
    table(text, &["", ""], rows);
}

/// Multi-line text in a fence that is longer than any run of backticks in it.
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

/// A share, 0 to 1, as a bar.
pub fn bar(share: f64) -> String {
    // 0..=BAR, because the share is clamped to 0..=1.
    let filled = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    format!("{}{}", "█".repeat(filled), "░".repeat(BAR - filled))
}
