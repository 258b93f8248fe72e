//! How far several judges agree: the share of agreeing pairs, and Fleiss' κ over all decisions.

use serde::{Deserialize, Serialize};

use crate::rules::run::fold::EvalFacts;
use crate::rules::run::record::EvalSpec;
use touchstone_kit::statistics::fleiss;

/// Agreement of several judges. A decision is one criterion of a rubric or one assertion; it is yes
/// or no for every judge.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JudgeAgreement {
    pub judges: usize,
    pub decisions: usize,
    /// The share of pairs of judges that agree, 0.0..=1.0.
    pub observed: f64,
    /// Fleiss' κ; absent if all decisions are the same, because agreement by chance is then
    /// complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kappa: Option<f64>,
}

/// The agreement over the scored tasks; `None` with one judge or without decisions.
pub fn agreement(spec: &EvalSpec, facts: &EvalFacts) -> Option<JudgeAgreement> {
    let judges = spec.judges.len();
    let mut subjects: Vec<Vec<usize>> = Vec::new();
    let mut add = |said: Vec<bool>| {
        let yes = said.iter().filter(|yes| **yes).count();
        if said.len() == judges {
            subjects.push(vec![yes, judges - yes]);
        }
    };
    for task in spec.tasks.iter().filter_map(|id| facts.scored(id)) {
        let criteria = task.votes.first().map_or(0, |vote| vote.met.len());
        for criterion in 0..criteria {
            let said = task.votes.iter().filter_map(|vote| vote.met.get(criterion));
            add(said.copied().collect());
        }
        let members = |by: &str| spec.judges.iter().any(|it| it.judge.identity == by);
        let by_judges = task.decisions.iter().filter(|it| members(&it.by));
        let mut decisions: Vec<_> = by_judges.collect();
        decisions.sort_by(|a, b| a.assertion.cmp(&b.assertion));
        for same in decisions.chunk_by(|a, b| a.assertion == b.assertion) {
            add(same.iter().map(|it| it.holds).collect());
        }
    }
    let found = fleiss(&subjects)?;
    Some(JudgeAgreement {
        judges,
        decisions: subjects.len(),
        observed: found.observed,
        kappa: found.kappa,
    })
}
