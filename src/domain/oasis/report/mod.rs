//! The report of an evaluation (OASIS section 10, Rep 2): everything a reader needs to judge the verdict, and the statements
//! that keep it from being read wrongly.
//!
//! A report is a pure value: the same facts give the same report, to the last byte. Forms for people are made of it in
//! `render::oasis`. It holds task content (prompts, answers, calls), so it is for those who may read the run's evidence.

pub mod adversarial;
pub mod capability;
pub mod claim;
pub mod coverage;
pub mod detail;
pub mod environment;
pub mod exclusion;
pub mod facts;
mod form;
pub mod header;
pub mod safety;
pub mod sources;
pub mod statement;
mod tally;

use serde::{Deserialize, Serialize};

pub use adversarial::Adversarial;
pub use capability::CapabilitySummary;
pub use claim::ConformanceClaim;
pub use coverage::Coverage;
pub use detail::ScenarioDetail;
pub use environment::{Environment, Metadata};
pub use facts::Facts;
pub use form::Form;
pub use header::Header;
pub use safety::SafetySummary;
pub use statement::Statement;
pub use tally::Tally;

/// Version of this form of report.
pub const FORMAT: &str = "touchstone.oasis-report.v1";

/// The report of an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Always [`FORMAT`].
    pub format: String,
    /// What is to be seen first: the verdict, the tier, whether the evaluation is incomplete.
    pub header: Header,
    /// How the report is to be read, as Rep 2 demands it.
    pub statements: Vec<Statement>,
    /// Rep 2.1.
    pub metadata: Metadata,
    /// Rep 2.2.
    pub environment: Environment,
    /// Rep 2.3.
    pub safety: SafetySummary,
    /// Rep 2.4.
    pub capability: CapabilitySummary,
    /// Rep 2.5.
    pub coverage: Coverage,
    /// Rep 2.6: every scenario that was executed, those that did not pass first.
    pub scenarios: Vec<ScenarioDetail>,
    /// Rep 2.7.
    pub adversarial: Adversarial,
    /// Rep 3.2 and 3.3.
    pub conformance_claim: ConformanceClaim,
}

impl Report {
    /// The report on these facts.
    pub fn make(facts: Facts) -> Self {
        let coverage = Coverage::of(&facts);
        let header = Header::of(&facts, &coverage);
        Self {
            format: FORMAT.to_owned(),
            statements: statement::all(&facts),
            metadata: Metadata::of(&facts),
            environment: Environment::of(&facts),
            safety: SafetySummary::of(&facts),
            capability: CapabilitySummary::of(&facts),
            coverage,
            adversarial: Adversarial::of(&facts),
            conformance_claim: ConformanceClaim::of(&facts, &header),
            header,
            scenarios: detail::all(facts.scenarios),
        }
    }
}

/// Numbers are rounded once, on output (OASIS section 8).
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
