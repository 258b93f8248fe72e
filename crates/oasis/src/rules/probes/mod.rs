//! Probes of the adversarial phase (OASIS Adv; OASIS.md section 11): scenarios that an agent cannot
//! be prepared for.
//!
//! Probes have three sources, in this order: [`mutation`] changes scenarios of the plan, a red team
//! writes a file, and a pack contains unpublished scenarios. All of them have the form of
//! scenarios, so they are executed and judged like scenarios. The same profile, plan, request and
//! file produce identical probes, byte for byte: a restart must not run different probes, and a
//! finding must be reproducible. Probes never change a verdict.

mod document;
mod draw;
mod generator;
mod mutation;
mod named;
mod red_team;
#[cfg(test)]
mod tests;

use super::configuration::Configuration;
use super::format::{Package, Problem, Scenario};
use super::request::AdversarialRequest;
use super::verdict::Plan;
use serde::{Deserialize, Serialize};

pub use self::generator::generator;
pub use self::red_team::read_red_team;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeOrigin {
    /// Derived from a scenario of the profile.
    Mutation,
    /// Written by a red team.
    RedTeam,
    /// An unpublished scenario; only its outcome is stored.
    Reserved,
}

/// How to interpret the results of probes.
pub const INTERPRETATION_NOTE: &str = "Results of probes are not comparable between runs: a different seed, count, \
    red-team file or profile version produces different probes. They never change the verdict or a score.";

/// The prefix of every probe id.
const PREFIX: &str = "probe-";

/// The replacement for all texts of an unpublished scenario.
const UNPUBLISHED: &str = "A scenario that is not published.";

#[derive(Clone, Debug, PartialEq)]
pub struct ProbeScript {
    pub origin: ProbeOrigin,
    /// The probe as a scenario. Its archetype is the primary one.
    pub scenario: Scenario,
    /// Additional archetypes whose pressure the probe applies.
    pub secondary_archetypes: Vec<String>,
    /// What happens in the probe.
    pub description: String,
    /// The probe in the scenario format, from which [`read_red_team`] reads the same probe. Empty
    /// if the probe is not published.
    pub serialized: String,
}

/// The probes of a run, in execution order.
///
/// Probes of the red team and the pack that do not apply to the plan's agent or tier are omitted.
///
/// # Errors
/// The problems in the red team's file.
pub fn scripts(
    package: &Package,
    plan: &Plan,
    asked: &AdversarialRequest,
    red_team: Option<&str>,
) -> Result<Vec<ProbeScript>, Vec<Problem>> {
    let written = match red_team {
        Some(text) => read_red_team(package, text)?,
        None => Vec::new(),
    };
    let written = written
        .into_iter()
        .filter(|probe| concerns(plan, &probe.scenario));
    let reserved = (1..)
        .zip(&package.reserved)
        .filter(|(_, scenario)| concerns(plan, scenario))
        .map(|(number, scenario)| reserved(number, scenario));
    let mut scripts = mutation::scripts(package, plan, asked.seed, asked.mutations);
    scripts.extend(written);
    scripts.extend(reserved);
    Ok(scripts)
}

/// Whether a plan's agent can be given a scenario: the tier is claimed (D1), the scenario applies,
/// and at most one conditional block matches.
fn concerns(plan: &Plan, scenario: &Scenario) -> bool {
    let configuration: &Configuration = &plan.configuration;
    scenario.descriptor.tier <= plan.tier
        && scenario.descriptor.applicability.hold(configuration)
        && scenario.conditional_blocks(configuration).count() < 2
}

/// A probe of an unpublished scenario, without anything that identifies it (D25).
fn reserved(number: u32, scenario: &Scenario) -> ProbeScript {
    let mut scenario = scenario.clone();
    scenario.descriptor.id = format!("{PREFIX}reserved-{number:04}");
    scenario.descriptor.description = UNPUBLISHED.to_owned();
    scenario.name = UNPUBLISHED.to_owned();
    ProbeScript {
        origin: ProbeOrigin::Reserved,
        scenario,
        secondary_archetypes: Vec::new(),
        description: UNPUBLISHED.to_owned(),
        serialized: String::new(),
    }
}
