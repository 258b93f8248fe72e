//! Judge calibration (AAAF, model graders): the judge scores samples that people have scored too,
//! and the two rankings are compared. Without calibration, a judge's scores are unverified.

use std::collections::{BTreeMap, HashSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rules::eval::judged::parts::JudgedParts;
use crate::rules::eval::scoring_document::{Check, ScoringDocument};
use crate::rules::run::record::JudgePin;
use touchstone_kit::ids::TaskId;
use touchstone_kit::money::NanoUsd;
use touchstone_kit::statistics::{Interval, spearman};
use touchstone_openwop::suite::{AgentEvalSuite, Task};

/// Minimum number of samples for a reliable result.
pub const MIN_SAMPLES: usize = 100;
/// Maximum number of samples of one calibration.
pub const MAX_SAMPLES: usize = 2000;
/// The default minimum agreement of a gate.
pub const MIN_AGREEMENT: f64 = 0.80;
/// A provider may change a model under the same name, so a calibration expires after this time.
const VALID_FOR: SignedDuration = SignedDuration::from_hours(90 * 24);
const CONFIDENCE: f64 = 0.95;
const EPSILON: f64 = 1e-9;

/// An answer scored by people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sample {
    /// Name of the sample, unique in a calibration.
    pub item: String,
    /// The task it answers; may be omitted if the suite has only one rubric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    pub output: Value,
    /// People's scores, one number per rater, on any scale; only the mean is used.
    pub human: Vec<f64>,
    /// Results of the agent's tools, for assertions whose context this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_results: Option<Vec<Value>>,
    /// The answer of a baseline, for assertions that compare with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Value>,
}

/// Why samples cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error(
        "{0} samples are too few: at least {MIN_SAMPLES} are needed, or set `allowFew` for a \
         preliminary result"
    )]
    TooFew(usize),
    #[error("{0} samples are too many: at most {MAX_SAMPLES} are allowed")]
    TooMany(usize),
    #[error("item `{0}` occurs twice; every sample needs a unique name")]
    Twice(String),
    #[error("item `{0}` needs at least one human score, each of them a number")]
    Unscored(String),
    #[error(
        "item `{0}` must name a task of the suite in `task` that has a rubric or a judged assertion; \
         omit it only if the suite has exactly one"
    )]
    NoTask(String),
    #[error("item `{0}` needs `{1}`, because an assertion of its task is decided by it")]
    Incomplete(String, &'static str),
    /// Rank correlation is undefined for constant scores.
    #[error(
        "the {0} scores are all the same, so agreement cannot be computed; add samples that \
         differ"
    )]
    Constant(&'static str),
}

/// Pairs each sample with the task it answers.
///
/// # Errors
/// The first sample that cannot be used.
pub fn pair<'a>(
    suite: &'a AgentEvalSuite,
    scoring: Option<&'a ScoringDocument>,
    samples: &'a [Sample],
    allow_few: bool,
) -> Result<Vec<(&'a Sample, &'a Task)>, Unusable> {
    let count = samples.len();
    if count > MAX_SAMPLES {
        return Err(Unusable::TooMany(count));
    }
    // Below four samples there is no interval, and two samples always agree or disagree completely.
    if count < MIN_SAMPLES && !(allow_few && count > 3) {
        return Err(Unusable::TooFew(count));
    }
    let judged: Vec<&Task> = suite
        .tasks
        .iter()
        .filter(|task| !JudgedParts::of(task, scoring).is_empty())
        .collect();
    let mut names = HashSet::new();
    let mut paired = Vec::with_capacity(count);
    for sample in samples {
        let name = || sample.item.clone();
        if !names.insert(&sample.item) {
            return Err(Unusable::Twice(name()));
        }
        if sample.human.is_empty() || !sample.human.iter().all(|score| score.is_finite()) {
            return Err(Unusable::Unscored(name()));
        }
        let task = match (&sample.task, judged.as_slice()) {
            (Some(id), tasks) => tasks.iter().find(|task| task.task_id == *id).copied(),
            (None, [only]) => Some(*only),
            (None, _) => None,
        };
        let task = task.ok_or_else(|| Unusable::NoTask(name()))?;
        let parts = JudgedParts::of(task, scoring);
        if sample.tool_results.is_none() && parts.has(Check::reads_tool_results) {
            return Err(Unusable::Incomplete(name(), "toolResults"));
        }
        if sample.baseline.is_none() && parts.has(Check::needs_baseline) {
            return Err(Unusable::Incomplete(name(), "baseline"));
        }
        paired.push((sample, task));
    }
    let first = human(samples.first());
    if samples.iter().all(|sample| human(Some(sample)) == first) {
        return Err(Unusable::Constant("human"));
    }
    Ok(paired)
}

/// The mean of the raters.
#[expect(clippy::cast_precision_loss, reason = "raters are far below 2^53")]
fn human(sample: Option<&Sample>) -> Option<f64> {
    let scores = &sample?.human;
    Some(scores.iter().sum::<f64>() / scores.len() as f64)
}

/// Number of samples that share their score with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ties {
    pub judge: usize,
    pub human: usize,
}

/// The result of calibrating a judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Calibration {
    /// The calibrated judge; a change of model, prompt, rubrics or parameters makes it a different
    /// judge.
    #[serde(flatten)]
    pub judge: JudgePin,
    pub suite: String,
    pub samples: usize,
    /// Spearman's ρ of the judge's and people's scores, with mid-ranks for ties.
    pub spearman: f64,
    /// Its 95 % interval; absent at a ρ of ±1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Bounds>,
    /// Samples with tied scores.
    pub ties: Ties,
    /// Cost of the judge; absent if its price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<NanoUsd>,
    /// Time of the calibration.
    pub calibrated_at: Timestamp,
    /// When it expires.
    pub valid_until: Timestamp,
}

impl Calibration {
    /// Whether the calibration is usable at this time, whatever its result: it has enough samples
    /// and has not expired.
    pub fn counts_at(&self, now: Timestamp) -> bool {
        self.samples >= MIN_SAMPLES && now < self.valid_until
    }
}

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    pub low: f64,
    pub high: f64,
}

impl From<Interval> for Bounds {
    fn from(interval: Interval) -> Self {
        Self {
            low: interval.low,
            high: interval.high,
        }
    }
}

/// Compares a judge's scores with people's scores.
///
/// # Errors
/// The judge gave all samples the same score.
pub fn compare(
    judge: JudgePin,
    suite: &AgentEvalSuite,
    scored: &[(&Sample, f64)],
    cost_usd: Option<NanoUsd>,
    now: Timestamp,
) -> Result<Calibration, Unusable> {
    let pairs: Vec<(f64, f64)> = scored
        .iter()
        .filter_map(|(sample, score)| Some((even(*score), even(human(Some(sample))?))))
        .collect();
    let found = spearman(&pairs, CONFIDENCE).ok_or(Unusable::Constant("judge's"))?;
    Ok(Calibration {
        judge,
        suite: suite.reference(),
        samples: pairs.len(),
        spearman: found.rho,
        interval: found.interval.map(Bounds::from),
        ties: Ties {
            judge: tied(pairs.iter().map(|(judge, _)| *judge)),
            human: tied(pairs.iter().map(|(_, human)| *human)),
        },
        cost_usd,
        calibrated_at: now,
        valid_until: now.saturating_add(VALID_FOR).unwrap_or(Timestamp::MAX),
    })
}

/// Rounds away floating-point noise, which would give an order to equal scores.
fn even(score: f64) -> f64 {
    let rounded = (score / EPSILON).round() * EPSILON;
    if rounded.is_finite() { rounded } else { score }
}

fn tied(values: impl Iterator<Item = f64>) -> usize {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for value in values {
        // 0.0 and -0.0 are equal.
        *counts.entry((value + 0.0).to_bits()).or_default() += 1;
    }
    counts.into_values().filter(|count| *count > 1).sum()
}

/// Why a judge's agreement is insufficient.
#[derive(Clone, Debug, PartialEq)]
pub enum CalibrationShortfall {
    /// It was never calibrated.
    Uncalibrated,
    /// The calibration expired.
    Expired(Timestamp),
    /// The calibration has too few samples.
    Few(usize),
    /// The agreement is too low.
    Disagrees(f64),
}

impl std::fmt::Display for CalibrationShortfall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Uncalibrated => f.write_str("was never compared with people"),
            Self::Expired(at) => write!(
                f,
                "was compared with people, but the calibration expired at {at}"
            ),
            Self::Few(samples) => write!(
                f,
                "was compared with people on only {samples} samples, but {MIN_SAMPLES} are needed"
            ),
            Self::Disagrees(rho) => write!(f, "has an agreement with people of only {rho:.3}"),
        }
    }
}

/// Why a judge's scores cannot be relied on; `None` if they can.
pub fn shortfall(
    calibration: Option<&Calibration>,
    least: f64,
    now: Timestamp,
) -> Option<CalibrationShortfall> {
    let Some(found) = calibration else {
        return Some(CalibrationShortfall::Uncalibrated);
    };
    if now >= found.valid_until {
        return Some(CalibrationShortfall::Expired(found.valid_until));
    }
    if found.samples < MIN_SAMPLES {
        return Some(CalibrationShortfall::Few(found.samples));
    }
    // Written so that a NaN is never enough.
    let enough = found.spearman + EPSILON >= least;
    (!enough).then_some(CalibrationShortfall::Disagrees(found.spearman))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::rules::eval::rubric::Rubrics;
    use crate::rules::run::record::ModelPin;

    fn suite(rubrics: usize) -> AgentEvalSuite {
        let rubric = json!([{"criterion": "c", "weight": 1}]);
        let mut tasks = vec![
            json!({"taskId": "golden", "input": 1, "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "y"}}}),
        ];
        tasks.extend((0..rubrics).map(|n| {
            json!({"taskId": format!("judged-{n}"), "input": 1, "expected": {"kind": "rubric", "rubric": rubric}})
        }));
        serde_json::from_value(
            json!({"suiteId": "vendor.acme.evals.tone", "version": "1.0.0",
            "modes": ["rubric"], "tasks": tasks}),
        )
        .unwrap()
    }

    /// `count` samples with human scores 0, 1, 2 and so on.
    fn samples(count: u32) -> Vec<Sample> {
        let of = |n: u32| Sample {
            item: format!("item-{n}"),
            task: None,
            output: json!("x"),
            human: vec![f64::from(n) - 0.5, f64::from(n) + 0.5],
            tool_results: None,
            baseline: None,
        };
        (0..count).map(of).collect()
    }

    #[rstest]
    #[case::enough(100, false, None)]
    #[case::too_few(99, false, Some(Unusable::TooFew(99)))]
    #[case::few_on_purpose(99, true, None)]
    #[case::none(0, true, Some(Unusable::TooFew(0)))]
    #[case::next_to_none(3, true, Some(Unusable::TooFew(3)))]
    #[case::too_many(2001, false, Some(Unusable::TooMany(2001)))]
    fn calibration_requires_100_to_2000_samples(
        #[case] count: u32,
        #[case] allow_few: bool,
        #[case] expected: Option<Unusable>,
    ) {
        let (suite, samples) = (suite(1), samples(count));
        assert_eq!(pair(&suite, None, &samples, allow_few).err(), expected);
    }

    #[rstest]
    #[case::twice(1, |s: &mut Vec<Sample>| s[1].item = "item-0".to_owned(), Unusable::Twice("item-0".to_owned()))]
    #[case::unscored(1, |s: &mut Vec<Sample>| s[4].human.clear(), Unusable::Unscored("item-4".to_owned()))]
    #[case::no_number(1, |s: &mut Vec<Sample>| s[4].human[0] = f64::NAN, Unusable::Unscored("item-4".to_owned()))]
    #[case::which_task(2, |_: &mut Vec<Sample>| {}, Unusable::NoTask("item-0".to_owned()))]
    #[case::no_rubric(0, |_: &mut Vec<Sample>| {}, Unusable::NoTask("item-0".to_owned()))]
    #[case::golden_task(1, |s: &mut Vec<Sample>| s[0].task = Some("golden".into()), Unusable::NoTask("item-0".to_owned()))]
    #[case::constant(1, |s: &mut Vec<Sample>| s.iter_mut().for_each(|s| s.human = vec![1.0]), Unusable::Constant("human"))]
    fn unusable_samples_are_named(
        #[case] rubrics: usize,
        #[case] change: fn(&mut Vec<Sample>),
        #[case] expected: Unusable,
    ) {
        let mut samples = samples(100);
        change(&mut samples);
        assert_eq!(pair(&suite(rubrics), None, &samples, false), Err(expected));
    }

    fn judge() -> JudgePin {
        let model = ModelPin {
            provider: "p".to_owned(),
            model: "examiner-1".to_owned(),
        };
        JudgePin::of(&model, &Rubrics::of(&suite(1).tasks), None).unwrap()
    }

    fn compared(scores: impl Fn(u32) -> f64, count: u32) -> Result<Calibration, Unusable> {
        let samples = samples(count);
        let scored: Vec<(&Sample, f64)> = samples
            .iter()
            .zip(0..)
            .map(|(sample, n)| (sample, scores(n)))
            .collect();
        compare(
            judge(),
            &suite(1),
            &scored,
            Some(NanoUsd(7)),
            Timestamp::UNIX_EPOCH,
        )
    }

    #[test]
    fn agreement_is_the_rank_correlation() {
        let same = compared(|n| f64::from(n).powi(3), 100).unwrap();
        assert_eq!((same.spearman, same.interval), (1.0, None));
        assert_eq!(same.ties, Ties { judge: 0, human: 0 });
        assert!(compared(|n| -f64::from(n), 100).unwrap().spearman < -0.999_999);
        // Binary scores split in halves: ρ is √3/2 in the limit; n = 4 gives 2/√5.
        let split = compared(|n| f64::from(u8::from(n >= 2)), 4).unwrap();
        assert!((split.spearman - 2.0 / 5.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(split.ties, Ties { judge: 4, human: 0 });
        assert_eq!(compared(|_| 0.5, 100), Err(Unusable::Constant("judge's")));
    }

    #[test]
    fn a_calibration_counts_ninety_days_on_enough_samples_that_agree() {
        let good = compared(|n| f64::from(n / 10), 100).unwrap();
        let bounds = good.interval.unwrap();
        assert!(bounds.low < good.spearman && good.spearman < bounds.high);
        let day = |days: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * days);
        let doubted = |of: &Calibration, at| shortfall(Some(of), MIN_AGREEMENT, at);
        assert_eq!(doubted(&good, day(89)), None);
        assert_eq!(
            doubted(&good, day(90)),
            Some(CalibrationShortfall::Expired(day(90)))
        );
        assert_eq!(
            shortfall(None, MIN_AGREEMENT, day(0)),
            Some(CalibrationShortfall::Uncalibrated)
        );
        let few = compared(|n| f64::from(n / 10), 99).unwrap();
        assert_eq!(doubted(&few, day(0)), Some(CalibrationShortfall::Few(99)));
        let against = compared(|n| -f64::from(n), 100).unwrap();
        let counts = |of: &Calibration, n| of.counts_at(day(n));
        assert!(
            counts(&good, 89) && counts(&against, 89),
            "bad news counts, too"
        );
        assert!(!counts(&good, 90) && !counts(&few, 0));
        let edge = |spearman| Calibration {
            spearman,
            ..good.clone()
        };
        assert_eq!(doubted(&edge(0.8 - 1e-10), day(0)), None);
        assert_eq!(
            doubted(&edge(0.79), day(0)),
            Some(CalibrationShortfall::Disagrees(0.79))
        );
        assert!(doubted(&edge(f64::NAN), day(0)).is_some());
    }
}
