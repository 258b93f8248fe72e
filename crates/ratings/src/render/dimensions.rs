//! Dimensions across all agents, weakest first.

use std::fmt::Write as _;

use comfy_table::{Attribute, Cell, CellAlignment};
use serde::{Deserialize, Serialize};

use crate::render::{bar, name_of};
use crate::rules::assessment::overview::{AgentScore, DimensionOverview};
use touchstone_host::render::table;
use touchstone_host::render::table::Style;
use touchstone_host::render::words::plain;

/// Width of a bar in characters.
const BAR: usize = 12;

/// The dimensions as listed by a host.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Dimensions {
    /// Number of agents considered.
    pub agents: u64,
    pub not_rated: Vec<NotRated>,
    /// Whether there are more agents than considered.
    pub more: bool,
    pub dimensions: Vec<DimensionOverview>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct NotRated {
    pub agent_id: String,
    pub name: String,
}

pub fn dimensions(shown: &Dimensions, style: Style) -> String {
    let mut text = String::new();
    for (place, it) in shown.dimensions.iter().enumerate() {
        if place > 0 {
            text.push('\n');
        }
        match style.table.then(|| drawn(it, style)).flatten() {
            Some(drawn) => text.push_str(&drawn),
            None => listed(&mut text, it, style),
        }
    }
    if !shown.not_rated.is_empty() {
        let names = shown.not_rated.iter().map(|it| plain(&it.name));
        let names: Vec<String> = names.collect();
        let _ = writeln!(text, "\nnot rated  {}", names.join(", "));
    }
    if shown.more {
        let _ = writeln!(
            text,
            "\nThere are more than the {} listed agents.",
            shown.agents
        );
    }
    text
}

fn headline(it: &DimensionOverview) -> String {
    match it.mean {
        Some(mean) => format!("mean {:.2} of {} assessed", mean.as_f64(), it.assessed),
        None => "no agents assessed".to_owned(),
    }
}

fn listed(text: &mut String, it: &DimensionOverview, style: Style) {
    let name = style.colors.strong(&name_of(it.dimension));
    let _ = writeln!(text, "{name}  {}", headline(it));
    for agent in it.agents.iter().filter(|agent| agent.score.is_some()) {
        let _ = writeln!(
            text,
            "  {}  {}  {}  {}",
            score(agent),
            interval(agent),
            plain(agent.tier.as_deref().unwrap_or_default()),
            plain(&agent.name)
        );
    }
}

/// `None` if the terminal is too narrow.
fn drawn(it: &DimensionOverview, style: Style) -> Option<String> {
    let mut drawn = table::begin(style);
    let bold = |name: String| Cell::new(name).add_attribute(Attribute::Bold);
    let head = [
        name_of(it.dimension),
        "score".to_owned(),
        String::new(),
        "95 % interval".to_owned(),
        "tier".to_owned(),
    ];
    drawn.set_header(head.map(bold));
    for agent in &it.agents {
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        let share = agent.score.map(|score| bar(score.as_f64(), BAR));
        drawn.add_row([
            Cell::new(plain(&agent.name)),
            right(score(agent)),
            Cell::new(share.unwrap_or_else(|| "not assessed".to_owned())),
            Cell::new(interval(agent)),
            Cell::new(plain(agent.tier.as_deref().unwrap_or_default())),
        ]);
    }
    let drawn = table::drawn(drawn, style)?;
    Some(format!("{drawn}\n{}\n", headline(it)))
}

fn score(agent: &AgentScore) -> String {
    let score = agent.score.map(|score| format!("{:.2}", score.as_f64()));
    score.unwrap_or_else(|| "–".to_owned())
}

/// The 95 % interval; empty if unknown.
pub fn interval(agent: &AgentScore) -> String {
    let limits = agent.low.zip(agent.high);
    let limits = limits.map(|(low, high)| format!("{:.2}–{:.2}", low.as_f64(), high.as_f64()));
    limits.unwrap_or_default()
}
