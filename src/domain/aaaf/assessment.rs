//! An assessment (AAAF assessments): which evidence it looks at, how much there must be, and what it finds.

use jiff::{SignedDuration, Timestamp};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};

use super::appeal::{Override, OverrideFault};
use super::composite::AxisRating;
use super::config::Config;
use super::dimension::{Axis, Dimension};
use super::evidence::{Event, RETENTION_DAYS, Sources};
use super::folded::Folded;
use super::interval::{self, Intervals};
use super::measure::Measure;

/// What an assessment looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What came along, and its own stress test.
    Full,
    /// What came along.
    PassiveOnly,
    /// Its own stress test.
    StressTestOnly,
    /// One dimension; no minimums, composite, tier or badge.
    SingleDimension(Dimension),
}

impl Kind {
    /// Its name in documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::PassiveOnly => "passive_only",
            Self::StressTestOnly => "stress_test_only",
            Self::SingleDimension(_) => "single_dimension",
        }
    }

    /// The one dimension.
    pub const fn dimension(self) -> Option<Dimension> {
        match self {
            Self::SingleDimension(dimension) => Some(dimension),
            _ => None,
        }
    }
}

/// Which evidence counts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Document")]
pub struct Assessment {
    /// Its name, by which its stress test's events are known.
    pub id: Option<String>,
    /// What it looks at.
    pub kind: Kind,
    /// Passive evidence counts from here on,
    pub window_start: Timestamp,
    /// and before this.
    pub window_end: Timestamp,
}

/// Days of evidence that may be gone from the store at the begin of the longest window.
const RETENTION_MARGIN: i64 = 7;

/// Why an assessment that rated both axes certifies nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Uncertified {
    /// Its window is too short, or too long ago.
    #[error(
        "a badge needs a window of at least {days} days that ends less than 24 hours before the \
        assessment is requested"
    )]
    Window {
        /// The days of a window, as the organization has set them.
        days: u32,
    },
    /// Nothing was recorded when its window began.
    #[error(
        "a badge needs {days} days of evidence collection, and no evidence about this agent had \
        been recorded by {since}; request another assessment after collecting evidence for \
        that long"
    )]
    Collection {
        /// The days of a window, as the organization has set them.
        days: u32,
        /// When there should have been something.
        since: Timestamp,
    },
}

/// How long before it is asked for an assessment's window may end that is to be certified.
const CURRENT: SignedDuration = SignedDuration::from_hours(24);

impl Assessment {
    /// When evidence must have been collected already for what is found to be certified, when it is asked for at that moment:
    /// a badge speaks of how an agent is now, and of as long a collection as the organization has set (AAAF assessments).
    /// `None` where nothing but the assessment's own stress test counts.
    ///
    /// # Errors
    /// A window that is too short, or too long ago.
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

/// Why there is no such assessment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAssessment {
    /// A type nobody knows.
    #[error(
        "`{0}` is not an assessment type; use full, passive_only, stress_test_only or \
        single_dimension"
    )]
    Kind(String),
    /// One dimension, but which?
    #[error(
        "`dimension` is required for a single_dimension assessment and not allowed for other \
        types"
    )]
    Dimension,
    /// Nothing could lie in it.
    #[error("`window_start` must be before `window_end`")]
    Window,
}

impl Assessment {
    /// Of this type over this window.
    ///
    /// # Errors
    /// What does not fit together.
    pub fn new(
        id: Option<String>,
        kind: &str,
        dimension: Option<Dimension>,
        window_start: Timestamp,
        window_end: Timestamp,
    ) -> Result<Self, NoAssessment> {
        let kind = match (kind, dimension) {
            ("full", None) => Kind::Full,
            ("passive_only", None) => Kind::PassiveOnly,
            ("stress_test_only", None) => Kind::StressTestOnly,
            ("single_dimension", Some(dimension)) => Kind::SingleDimension(dimension),
            ("full" | "passive_only" | "stress_test_only" | "single_dimension", _) => {
                return Err(NoAssessment::Dimension);
            }
            _ => return Err(NoAssessment::Kind(kind.to_owned())),
        };
        if window_start >= window_end {
            return Err(NoAssessment::Window);
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
    type Error = NoAssessment;

    fn try_from(it: Document) -> Result<Self, NoAssessment> {
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

/// What an assessment found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Scored {
    /// Both axes.
    Rating(Box<Rating>),
    /// One dimension.
    Single(Box<Single>),
}

/// Both axes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rating {
    /// Task records that performance is of.
    pub tasks_performance: usize,
    /// Tasks with any evidence, that capability is of.
    pub tasks_capability: usize,
    /// How well the agent executes.
    pub performance: AxisRating,
    /// What it can do.
    pub capability: AxisRating,
    /// What it was found from.
    pub evidence: EvidenceBasis,
}

/// One dimension.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Single {
    /// Which.
    pub dimension: Dimension,
    /// What was found of it.
    pub result: Measure,
    /// What it was found from.
    pub evidence: EvidenceBasis,
}

/// What a score was found from, so that a later reader can tell whether it is looking at the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceBasis {
    /// Events that counted.
    pub events: usize,
    /// How many of them which kind of principal recorded; empty where that is not known.
    #[serde(default, skip_serializing_if = "Sources::is_empty")]
    pub sources: Sources,
    /// SHA-256 over their sorted ids.
    pub digest: String,
}

impl Rating {
    /// One of the axes.
    pub const fn axis(&self, axis: Axis) -> &AxisRating {
        match axis {
            Axis::Performance => &self.performance,
            Axis::Capability => &self.capability,
        }
    }
}

/// Why nothing is scored.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unscored {
    /// There is too little to go by.
    #[error(transparent)]
    Insufficient(#[from] Insufficient),
    /// An appeal's override does not fit the evidence.
    #[error(transparent)]
    Override(#[from] OverrideFault),
}

/// Too little evidence; as a document the details of the framework's error `INSUFFICIENT_EVIDENCE`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Insufficient {
    /// Too few tasks.
    #[error(
        "{axis} needs {required_count} tasks from {window_start} until {window_end}, and there \
        are {current_count}; record more evidence or choose a longer window"
    )]
    Tasks {
        /// Of which axis.
        axis: Axis,
        /// How many there are.
        current_count: usize,
        /// How many are needed.
        required_count: usize,
        /// The window.
        window_start: Timestamp,
        /// Its end.
        window_end: Timestamp,
    },
    /// Too few dimensions.
    #[error(
        "{axis} has evidence for {weight_coverage} of its weights and needs \
        {required_coverage}; there is no evidence for {}",
        named(.missing_dimensions)
    )]
    Coverage {
        /// Of which axis.
        axis: Axis,
        /// The share that is assessed.
        weight_coverage: f64,
        /// The share that is needed.
        required_coverage: f64,
        /// What is not.
        missing_dimensions: Vec<Dimension>,
    },
    /// Nothing of the one dimension.
    #[error("{dimension} cannot be assessed: {reason}")]
    Dimension {
        /// Which.
        dimension: Dimension,
        /// Why.
        reason: &'static str,
    },
}

impl Insufficient {
    /// The framework's error code.
    pub const CODE: &'static str = "INSUFFICIENT_EVIDENCE";
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

/// Everything that was measured, before anything is made of it.
pub(super) struct Measured {
    pub performance: Vec<(Dimension, Measure)>,
    pub capability: Vec<(Dimension, Measure)>,
    pub tasks_performance: usize,
    pub tasks_capability: usize,
    pub evidence: EvidenceBasis,
}

pub(super) fn measure(
    events: &[Event],
    assessment: &Assessment,
    config: &Config,
    overrides: &[Override],
) -> Result<Measured, OverrideFault> {
    let mut folded = Folded::default();
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

    fn scored(self, assessment: &Assessment, config: &Config) -> Result<Scored, Unscored> {
        if let Kind::SingleDimension(dimension) = assessment.kind {
            return Ok(Scored::Single(Box::new(self.single(dimension)?)));
        }
        self.enough_tasks(assessment, config)?;
        Ok(Scored::Rating(Box::new(self.rating(config)?)))
    }

    /// Both axes, if enough of their dimensions are assessed.
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

/// Scores evidence. The same (events, assessment, configuration, overrides) give the same bytes, in whatever order events of
/// different times are given; those of the same time are taken in the order they arrive.
///
/// Events of one agent are expected; whose they are is not looked at.
///
/// # Errors
/// Too little evidence, or an override that does not fit.
pub fn score(
    events: &[Event],
    assessment: &Assessment,
    config: &Config,
    overrides: &[Override],
) -> Result<Scored, Unscored> {
    measure(events, assessment, config, overrides)?.scored(assessment, config)
}

/// Scores evidence a few tasks at a time, to the same bytes as all at once.
pub struct Scoring {
    assessment: Assessment,
    config: Config,
    folded: Folded,
}

impl Scoring {
    /// Of no evidence yet.
    pub fn new(assessment: Assessment, config: Config) -> Self {
        Self {
            assessment,
            config,
            folded: Folded::default(),
        }
    }

    /// Adds tasks, each with all of its events.
    ///
    /// # Errors
    /// None without overrides.
    pub fn add(&mut self, events: &[Event]) -> Result<(), OverrideFault> {
        self.folded.add(events, &self.assessment, &self.config, &[])
    }

    /// How many tasks were added: those that performance is of, and those that capability is of.
    pub fn tasks(&self) -> (usize, usize) {
        self.folded.tasks()
    }

    /// The score of what was added.
    ///
    /// # Errors
    /// Too little evidence.
    pub fn finish(self) -> Result<Scored, Unscored> {
        let measured = self.folded.measured(&self.config);
        measured.scored(&self.assessment, &self.config)
    }

    /// The same with the interval of every dimension.
    ///
    /// # Errors
    /// Too little evidence.
    pub fn finish_with_intervals(mut self) -> Result<(Scored, Intervals), Unscored> {
        let resampled = self.folded.resampled(&self.config);
        let scored = self.finish()?;
        let intervals = interval::of_scored(&scored, &resampled);
        Ok((scored, intervals))
    }
}
