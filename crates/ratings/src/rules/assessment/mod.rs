//! An assessment (AAAF assessments): which evidence it uses, how much evidence it needs, and what
//! it finds.

pub mod baseline;
pub mod calibration;
pub mod grader;
pub mod improvement;
pub mod order;
pub mod overview;
pub mod reassessment;

use jiff::{SignedDuration, Timestamp};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};

use crate::rules::appeal::{Override, OverrideFault};
use crate::rules::config::Config;
use crate::rules::evidence::{Event, RETENTION_DAYS, Sources};
use crate::rules::scoring::composite::AxisRating;
use crate::rules::scoring::dimension::{Axis, Dimension};
use crate::rules::scoring::folded::FoldedEvidence;
use crate::rules::scoring::interval::{self, Intervals};
use crate::rules::scoring::measure::Measure;
use touchstone_kit::error::INSUFFICIENT_EVIDENCE;

/// The evidence that an assessment uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Passive evidence and the assessment's own stress test.
    Full,
    /// Passive evidence only.
    PassiveOnly,
    /// The assessment's own stress test only.
    StressTestOnly,
    /// One dimension; no minimums, composite, tier or badge.
    SingleDimension(Dimension),
}

impl Kind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::PassiveOnly => "passive_only",
            Self::StressTestOnly => "stress_test_only",
            Self::SingleDimension(_) => "single_dimension",
        }
    }

    pub const fn dimension(self) -> Option<Dimension> {
        match self {
            Self::SingleDimension(dimension) => Some(dimension),
            _ => None,
        }
    }
}

/// Selects the evidence that counts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Document")]
pub struct Assessment {
    /// The id that the events of its stress test carry.
    pub id: Option<String>,
    pub kind: Kind,
    /// Start of the window for passive evidence, inclusive.
    pub window_start: Timestamp,
    /// End of the window, exclusive.
    pub window_end: Timestamp,
}

/// Days at the start of the longest window whose events may already be deleted.
const RETENTION_MARGIN: i64 = 7;

/// Why an assessment that rated both axes certifies nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Uncertified {
    /// The window is too short or ended too long ago.
    #[error(
        "a badge needs a window of at least {days} days that ends less than 24 hours before the \
        assessment is requested"
    )]
    Window {
        /// Minimum window of the organization, in days.
        days: u32,
    },
    /// Evidence collection had not begun when the window started.
    #[error(
        "a badge needs {days} days of evidence collection, but no evidence about this agent was \
        recorded before {since}; request another assessment after {days} days of collection"
    )]
    Collection {
        /// Minimum window of the organization, in days.
        days: u32,
        /// The time by which evidence was required.
        since: Timestamp,
    },
}

/// Maximum time between the end of a window and the order of an assessment that can be certified.
const CURRENT: SignedDuration = SignedDuration::from_hours(24);

impl Assessment {
    /// The time by which evidence collection must have begun for a certificate of an assessment
    /// ordered at `now`. A badge describes the agent's current state, over at least the collection
    /// period of the organization (AAAF assessments). `None` if only the assessment's own stress
    /// test counts.
    ///
    /// # Errors
    /// A window that is too short or ended too long ago.
    pub fn collected_by(
        &self,
        asked_at: Timestamp,
        config: &Config,
    ) -> Result<Option<Timestamp>, Uncertified> {
        let days = config.rules.assessment_window_days;
        let hours = |days: i64| SignedDuration::from_hours(24 * days);
        let long = self.window_end.duration_since(self.window_start) >= hours(i64::from(days));
        if !long || asked_at.duration_since(self.window_end) > CURRENT {
            return Err(Uncertified::Window { days });
        }
        if self.kind == Kind::StressTestOnly {
            return Ok(None);
        }
        let kept = i64::from(days).min(RETENTION_DAYS - RETENTION_MARGIN);
        let since = self.window_end.checked_sub(hours(kept));
        Ok(Some(since.unwrap_or(Timestamp::MIN)))
    }
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(rename = "type", default = "full")]
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dimension: Option<Dimension>,
    window_start: Timestamp,
    window_end: Timestamp,
}

fn full() -> String {
    Kind::Full.as_str().to_owned()
}

/// Why the parameters of an assessment are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssessmentFault {
    #[error(
        "`{0}` is not an assessment type; use full, passive_only, stress_test_only or \
        single_dimension"
    )]
    Kind(String),
    #[error(
        "`dimension` is required for a single_dimension assessment and not allowed for other \
        types"
    )]
    Dimension,
    #[error("`window_start` must be before `window_end`")]
    Window,
}

impl Assessment {
    /// Creates an assessment of this type over this window.
    ///
    /// # Errors
    /// Parameters that contradict each other.
    pub fn new(
        id: Option<String>,
        kind: &str,
        dimension: Option<Dimension>,
        window_start: Timestamp,
        window_end: Timestamp,
    ) -> Result<Self, AssessmentFault> {
        let kind = match (kind, dimension) {
            ("full", None) => Kind::Full,
            ("passive_only", None) => Kind::PassiveOnly,
            ("stress_test_only", None) => Kind::StressTestOnly,
            ("single_dimension", Some(dimension)) => Kind::SingleDimension(dimension),
            ("full" | "passive_only" | "stress_test_only" | "single_dimension", _) => {
                return Err(AssessmentFault::Dimension);
            }
            _ => return Err(AssessmentFault::Kind(kind.to_owned())),
        };
        if window_start >= window_end {
            return Err(AssessmentFault::Window);
        }
        Ok(Self {
            id,
            kind,
            window_start,
            window_end,
        })
    }
}

impl TryFrom<Document> for Assessment {
    type Error = AssessmentFault;

    fn try_from(it: Document) -> Result<Self, AssessmentFault> {
        Self::new(
            it.id,
            &it.kind,
            it.dimension,
            it.window_start,
            it.window_end,
        )
    }
}

impl Serialize for Assessment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Document {
            id: self.id.clone(),
            kind: self.kind.as_str().to_owned(),
            dimension: self.kind.dimension(),
            window_start: self.window_start,
            window_end: self.window_end,
        }
        .serialize(serializer)
    }
}

/// The result of scoring.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Scored {
    Rating(Box<Rating>),
    Single(Box<Single>),
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rating {
    /// Number of task records that performance is based on.
    pub tasks_performance: usize,
    /// Number of tasks with any evidence, which capability is based on.
    pub tasks_capability: usize,
    pub performance: AxisRating,
    pub capability: AxisRating,
    pub evidence: EvidenceBasis,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Single {
    pub dimension: Dimension,
    pub result: Measure,
    pub evidence: EvidenceBasis,
}

/// Identifies the evidence of a score, so that a reader can check for the same evidence later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceBasis {
    /// Number of events that counted.
    pub events: usize,
    /// Number of those events by kind of recorder; empty if unknown.
    #[serde(default, skip_serializing_if = "Sources::is_empty")]
    pub sources: Sources,
    /// SHA-256 over the sorted event ids.
    pub digest: String,
}

impl Rating {
    pub const fn axis(&self, axis: Axis) -> &AxisRating {
        match axis {
            Axis::Performance => &self.performance,
            Axis::Capability => &self.capability,
        }
    }
}

/// Why scoring failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScoringError {
    #[error(transparent)]
    Insufficient(#[from] Insufficient),
    #[error(transparent)]
    Override(#[from] OverrideFault),
}

/// Too little evidence. Serializes to the details of the framework's error `INSUFFICIENT_EVIDENCE`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Insufficient {
    #[error(
        "{axis} needs {required_count} tasks from {window_start} until {window_end}, but only \
        {current_count} are recorded; record more evidence or choose a longer window"
    )]
    Tasks {
        axis: Axis,
        current_count: usize,
        required_count: usize,
        window_start: Timestamp,
        window_end: Timestamp,
    },
    #[error(
        "{axis} has evidence for {weight_coverage} of its weights, but needs {required_coverage}; \
        record evidence for {}",
        named(.missing_dimensions)
    )]
    Coverage {
        axis: Axis,
        /// The share with evidence, 0..=1.
        weight_coverage: f64,
        /// The required share, 0..=1.
        required_coverage: f64,
        /// Dimensions without evidence.
        missing_dimensions: Vec<Dimension>,
    },
    /// The requested dimension has no evidence.
    #[error("{dimension} cannot be assessed: {reason}")]
    Dimension {
        dimension: Dimension,
        reason: &'static str,
    },
}

impl Insufficient {
    /// The framework's error code.
    pub const CODE: &'static str = INSUFFICIENT_EVIDENCE;
}

fn named(dimensions: &[Dimension]) -> String {
    let names: Vec<&str> = dimensions.iter().map(|it| it.as_str()).collect();
    names.join(", ")
}

impl Serialize for Insufficient {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Tasks {
                axis,
                current_count,
                required_count,
                window_start,
                window_end,
            } => {
                map.serialize_entry("axis", axis)?;
                map.serialize_entry("current_count", current_count)?;
                map.serialize_entry("required_count", required_count)?;
                map.serialize_entry("window_start", window_start)?;
                map.serialize_entry("window_end", window_end)?;
            }
            Self::Coverage {
                axis,
                weight_coverage,
                required_coverage,
                missing_dimensions,
            } => {
                map.serialize_entry("axis", axis)?;
                map.serialize_entry("weight_coverage", weight_coverage)?;
                map.serialize_entry("required_coverage", required_coverage)?;
                map.serialize_entry("missing_dimensions", missing_dimensions)?;
            }
            Self::Dimension { dimension, .. } => map.serialize_entry("dimension", dimension)?,
        }
        map.end()
    }
}

/// All measures, before composites and tiers are computed.
pub(crate) struct Measured {
    pub performance: Vec<(Dimension, Measure)>,
    pub capability: Vec<(Dimension, Measure)>,
    pub tasks_performance: usize,
    pub tasks_capability: usize,
    pub evidence: EvidenceBasis,
}

pub(crate) fn measure(
    events: &[Event],
    assessment: &Assessment,
    config: &Config,
    overrides: &[Override],
) -> Result<Measured, OverrideFault> {
    let mut folded = FoldedEvidence::default();
    folded.add(events, assessment, config, overrides)?;
    Ok(folded.measured(config))
}

impl Measured {
    fn enough_tasks(&self, assessment: &Assessment, config: &Config) -> Result<(), Insufficient> {
        let rules = &config.rules;
        let axes = [
            (
                Axis::Performance,
                self.tasks_performance,
                rules.minimum_tasks_performance,
            ),
            (
                Axis::Capability,
                self.tasks_capability,
                rules.minimum_tasks_capability,
            ),
        ];
        match axes.into_iter().find(|(_, there, needed)| there < needed) {
            None => Ok(()),
            Some((axis, current_count, required_count)) => Err(Insufficient::Tasks {
                axis,
                current_count,
                required_count,
                window_start: assessment.window_start,
                window_end: assessment.window_end,
            }),
        }
    }

    fn scored(self, assessment: &Assessment, config: &Config) -> Result<Scored, ScoringError> {
        if let Kind::SingleDimension(dimension) = assessment.kind {
            return Ok(Scored::Single(Box::new(self.single(dimension)?)));
        }
        self.enough_tasks(assessment, config)?;
        Ok(Scored::Rating(Box::new(self.rating(config)?)))
    }

    /// Rates both axes, if enough of their dimensions are assessed.
    pub fn rating(self, config: &Config) -> Result<Rating, Insufficient> {
        let performance = AxisRating::of(
            Axis::Performance,
            self.performance,
            &config.performance_weights,
        );
        let capability = AxisRating::of(
            Axis::Capability,
            self.capability,
            &config.capability_weights,
        );
        for (axis, rating) in [
            (Axis::Performance, &performance),
            (Axis::Capability, &capability),
        ] {
            let required_coverage = config.rules.min_axis_weight_coverage;
            if rating.weight_coverage < required_coverage {
                return Err(Insufficient::Coverage {
                    axis,
                    weight_coverage: rating.weight_coverage,
                    required_coverage,
                    missing_dimensions: rating.missing(config.weights(axis)),
                });
            }
        }
        Ok(Rating {
            tasks_performance: self.tasks_performance,
            tasks_capability: self.tasks_capability,
            performance,
            capability,
            evidence: self.evidence,
        })
    }

    fn single(self, dimension: Dimension) -> Result<Single, Insufficient> {
        let mut all = self.performance.into_iter().chain(self.capability);
        let found = all
            .find(|(it, _)| *it == dimension)
            .map(|(_, measure)| measure);
        let result = found.unwrap_or_else(|| Measure::unassessed("it is not measured"));
        match result.raw {
            Some(_) => Ok(Single {
                dimension,
                result,
                evidence: self.evidence,
            }),
            None => Err(Insufficient::Dimension {
                dimension,
                reason: result.reason.unwrap_or_default(),
            }),
        }
    }
}

/// Scores evidence. The same events, assessment, configuration and overrides give the same bytes.
/// The order of events with different times does not matter; events with the same time count in
/// order of arrival.
///
/// The caller passes the events of one agent; the agent id is not checked.
///
/// # Errors
/// Too little evidence, or an override that does not fit.
pub fn score(
    events: &[Event],
    assessment: &Assessment,
    config: &Config,
    overrides: &[Override],
) -> Result<Scored, ScoringError> {
    measure(events, assessment, config, overrides)?.scored(assessment, config)
}

/// Scores evidence a few tasks at a time, with the same bytes as all at once.
pub struct Scoring {
    assessment: Assessment,
    config: Config,
    folded: FoldedEvidence,
}

impl Scoring {
    pub fn new(assessment: Assessment, config: Config) -> Self {
        Self {
            assessment,
            config,
            folded: FoldedEvidence::default(),
        }
    }

    /// Adds tasks, each with all of its events.
    ///
    /// # Errors
    /// None without overrides.
    pub fn add(&mut self, events: &[Event]) -> Result<(), OverrideFault> {
        self.folded.add(events, &self.assessment, &self.config, &[])
    }

    /// Number of tasks added so far that count for performance, and for capability.
    pub fn tasks(&self) -> (usize, usize) {
        self.folded.tasks()
    }

    /// The score of the added evidence.
    ///
    /// # Errors
    /// Too little evidence.
    pub fn finish(self) -> Result<Scored, ScoringError> {
        let measured = self.folded.measured(&self.config);
        measured.scored(&self.assessment, &self.config)
    }

    /// The score with the interval of every dimension.
    ///
    /// # Errors
    /// Too little evidence.
    pub fn finish_with_intervals(mut self) -> Result<(Scored, Intervals), ScoringError> {
        let resampled = self.folded.resampled(&self.config);
        let scored = self.finish()?;
        let intervals = interval::of_scored(&scored, &resampled);
        Ok((scored, intervals))
    }
}
