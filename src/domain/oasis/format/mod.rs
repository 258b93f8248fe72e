//! The files of a domain profile (OASIS Prof 2, Scen 1-4), read strictly and told with line and column.
//!
//! ```text
//! profile.yaml      metadata, configuration schema, categories, scoring, tiers
//! behaviors.yaml    what assertions name, with the checks          stimuli.yaml    what scenarios refer to
//! provider-conformance-requirements.yaml    the provider contract (another name may stand in the profile)
//! suite.yaml        which scenarios, in which order                scenarios/**    any number of documents a file
//! reserved/**       scenarios that are not published, in the same form
//! ```
//!
//! A fault in one of the first five refuses the profile. A fault in a scenario makes that scenario malformed: it is kept
//! with its problems, for the evaluation that wants to run it refuses with `oasis_scenario_malformed`. A reserved scenario
//! has nobody to tell its problems to, so a fault in one refuses the profile.

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
pub(in crate::domain::oasis) mod testing;
#[cfg(test)]
mod tests;

pub use self::library::{Behavior, BehaviorKind, Behaviors, LibraryStimulus, Stimuli, Trigger};
pub use self::node::{MAX_DOCUMENTS, MAX_FILE_OCTETS, Place, place_in};
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
