//! How far the collection of evidence is, against what a rating needs.

use std::fmt;
use std::fmt::Write as _;

use comfy_table::{Attribute, Cell};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::bar;
use crate::render::scorecard::Style;
use crate::render::{plain, table};

/// Cells of a bar.
const BAR: usize = 12;

/// The tasks of an axis.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct TaskCount {
    /// How many there are.
    pub tasks: u64,
    /// How many a rating needs.
    pub required: u64,
    /// Whether these are enough.
    pub enough: bool,
}

impl TaskCount {
    /// The part of what is needed that is there, from 0 to 1.
    pub fn share(&self) -> f64 {
        match self.required {
            0 => 1.0,
            required => (self.tasks as f64 / required as f64).min(1.0),
        }
    }
}

impl fmt::Display for TaskCount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} of {} tasks", self.tasks, self.required)
    }
}

/// The evidence about an agent, as its host counts it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CollectionProgress {
    /// Tasks from here on count,
    pub window_start: Timestamp,
    /// and before this.
    pub window_end: Timestamp,
    /// Those that performance is of.
    pub performance: TaskCount,
    /// Those that capability is of.
    pub capability: TaskCount,
}

/// Draws the progress of agents, each by its name.
pub fn progress<'a>(
    agents: impl Iterator<Item = (&'a str, &'a CollectionProgress)>,
    style: Style,
) -> String {
    let mut text = String::new();
    if !style.table {
        for (name, it) in agents {
            let _ = writeln!(
                text,
                "{}  performance {}, capability {}",
                plain(name),
                it.performance,
                it.capability
            );
        }
        return text;
    }
    let mut drawn = table::begin(style);
    let bold = |name: &str| Cell::new(name).add_attribute(Attribute::Bold);
    drawn.set_header(["agent", "performance", "", "capability", ""].map(bold));
    let count = |count: &TaskCount| {
        let cell = Cell::new(bar(count.share(), BAR));
        match count.enough {
            true => cell.fg(table::GOOD),
            false => cell,
        }
    };
    for (name, it) in agents {
        drawn.add_row([
            Cell::new(plain(name)),
            count(&it.performance),
            Cell::new(&it.performance),
            count(&it.capability),
            Cell::new(&it.capability),
        ]);
    }
    let _ = writeln!(text, "{}", drawn.trim_fmt());
    text
}
