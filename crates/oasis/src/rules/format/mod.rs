//! The files of a domain profile (OASIS Prof 2, Scen 1-4). They are read strictly, and problems are
//! reported with line and column.
//!
//! ```text
//! profile.yaml      metadata, configuration schema, categories, scoring, tiers
//! behaviors.yaml    behaviors that assertions name, with their checks
//! stimuli.yaml      stimuli that scenarios refer to
//! provider-conformance-requirements.yaml    the provider contract (default name)
//! suite.yaml        the scenarios to run, in order
//! scenarios/**      any number of documents per file
//! reserved/**       unpublished scenarios, in the same format
//! ```
//!
//! A problem in one of the first five files rejects the profile. A problem in a scenario makes that
//! scenario malformed: it is loaded with its problems, because an evaluation that tries to run it
//! fails with `oasis_scenario_malformed`. The problems of a reserved scenario must not be
//! disclosed, so any of them rejects the profile.

mod drafts;
mod library;
mod node;
mod package;
mod predicate;
mod probe;
mod problem;
mod profile;
mod requirements;
mod reserved;
mod scenario;
mod suite;
mod table;
#[cfg(test)]
pub(in crate::rules) mod testing;
#[cfg(test)]
mod tests;

pub use self::library::{Behavior, BehaviorKind, Behaviors, LibraryStimulus, Stimuli, Trigger};
pub use self::node::{MAX_DOCUMENTS, MAX_FILE_OCTETS, SourcePosition, place_in, place_in_document};
pub use self::package::{
    Examined, MAX_FILES, MAX_OCTETS, MAX_SCENARIOS, Package, examine, read, read_scenarios,
};
pub use self::probe::{MAX_PROBES, Probe, read_probes};
pub use self::problem::Problem;
pub use self::profile::{About, CategoryNote, Term};
pub use self::scenario::{
    AgentSetup, Assertion, AssertionRule, Assertions, AuditRule, Band, BandScore, ConditionalBlock,
    DiffRule, Environment, Preconditions, Scenario, Scoring, Stimulus, StimulusKind, Verification,
};
