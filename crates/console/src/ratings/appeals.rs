//! Appeals against the scores of an assessment: filed, reviewed, accepted or rejected.

use std::sync::Arc;

use axum::extract::State;
use serde_json::{Map, Value, json};

use crate::api::ConsoleApi;
use crate::page::answer::see_other;
use crate::page::badge::Badge;
use crate::page::form::Form;
use crate::page::text::Time;
use crate::page::visit::Visit;
use crate::ratings::assessment::find;
use crate::ratings::assessment_address;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::PathParameters;
use touchstone_host::render::words::plain;
use touchstone_kit::error::Problem;
use touchstone_ratings::ports::appeals::{AppealRecord, AppealState};
use touchstone_ratings::rules::appeal::Override;
use touchstone_ratings::rules::appeal::filing::{Filing, Ruling};
use touchstone_ratings::rules::badge::dimension_name;

pub struct Appeal {
    pub id: String,
    pub state: Badge,
    pub at: Time,
    pub by: String,
    pub dimensions: String,
    pub justification: String,
    pub claims: Vec<(String, String)>,
    pub decision: String,
    /// The corrections of the evidence and the changed scores, if it was accepted.
    pub effects: Vec<String>,
    pub may_resolve: bool,
    /// Why the person may not decide, although it has the right to decide on appeals.
    pub is_own: bool,
    pub is_under_review: bool,
}

impl Appeal {
    pub fn of(appeal: &AppealRecord, visit: &Visit) -> Self {
        let filing = &appeal.filing;
        let named = filing.dimensions.iter().map(|it| dimension_name(*it));
        let claims = filing.counter_evidence.iter();
        let handling = appeal.handling.as_ref();
        let decision = handling.map(|it| {
            let by = plain(&it.by);
            match (&it.reason, appeal.state) {
                (Some(reason), _) => format!("{by}: {}", plain(reason)),
                (None, AppealState::UnderReview) => format!("{by} reviews it"),
                (None, _) => format!("{by}, without a reason"),
            }
        });
        let amendment = handling.and_then(|it| it.amendment.as_ref());
        let mut effects: Vec<String> = amendment
            .into_iter()
            .flat_map(|it| it.overrides.iter().map(correction))
            .collect();
        if let Some(amendment) = amendment {
            let changed = amendment.changed.iter().map(|it| dimension_name(*it));
            let changed: Vec<&str> = changed.collect();
            effects.push(match changed.is_empty() {
                true => "No score changed.".to_owned(),
                false => format!("Changed scores: {}.", changed.join(", ")),
            });
        }
        let may = appeal.state.is_open() && visit.may(Scope::AppealsReview);
        let is_own = appeal.filed_by == visit.caller.principal;
        Self {
            id: appeal.id.clone(),
            state: match appeal.state {
                AppealState::Filed => Badge::info("Filed"),
                AppealState::UnderReview => Badge::info("Under review"),
                AppealState::Accepted => Badge::good("Accepted"),
                AppealState::Rejected => Badge::bad("Rejected"),
            },
            at: appeal.created_at.into(),
            by: plain(&appeal.filed_by),
            dimensions: named.collect::<Vec<_>>().join(", "),
            justification: plain(&filing.justification),
            claims: claims
                .map(|it| (plain(&it.task_id), plain(&it.claim)))
                .collect(),
            decision: decision.unwrap_or_default(),
            effects,
            may_resolve: may && !is_own,
            is_own: may && is_own,
            is_under_review: appeal.state == AppealState::UnderReview,
        }
    }
}

/// A correction of the evidence in words.
fn correction(it: &Override) -> String {
    match it {
        Override::RevisionNotError {
            task_id,
            revision_number,
        } => format!(
            "Revision {revision_number} of task {} is not a mistake of the agent.",
            plain(task_id)
        ),
        Override::ExcludeTask { task_id } => format!("Task {} does not count.", plain(task_id)),
        Override::SetField {
            event_id,
            field,
            value,
        } => format!(
            "In event {}, {} is {}.",
            plain(event_id),
            plain(field),
            plain(&value.to_string())
        ),
    }
}

/// `POST /console/ratings/{agentId}/assessments/{assessmentId}/appeals`.
pub async fn file(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
    form: Form,
) -> Answer {
    let ratings = &api.ratings.ratings;
    let member = ratings.member(visit.caller.clone(), true).await?;
    let found = find(ratings, &member, &path).await?;
    let dimensions: Vec<&str> = form.all("dimension").collect();
    let claim = json!({"task_id": form.required("task")?, "claim": form.required("claim")?});
    let filing = Filing::parse(&json!({
        "dimensions": dimensions,
        "justification": form.required("justification")?,
        "counter_evidence": [claim],
    }))?;
    ratings.file_appeal(&member, &found.id, filing).await?;
    let place = assessment_address(&found.agent, &found.id);
    Ok(see_other(&format!("{place}?done=appeal-filed")))
}

/// `POST /console/ratings/{agentId}/assessments/{assessmentId}/appeals/{appealId}`.
pub async fn resolve(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
    form: Form,
) -> Answer {
    let ratings = &api.ratings.ratings;
    let member = ratings.member(visit.caller.clone(), true).await?;
    let found = find(ratings, &member, &path).await?;
    let asked = decided(&form)?;
    let done = match asked.get("decision").and_then(Value::as_str) {
        Some("review") => "appeal-reviewed",
        _ => "appeal-resolved",
    };
    let ruling = Ruling::parse(&asked)?;
    let appeal = path.get("appealId");
    ratings
        .resolve_appeal(&member, &found.id, appeal, ruling)
        .await?;
    let place = assessment_address(&found.agent, &found.id);
    Ok(see_other(&format!("{place}?done={done}")))
}

/// The decision of a form.
fn decided(form: &Form) -> Result<Value, Problem> {
    let decision = form.required("decision")?;
    let mut asked = Map::new();
    asked.insert("decision".to_owned(), json!(decision));
    let reason = form.get("reason").map(str::trim);
    if let Some(reason) = reason.filter(|it| !it.is_empty() && decision != "review") {
        asked.insert("reason".to_owned(), json!(reason));
    }
    if decision == "accept" {
        asked.insert("overrides".to_owned(), json!([corrected(form)?]));
    }
    Ok(Value::Object(asked))
}

/// The correction of the evidence that a form describes.
fn corrected(form: &Form) -> Result<Value, Problem> {
    let whole = |name: &str| {
        let number: Option<u32> = form.required(name)?.parse().ok();
        number.ok_or_else(|| Problem::validation(name, "the revision must be a number"))
    };
    Ok(match form.required("correction")? {
        "revision_not_error" => json!({
            "type": "revision_not_error",
            "task_id": form.required("task")?,
            "revision_number": whole("revision")?,
        }),
        "set_field" => {
            let value = form.required("value")?;
            // Numbers, `true` and `false` are values; other texts stay texts.
            let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
            json!({
                "type": "set_field",
                "event_id": form.required("event")?,
                "field": form.required("field")?,
                "value": value,
            })
        }
        _ => json!({"type": "exclude_task", "task_id": form.required("task")?}),
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("decision=review&reason=x", Some(json!({"decision": "review"})))]
    #[case("decision=reject&reason=no", Some(json!({"decision": "reject", "reason": "no"})))]
    #[case("decision=accept&correction=exclude_task&task=t", Some(json!({"decision": "accept",
        "overrides": [{"type": "exclude_task", "task_id": "t"}]})))]
    #[case("decision=accept&correction=revision_not_error&task=t&revision=2", Some(json!({
        "decision": "accept",
        "overrides": [{"type": "revision_not_error", "task_id": "t", "revision_number": 2}]})))]
    #[case("decision=accept&correction=set_field&event=e&field=score&value=0.5", Some(json!({
        "decision": "accept",
        "overrides": [{"type": "set_field", "event_id": "e", "field": "score", "value": 0.5}]})))]
    #[case("decision=accept&correction=exclude_task", None)]
    #[case(
        "decision=accept&correction=revision_not_error&task=t&revision=x",
        None
    )]
    #[case("", None)]
    fn a_form_decides_on_an_appeal(#[case] form: &str, #[case] expected: Option<Value>) {
        let found = decided(&Form::parse(form.as_bytes()).unwrap()).ok();
        assert_eq!(found, expected);
        if let Some(asked) = found {
            Ruling::parse(&asked).unwrap();
        }
    }
}
