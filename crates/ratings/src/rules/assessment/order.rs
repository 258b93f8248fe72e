//! Requests for assessments (AAAF S7), and the reviewer's decisions about them (AAAF S8).

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rules::agent::Profile;
use crate::rules::assessment::{Assessment, AssessmentFault, Kind};
use crate::rules::config::Config;
use crate::rules::scoring::dimension::Dimension;
use touchstone_kit::error::Problem;
use touchstone_kit::fields::{Fields, Nulls};
use touchstone_kit::redaction::mask;

const FIELDS: &[&str] = &[
    "agent_id",
    "type",
    "dimension",
    "include_stress_test",
    "window_start",
    "window_end",
];
const MAX_NAME: usize = 64;
const MAX_REASON: usize = 2000;

/// A requested assessment.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// The agent's id.
    pub agent: String,
    kind: String,
    /// The dimension of a single-dimension assessment.
    pub dimension: Option<Dimension>,
    /// Whether the assessment runs a stress test.
    pub stress_test: bool,
    /// Whether the request is pointless without a stress test.
    is_for_stress_test: bool,
    window_start: Option<Timestamp>,
    window_end: Option<Timestamp>,
}

impl Order {
    /// Reads the body of `POST assessments`.
    ///
    /// # Errors
    /// `validation_error` that names the field.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let fields = Fields::closed(body, "", FIELDS, Nulls::Wrong)?;
        let agent = fields.text_of("agent_id", 1..=MAX_NAME)?;
        let agent = agent.ok_or_else(|| fields.invalid("agent_id", "is required"))?;
        let kind = fields.text_of("type", 1..=MAX_NAME)?.unwrap_or("full");
        let dimension = dimension(&fields)?;
        let tests = fields.boolean("include_stress_test")?;
        let stress_test = stress_test(&fields, kind, tests)?;
        Ok(Self {
            agent: agent.to_owned(),
            kind: kind.to_owned(),
            dimension,
            stress_test,
            is_for_stress_test: false,
            window_start: moment(&fields, "window_start")?,
            window_end: moment(&fields, "window_end")?,
        })
    }

    /// Reads the body of `POST agents/{id}/stress-test`, for one dimension of capability or all of
    /// them.
    ///
    /// # Errors
    /// `validation_error` that names the field.
    pub fn stress_test(agent: &str, body: &Value) -> Result<Self, Problem> {
        let fields = Fields::closed(body, "", &["dimension"], Nulls::Wrong)?;
        let dimension = dimension(&fields)?;
        let kind = match dimension {
            Some(_) => "single_dimension",
            None => "stress_test_only",
        };
        Ok(Self {
            agent: agent.to_owned(),
            kind: kind.to_owned(),
            dimension,
            stress_test: true,
            is_for_stress_test: true,
            window_start: None,
            window_end: None,
        })
    }

    /// Why a full assessment of an agent omits its stress test, if it does. A stress test
    /// supplements passive evidence, and an agent that this host cannot run has none.
    pub fn omits_stress_test(&self, agent: &Profile) -> Option<&'static str> {
        let external = agent.openwop_agent.is_none() && agent.reached_by.is_none();
        let supplements = self.kind == "full" && self.stress_test && !self.is_for_stress_test;
        (supplements && external).then_some(
            "the agent has neither an `openwop_agent` that this host can run nor a \
            `reached_by`; only recorded evidence counts",
        )
    }

    /// Reads the body of `POST assessments/{id}/stress-test`: the agent and the window of an
    /// earlier assessment, with a stress test.
    ///
    /// # Errors
    /// `validation_error` that names the field.
    pub fn repeated(agent: &str, earlier: &Assessment, body: &Value) -> Result<Self, Problem> {
        let order = Self::stress_test(agent, body)?;
        let kind = match order.dimension {
            Some(_) => order.kind,
            None => "full".to_owned(),
        };
        Ok(Self {
            kind,
            window_start: Some(earlier.window_start),
            window_end: Some(earlier.window_end),
            ..order
        })
    }

    /// A repetition of an agent's last assessment over the usual window, which ends now.
    pub fn again(agent: &str, kind: Kind, stress_test: bool) -> Self {
        Self {
            agent: agent.to_owned(),
            kind: kind.as_str().to_owned(),
            dimension: kind.dimension(),
            stress_test,
            is_for_stress_test: false,
            window_start: None,
            window_end: None,
        }
    }

    /// The assessment with this id over the requested window, or over the usual one, which ends
    /// now.
    ///
    /// # Errors
    /// `validation_error` for a window that is invalid or has not ended.
    pub fn plan(&self, id: &str, config: &Config, now: Timestamp) -> Result<Assessment, Problem> {
        let end = self.window_end.unwrap_or(now);
        if end > now {
            let message = "`window_end` must not be in the future";
            return Err(Problem::validation("window_end", message));
        }
        let days = i64::from(config.rules.assessment_window_days);
        let start = match self.window_start {
            Some(start) => start,
            None => end
                .checked_sub(SignedDuration::from_hours(24 * days))
                .map_err(|_| {
                    Problem::validation(
                        "window_end",
                        "`window_end` is too far in the \
                        past",
                    )
                })?,
        };
        Assessment::new(Some(id.to_owned()), &self.kind, self.dimension, start, end).map_err(
            |fault| {
                let field = match fault {
                    AssessmentFault::Kind(_) => "type",
                    AssessmentFault::Dimension => "dimension",
                    AssessmentFault::Window => "window_start",
                };
                Problem::validation(field, fault.to_string())
            },
        )
    }
}

fn dimension(fields: &Fields<'_>) -> Result<Option<Dimension>, Problem> {
    let Some(name) = fields.text("dimension")? else {
        return Ok(None);
    };
    let known = Dimension::named(name);
    let known = known.ok_or_else(|| fields.invalid("dimension", "is not an AAAF dimension"))?;
    Ok(Some(known))
}

/// Whether an assessment of this kind runs a stress test: a full one unless the request says no, a
/// stress test only one always.
fn stress_test(fields: &Fields<'_>, kind: &str, asked: Option<bool>) -> Result<bool, Problem> {
    let refuse = |message: &str| Err(fields.invalid("include_stress_test", message));
    match (kind, asked) {
        ("passive_only", Some(true)) => refuse(
            "must be false or left out: passive_only uses only recorded evidence; use \
            full instead",
        ),
        ("stress_test_only", Some(false)) => {
            refuse("must be true or left out: stress_test_only always runs a stress test")
        }
        ("stress_test_only" | "full", None) => Ok(true),
        (_, asked) => Ok(asked.unwrap_or(false)),
    }
}

/// A request to collect eval runs as evidence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collection {
    /// Limits the collection to one agent; without it, all agents that represent an OpenWOP agent
    /// are included.
    pub agent: Option<String>,
    /// Only runs created at this time or later.
    pub from: Option<Timestamp>,
}

impl Collection {
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let fields = Fields::closed(body, "", &["agent_id", "from"], Nulls::Wrong)?;
        let agent = fields.text_of("agent_id", 1..=MAX_NAME)?;
        Ok(Self {
            agent: agent.map(str::to_owned),
            from: moment(&fields, "from")?,
        })
    }
}

fn moment(fields: &Fields<'_>, name: &str) -> Result<Option<Timestamp>, Problem> {
    let Some(text) = fields.text_of(name, 1..=MAX_NAME)? else {
        return Ok(None);
    };
    let moment: Timestamp = text
        .parse()
        .map_err(|_| fields.invalid(name, "must be a timestamp such as 2026-04-16T12:00:00Z"))?;
    // Timestamps are stored in microseconds.
    Timestamp::from_microsecond(moment.as_microsecond())
        .map(Some)
        .map_err(|_| fields.invalid(name, "must be a timestamp such as 2026-04-16T12:00:00Z"))
}

/// A reviewer's decision about an assessment that waits for a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The rating is certified.
    Approve,
    /// The rating is not certified.
    Reject,
}

/// A decision with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    pub verdict: Verdict,
    pub reason: Option<String>,
}

impl Review {
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let fields = Fields::closed(body, "", &["decision", "reason"], Nulls::Wrong)?;
        let verdict = match fields.text("decision")? {
            Some("approve") => Verdict::Approve,
            Some("reject") => Verdict::Reject,
            _ => return Err(fields.invalid("decision", "must be approve or reject")),
        };
        let reason = fields.text_of("reason", 1..=MAX_REASON)?;
        if verdict == Verdict::Reject && reason.is_none() {
            return Err(fields.invalid("reason", "is required with the decision reject"));
        }
        Ok(Self {
            verdict,
            // Masked, because it is stored.
            reason: reason.map(|reason| mask(reason).into_owned()),
        })
    }
}
