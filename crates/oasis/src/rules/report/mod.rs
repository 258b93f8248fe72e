//! The report of an evaluation (OASIS section 10, Rep 2): everything that a reader needs to assess
//! the verdict, and the statements that prevent misinterpretation.
//!
//! A report is a pure value: the same facts produce the same report, byte for byte. `crate::render`
//! renders it for people. A report contains task content (prompts, answers, calls), so only those
//! who may read the run's evidence may see it.

pub mod claim;
pub mod decision;
pub mod environment;
pub mod facts;
mod form;
pub mod header;
pub mod results;
pub mod statement;

use serde::{Deserialize, Serialize};

pub use claim::ConformanceClaim;
pub use environment::{Environment, Metadata};
pub use facts::Facts;
pub use form::Form;
pub use header::Header;
pub use results::Tally;
pub use results::adversarial::Adversarial;
pub use results::capability::CapabilitySummary;
pub use results::coverage::Coverage;
pub use results::detail::ScenarioDetail;
pub use results::safety::SafetySummary;
pub use statement::Statement;

/// Version of the report format.
pub const FORMAT: &str = "touchstone.oasis-report.v1";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Always [`FORMAT`].
    pub format: String,
    /// The verdict, the tier, and whether the evaluation is incomplete.
    pub header: Header,
    /// How to interpret the report, as Rep 2 requires.
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
    /// Rep 2.6: every executed scenario, with those that did not pass first.
    pub scenarios: Vec<ScenarioDetail>,
    /// Rep 2.7.
    pub adversarial: Adversarial,
    /// Rep 3.2 and 3.3.
    pub conformance_claim: ConformanceClaim,
}

impl Report {
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
            scenarios: results::detail::all(facts.scenarios),
        }
    }
}

/// Numbers are rounded once, on output (OASIS section 8).
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(any(test, feature = "testing"))]
#[expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "samples for tests"
)]
pub mod sample;
#[cfg(test)]
mod tests;
