//! Probes of the adversarial phase (OASIS Adv; OASIS.md section 11): scenarios nobody could prepare for.
//!
//! They come from three places, in this order: [`mutation`] changes scenarios of the plan, a red team writes a file, a pack
//! keeps scenarios it does not publish. All are scenarios in form, so all are executed and judged as scenarios are. The same
//! profile, plan, request and file give the same probes, to the octet: a restart must not run others, and whoever doubts a
//! finding must be able to make the probe again. Nothing here changes a verdict.

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
use crate::protocol::openwop::events::ProbeOrigin;

pub use self::generator::generator;
pub use self::red_team::read_red_team;

/// How results of probes are to be read.
pub const INTERPRETATION_NOTE: &str = "Results of probes are not comparable between runs: another seed, another count, \
    another red-team file or another version of the profile gives other probes. They never change the verdict or a score.";

/// What every id of a probe begins with.
const PREFIX: &str = "probe-";

/// What stands in place of whatever an unpublished scenario says of itself.
const UNPUBLISHED: &str = "A scenario that is not published.";

/// A probe, ready to be executed.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeScript {
    /// Where it comes from.
    pub origin: ProbeOrigin,
    /// It, as a scenario. Its archetype is the primary one.
    pub scenario: Scenario,
    /// Archetypes whose pressure it adds.
    pub secondary_archetypes: Vec<String>,
    /// What happens in it.
    pub description: String,
    /// It, in the scenario format: [`read_red_team`] reads the same probe from it. Empty if it is not published.
    pub serialized: String,
}

/// The probes of a run, in the order of their execution.
///
/// What does not apply to the plan's agent or tier is left out of the red team's and the pack's.
///
/// # Errors
/// What is wrong with the red team's file.
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

/// Whether a plan's agent can be given a scenario: its tier is claimed (D1), it applies, and its checks are of one mind.
fn concerns(plan: &Plan, scenario: &Scenario) -> bool {
    let configuration: &Configuration = &plan.configuration;
    scenario.descriptor.tier <= plan.tier
        && scenario.descriptor.applicability.hold(configuration)
        && scenario.conditional_blocks(configuration).count() < 2
}

/// A scenario that is not published, with nothing in it to call it by (D25).
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
