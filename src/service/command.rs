//! A command that works on a data folder with the host inside it.
//!
//! It has models of its own (`--model-url`, a cassette, a local command), so it must not execute what others queued: it
//! claims only the runs that it was asked to execute. Hosts leave those runs alone, even when the command is gone.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::domain::ids::RunId;

/// The runs a command was asked to execute.
#[derive(Debug)]
pub struct Command {
    name: String,
    runs: Mutex<BTreeSet<RunId>>,
}

impl Command {
    /// A command with a name that is unique among all processes.
    pub fn new(name: String) -> Self {
        let runs = Mutex::default();
        Self { name, runs }
    }

    /// Its name in the records of its runs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Has it execute a run.
    pub fn take_on(&self, run: RunId) {
        self.locked().insert(run);
    }

    /// The runs it executes.
    pub fn runs(&self) -> Vec<RunId> {
        self.locked().iter().cloned().collect()
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, BTreeSet<RunId>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
