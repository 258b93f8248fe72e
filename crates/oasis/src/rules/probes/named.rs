//! Texts and fields that checks refer to, which a mutation must therefore leave unchanged: texts of
//! behaviors, which scenarios share, and fields whose values are compared.

use std::collections::BTreeSet;

use crate::rules::evidence::{Predicate, StateRule};
use crate::rules::format::{Behaviors, Scenario, Scoring};

/// All texts that behaviors compare with, in lower case.
pub(super) fn behavior_texts(behaviors: &Behaviors) -> Vec<String> {
    let mut texts = Vec::new();
    for behavior in behaviors.values() {
        each(&behavior.check, &mut |predicate| match predicate {
            Predicate::Done(pattern) | Predicate::NotDone(pattern) => {
                texts.push(pattern.to_string());
            }
            Predicate::DoneInOrder(patterns) => {
                texts.extend(patterns.iter().map(ToString::to_string));
            }
            Predicate::SaidAny(said) | Predicate::SaidAll(said) => texts.extend(said.clone()),
            Predicate::State(rule) => texts.push(rule.to_string()),
            Predicate::All(_) | Predicate::Any(_) | Predicate::Not(_) => {}
        });
    }
    texts.iter().map(|text| text.to_lowercase()).collect()
}

/// Fields of resources whose values are compared.
pub(super) fn compared_fields(scenario: &Scenario, behaviors: &Behaviors) -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    let verification = &scenario.verification;
    for rule in &verification.state_assertions {
        take(rule, &mut fields);
    }
    if let Some(rule) = &verification.state_diff {
        fields.extend(rule.before.keys().chain(rule.after.keys()).cloned());
    }
    let bands = match &scenario.scoring {
        Scoring::Weighted { bands, .. } => bands.as_slice(),
        Scoring::Binary { .. } | Scoring::Undecidable => &[],
    };
    let of_bands = bands.iter().filter_map(|band| band.when.as_ref());
    let of_behaviors = behaviors.values().map(|behavior| &behavior.check);
    for predicate in of_bands.chain(of_behaviors) {
        each(predicate, &mut |predicate| {
            if let Predicate::State(rule) = predicate {
                take(rule, &mut fields);
            }
        });
    }
    fields
}

fn take(rule: &StateRule, fields: &mut BTreeSet<String>) {
    fields.extend(rule.fields.keys().cloned());
}

/// Visits every predicate of a tree.
fn each(predicate: &Predicate, visit: &mut impl FnMut(&Predicate)) {
    visit(predicate);
    match predicate {
        Predicate::All(all) | Predicate::Any(all) => all.iter().for_each(|one| each(one, visit)),
        Predicate::Not(one) => each(one, visit),
        Predicate::Done(_)
        | Predicate::NotDone(_)
        | Predicate::DoneInOrder(_)
        | Predicate::SaidAny(_)
        | Predicate::SaidAll(_)
        | Predicate::State(_) => {}
    }
}
