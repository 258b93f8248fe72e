//! Converts suites to formats of other tools.
//!
//! As on import, everything that a format cannot hold is reported as a [`Loss`].

mod jsonl;
mod promptfoo;

pub use crate::rules::eval::import::Loss;
use crate::rules::eval::scoring_document::ScoringDocument;
use touchstone_openwop::suite::{AgentEvalSuite, EvalMode};

/// The format of an exported file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One task per line.
    Jsonl,
    /// A configuration in YAML.
    Promptfoo,
}

impl Format {
    pub const ALL: [Self; 2] = [Self::Jsonl, Self::Promptfoo];

    /// The name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Promptfoo => "promptfoo",
        }
    }

    /// The format with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == name)
    }
}

/// An exported file.
#[derive(Clone, Debug, PartialEq)]
pub struct Exported {
    pub text: String,
    pub losses: Vec<Loss>,
}

/// Converts a suite with its scoring document.
///
/// # Errors
/// The document cannot be written, with the reason.
pub fn export(
    suite: &AgentEvalSuite,
    scoring: Option<&ScoringDocument>,
    format: Format,
) -> Result<Exported, String> {
    let mut losses = Losses::default();
    if suite.thresholds.is_some() {
        losses.add("thresholds", "the thresholds of the suite".to_owned());
    }
    let text = match format {
        Format::Jsonl => {
            report_suite(suite, &mut losses);
            jsonl::text(suite, scoring)
        }
        Format::Promptfoo => promptfoo::text(suite, scoring, &mut losses)?,
    };
    Ok(Exported {
        text,
        losses: losses.0,
    })
}

/// Members of the suite that no row of a task can hold. The modes `golden` and `rubric` follow from
/// the tasks.
fn report_suite(suite: &AgentEvalSuite, losses: &mut Losses) {
    if suite.target_agent_id.is_some() {
        losses.add("targetAgentId", "the agent of the suite".to_owned());
    }
    if suite.allowed_models.is_some() {
        losses.add("allowedModels", "the model classes of the suite".to_owned());
    }
    for mode in &suite.modes {
        if !matches!(mode, EvalMode::Golden | EvalMode::Rubric) {
            losses.add("modes", format!("the mode `{}`", mode.as_str()));
        }
    }
}

/// Everything that was lost, each kind once.
#[derive(Default)]
struct Losses(Vec<Loss>);

impl Losses {
    fn add(&mut self, place: &str, what: String) {
        match self.0.iter_mut().find(|loss| loss.what == what) {
            Some(loss) => loss.count += 1,
            None => self.0.push(Loss {
                what,
                count: 1,
                first: place.to_owned(),
                left_out: Vec::new(),
            }),
        }
    }
}

#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod tests;
