//! A command that works on a data folder with the host inside it.
//!
//! It has models of its own (`--model-url`, a cassette, a local command), so it must not execute what others queued: it
//! claims only the runs and assessments that it was asked to execute. Hosts leave those runs alone, even when the command is
//! gone; its assessments they may carry out, because scores depend on nothing but the evidence.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::ids::RunId;

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

    /// Its name in the records of its runs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Has it execute a run.
    pub fn take_on(&self, run: RunId) {
        locked(&self.runs).insert(run);
    }

    /// The runs it executes.
    pub fn runs(&self) -> Vec<RunId> {
        locked(&self.runs).iter().cloned().collect()
    }

    /// Has it execute an assessment.
    pub fn take_on_assessment(&self, id: String) {
        locked(&self.assessments).insert(id);
    }

    /// The assessments it executes.
    pub fn assessments(&self) -> Vec<String> {
        locked(&self.assessments).iter().cloned().collect()
    }
}

fn locked<T>(set: &Mutex<BTreeSet<T>>) -> MutexGuard<'_, BTreeSet<T>> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}
