//! What views of an ended run need of its tasks, stored as columns: 48 bytes a task in memory, one
//! or two in the database.
//!
//! It is computed from the folded state, and only affects speed. It has no task content.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::results::{RunResults, TaskFigures, TaskResultRow, UNKNOWN};
use crate::rules::eval::tally::Tally;
use crate::rules::run::fold::stored::{self, DIGEST_BYTES, compress, uncompressed};
use crate::rules::run::fold::{EvalFacts, Totals, read_number, write_number};
use crate::rules::run::record::EvalSpec;
use crate::rules::run::task_ids::TaskIds;
use touchstone_kit::ids::RunId;
use touchstone_openwop::suite::Thresholds;

/// The form of what is stored, and how it is computed from the state. Raise the last digits when the
/// same state gives other results: results of other formats, or of other formats of the state, are
/// not read.
pub const FORMAT: u32 = stored::FORMAT * 1000 + 1;

#[derive(Clone, Debug, PartialEq)]
pub struct EndedResults {
    /// Of the suite, so that it need not be read.
    pub thresholds: Thresholds,
    pub totals: Totals,
    pub tally: Tally,
    pub results: Arc<RunResults>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    thresholds: Thresholds,
    totals: Totals,
    tally: Tally,
    reasons: Vec<String>,
    criticals: Vec<Vec<String>>,
    figures: TaskFigures,
    tasks: usize,
}

const JUDGED: u8 = 1;
const PASSED: u8 = 1 << 1;
const REUSED: u8 = 1 << 2;
/// The score is 1, and without this and the next one 0.
const ONE: u8 = 1 << 3;
/// The score follows.
const GRADED: u8 = 1 << 4;
const COST: u8 = 1 << 5;
const LATENCY: u8 = 1 << 6;
/// A reason or critical findings follow.
const LABELS: u8 = 1 << 7;

impl EndedResults {
    pub fn of(spec: &EvalSpec, thresholds: &Thresholds, facts: &EvalFacts) -> Self {
        Self {
            thresholds: *thresholds,
            totals: facts.tasks.totals(),
            tally: Tally::of(spec, facts),
            results: RunResults::of_run(spec, facts).into(),
        }
    }

    /// Compressed, after a digest that covers the run and the sequence of its last event. `None` if
    /// its numbers would not read back unchanged.
    pub fn encode(&self, run: &RunId, sequence: u64) -> Option<Vec<u8>> {
        let results = &self.results;
        let written = Head {
            thresholds: self.thresholds,
            totals: self.totals,
            tally: self.tally.clone(),
            reasons: results.reasons.clone(),
            criticals: results.criticals.clone(),
            figures: results.figures.clone(),
            tasks: results.rows.len(),
        };
        let head = serde_json::to_vec(&written).ok()?;
        let read: Head = serde_json::from_slice(&head).ok()?;
        (read.thresholds == written.thresholds && read.tally == written.tally).then_some(())?;
        let mut bytes = Vec::new();
        write_number(head.len() as u64, &mut bytes);
        bytes.extend(head);
        write_rows(&results.rows, &mut bytes);
        let compressed = compress(&bytes)?;
        let mut octets = digest(run, sequence, &compressed).to_vec();
        octets.extend(compressed);
        Some(octets)
    }

    /// The results of the run with these tasks; `None` if they are damaged.
    pub fn decode(run: &RunId, sequence: u64, ids: &TaskIds, octets: &[u8]) -> Option<Self> {
        let (found, compressed) = octets.split_at_checked(DIGEST_BYTES)?;
        (found == digest(run, sequence, compressed)).then_some(())?;
        let bytes = uncompressed(compressed)?;
        let mut rest = bytes.as_slice();
        let length = usize::try_from(read_number(&mut rest)?).ok()?;
        let (head, mut rest) = rest.split_at_checked(length)?;
        let head: Head = serde_json::from_slice(head).ok()?;
        let rows = read_rows(head.tasks, ids.len(), &mut rest)?;
        rest.is_empty().then_some(())?;
        Some(Self {
            thresholds: head.thresholds,
            totals: head.totals,
            tally: head.tally,
            results: Arc::new(RunResults::new(
                ids.clone(),
                rows,
                head.reasons,
                head.criticals,
                head.figures,
            )),
        })
    }
}

fn digest(run: &RunId, sequence: u64, compressed: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut digest = Sha256::new();
    digest.update(FORMAT.to_le_bytes());
    digest.update(sequence.to_le_bytes());
    digest.update(run.as_str());
    digest.update(compressed);
    digest.finalize().into()
}

/// Writes a column of all rows after the other, because columns compress better.
fn write_rows(rows: &[TaskResultRow], into: &mut Vec<u8>) {
    let mut before = 0;
    for row in rows {
        write_number(u64::from(row.place - before), into);
        before = row.place;
    }
    for row in rows {
        // Most tasks start in suite order.
        write_number(u64::from(row.number.wrapping_sub(row.place)), into);
    }
    let is_one = |row: &TaskResultRow| row.score.to_bits() == 1.0_f64.to_bits();
    let is_zero = |row: &TaskResultRow| row.score.to_bits() == 0;
    for row in rows {
        let flags = [
            (row.is_judged, JUDGED),
            (row.passed, PASSED),
            (row.is_reused, REUSED),
            (is_one(row), ONE),
            (!is_one(row) && !is_zero(row), GRADED),
            (row.cost != UNKNOWN, COST),
            (row.latency != UNKNOWN, LATENCY),
            (row.reason > 0 || row.critical > 0, LABELS),
        ];
        let set = flags.iter().filter(|(is_set, _)| *is_set);
        into.push(set.fold(0, |all, (_, flag)| all | flag));
    }
    for row in rows.iter().filter(|row| !is_one(row) && !is_zero(row)) {
        into.extend(row.score.to_le_bytes());
    }
    for row in rows.iter().filter(|row| row.cost != UNKNOWN) {
        write_number(row.cost, into);
    }
    for row in rows.iter().filter(|row| row.latency != UNKNOWN) {
        write_number(row.latency, into);
    }
    for row in rows.iter().filter(|row| row.reason > 0 || row.critical > 0) {
        write_number(row.reason.into(), into);
        write_number(row.critical.into(), into);
    }
}

fn read_rows(count: usize, tasks: usize, from: &mut &[u8]) -> Option<Vec<TaskResultRow>> {
    (count <= tasks).then_some(())?;
    let mut rows = Vec::with_capacity(count);
    let mut next = 0_u32;
    for at in 0..count {
        let step = u32::try_from(read_number(from)?).ok()?;
        // Only the first row may be at the place of the one before it.
        (at == 0 || step > 0).then_some(())?;
        next = next.checked_add(step)?;
        ((next as usize) < tasks).then_some(())?;
        rows.push(TaskResultRow {
            place: next,
            number: 0,
            score: 0.0,
            cost: UNKNOWN,
            latency: UNKNOWN,
            reason: 0,
            critical: 0,
            is_judged: false,
            passed: false,
            is_reused: false,
        });
    }
    for row in &mut rows {
        let step = u32::try_from(read_number(from)?).ok()?;
        row.number = row.place.wrapping_add(step);
    }
    let (flags, rest) = from.split_at_checked(count)?;
    *from = rest;
    let has = |flag: u8| move |(_, flags): &(&mut TaskResultRow, &u8)| **flags & flag > 0;
    for (row, flags) in rows.iter_mut().zip(flags) {
        row.is_judged = flags & JUDGED > 0;
        row.passed = flags & PASSED > 0;
        row.is_reused = flags & REUSED > 0;
        row.score = f64::from(flags & ONE > 0);
    }
    for (row, _) in rows.iter_mut().zip(flags).filter(has(GRADED)) {
        let (score, rest) = from.split_first_chunk()?;
        *from = rest;
        row.score = f64::from_le_bytes(*score);
    }
    for (row, _) in rows.iter_mut().zip(flags).filter(has(COST)) {
        row.cost = read_number(from)?;
    }
    for (row, _) in rows.iter_mut().zip(flags).filter(has(LATENCY)) {
        row.latency = read_number(from)?;
    }
    for (row, _) in rows.iter_mut().zip(flags).filter(has(LABELS)) {
        row.reason = u32::try_from(read_number(from)?).ok()?;
        row.critical = u32::try_from(read_number(from)?).ok()?;
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::rules::eval::attempts::Attempt;
    use crate::rules::run::fold::{Cost, RunState, TaskFacts};
    use crate::rules::run::record::{RunRecord, RunSpec, Work};
    use touchstone_kit::hex::hex;
    use touchstone_kit::ids::TaskId;
    use touchstone_kit::money::NanoUsd;
    use touchstone_openwop::summary::{SafetyFinding, Severity};

    fn spec(tasks: usize) -> EvalSpec {
        let tasks: Vec<String> = (0..tasks).map(|n| format!("task-{n}")).collect();
        serde_json::from_value(json!({
            "suiteId": "vendor.acme.evals.triage", "suiteVersion": "1.0.0", "suiteDigest": "sha256-x",
            "suiteSigned": true, "suiteTaskCount": tasks.len(), "agentId": "vendor.acme.triage.default",
            "agentVersion": "1.0.0", "packIntegrity": "sha256-y", "modelClass": "general",
            "model": {"provider": "openai", "model": "small-1"}, "modes": ["golden"],
            "tasks": tasks, "concurrency": 1,
        }))
        .unwrap()
    }

    fn record(spec: &EvalSpec) -> RunRecord {
        RunRecord {
            run_id: "run_1".into(),
            tenant: "acme".into(),
            principal: "key_1".to_owned(),
            created_at: jiff::Timestamp::UNIX_EPOCH,
            spec: RunSpec {
                workflow_id: "eval:x@1.0.0".to_owned(),
                work: Work::Eval(Arc::new(spec.clone())),
                scope: None,
                run_timeout_ms: None,
                configurable: serde_json::Map::new(),
                inputs: serde_json::Map::new(),
                tags: Vec::new(),
                metadata: serde_json::Map::new(),
            },
            fork: None,
            trace: None,
            log: touchstone_openwop::wire::log::LogMark::default(),
        }
    }

    fn facts() -> impl Strategy<Value = TaskFacts> {
        let score = prop_oneof![Just(0.0), Just(1.0), 0.0..=1.0_f64];
        let label = || prop::option::weighted(0.2, "[ab]");
        let numbers = (0..9_u64, 0..3_u64, prop::option::of(0..9_000_u64));
        let found = prop::collection::vec("[xy]", 0..2);
        (
            score,
            any::<[bool; 2]>(),
            label(),
            label(),
            label(),
            numbers,
            found,
        )
            .prop_map(
                |(score, [scored, passed], unjudged, failed, reused, numbers, kinds)| TaskFacts {
                    score,
                    passed,
                    scored,
                    unjudged,
                    failed,
                    reused_from: reused.map(|run| run.as_str().into()),
                    cost: Cost {
                        at_least: NanoUsd(numbers.0),
                        unknown: numbers.1.saturating_sub(1),
                    },
                    latency_ms: numbers.2,
                    safety_findings: (!kinds.is_empty()).then(|| {
                        let finding = |kind: String| SafetyFinding {
                            kind,
                            severity: Severity::Critical,
                        };
                        kinds.into_iter().map(finding).collect()
                    }),
                    ..TaskFacts::default()
                },
            )
    }

    proptest! {
        #[test]
        fn results_are_read_as_they_were_computed(
            tasks in prop::collection::vec(facts(), 0..40),
            turn in 0..40_usize,
        ) {
            let spec = spec(tasks.len());
            let mut state = RunState::default();
            let count = tasks.len().max(1);
            // Tasks need not start in suite order.
            for at in 0..tasks.len() {
                let at = (at + turn) % count;
                let id = TaskId::from(format!("task-{at}"));
                state.eval.tasks.update(&id, |it| *it = tasks[at].clone());
            }
            let found = EndedResults::of(&spec, &Thresholds::default(), &state.eval);
            let run = RunId::from("run_1");
            let octets = found.encode(&run, 7).unwrap();
            let read = EndedResults::decode(&run, 7, &spec.tasks, &octets);
            prop_assert_eq!(read.as_ref(), Some(&found));
            prop_assert_eq!(EndedResults::decode(&run, 8, &spec.tasks, &octets), None);
            prop_assert_eq!(EndedResults::decode(&"run_2".into(), 7, &spec.tasks, &octets), None);
            let record = record(&spec);
            let attempt = Attempt::with_tasks(&record, state.status, found.results.attempted());
            prop_assert_eq!(attempt, Attempt::of(&record, &state));
        }
    }

    /// If this fails, raise [`FORMAT`].
    #[test]
    fn the_format_stands_for_what_is_stored() {
        let spec = spec(5);
        let mut state = RunState::default();
        for (at, id) in spec.tasks.iter().enumerate().skip(1) {
            let facts = TaskFacts {
                scored: true,
                passed: at % 2 == 0,
                score: [0.0, 0.5, 1.0, 0.0, 1.0][at],
                unjudged: (at == 3).then(|| "task_timeout".to_owned()),
                latency_ms: (at > 1).then_some(at as u64 * 10),
                cost: Cost {
                    at_least: NanoUsd(at as u64),
                    unknown: 0,
                },
                ..TaskFacts::default()
            };
            state.eval.tasks.update(&id, |it| *it = facts.clone());
        }
        let found = EndedResults::of(&spec, &Thresholds::default(), &state.eval);
        let octets = found.encode(&RunId::from("run_1"), 9).unwrap();
        let bytes = uncompressed(&octets[DIGEST_BYTES..]).unwrap();
        let mut rest = bytes.as_slice();
        let length = usize::try_from(read_number(&mut rest).unwrap()).unwrap();
        let (head, rows) = rest.split_at(length);
        let head: serde_json::Value = serde_json::from_slice(head).unwrap();
        insta::assert_json_snapshot!(json!({"format": FORMAT, "head": head, "rows": hex(rows)}));
    }

    #[test]
    fn altered_results_are_refused() {
        let spec = spec(3);
        let mut state = RunState::default();
        for id in spec.tasks.iter() {
            state.eval.tasks.update(&id, |it| it.scored = true);
        }
        let run = RunId::from("run_1");
        let found = EndedResults::of(&spec, &Thresholds::default(), &state.eval);
        let octets = found.encode(&run, 1).unwrap();
        for place in 0..octets.len() {
            let mut altered = octets.clone();
            altered[place] ^= 1;
            assert_eq!(EndedResults::decode(&run, 1, &spec.tasks, &altered), None);
        }
    }
}
