//! What is shown on a terminal while a run or something else that takes long is under way. In a pipe nothing is: its result says everything.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use serde_json::Value;

use super::terminal::Terminal;
use crate::render::live::Live;
use crate::render::scorecard::Style;

/// How often it is drawn anew while nothing happens.
const TICK: Duration = Duration::from_millis(100);
/// Columns below which there is no room for a bar beside the numbers.
const NARROWEST_BAR: u16 = 90;

/// A bar of things that are done one by one.
pub struct Counted(ProgressBar);

impl Counted {
    /// Begins to show it, if somebody is looking.
    pub fn new(terminal: &Terminal, all: u64) -> Self {
        if !terminal.bars() {
            return Self(ProgressBar::hidden());
        }
        let target = ProgressDrawTarget::stderr_with_hz(10);
        let bar = ProgressBar::with_draw_target(Some(all), target);
        let template = format!(
            "{}{{pos}}/{{len}}  {{msg}}  {{elapsed}}{{left}}",
            drawn_bar(terminal)
        );
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(timed(style));
        }
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// How far it is, and what is to be said beside.
    pub fn reach(&self, done: u64, beside: String) {
        self.0.set_message(beside);
        if self.0.position() != done {
            self.0.set_position(done);
        }
    }

    /// Takes it away.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// The bar, and the table of tasks below it.
pub struct Progress {
    bar: ProgressBar,
    live: Arc<Mutex<Live>>,
    visible: bool,
}

impl Progress {
    /// Begins to show a run, if somebody is looking. `label` tells it from others.
    pub fn new(terminal: &Terminal, label: &str) -> Self {
        let live = Arc::<Mutex<Live>>::default();
        if !terminal.bars() {
            let bar = ProgressBar::hidden();
            return Self {
                bar,
                live,
                visible: false,
            };
        }
        let target = ProgressDrawTarget::stderr_with_hz(10);
        let bar = ProgressBar::with_draw_target(None, target).with_prefix(label.to_owned());
        if let Some(style) = style(terminal, &live) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self {
            bar,
            live,
            visible: true,
        }
    }

    /// The stream that it is to be fed from: a view of tasks takes every event, a verdict their end.
    pub const fn stream(&self) -> &'static str {
        if self.visible { "debug" } else { "updates" }
    }

    /// Takes an event.
    pub fn take(&self, event: &Value) {
        if !self.visible {
            return;
        }
        let (planned, ended) = {
            let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
            live.take(event, self.bar.elapsed());
            (live.planned(), live.ended())
        };
        if let Some(planned) = planned
            && self.bar.length() != Some(planned)
        {
            self.bar.set_length(planned);
        }
        if self.bar.position() != ended {
            self.bar.set_position(ended);
        }
    }

    /// Says something above it.
    pub fn say(&self, text: &str) {
        self.bar.println(text);
    }

    /// Takes it away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn style(terminal: &Terminal, live: &Arc<Mutex<Live>>) -> Option<ProgressStyle> {
    let drawn = Style {
        ink: terminal.notes_ink(),
        ..Style::default()
    };
    let (line, tasks) = (live.clone(), live.clone());
    let bar = drawn_bar(terminal);
    let template =
        format!("{{prefix}}{bar}{{pos}}/{{len}}  {{line}}  {{elapsed}}{{left}}\n{{tasks}}");
    let style = ProgressStyle::with_template(&template).ok()?;
    let line = move |_: &ProgressState, to: &mut dyn Write| {
        let live = line.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = to.write_str(&live.line(drawn));
    };
    let tasks = move |state: &ProgressState, to: &mut dyn Write| {
        // A terminal may be made smaller or larger meanwhile.
        let (rows, columns) = Term::stderr().size();
        let style = Style {
            table: true,
            width: Some(columns),
            ..drawn
        };
        let live = tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = to.write_str(&live.tasks(state.elapsed(), Some(rows), style));
    };
    Some(timed(style).with_key("line", line).with_key("tasks", tasks))
}

/// The bar itself, as far as there is room for one.
fn drawn_bar(terminal: &Terminal) -> &'static str {
    match Term::stderr().size().1 {
        columns if columns < NARROWEST_BAR => "",
        _ if terminal.notes_ink().is_on() => "{bar:24.green/dim} ",
        _ => "{bar:24} ",
    }
}

/// With the time that is left, once there is something to estimate it from.
fn timed(style: ProgressStyle) -> ProgressStyle {
    let left = |state: &ProgressState, to: &mut dyn Write| {
        if state.pos() > 0 && state.fraction() < 1.0 {
            let _ = write!(to, ", {:#} left", indicatif::HumanDuration(state.eta()));
        }
    };
    style.progress_chars("━╸─").with_key("left", left)
}
