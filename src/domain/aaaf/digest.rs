//! Which events a score is of, as one digest.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

use super::assessment::EvidenceBasis;
use super::evidence::{Event, Sources};
use super::selection::Selection;
use crate::domain::hex::hex;

/// The events that a score is of, as they are added.
#[derive(Debug, Default)]
pub struct Basis {
    names: Vec<String>,
    sources: Sources,
}

impl Basis {
    /// Adds what counted, and the assignments that say what the tasks are.
    pub fn add(&mut self, selection: &Selection<'_>) {
        let counted = selection.events.iter().chain(&selection.activity);
        let counted = counted.map(|it| it.event);
        let tasks: BTreeSet<&str> = counted.clone().map(|it| it.task_id.as_str()).collect();
        let assignments = selection.assignments.iter();
        let said = assignments
            .filter(|(task, _)| tasks.contains(*task))
            .map(|(_, (event, _))| *event);
        let mut known: BTreeSet<String> = BTreeSet::new();
        // Both may name the same event.
        let counts = counted.map(|event| (event, false));
        for (event, is_assignment) in counts.chain(said.map(|event| (event, true))) {
            let name = name(event);
            if is_assignment && known.contains(&name) {
                continue;
            }
            if let Some(recorder) = event.recorder {
                *self.sources.entry(recorder).or_default() += 1;
            }
            if !is_assignment {
                known.insert(name.clone());
            }
            self.names.push(name);
        }
    }

    /// All of them as one digest.
    pub fn finish(mut self) -> EvidenceBasis {
        self.names.sort_unstable();
        let mut hash = Sha256::new();
        for name in &self.names {
            hash.update(name.as_bytes());
            hash.update(b"\n");
        }
        EvidenceBasis {
            events: self.names.len(),
            sources: self.sources,
            digest: format!("sha256:{}", hex(&hash.finalize())),
        }
    }
}

/// Its id, or what it says where it has none.
fn name(event: &Event) -> String {
    event.id.clone().unwrap_or_else(|| {
        let said = event.document().to_string();
        format!("sha256:{}", hex(&Sha256::digest(said.as_bytes())))
    })
}
