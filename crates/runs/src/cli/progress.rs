//! Progress on a terminal, for runs and other long operations. Nothing is drawn in a pipe: the
//! result contains everything, and long runs report now and then how far they are.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use console::Term;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use serde_json::Value;

use crate::cli::progress_file;
use crate::cli::progress_file::{Ended, Position};
use crate::render::live::Live;
use touchstone_host::cli::terminal::Terminal;
use touchstone_host::render::colors::Colors;
use touchstone_host::render::table::Style;
use touchstone_host::render::words::harmless;
use touchstone_kit::ids::TaskId;

/// How often the display is redrawn while nothing happens.
const TICK: Duration = Duration::from_millis(100);
/// Minimum number of columns for a bar next to the numbers.
const NARROWEST_BAR: u16 = 90;

/// A progress bar of counted items.
pub struct Counted(ProgressBar);

impl Counted {
    /// Shows a bar of `all` items, if progress is visible.
    pub fn new(terminal: &Terminal, all: u64) -> Self {
        if !terminal.bars() {
            return Self(ProgressBar::hidden());
        }
        let target = ProgressDrawTarget::stderr_with_hz(10);
        let bar = ProgressBar::with_draw_target(Some(all), target);
        let template = format!(
            "{}{{pos}}/{{len}}  {{msg}}  {{elapsed}}{{left}}",
            drawn_bar(terminal.notes_colors(), Term::stderr().size().1)
        );
        let left = |state: &ProgressState| {
            let is_known = state.pos() > 0 && state.fraction() < 1.0;
            is_known.then(|| state.eta())
        };
        bar.set_style(timed(of_template(&template), left));
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// Shows a spinner, for an unknown number of items.
    pub fn open(terminal: &Terminal) -> Self {
        if !terminal.bars() {
            return Self(ProgressBar::hidden());
        }
        let target = ProgressDrawTarget::stderr_with_hz(10);
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(of_template("{spinner} {msg}  {elapsed}"));
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// Prints above the bar without disturbing it.
    pub fn say(&self, print: impl FnOnce()) {
        self.0.suspend(print);
    }

    /// Sets the number of items done and the text next to it.
    pub fn reach(&self, done: u64, message: String) {
        self.0.set_message(harmless(&message, false).into_owned());
        if self.0.position() != done {
            self.0.set_position(done);
        }
    }

    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// The progress bar, and the table of tasks below it.
pub struct Progress {
    bar: ProgressBar,
    live: Arc<Mutex<Live>>,
    visible: bool,
    label: String,
    started: Instant,
}

impl Progress {
    /// Shows the progress of a run, if progress is visible. `label` distinguishes several runs.
    pub fn new(terminal: &Terminal, label: &str) -> Self {
        let live = Arc::<Mutex<Live>>::default();
        if !terminal.bars() {
            let bar = ProgressBar::hidden();
            return Self {
                bar,
                live,
                visible: false,
                label: label.to_owned(),
                started: Instant::now(),
            };
        }
        let target = ProgressDrawTarget::stderr_with_hz(10);
        let bar = ProgressBar::with_draw_target(None, target).with_prefix(label.to_owned());
        let columns = Term::stderr().size().1;
        bar.set_style(style(terminal.notes_colors(), columns, &live));
        bar.enable_steady_tick(TICK);
        Self {
            bar,
            live,
            visible: true,
            label: label.to_owned(),
            started: Instant::now(),
        }
    }

    /// The stream mode to feed it from: the task table needs every event, a verdict only their
    /// ends.
    pub const fn stream(&self) -> &'static str {
        if self.visible { "debug" } else { "updates" }
    }

    pub fn apply(&self, event: &Value) {
        let (planned, ended) = {
            let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
            live.apply(event, self.started.elapsed());
            let (total, done) = (live.planned(), live.ended());
            progress_file::write(event, Position { done, total }, |task| {
                let (outcome, score) = live.outcome(&TaskId::from(task))?;
                Some(Ended { outcome, score })
            });
            (total, done)
        };
        if !self.visible {
            return;
        }
        if let Some(planned) = planned
            && self.bar.length() != Some(planned)
        {
            self.bar.set_length(planned);
        }
        if self.bar.position() != ended {
            self.bar.set_position(ended);
        }
    }

    /// How far the run is, where no progress is drawn.
    pub fn reported(&self) -> Option<String> {
        if self.visible {
            return None;
        }
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let (label, ended) = (&self.label, live.ended());
        let of = live.planned().map(|planned| format!(" of {planned}"));
        let tasks = format!("{label}{ended}{} tasks ended", of.unwrap_or_default());
        let after = format!("after {} s", self.started.elapsed().as_secs());
        Some(match ended {
            0 => format!("{tasks} {after}; --timeout limits the time per task"),
            _ => format!("{tasks} {after}"),
        })
    }

    /// Prints a line above the progress bar.
    pub fn say(&self, text: &str) {
        self.bar.println(harmless(text, true));
    }

    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

#[expect(
    clippy::expect_used,
    reason = "the templates are constants but for one of a few bars"
)]
fn of_template(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is valid")
}

fn style(colors: Colors, columns: u16, live: &Arc<Mutex<Live>>) -> ProgressStyle {
    let drawn = Style {
        colors,
        ..Style::default()
    };
    let (line, left, tasks) = (live.clone(), live.clone(), live.clone());
    let bar = drawn_bar(colors, columns);
    let template =
        format!("{{prefix}}{bar}{{pos}}/{{len}}  {{line}}  {{elapsed}}{{left}}\n{{tasks}}");
    let style = of_template(&template);
    let left = move |state: &ProgressState| {
        let live = left.lock().unwrap_or_else(PoisonError::into_inner);
        live.left(state.elapsed())
    };
    let line = move |_: &ProgressState, to: &mut dyn Write| {
        let live = line.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = to.write_str(&live.line(drawn));
    };
    let tasks = move |state: &ProgressState, to: &mut dyn Write| {
        // The terminal may be resized meanwhile.
        let (rows, columns) = Term::stderr().size();
        let style = Style {
            table: true,
            width: Some(columns),
            ..drawn
        };
        let live = tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = to.write_str(&live.tasks(state.elapsed(), Some(rows), style));
    };
    timed(style, left)
        .with_key("line", line)
        .with_key("tasks", tasks)
}

/// The bar itself, if there is room for one.
fn drawn_bar(colors: Colors, columns: u16) -> &'static str {
    match columns {
        columns if columns < NARROWEST_BAR => "",
        _ if colors.is_on() => "{bar:24.green/dim} ",
        _ => "{bar:24} ",
    }
}

/// Adds the remaining time once it can be estimated.
fn timed(
    style: ProgressStyle,
    left: impl Fn(&ProgressState) -> Option<Duration> + Clone + Send + Sync + 'static,
) -> ProgressStyle {
    let left = move |state: &ProgressState, to: &mut dyn Write| {
        if let Some(left) = left(state) {
            let _ = write!(to, ", {:#} left", HumanDuration(left));
        }
    };
    style.progress_chars("━╸─").with_key("left", left)
}

#[cfg(test)]
mod tests {
    use std::io;

    use indicatif::TermLike;
    use serde_json::json;

    use super::*;

    /// A terminal that records what is written to it.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            120
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn event(sequence: u64, kind: &str, second: u64, payload: Value) -> Value {
        json!({
            "eventId": format!("evt_{sequence}"), "runId": "run_1", "type": kind, "sequence": sequence, "nodeId": "a",
            "timestamp": format!("2026-01-01T00:00:{second:02}Z"), "schemaVersion": 1, "engineVersion": "1",
            "payload": payload,
        })
    }

    #[test]
    fn the_remaining_time_follows_the_elapsed_time() {
        let (screen, live) = (Screen::default(), Arc::<Mutex<Live>>::default());
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(style(Colors::default(), 120, &live));
        let progress = Progress {
            bar,
            live,
            visible: true,
            label: String::new(),
            started: Instant::now(),
        };
        let invocation = json!({"invocationId": "a", "agentId": "a", "source": "run-api", "toolSurfaceCount": 0, "memoryBound": false});
        progress.apply(&event(
            1,
            "eval.started",
            0,
            json!({"suiteId": "a.evals.b", "suiteVersion": "1.0.0", "taskCount": 5, "modes": ["golden"]}),
        ));
        progress.apply(&event(2, "agent.invocation.started", 0, invocation));
        progress.bar.tick();
        assert!(
            !screen.0.lock().unwrap().contains("left"),
            "no estimate yet"
        );
        progress.apply(&event(
            3,
            "eval.scored",
            30,
            json!({"taskId": "a", "score": 1.0, "passed": true, "latencyMs": 30_000}),
        ));
        progress.bar.tick();
        let shown = screen.0.lock().unwrap().clone();
        // Four tasks of half a minute, less the time passed since.
        assert!(
            shown.contains("1/5") && shown.contains(", 2m left"),
            "{shown}"
        );
    }
}
