//! Notes that people wrote about a run or one of its tasks.

use std::sync::Arc;

use axum::extract::State;
use serde_json::{Map, Value, json};

use crate::api::ConsoleApi;
use crate::page::answer::see_other;
use crate::page::form::Form;
use crate::page::text::Time;
use crate::page::visit::Visit;
use crate::runs::task_page;
use touchstone_host::http::answer::Answer;
use touchstone_host::render::words::plain;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::TaskId;
use touchstone_openwop::annotation::Annotation;
use touchstone_runs::http::extract::RunPath;
use touchstone_runs::render::words::{NOTE, annotation_line};
use touchstone_runs::rules::run::annotation::parse;

pub struct Note {
    pub text: String,
    /// The task it is about; empty for the whole run.
    pub task: String,
    pub at: Time,
}

impl Note {
    pub fn of(annotation: &Annotation) -> Self {
        let task = annotation.target.node_id.as_ref();
        Self {
            text: annotation_line(annotation),
            task: task.map_or_else(String::new, |task| plain(task.as_str())),
            at: annotation.created_at.into(),
        }
    }
}

/// `POST /console/runs/{runId}/annotations`.
pub async fn add(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    RunPath(run): RunPath,
    form: Form,
) -> Answer {
    let new = parse(&annotation(&form)?)?;
    let task = new.node_id.clone();
    let annotations = &api.runs.annotations;
    annotations.annotate(&visit.caller, &run, new, None).await?;
    let is_of_task = form.get("back") == Some("task");
    Ok(see_other(&match task.filter(|_| is_of_task) {
        Some(task) => format!("{}?done=annotated", task_page(&run, &task)),
        None => format!("/console/runs/{run}?done=annotated#notes"),
    }))
}

/// The document of an annotation, as the API takes it.
fn annotation(form: &Form) -> Result<Value, Problem> {
    let note = form.get("note").map(str::trim).filter(|it| !it.is_empty());
    let kind = form.get("kind").unwrap_or(NOTE);
    let (signal, needs_note) = match kind {
        "flag" => (json!({"kind": "flag"}), false),
        NOTE => (json!({"kind": "label", "label": NOTE}), true),
        rating => {
            let rating: Option<u64> = rating
                .strip_prefix("rating-")
                .and_then(|it| it.parse().ok());
            let rating = rating.ok_or_else(|| {
                Problem::validation("kind", "choose a note, a flag or a rating from 1 to 5")
            })?;
            (json!({"kind": "rating", "rating": rating}), false)
        }
    };
    if needs_note {
        form.required("note")?;
    }
    let mut body = Map::new();
    body.insert("signal".to_owned(), signal);
    if let Some(note) = note {
        body.insert("note".to_owned(), note.into());
    }
    if let Some(task) = form.get("task").map(str::trim).filter(|it| !it.is_empty()) {
        let task = TaskId::from(task);
        body.insert("target".to_owned(), json!({"nodeId": task}));
    }
    Ok(Value::Object(body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(
        "kind=note&note=+Odd+",
        r#"{"note":"Odd","signal":{"kind":"label","label":"note"}}"#
    )]
    #[case("kind=flag&note=", r#"{"signal":{"kind":"flag"}}"#)]
    #[case(
        "kind=rating-4&task=a%2Fb",
        r#"{"signal":{"kind":"rating","rating":4},"target":{"nodeId":"a/b"}}"#
    )]
    fn a_form_is_the_document_of_an_annotation(#[case] form: &str, #[case] expected: &str) {
        let found = annotation(&Form::parse(form.as_bytes()).unwrap()).unwrap();
        assert_eq!(found, serde_json::from_str::<Value>(expected).unwrap());
        parse(&found).unwrap();
    }

    #[rstest]
    #[case("kind=note&note=+", "note")]
    #[case("kind=rating-x", "kind")]
    #[case("kind=other", "kind")]
    fn an_incomplete_form_is_refused_by_field(#[case] form: &str, #[case] field: &str) {
        let problem = annotation(&Form::parse(form.as_bytes()).unwrap()).unwrap_err();
        assert_eq!(problem.details["field"], field);
    }
}
