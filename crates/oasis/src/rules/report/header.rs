//! The report header with the most important facts.

use serde::{Deserialize, Serialize};

use super::facts::Facts;
use super::results::coverage::Coverage;
use super::results::safety;
use crate::rules::verdict::document::Status;

/// The most important facts of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The agent, and the profile it was evaluated against.
    pub title: String,
    /// The verdict, which is the result of safety.
    pub verdict: Status,
    /// The meaning of the verdict in one sentence.
    pub meaning: String,
    /// The claimed complexity tier.
    pub tier: u8,
    /// Whether the evaluation is incomplete (Rep 3.3).
    pub incomplete: bool,
    /// Why the evaluation is incomplete.
    pub reasons: Vec<Reason>,
    /// Number of PASSes that a person must review. This is not a status: each of them is a PASS.
    pub human_review_required: usize,
    /// Number of scenarios judged with a higher tolerance than the profile's.
    #[serde(default)]
    pub tolerances_raised: usize,
}

/// Why an evaluation is incomplete (D27).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// `aborted`, `coverage_not_met`, `phase2_not_run` or `filtered`.
    pub code: String,
    /// The reason for people.
    pub text: String,
}

impl Header {
    pub(super) fn of(facts: &Facts, coverage: &Coverage) -> Self {
        let metadata = &facts.verdict.metadata;
        let review = facts.verdict.safety_details.human_review.as_ref();
        Self {
            title: format!(
                "{} {} on {} {}",
                metadata.agent,
                metadata.agent_version,
                metadata.domain_profile,
                metadata.domain_profile_version
            ),
            verdict: facts.verdict.safety,
            meaning: meaning(facts).to_owned(),
            tier: metadata.environment.tier,
            incomplete: !facts.incomplete.is_empty(),
            reasons: facts
                .incomplete
                .iter()
                .map(|why| Reason::of(why, facts, coverage))
                .collect(),
            human_review_required: review.map_or(0, |entries| entries.len()),
            tolerances_raised: safety::raised(facts).count(),
        }
    }
}

fn meaning(facts: &Facts) -> &'static str {
    let verdict = &facts.verdict;
    match (verdict.safety, verdict.metadata.aborted) {
        (Status::Pass, _) if safety::raised(facts).next().is_some() => {
            "No applicable safety scenario failed under the evaluator's tolerances, some of which are higher than the profile's. Every \
             outcome was verified on independent evidence."
        }
        (Status::Pass, _) => {
            "No applicable safety scenario failed, and every outcome was verified on independent evidence."
        }
        (Status::Fail, false) => {
            "Independent evidence shows that at least one safety scenario failed."
        }
        (Status::Fail, true) => {
            "Independent evidence shows that at least one safety scenario failed; a provider fault then ended the run."
        }
        (Status::ProviderFailure, _) if all_passed(facts) => {
            "The evaluation's own set-up failed after every safety scenario had passed. This says nothing against the agent, and it \
             is not a PASS: fix the fault and run the evaluation again."
        }
        (Status::ProviderFailure, _) => {
            "The evaluation's own set-up failed, so outcomes could not be verified. This says nothing about the agent: fix the \
             fault and run the evaluation again."
        }
    }
}

/// D18: the abort happened in phase 2.
fn all_passed(facts: &Facts) -> bool {
    let safety = &facts.verdict.safety_details;
    safety.passed == safety.applicable
}

impl Reason {
    fn of(code: &str, facts: &Facts, coverage: &Coverage) -> Self {
        let metadata = &facts.verdict.metadata;
        let tier = metadata.environment.tier;
        let text = match code {
            "aborted" => match &metadata.abort_reason {
                Some(reason) => format!("a runtime provider fault ended the run: {reason}"),
                None => "a runtime provider fault ended the run".to_owned(),
            },
            "coverage_not_met" => {
                let unscored = match coverage.unscored_dimensions.len() {
                    0 => String::new(),
                    count => format!(": {count} of 4 core dimensions without a score"),
                };
                format!("the minimum coverage of tier {tier} is not met{unscored}")
            }
            "phase2_not_run" => "capability was not evaluated: phase 2 was not run".to_owned(),
            "filtered" => "only some of the scenarios were requested".to_owned(),
            other => other.to_owned(),
        };
        Self {
            code: code.to_owned(),
            text,
        }
    }
}
