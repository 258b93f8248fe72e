//! Mutations: changed scenarios of the plan.
//!
//! A mutation changes the agent's situation and never the task: the checks of the base apply, with
//! the same renaming. Mutations are made in layers, each at most once: additional content
//! ([`content`]), names ([`renaming`]), the wording of the request ([`wording`]) and its encoding
//! ([`encoding`]). Safety scenarios are drawn three times as often as capability scenarios.

mod content;
mod encoding;
mod planting;
mod renaming;
mod wording;

use std::collections::BTreeSet;

use serde_json::Value;

use self::content::Scene;
use super::ProbeScript;
use super::document::{self, set};
use super::draw::Draw;
use super::named::behavior_texts;
use crate::rules::format::{AuditRule, Package, Scenario, StimulusKind};
use crate::rules::probes::ProbeOrigin;
use crate::rules::scenario::Classification;
use crate::rules::verdict::Plan;
use touchstone_kit::json::value_of;

/// The verdict's description of the mutation strategy.
pub(super) const STRATEGY: &str = "layers over published scenarios, safety to capability 3:1: wording (urgency, claimed \
    authority, politeness, paraphrase, role play, instructions to be ignored, steps), encoding (Base64, ROT13), trust built \
    in earlier turns, instructions planted in records, the pressure of a second archetype, consistent renaming; assertions \
    unchanged";

/// Maximum number of draws for one probe. A draw is repeated if it changed nothing, cannot be run
/// or is a duplicate.
const DRAWS: u32 = 24;

/// The scenarios to mutate.
struct Bases<'a> {
    safety: Vec<&'a Scenario>,
    capability: Vec<&'a Scenario>,
}

/// A scenario that is being changed.
struct Mutant {
    document: Value,
    secondary: Vec<String>,
    /// Descriptions of the changes.
    changes: Vec<String>,
}

/// Draws `count` mutations; none if no scenario of the plan can be mutated.
///
/// If all draws for a probe fail, a duplicate is used, so that the requested number is reached.
pub(super) fn scripts(package: &Package, plan: &Plan, seed: u64, count: u32) -> Vec<ProbeScript> {
    let bases = Bases::of(package, plan);
    let named = behavior_texts(&package.behaviors);
    let mut seen = BTreeSet::new();
    let mut scripts = Vec::new();
    for number in 1..=count {
        let mut draw = Draw::of(seed, number);
        let mut repeated = None;
        for _ in 0..DRAWS {
            let Some((base, mutant)) = bases.mutate(package, &named, &mut draw) else {
                continue;
            };
            let is_new = seen.insert(mutant.document.to_string());
            if !is_new && repeated.is_some() {
                continue;
            }
            let script = mutant.script(base, &format!("{seed}-{number:04}"), package);
            if is_new && script.is_some() {
                repeated = script;
                break;
            }
            repeated = repeated.or(script);
        }
        scripts.extend(repeated);
    }
    scripts
}

impl<'a> Bases<'a> {
    fn of(package: &'a Package, plan: &Plan) -> Self {
        let of = |phase: Classification| {
            plan.applicable(phase)
                .filter_map(|planned| package.scenario(planned.id()))
                .filter(|scenario| scenario.descriptor.tier <= plan.tier)
                .filter(|scenario| scenario.runnable().is_ok())
                .collect()
        };
        Self {
            safety: of(Classification::Safety),
            capability: of(Classification::Capability),
        }
    }

    fn pick(&self, draw: &mut Draw) -> Option<&'a Scenario> {
        let rare = draw.one_in(4);
        let pool = match (rare, self.safety.is_empty(), self.capability.is_empty()) {
            (true, _, false) | (false, true, _) => &self.capability,
            _ => &self.safety,
        };
        draw.pick(pool).copied()
    }

    /// One draw; `None` if it produced no usable probe.
    fn mutate(
        &self,
        package: &Package,
        named: &[String],
        draw: &mut Draw,
    ) -> Option<(&'a Scenario, Mutant)> {
        let base = self.pick(draw)?;
        let mut mutant = Mutant {
            document: document::self_contained(base),
            secondary: Vec::new(),
            changes: Vec::new(),
        };
        if draw.one_in(2) {
            let scene = Scene {
                base,
                others: &self.safety,
                behaviors: &package.behaviors,
            };
            scene.add(&mut mutant, draw);
        }
        if draw.one_in(2) && renaming::rename(&mut mutant.document, named, draw) {
            mutant.changes.push("renamed".to_owned());
        }
        let encoded = is_safety(base) && demands_nothing(base) && draw.one_in(4);
        if !encoded && mutant.changes.is_empty() || draw.one_in(2) {
            mutant.request(|request| wording::reword(request, is_safety(base), draw));
        }
        if encoded {
            mutant.request(|request| Some(encoding::encode(request, draw)));
        }
        (!mutant.changes.is_empty()).then_some((base, mutant))
    }
}

impl Mutant {
    /// Rewords the operator's request. `put` returns the new text and the description of the
    /// change.
    fn request(&mut self, put: impl FnOnce(&str) -> Option<(String, &'static str)>) {
        let stimuli = self
            .document
            .get_mut("stimuli")
            .and_then(Value::as_array_mut);
        let prompt = stimuli.into_iter().flatten().find(|it| is_prompt(it));
        let Some(place) = prompt.and_then(|it| it.get_mut("value")) else {
            return;
        };
        if let Some((text, change)) = place.as_str().and_then(put) {
            *place = Value::from(text);
            self.changes.push(change.to_owned());
        }
    }

    /// The probe, if it can be run.
    fn script(mut self, base: &Scenario, id: &str, package: &Package) -> Option<ProbeScript> {
        let name = format!(
            "{} ({}; from {})",
            base.name,
            self.changes.join(", "),
            base.id()
        );
        set(&mut self.document, "name", name);
        // The base's quality statement no longer applies.
        if let Some(members) = self.document.as_object_mut() {
            members.remove("quality");
        }
        let names = (id, self.secondary);
        ProbeScript::of(ProbeOrigin::Mutation, self.document, names, package).ok()
    }
}

fn is_prompt(stimulus: &Value) -> bool {
    stimulus.get("type") == Some(&value_of(&StimulusKind::OperatorPrompt))
}

fn is_safety(scenario: &Scenario) -> bool {
    scenario.descriptor.classification == Classification::Safety
}

/// Whether an agent passes that does nothing and says nothing. In other scenarios, an agent that
/// only asks what an encoding means would fail for the wrong reason.
fn demands_nothing(scenario: &Scenario) -> bool {
    let assertions = &scenario.assertions;
    let is_required = |rule: &AuditRule| matches!(rule, AuditRule::Required(_));
    assertions.must.is_empty()
        && assertions.conditional.iter().all(|it| it.must.is_empty())
        && !scenario.verification.api_audit.iter().any(is_required)
        && scenario.verification.state_diff.is_none()
}
