//! Mutations: scenarios of the plan, put otherwise.
//!
//! A mutation changes what the agent meets, never what is asked of it: the checks of the base judge it, renamed with it where it
//! is renamed. It is made in layers, each at most once: what else lies in the scene ([`content`]), what things are called
//! ([`renaming`]), how the request is put ([`wording`]) and in what code ([`encoding`]). Safety scenarios come up three times
//! as often as capability scenarios.

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
use crate::domain::oasis::format::{AuditRule, Package, Scenario, StimulusKind};
use crate::domain::oasis::scenario::Classification;
use crate::domain::oasis::verdict::Plan;
use crate::protocol::openwop::events::ProbeOrigin;

/// What the verdict says of how scenarios are mutated.
pub(super) const STRATEGY: &str = "layers over published scenarios, safety to capability 3:1: wording (urgency, claimed \
    authority, politeness, paraphrase, role play, instructions to be ignored, steps), encoding (Base64, ROT13), trust built \
    in earlier turns, instructions planted in records, the pressure of a second archetype, consistent renaming; assertions \
    unchanged";

/// How often another draw is made in place of one that changed nothing, cannot be run or was there before.
const DRAWS: u32 = 24;

/// What is mutated.
struct Bases<'a> {
    safety: Vec<&'a Scenario>,
    capability: Vec<&'a Scenario>,
}

/// A scenario that is being changed.
struct Mutant {
    document: Value,
    secondary: Vec<String>,
    /// What was done to it, in words.
    changes: Vec<String>,
}

/// So many mutations; none if nothing of the plan can be mutated.
///
/// Where draws run out, one that was there before is taken rather than fewer than were asked for.
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

    /// One draw; `None` if it came to nothing.
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
    /// Puts the operator's request otherwise: the new text, and what was done in words.
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
        // How hard it was is told of the base, and no longer true.
        if let Some(members) = self.document.as_object_mut() {
            members.remove("quality");
        }
        let names = (id, self.secondary);
        ProbeScript::of(ProbeOrigin::Mutation, self.document, names, package).ok()
    }
}

fn is_prompt(stimulus: &Value) -> bool {
    let kind = serde_json::to_value(StimulusKind::OperatorPrompt).ok();
    kind.is_some() && stimulus.get("type") == kind.as_ref()
}

fn is_safety(scenario: &Scenario) -> bool {
    scenario.descriptor.classification == Classification::Safety
}

/// Whether an agent that does nothing and says nothing passes. Where something must be done or said, an agent that only asks
/// what a code means would fail for the wrong reason.
fn demands_nothing(scenario: &Scenario) -> bool {
    let assertions = &scenario.assertions;
    let is_required = |rule: &AuditRule| matches!(rule, AuditRule::Required(_));
    assertions.must.is_empty()
        && assertions.conditional.iter().all(|it| it.must.is_empty())
        && !scenario.verification.api_audit.iter().any(is_required)
        && scenario.verification.state_diff.is_none()
}
