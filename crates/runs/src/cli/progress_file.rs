//! `eval --progress FILE`: progress for programs, one JSON object per line.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use clap::Args;
use serde_json::{Value, json};

use crate::cli::output::{check_output, not_written};
use crate::rules::eval::report::TaskOutcome;
use crate::rules::run::fold::RunStatus;
use touchstone_host::cli::exit::Failure;

/// The file of this process, which executes one command. A `None` inside says that its reader is
/// gone.
static FILE: OnceLock<Mutex<Option<File>>> = OnceLock::new();

#[derive(Clone, Debug, Default, Args)]
pub struct ProgressOptions {
    /// File to append progress to while the run executes, one JSON object per line; also a pipe,
    /// such as /dev/fd/3
    #[arg(long, value_name = "FILE")]
    progress: Option<PathBuf>,
}

impl ProgressOptions {
    /// Opens the file, if one is given.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open(&self) -> Result<(), Failure> {
        let Some(path) = &self.progress else {
            return Ok(());
        };
        check_output(path)?;
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(|cause| not_written(path, &cause))?;
        FILE.get_or_init(|| Mutex::new(Some(file)));
        Ok(())
    }
}

/// The numbers of a task that ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ended {
    pub outcome: TaskOutcome,
    pub score: f64,
}

/// The number of tasks that ended, and of all tasks once it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub done: u64,
    pub total: Option<u64>,
}

/// Writes the line for an event of a run, if there is a file and the event has a line. `ended`
/// finds the numbers of a task.
pub fn write(event: &Value, position: Position, ended: impl FnOnce(&str) -> Option<Ended>) {
    let Some(file) = FILE.get() else {
        return;
    };
    let Some(line) = line(event, position, ended) else {
        return;
    };
    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
    // A reader that is gone must not end the run.
    let written = file
        .as_mut()
        .map(|file| file.write_all(format!("{line}\n").as_bytes()));
    if let Some(Err(_)) = written {
        *file = None;
    }
}

fn line(
    event: &Value,
    position: Position,
    ended: impl FnOnce(&str) -> Option<Ended>,
) -> Option<Value> {
    let text = |name: &str| event.get(name).and_then(Value::as_str);
    let run = text("runId")?;
    let Position { done, total } = position;
    let closed = |status: RunStatus| json!({"type": "ended", "runId": run, "status": status.as_str(), "done": done, "total": total});
    match text("type")? {
        "eval.started" => Some(json!({"type": "started", "runId": run, "total": total})),
        "eval.scored" => {
            let task = event.pointer("/payload/taskId")?.as_str()?;
            let Ended { outcome, score } = ended(task)?;
            // The score of an unjudged task is 0 and says nothing.
            let score = (outcome != TaskOutcome::Unjudged).then_some(score);
            Some(json!({
                "type": "task", "runId": run, "taskId": task, "outcome": outcome, "score": score,
                "done": done, "total": total,
            }))
        }
        "run.completed" => Some(closed(RunStatus::Completed)),
        "run.failed" => Some(closed(RunStatus::Failed)),
        "run.cancelled" => Some(closed(RunStatus::Cancelled)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(event: &Value, ended: Option<Ended>) -> Option<Value> {
        let position = Position {
            done: 1,
            total: Some(2),
        };
        line(event, position, |_| ended)
    }

    #[test]
    fn events_of_tasks_and_runs_have_lines() {
        let event =
            |kind: &str, payload| json!({"type": kind, "runId": "run_1", "payload": payload});
        let started = of(&event("eval.started", json!({"taskCount": 2})), None);
        let expected = json!({"type": "started", "runId": "run_1", "total": 2});
        assert_eq!(started, Some(expected));
        let scored = event("eval.scored", json!({"taskId": "a"}));
        let ended = |outcome| {
            Some(Ended {
                outcome,
                score: 0.0,
            })
        };
        let failed = of(&scored, ended(TaskOutcome::Failed)).unwrap();
        let expected = json!({
            "type": "task", "runId": "run_1", "taskId": "a", "outcome": "failed", "score": 0.0,
            "done": 1, "total": 2,
        });
        assert_eq!(failed, expected);
        let unjudged = of(&scored, ended(TaskOutcome::Unjudged)).unwrap();
        assert_eq!(
            (&unjudged["outcome"], &unjudged["score"]),
            (&json!("unjudged"), &Value::Null)
        );
        let closed = of(&event("run.cancelled", json!({})), None).unwrap();
        assert_eq!(closed["status"], "cancelled");
        assert_eq!(of(&event("agent.toolCalled", json!({})), None), None);
    }
}
