//! How far several judges agree: the share of agreeing pairs, and Fleiss' κ over all decisions.

use serde::{Deserialize, Serialize};

use crate::rules::run::fold::TaskFacts;
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

/// The decisions that several judges made, task by task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DecisionCounts {
    /// The identities of the judges; empty with one judge, which agrees with itself.
    judges: Vec<String>,
    /// For each decision, how many judges said yes and no.
    subjects: Vec<Vec<usize>>,
}

impl DecisionCounts {
    pub fn of(spec: &EvalSpec) -> Self {
        let judges = spec.judges.iter().map(|it| it.judge.identity.clone());
        let judges: Vec<String> = judges.collect();
        Self {
            judges: if judges.len() > 1 { judges } else { Vec::new() },
            subjects: Vec::new(),
        }
    }

    /// Adds the decisions about a scored task.
    pub fn add(&mut self, task: &TaskFacts) {
        if self.judges.is_empty() {
            return;
        }
        let criteria = task.votes.first().map_or(0, |vote| vote.met.len());
        for criterion in 0..criteria {
            let said = task.votes.iter().filter_map(|vote| vote.met.get(criterion));
            self.add_decision(said.copied());
        }
        let by_judges = task.decisions.iter();
        let mut decisions: Vec<_> = by_judges
            .filter(|it| self.judges.contains(&it.by))
            .collect();
        decisions.sort_by(|a, b| a.assertion.cmp(&b.assertion));
        for same in decisions.chunk_by(|a, b| a.assertion == b.assertion) {
            self.add_decision(same.iter().map(|it| it.holds));
        }
    }

    /// A decision that not every judge made does not count.
    fn add_decision(&mut self, said: impl Iterator<Item = bool>) {
        let (yes, all) = said.fold((0, 0), |(yes, all), it| (yes + usize::from(it), all + 1));
        if all == self.judges.len() {
            self.subjects.push(vec![yes, all - yes]);
        }
    }

    /// The agreement; `None` with one judge or without decisions.
    pub fn agreement(&self) -> Option<JudgeAgreement> {
        let found = fleiss(&self.subjects)?;
        Some(JudgeAgreement {
            judges: self.judges.len(),
            decisions: self.subjects.len(),
            observed: found.observed,
            kappa: found.kappa,
        })
    }
}
