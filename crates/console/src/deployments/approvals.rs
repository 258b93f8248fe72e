//! Questions that runs wait for, and their answers.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use serde_json::{Map, Value, json};

use crate::api::ConsoleApi;
use crate::page::answer::{html, see_other, segment};
use crate::page::chrome::{Chrome, Section};
use crate::page::form::Form;
use crate::page::text::Time;
use crate::page::visit::Visit;
use touchstone_deployments::promotion::approvers;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::PathParameters;
use touchstone_host::render::words::plain;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{NodeId, RunId};
use touchstone_openwop::events::InterruptKind;
use touchstone_runs::http::extract::RunPath;
use touchstone_runs::render::words::NOTE;
use touchstone_runs::rules::run::annotation::parse;
use touchstone_runs::service::runs::questions::{AnswerRight, Question};

#[derive(Template)]
#[template(path = "deployments/approvals.html")]
struct Page {
    chrome: Chrome,
    /// The page to come back to after an answer.
    back: &'static str,
    may_explain: bool,
    questions: Vec<Card>,
    is_partial: bool,
}

/// A question with what the person may do.
pub struct Card {
    /// Unique on the page.
    pub id: String,
    pub href: String,
    pub run: String,
    pub title: String,
    pub kind: &'static str,
    pub requester: String,
    pub is_own: bool,
    pub asked_at: Time,
    pub deadline: Option<Time>,
    /// Who may answer, in words.
    pub who: String,
    pub granted_by: String,
    pub may_answer: bool,
    /// Why the person may not answer.
    pub obstacle: String,
    pub may_override: bool,
    pub is_approval: bool,
    /// The unit of an approval of more budget.
    pub budget: &'static str,
    pub inputs: Vec<Input>,
    pub asks_json: bool,
    pub data: String,
}

/// A question of a clarification.
pub struct Input {
    pub name: String,
    pub label: String,
}

impl Card {
    fn of(visit: &Visit, question: &Question) -> Self {
        let data = |name: &str| question.data.get(name).and_then(Value::as_str);
        let gate = &question.gate;
        let is_restricted = gate.required_role.is_some() || gate.required_scope.is_some();
        let inputs = inputs(question);
        let is_approval = question.kind == InterruptKind::Approval;
        Self {
            id: format!("{}-{}", question.run_id, question.node_id),
            href: format!(
                "/console/approvals/{}/{}",
                question.run_id,
                segment(question.node_id.as_str())
            ),
            run: question.run_id.to_string(),
            title: plain(data("title").unwrap_or(match question.kind {
                InterruptKind::Approval => "A run waits for an approval",
                InterruptKind::Clarification => "A run waits for answers",
                InterruptKind::ExternalEvent => "A run waits for an event",
                InterruptKind::Custom => "A run waits for input",
            })),
            kind: match (question.kind, question.budget) {
                (InterruptKind::Approval, Some(_)) => "More budget",
                (InterruptKind::Approval, None) => "Approval",
                (InterruptKind::Clarification, _) => "Questions",
                (InterruptKind::ExternalEvent, _) => "Event",
                (InterruptKind::Custom, _) => "Input",
            },
            requester: plain(&question.requester),
            is_own: question.requester == visit.caller.principal,
            asked_at: question.asked_at.into(),
            deadline: question.deadline.map(Time::from),
            who: match is_restricted {
                true => plain(&format!("approval of {}", approvers(gate).replace('`', ""))),
                false => format!("answers of {} with scope approvals:respond", gate.quorum),
            },
            granted_by: plain(&question.granted_by.join(", ")),
            may_answer: question.right == AnswerRight::Granted,
            obstacle: obstacle(question.right).to_owned(),
            may_override: question.may_override,
            is_approval,
            budget: question.budget.unwrap_or_default(),
            asks_json: !is_approval && inputs.is_empty(),
            inputs,
            data: match is_approval {
                true => String::new(),
                false => plain(&serde_json::to_string_pretty(&question.data).unwrap_or_default()),
            },
        }
    }
}

const fn obstacle(right: AnswerRight) -> &'static str {
    match right {
        AnswerRight::Granted => "",
        AnswerRight::Missing => "You may not answer: your key lacks the role or scope.",
        AnswerRight::Requester => {
            "You asked for this, so you may not answer: another person must. The host refuses the \
             requester's own approval here."
        }
        AnswerRight::Voted => "You have approved. The other approvals must come from other people.",
    }
}

fn inputs(question: &Question) -> Vec<Input> {
    let asked = question.data.get("questions").and_then(Value::as_array);
    let input = |it: &Value| {
        Some(Input {
            name: it.get("id")?.as_str()?.to_owned(),
            label: plain(it.get("question")?.as_str()?),
        })
    };
    match question.kind {
        InterruptKind::Clarification => asked.into_iter().flatten().filter_map(input).collect(),
        _ => Vec::new(),
    }
}

/// The questions of waiting runs, and whether there are more.
///
/// # Errors
/// The store failed.
pub async fn cards(api: &ConsoleApi, visit: &Visit) -> Result<(Vec<Card>, bool), Problem> {
    let found = api.runs.runs.questions(&visit.caller).await?;
    let cards = found.questions.iter().map(|it| Card::of(visit, it));
    Ok((cards.collect(), found.is_partial))
}

/// `GET /console/approvals`.
pub async fn page(State(api): State<Arc<ConsoleApi>>, visit: Visit) -> Answer {
    let (questions, is_partial) = cards(&api, &visit).await?;
    html(&Page {
        chrome: visit.chrome(Section::Approvals),
        back: "approvals",
        may_explain: visit.may(Scope::RunsCreate),
        questions,
        is_partial,
    })
}

/// `POST /console/approvals/{runId}/{nodeId}`.
pub async fn answer(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    RunPath(run): RunPath,
    parameters: PathParameters,
    form: Form,
) -> Answer {
    let node = NodeId::from(parameters.get("nodeId"));
    let runs = &api.runs.runs;
    let open = runs.questions_of(&visit.caller, &run).await?;
    let question = open.iter().find(|it| it.node_id == node);
    let question = question.ok_or_else(|| {
        Problem::new(
            ErrorCode::InterruptAlreadyResolved,
            "this question was already answered, or its run has ended",
        )
    })?;
    let value = match question.kind {
        InterruptKind::Approval => decision(question, &form)?,
        InterruptKind::Clarification => {
            let mut answers = Map::new();
            for input in inputs(question) {
                let text = form.get(&format!("answer.{}", input.name));
                answers.insert(input.name, json!(text.unwrap_or_default()));
            }
            json!({"answers": answers})
        }
        InterruptKind::ExternalEvent | InterruptKind::Custom => {
            serde_json::from_str(form.required("value")?).map_err(|_| {
                Problem::validation("value", "the answer must be JSON, such as {\"ok\": true}")
            })?
        }
    };
    runs.resolve(&visit.caller, &run, &node, &value).await?;
    let is_approval = question.kind == InterruptKind::Approval;
    if let (Some(reason), false) = (form.get("reason").map(str::trim), is_approval) {
        explain(&api, &visit, &run, &node, reason).await;
    }
    let done = match form.get("answer") {
        Some("reject") => "rejected",
        Some("override") => "overridden",
        _ => "answered",
    };
    let list = match form.get("back") {
        Some("review") => "/console/review",
        _ => "/console/approvals",
    };
    Ok(see_other(&format!("{list}?done={done}")))
}

/// Keeps the reason of an answer as a note of the run: only approvals carry one themselves. The
/// answer counts, whatever happens to the note.
async fn explain(api: &ConsoleApi, visit: &Visit, run: &RunId, node: &NodeId, reason: &str) {
    if reason.is_empty() || !visit.may(Scope::RunsCreate) {
        return;
    }
    let note = json!({
        "target": {"nodeId": node}, "signal": {"kind": "label", "label": NOTE}, "note": reason,
    });
    let added = async {
        let annotations = &api.runs.annotations;
        annotations
            .annotate(&visit.caller, run, parse(&note)?, None)
            .await
    };
    if let Err(problem) = added.await {
        tracing::warn!(run = %run, error = %problem, "could not keep the reason of an answer");
    }
}

/// The value of a decision, with the reason.
fn decision(question: &Question, form: &Form) -> Result<Value, Problem> {
    let reason = form.required("reason")?;
    let decided = form.required("answer")?;
    let mut value = match decided {
        "accept" | "reject" => json!({"action": decided, "feedback": reason}),
        "override" => json!({"action": "accept", "override": {"reason": reason}}),
        _ => {
            return Err(Problem::validation(
                "answer",
                "choose to approve, to reject or to override",
            ));
        }
    };
    if let (Some(member), "accept") = (question.budget, decided) {
        let text = form.required("amount")?;
        let number: Value = serde_json::from_str(text)
            .ok()
            .filter(Value::is_number)
            .ok_or_else(|| Problem::validation("amount", "the amount must be a number"))?;
        if let Some(members) = value.as_object_mut() {
            members.insert("budgetDelta".to_owned(), json!({member: number}));
        }
    }
    Ok(value)
}
