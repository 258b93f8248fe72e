//! The facts of a task as a few bytes.
//!
//! A row is a bit set of the numbers that are not zero, these numbers, and a JSON object with the
//! members that few tasks have. A task of one model call takes about 20 bytes instead of 700.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::facts::{Cost, TaskFacts};
use super::names::Names;
use touchstone_kit::ids::RunId;
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::events::{AssertionDecision, JudgeVote};
use touchstone_openwop::summary::SafetyFinding;

/// How many numbers a row has.
const NUMBERS: usize = 29;

/// The members of [`TaskFacts`] that few tasks have.
#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Rare {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fixture_missing: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    forbidden_tools: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    open_invocation: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metrics: BTreeMap<String, f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    decisions: Vec<AssertionDecision>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    votes: Vec<JudgeVote>,
    #[serde(skip_serializing_if = "Option::is_none")]
    safety_findings: Option<Vec<SafetyFinding>>,
    /// Only if they do not fit into a number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    assertions: Vec<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    criteria: Vec<bool>,
}

/// Appends the row of a task. Returns whether the row reads back unchanged; otherwise nothing is
/// appended.
pub(super) fn pack(facts: &TaskFacts, labels: &mut Names, rows: &mut Vec<u8>) -> bool {
    let start = rows.len();
    let is_written = write(facts, labels, rows).is_some();
    let written = rows.get(start..).unwrap_or_default();
    let is_same = is_written && unpack(written, labels).as_ref() == Some(facts);
    if !is_same {
        rows.truncate(start);
    }
    is_same
}

fn write(facts: &TaskFacts, labels: &mut Names, rows: &mut Vec<u8>) -> Option<()> {
    // Without `..`, so that a new member is not forgotten.
    let TaskFacts {
        score,
        passed,
        scored,
        cost,
        tokens,
        attempt_cost,
        attempt_tokens,
        usage_estimated,
        answers,
        cached_answers,
        cached_of_agent,
        cost_saved,
        tool_calls,
        all_retries,
        latency_ms,
        schema_valid,
        unjudged,
        failed,
        fixture_missing,
        forbidden_tools,
        effects,
        retries,
        reused_from,
        open_invocation,
        before_judge,
        judge_cost,
        before_user,
        user_cost,
        assertions,
        assertions_left_out,
        metrics,
        decisions,
        criteria,
        votes,
        safety_findings,
    } = facts;
    let flags = [
        *passed,
        *scored,
        *usage_estimated,
        *before_judge,
        *before_user,
        schema_valid.is_some(),
        *schema_valid == Some(true),
    ];
    let unless_number = |values: &[bool]| match number_of(values) {
        Some(_) => Vec::new(),
        None => values.to_vec(),
    };
    let rare = Rare {
        fixture_missing: fixture_missing.clone(),
        forbidden_tools: forbidden_tools.clone(),
        open_invocation: open_invocation.clone(),
        metrics: metrics.clone(),
        decisions: decisions.clone(),
        votes: votes.clone(),
        safety_findings: safety_findings.clone(),
        assertions: unless_number(assertions),
        criteria: unless_number(criteria),
    };
    let rare = match rare == Rare::default() {
        true => Vec::new(),
        false => serde_json::to_vec(&rare).ok()?,
    };
    let mut label = |text: Option<&str>| text.map_or(0, |text| u64::from(labels.add(text)) + 1);
    let numbers: [u64; NUMBERS] = [
        // The low bytes of simple scores are zero.
        score.to_bits().swap_bytes(),
        number_of(&flags)?,
        cost.at_least.0,
        *tokens,
        *answers,
        latency_ms.map_or(0, |ms| ms.saturating_add(1)),
        number_of(criteria).unwrap_or_default(),
        number_of(assertions).unwrap_or_default(),
        *tool_calls,
        label(reused_from.as_ref().map(RunId::as_str)),
        // Usually everything belongs to the attempt that counts.
        cost.at_least.0.wrapping_sub(attempt_cost.at_least.0),
        tokens.wrapping_sub(*attempt_tokens),
        judge_cost.at_least.0,
        user_cost.at_least.0,
        label(unjudged.as_deref()),
        label(failed.as_deref()),
        cost.unknown,
        cost.unknown.wrapping_sub(attempt_cost.unknown),
        judge_cost.unknown,
        user_cost.unknown,
        *all_retries,
        u64::from(*retries),
        u64::from(*effects),
        *cached_answers,
        *cached_of_agent,
        cost_saved.at_least.0,
        cost_saved.unknown,
        u64::from(*assertions_left_out),
        u64::try_from(rare.len()).ok()?,
    ];
    let used = numbers.iter().rposition(|number| *number > 0);
    let used = numbers.iter().take(used.map_or(0, |last| last + 1));
    let present: Vec<bool> = used.map(|number| *number > 0).collect();
    write_number(number_of(&present)?, rows);
    for number in numbers.into_iter().filter(|number| *number > 0) {
        write_number(number, rows);
    }
    rows.extend(rare);
    Some(())
}

/// The numbers of a row, which are taken from the bytes.
fn take_numbers(bytes: &mut &[u8]) -> Option<[u64; NUMBERS]> {
    let present = values_of(read_number(bytes)?);
    let mut numbers = [0; NUMBERS];
    for (number, is_present) in numbers.iter_mut().zip(present) {
        if is_present {
            *number = read_number(bytes)?;
        }
    }
    Some(numbers)
}

/// The row that `bytes` starts with.
pub(super) fn first(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes;
    let [.., rare] = take_numbers(&mut rest)?;
    let end = bytes.len() - rest.len();
    bytes.get(..end.checked_add(usize::try_from(rare).ok()?)?)
}

/// The facts of the row that `bytes` starts with; `None` if no row was written there.
pub(super) fn unpack(mut bytes: &[u8], labels: &Names) -> Option<TaskFacts> {
    let [
        score,
        flags,
        cost,
        tokens,
        answers,
        latency,
        criteria,
        assertions,
        tool_calls,
        reused_from,
        other_cost,
        other_tokens,
        judge_cost,
        user_cost,
        unjudged,
        failed,
        unknown_costs,
        other_unknown_costs,
        unknown_judge_costs,
        unknown_user_costs,
        all_retries,
        retries,
        effects,
        cached_answers,
        cached_of_agent,
        cost_saved,
        unknown_costs_saved,
        assertions_left_out,
        rare,
    ] = take_numbers(&mut bytes)?;
    let mut flags = values_of(flags);
    let [
        passed,
        scored,
        usage_estimated,
        before_judge,
        before_user,
        has_schema,
        fits_schema,
    ] = std::array::from_fn(|_| flags.next().unwrap_or_default());
    let rare: Rare = match usize::try_from(rare).ok()? {
        0 => Rare::default(),
        length => serde_json::from_slice(bytes.get(..length)?).ok()?,
    };
    let cost_of = |at_least, unknown| Cost {
        at_least: NanoUsd(at_least),
        unknown,
    };
    let or = |number, rare: Vec<bool>| match rare.is_empty() {
        true => values_of(number).collect(),
        false => rare,
    };
    let label = |number: u64| match number.checked_sub(1) {
        None => Some(None),
        Some(number) => labels.get(u32::try_from(number).ok()?).map(Some),
    };
    Some(TaskFacts {
        score: f64::from_bits(score.swap_bytes()),
        passed,
        scored,
        cost: cost_of(cost, unknown_costs),
        tokens,
        attempt_cost: cost_of(
            cost.wrapping_sub(other_cost),
            unknown_costs.wrapping_sub(other_unknown_costs),
        ),
        attempt_tokens: tokens.wrapping_sub(other_tokens),
        usage_estimated,
        answers,
        cached_answers,
        cached_of_agent,
        cost_saved: cost_of(cost_saved, unknown_costs_saved),
        tool_calls,
        all_retries,
        latency_ms: latency.checked_sub(1),
        schema_valid: has_schema.then_some(fits_schema),
        unjudged: label(unjudged)?.map(str::to_owned),
        failed: label(failed)?.map(str::to_owned),
        fixture_missing: rare.fixture_missing,
        forbidden_tools: rare.forbidden_tools,
        effects: u32::try_from(effects).ok()?,
        retries: u32::try_from(retries).ok()?,
        reused_from: label(reused_from)?.map(RunId::from),
        open_invocation: rare.open_invocation,
        before_judge,
        judge_cost: cost_of(judge_cost, unknown_judge_costs),
        before_user,
        user_cost: cost_of(user_cost, unknown_user_costs),
        assertions: or(assertions, rare.assertions),
        assertions_left_out: u32::try_from(assertions_left_out).ok()?,
        metrics: rare.metrics,
        decisions: rare.decisions,
        criteria: or(criteria, rare.criteria),
        votes: rare.votes,
        safety_findings: rare.safety_findings,
    })
}

/// Up to 63 values as the bits of a number, the first one lowest. The highest bit marks their end;
/// no values are 0.
fn number_of(values: &[bool]) -> Option<u64> {
    match values.len() {
        0 => Some(0),
        1..64 => {
            let bits = values.iter().rev();
            Some(bits.fold(1, |number, bit| number << 1 | u64::from(*bit)))
        }
        _ => None,
    }
}

fn values_of(number: u64) -> impl Iterator<Item = bool> {
    let count = number.checked_ilog2().unwrap_or_default();
    (0..count).map(move |bit| number >> bit & 1 == 1)
}

/// Writes the low 7 bits first; the highest bit of a byte says that more follow (LEB128).
pub(crate) fn write_number(mut number: u64, into: &mut Vec<u8>) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        match number {
            0 => return into.push(low & 0x7f),
            _ => into.push(low | 0x80),
        }
    }
}

pub(crate) fn read_number(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use touchstone_openwop::summary::Severity;

    fn cost() -> impl Strategy<Value = Cost> {
        (number(), number()).prop_map(|(at_least, unknown)| Cost {
            at_least: NanoUsd(at_least),
            unknown,
        })
    }

    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![3 => Just(0), 3 => 0..1000_u64, 1 => any::<u64>()]
    }

    fn names() -> impl Strategy<Value = Vec<String>> {
        prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(".*", 0..3)]
    }

    fn bits() -> impl Strategy<Value = Vec<bool>> {
        let length = prop_oneof![0..3_usize, 62..66_usize];
        length.prop_flat_map(|length| prop::collection::vec(any::<bool>(), length))
    }

    fn decision() -> impl Strategy<Value = AssertionDecision> {
        (
            "[0-9.]{1,4}",
            0.0..=1.0,
            any::<bool>(),
            any::<Option<String>>(),
        )
            .prop_map(|(assertion, score, holds, label)| AssertionDecision {
                assertion,
                by: "sha256-judge".to_owned(),
                score,
                holds,
                label,
                verdicts: vec![holds],
            })
    }

    fn facts() -> impl Strategy<Value = TaskFacts> {
        let sums = (cost(), cost(), cost(), cost(), cost());
        let numbers = prop::array::uniform9(number());
        let small = (any::<u32>(), 0..3_u32, any::<u32>());
        let flags = prop::array::uniform5(any::<bool>());
        let options = (
            prop::option::of(number()),
            any::<Option<bool>>(),
            any::<Option<String>>(),
            any::<Option<String>>(),
            any::<Option<String>>(),
            any::<Option<String>>(),
        );
        let lists = (names(), names(), bits(), bits());
        let metrics = prop::collection::btree_map(".*", 0.0..=1.0, 0..3);
        let decisions = prop::collection::vec(decision(), 0..3);
        let votes = prop::collection::vec((".*", bits()), 0..2);
        let findings = prop::option::of(prop::collection::vec(".*", 0..2));
        let score = prop_oneof![Just(0.0), Just(1.0), 0.0..=1.0];
        let judged = (metrics, decisions, votes, findings, score);
        (sums, numbers, small, flags, options, lists, judged).prop_map(
            |(sums, numbers, small, flags, options, lists, judged)| TaskFacts {
                score: judged.4,
                passed: flags[0],
                scored: flags[1],
                cost: sums.0,
                tokens: numbers[0],
                attempt_cost: sums.1,
                attempt_tokens: numbers[1],
                usage_estimated: flags[2],
                answers: numbers[2],
                cached_answers: numbers[3],
                cached_of_agent: numbers[4],
                cost_saved: sums.2,
                tool_calls: numbers[5],
                all_retries: numbers[6],
                latency_ms: options.0,
                schema_valid: options.1,
                unjudged: options.2,
                failed: options.3,
                fixture_missing: lists.0,
                forbidden_tools: lists.1,
                effects: small.0,
                retries: small.1,
                reused_from: options.4.map(RunId::from),
                open_invocation: options.5,
                before_judge: flags[3],
                judge_cost: sums.3,
                before_user: flags[4],
                user_cost: sums.4,
                assertions: lists.2,
                assertions_left_out: small.2,
                metrics: judged.0,
                decisions: judged.1,
                criteria: lists.3,
                votes: (judged.2.into_iter())
                    .map(|(judge, met)| JudgeVote { judge, met })
                    .collect(),
                safety_findings: judged.3.map(|kinds| {
                    let found = kinds.into_iter().map(|kind| SafetyFinding {
                        kind,
                        severity: Severity::High,
                    });
                    found.collect()
                }),
            },
        )
    }

    proptest! {
        #[test]
        fn rows_read_back_unchanged(tasks in prop::collection::vec(facts(), 1..4)) {
            let (mut labels, mut rows) = (Names::default(), Vec::new());
            for task in tasks {
                let start = rows.len();
                // The longest latency has no number of its own.
                let fits = task.latency_ms != Some(u64::MAX);
                prop_assert_eq!(pack(&task, &mut labels, &mut rows), fits);
                let found = unpack(&rows[start..], &labels);
                prop_assert_eq!(found, fits.then_some(task));
                let row = rows[start..].to_vec();
                rows.extend([1, 2, 3]);
                prop_assert_eq!(first(&rows[start..]), fits.then_some(row.as_slice()));
                rows.truncate(start + row.len());
            }
        }

        #[test]
        fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            unpack(&bytes, &Names::default());
            first(&bytes);
        }
    }

    #[test]
    fn facts_that_do_not_read_back_are_not_packed() {
        let (mut labels, mut rows) = (Names::default(), vec![7]);
        let facts = TaskFacts {
            score: f64::NAN,
            ..TaskFacts::default()
        };
        assert!(!pack(&facts, &mut labels, &mut rows));
        assert_eq!(rows, [7]);
    }

    #[test]
    fn plain_tasks_are_small() {
        let facts = TaskFacts {
            score: 1.0,
            passed: true,
            scored: true,
            cost: Cost {
                at_least: NanoUsd(4650),
                unknown: 0,
            },
            attempt_cost: Cost {
                at_least: NanoUsd(4650),
                unknown: 0,
            },
            tokens: 40,
            attempt_tokens: 40,
            answers: 1,
            latency_ms: Some(850),
            before_judge: true,
            ..TaskFacts::default()
        };
        let mut rows = Vec::new();
        assert!(pack(&facts, &mut Names::default(), &mut rows));
        assert!(rows.len() <= 12, "{} bytes", rows.len());
    }
}
