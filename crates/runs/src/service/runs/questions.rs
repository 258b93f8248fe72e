//! The questions that runs wait for, and whether a caller may answer them.

use jiff::Timestamp;
use serde_json::Value;

use crate::rules::run::budget_extension;
use crate::rules::run::fold::RunStatus;
use crate::rules::run::listing::RunQuery;
use crate::rules::workflow::gate::GatePolicy;
use crate::rules::workflow::interrupt::deadline;
use crate::service::runs::Runs;
use crate::service::runs::interrupts::{gate_of, responder};
use touchstone_host::service::access::Caller;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{NodeId, RunId};
use touchstone_openwop::events::InterruptKind;

/// Maximum number of runs whose questions are listed, for each status.
const MAX_RUNS: usize = 50;

/// A question of a run.
#[derive(Clone, Debug)]
pub struct Question {
    pub run_id: RunId,
    pub node_id: NodeId,
    pub kind: InterruptKind,
    /// The question, as the run asked it.
    pub data: Value,
    pub asked_at: Timestamp,
    /// When the host answers in place of a person.
    pub deadline: Option<Timestamp>,
    /// The principal who created the run.
    pub requester: String,
    /// The principals who have approved so far.
    pub granted_by: Vec<String>,
    /// Who may answer.
    pub gate: GatePolicy,
    pub right: AnswerRight,
    pub may_override: bool,
    /// The member of `budgetDelta` that an approval of more budget must name.
    pub budget: Option<&'static str>,
}

/// Whether a caller may answer a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerRight {
    Granted,
    /// The caller lacks the role or scope.
    Missing,
    /// The caller asked, and the gate excludes the requester.
    Requester,
    /// The caller has approved, and others must too.
    Voted,
}

/// Questions, longest waiting last.
#[derive(Clone, Debug)]
pub struct Questions {
    pub questions: Vec<Question>,
    /// Whether more runs wait than were read.
    pub is_partial: bool,
}

impl Runs {
    /// The questions of the tenant's waiting runs, newest run first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn questions(&self, caller: &Caller) -> Result<Questions, Problem> {
        let mut runs = Vec::new();
        let mut is_partial = false;
        for status in [
            RunStatus::WaitingApproval,
            RunStatus::WaitingInput,
            RunStatus::WaitingExternal,
        ] {
            let query = RunQuery {
                status: Some(status),
                limit: MAX_RUNS,
                ..RunQuery::default()
            };
            let page = self.list(&caller.tenant, &query).await?;
            is_partial |= page.next.is_some();
            runs.extend(page.runs);
        }
        runs.sort_by_key(|run| std::cmp::Reverse(run.created_at));
        let mut questions = Vec::new();
        for run in runs {
            match self.questions_of(caller, &run.run_id).await {
                Ok(found) => questions.extend(found),
                // Deleted meanwhile.
                Err(problem) if problem.code == ErrorCode::NotFound => {}
                Err(problem) => return Err(problem),
            }
        }
        Ok(Questions {
            questions,
            is_partial,
        })
    }

    /// The questions that a run waits for, in order.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn questions_of(
        &self,
        caller: &Caller,
        run: &RunId,
    ) -> Result<Vec<Question>, Problem> {
        let record = self.record(&caller.tenant, run).await?;
        let responder = responder(caller, &record);
        let is_budget =
            |node: &NodeId| record.spec.eval().is_some() && node.as_str() == budget_extension::NODE;
        let mut found = Vec::new();
        for (node_id, facts) in self.waiting(run).await? {
            let Some(gate) = gate_of(&record, &node_id) else {
                continue;
            };
            let right = if gate.excludes(&responder) {
                AnswerRight::Requester
            } else if !gate.admits(&responder) {
                AnswerRight::Missing
            } else if facts.granted_by.contains(&caller.principal) {
                AnswerRight::Voted
            } else {
                AnswerRight::Granted
            };
            let budget = budget_extension::dimension_of(&facts.requested.data)
                .filter(|_| is_budget(&node_id))
                .map(budget_extension::member);
            found.push(Question {
                run_id: run.clone(),
                kind: facts.requested.kind,
                asked_at: facts.requested_at,
                deadline: deadline(&facts),
                requester: record.principal.clone(),
                may_override: gate.admits_override(&responder),
                gate,
                right,
                budget,
                data: facts.requested.data,
                granted_by: facts.granted_by,
                node_id,
            });
        }
        Ok(found)
    }
}
