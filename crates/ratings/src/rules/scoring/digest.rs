//! Digest over the events that a score is based on.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

use crate::rules::assessment::EvidenceBasis;
use crate::rules::evidence::{Event, Sources};
use crate::rules::scoring::selection::Selection;
use touchstone_kit::hex::hex;

/// Collects the events that a score is based on.
#[derive(Debug, Default)]
pub struct EvidenceDigest {
    names: Vec<String>,
    sources: Sources,
}

impl EvidenceDigest {
    /// Adds the events that counted and the assignments that describe their tasks.
    pub fn add(&mut self, selection: &Selection<'_>) {
        let counted = selection.events.iter().chain(&selection.activity);
        let counted = counted.map(|it| it.event);
        let tasks: BTreeSet<&str> = counted.clone().map(|it| it.task_id.as_str()).collect();
        let assignments = selection.assignments.iter();
        let used_assignments = assignments
            .filter(|(task, _)| tasks.contains(*task))
            .map(|(_, (event, _))| *event);
        let mut known: BTreeSet<String> = BTreeSet::new();
        // An assignment may also be among the counted events.
        let counts = counted.map(|event| (event, false));
        for (event, is_assignment) in counts.chain(used_assignments.map(|event| (event, true))) {
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

    /// The digest over all added events.
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

/// The event's id, or a hash of its content if it has none.
fn name(event: &Event) -> String {
    event.id.clone().unwrap_or_else(|| {
        let content = event.document().to_string();
        format!("sha256:{}", hex(&Sha256::digest(content.as_bytes())))
    })
}
