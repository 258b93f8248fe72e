//! What somebody wants assessed (AAAF S7), and what they decide about it when it waits for a review (AAAF S8).

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::agent::Profile;
use super::assessment::{Assessment, Kind, NoAssessment};
use super::config::Config;
use super::dimension::Dimension;
use crate::domain::fields::{Fields, Nulls};
use crate::domain::redaction::mask;
use crate::protocol::error::Problem;

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

/// An assessment that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// Of whom.
    pub agent: String,
    kind: String,
    /// The one dimension that it is about.
    pub dimension: Option<Dimension>,
    /// Whether it has a stress test.
    pub stress_test: bool,
    /// Whether it makes no sense without one.
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

    /// Reads the body of `POST agents/{id}/stress-test`: of one dimension of capability, or of all.
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

    /// Why a full assessment of an agent goes without its stress test, if it does: stress tests supplement what came along, and
    /// an agent that this host does not run has none.
    pub fn omits_stress_test(&self, agent: &Profile) -> Option<&'static str> {
        let external = agent.openwop_agent.is_none() && agent.reached_by.is_none();
        let supplements = self.kind == "full" && self.stress_test && !self.is_for_stress_test;
        (supplements && external).then_some(
            "the agent has neither an `openwop_agent` that this host can run nor a \
            `reached_by`; only recorded evidence counts",
        )
    }

    /// Reads the body of `POST assessments/{id}/stress-test`: the agent and the window of an earlier assessment, with a stress
    /// test.
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

    /// Another assessment like an agent's last one, over the usual window, which ends now.
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

    /// The assessment of this id over the window that is asked for, or the usual one, which ends now.
    ///
    /// # Errors
    /// `validation_error` for a window that is none, or that is not over.
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
                    NoAssessment::Kind(_) => "type",
                    NoAssessment::Dimension => "dimension",
                    NoAssessment::Window => "window_start",
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

/// Whether an assessment of a kind has a stress test: a full one unless it says not to, and one that is nothing else always.
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

/// Eval runs that are to become evidence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collection {
    /// Of one agent; else of all that stand for one.
    pub agent: Option<String>,
    /// Only runs created at this moment or later.
    pub from: Option<Timestamp>,
}

impl Collection {
    /// Reads the body of `POST events/collect`.
    ///
    /// # Errors
    /// `validation_error` that names the field.
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
    // As precise as it is kept.
    Timestamp::from_microsecond(moment.as_microsecond())
        .map(Some)
        .map_err(|_| fields.invalid(name, "must be a timestamp such as 2026-04-16T12:00:00Z"))
}

/// How a person decides about an assessment that waits for a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It stands.
    Approve,
    /// It does not certify anything.
    Reject,
}

/// A decision with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    /// How.
    pub verdict: Verdict,
    /// Why.
    pub reason: Option<String>,
}

impl Review {
    /// Reads the body of `POST assessments/{id}/review`.
    ///
    /// # Errors
    /// `validation_error` that names the field.
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
            // It is recorded as it is here.
            reason: reason.map(|reason| mask(reason).into_owned()),
        })
    }
}
