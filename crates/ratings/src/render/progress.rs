//! Evidence collected towards a rating.

use std::fmt;
use std::fmt::Write as _;

use comfy_table::{Attribute, Cell};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::render::bar;
use touchstone_host::render::table;
use touchstone_host::render::table::Style;
use touchstone_host::render::words::plain;

/// Width of a bar in characters.
const BAR: usize = 12;

/// Tasks counted for an axis.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct TaskCount {
    /// Collected tasks.
    pub tasks: u64,
    /// Tasks that a rating needs.
    pub required: u64,
    pub enough: bool,
}

impl TaskCount {
    /// The collected share of the required tasks, from 0 to 1.
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

/// The evidence about an agent, as counted by its host.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CollectionProgress {
    /// Start of the window.
    pub window_start: Timestamp,
    /// End of the window, exclusive.
    pub window_end: Timestamp,
    pub performance: TaskCount,
    pub capability: TaskCount,
}

pub fn progress<'a>(
    agents: impl Iterator<Item = (&'a str, &'a CollectionProgress)>,
    style: Style,
) -> String {
    let agents: Vec<(&str, &CollectionProgress)> = agents.collect();
    if let Some(drawn) = style.table.then(|| as_table(&agents, style)).flatten() {
        return drawn;
    }
    let mut text = String::new();
    for (name, it) in agents {
        let _ = writeln!(
            text,
            "{}  performance {}, capability {}",
            plain(name),
            it.performance,
            it.capability
        );
    }
    text
}

/// `None` if the terminal is too narrow.
fn as_table(agents: &[(&str, &CollectionProgress)], style: Style) -> Option<String> {
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
    Some(format!("{}\n", table::drawn(drawn, style)?))
}
