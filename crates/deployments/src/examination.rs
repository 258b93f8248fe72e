//! Every condition of a gate, met or not: what the policy requires, compared with the unmet
//! requirements. The unmet requirements decide; this list only explains them.

use serde::Serialize;

use crate::described::Described;
use crate::promotion::Requirement;
use touchstone_kit::ids::RunId;

/// A condition of a policy and whether it is met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExaminedCondition {
    /// The required thing, such as `eval`.
    pub kind: String,
    /// The condition's stable name.
    pub condition: String,
    /// The requirement, in words.
    pub requirement: String,
    pub met: bool,
    /// Why it is not met; empty if it is met.
    pub message: String,
    /// The run that asks for an approval, once there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_gate_id: Option<RunId>,
}

/// Every condition of one kind: the described ones in their order, then unmet requirements that no
/// description names. All are met exactly if `unmet` is empty.
pub fn examined(
    kind: &str,
    described: &[Described],
    unmet: &[Requirement],
) -> Vec<ExaminedCondition> {
    let mut all: Vec<ExaminedCondition> = Vec::new();
    for it in described {
        let own = unmet.iter().filter(|found| found.condition == it.condition);
        let mut messages: Vec<&str> = own.map(|found| found.message.as_str()).collect();
        let needed = it.needs.and_then(|needs| {
            let mut before = all.iter();
            before.find(|other| other.condition == needs && !other.met)
        });
        let blocked = needed.map(|needed| format!("not checked: {}", needed.requirement));
        if let (Some(blocked), true) = (&blocked, messages.is_empty()) {
            messages.push(blocked);
        }
        all.push(ExaminedCondition {
            kind: kind.to_owned(),
            condition: it.condition.to_owned(),
            requirement: it.requirement.clone(),
            met: messages.is_empty(),
            message: messages.join("; "),
            approval_gate_id: None,
        });
    }
    for found in unmet {
        if !described.iter().any(|it| it.condition == found.condition) {
            all.push(ExaminedCondition {
                kind: found.kind.clone(),
                condition: found.condition.clone(),
                requirement: found.condition.clone(),
                met: false,
                message: found.message.clone(),
                approval_gate_id: found.approval_gate_id.clone(),
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn asked() -> Vec<Described> {
        vec![
            Described::new("moon", "there is a moon"),
            Described::new("full", "the moon is full").after("moon"),
            Described::new("bright", "the full moon is bright").after("full"),
            Described::new("tide", "the tide is high"),
        ]
    }

    fn unmet(names: &[&str]) -> Vec<Requirement> {
        let named = |name: &&str| Requirement::new("sky", name, format!("no {name}"));
        names.iter().map(named).collect()
    }

    #[rstest]
    #[case::all_met(&[], &[])]
    #[case::one(&["tide"], &["tide"])]
    #[case::others_depend_on_it(&["moon"], &["moon", "full", "bright"])]
    #[case::unknown_conditions_are_not_lost(&["comet"], &["comet"])]
    fn a_condition_is_met_unless_it_or_what_it_needs_is_unmet(
        #[case] names: &[&str],
        #[case] expected: &[&str],
    ) {
        let found = examined("sky", &asked(), &unmet(names));
        let open: Vec<&str> = found
            .iter()
            .filter(|it| !it.met)
            .map(|it| it.condition.as_str())
            .collect();
        assert_eq!(open, expected);
        assert_eq!(found.iter().all(|it| it.met), names.is_empty());
        assert!(found.iter().all(|it| it.met == it.message.is_empty()));
    }

    #[test]
    fn several_reasons_of_one_condition_are_shown_together() {
        let twice = [unmet(&["tide"]), unmet(&["tide"])].concat();
        let found = examined("sky", &asked(), &twice);
        assert_eq!(found.len(), 4);
        assert_eq!(found[3].message, "no tide; no tide");
        assert_eq!(found[1].message, "");
        let blocked = examined("sky", &asked(), &unmet(&["moon"]));
        assert_eq!(blocked[1].message, "not checked: there is a moon");
    }
}
