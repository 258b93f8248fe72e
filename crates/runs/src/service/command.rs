//! A command that works on a data folder, with a host inside it.
//!
//! It has its own models (`--model-url`, a cassette, a local command), so it must not execute work
//! that others queued: it claims only the runs and assessments it was asked to execute. Hosts leave
//! those runs alone, even when the command is gone. Hosts may execute its assessments, because
//! scores depend only on the evidence.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use touchstone_kit::ids::RunId;

/// The runs and assessments a command was asked to execute.
#[derive(Debug)]
pub struct Command {
    name: String,
    runs: Mutex<BTreeSet<RunId>>,
    assessments: Mutex<BTreeSet<String>>,
}

impl Command {
    /// A command with a name that is unique among all processes.
    pub fn new(name: String) -> Self {
        Self {
            name,
            runs: Mutex::default(),
            assessments: Mutex::default(),
        }
    }

    /// The command's name in the records of its runs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a run to execute.
    pub fn add_run(&self, run: RunId) {
        locked(&self.runs).insert(run);
    }

    pub fn runs(&self) -> Vec<RunId> {
        locked(&self.runs).iter().cloned().collect()
    }

    /// Adds an assessment to execute.
    pub fn add_assessment(&self, id: String) {
        locked(&self.assessments).insert(id);
    }

    pub fn assessments(&self) -> Vec<String> {
        locked(&self.assessments).iter().cloned().collect()
    }
}

fn locked<T>(set: &Mutex<BTreeSet<T>>) -> MutexGuard<'_, BTreeSet<T>> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}
