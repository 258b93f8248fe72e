//! Importing a suite with its scoring document.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use crate::api::ConsoleApi;
use crate::operations::packs::suite_address;
use crate::page::answer::{html, see_other};
use crate::page::chrome::{Chrome, Section};
use crate::page::form::Form;
use crate::page::visit::Visit;
use touchstone_host::http::answer::Answer;
use touchstone_host::render::words::plain;
use touchstone_kit::json;
use touchstone_kit::json_place::place;
use touchstone_openwop::suite::SuiteFault;
use touchstone_packs::service::packs::{Actor, ImportError};

/// Faults that the page shows.
const SHOWN: usize = 50;
/// Where the faults of a scoring document are.
const SCORING: &str = "/scoring";

#[derive(Template)]
#[template(path = "operations/import.html")]
struct Page {
    chrome: Chrome,
    suite: String,
    scoring: String,
    faults: Vec<Fault>,
    found: usize,
}

struct Fault {
    document: &'static str,
    line: u64,
    column: u64,
    pointer: String,
    reason: String,
}

impl Fault {
    fn of(fault: &SuiteFault, suite: &str, scoring: &str) -> Self {
        let inner = fault.pointer.strip_prefix(SCORING);
        let inner = inner.filter(|it| it.is_empty() || it.starts_with('/'));
        let (document, text, pointer) = match inner {
            Some(inner) if !scoring.is_empty() => ("Scoring document", scoring, inner),
            _ => ("Suite", suite, fault.pointer.as_str()),
        };
        let (line, column) = position(text.as_bytes(), pointer);
        Self {
            document,
            line,
            column,
            pointer: plain(pointer),
            reason: plain(&fault.reason),
        }
    }
}

/// Line and column of a fault; for a text that is not JSON, where it ceases to be.
fn position(text: &[u8], pointer: &str) -> (u64, u64) {
    let whole = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    match json::parse(text) {
        Err(error) if pointer.is_empty() => (whole(error.line), whole(error.column)),
        _ => place(text, pointer),
    }
}

/// `GET /console/suites/import`.
pub async fn page(visit: Visit) -> Answer {
    html(&Page {
        chrome: visit.chrome(Section::Packs),
        suite: String::new(),
        scoring: String::new(),
        faults: Vec::new(),
        found: 0,
    })
}

/// `POST /console/suites/import`. Shows the faults of documents that are not valid, with the texts.
pub async fn import(State(api): State<Arc<ConsoleApi>>, visit: Visit, form: Form) -> Answer {
    let suite = form.required("suite")?;
    let scoring = form.get("scoring").map(str::trim).unwrap_or_default();
    let document = (!scoring.is_empty()).then(|| scoring.as_bytes().to_vec());
    let weight = json::weight(suite.as_bytes()) + json::weight(scoring.as_bytes());
    let _memory = api.host.limits.weigh(weight)?;
    let (packs, by) = (&api.packs.packs, Actor::of(&visit.caller));
    let imported = packs.import_suite(&by, suite.as_bytes(), document);
    let faults = match imported.await {
        Ok(record) => {
            let place = suite_address(&record.suite_id, &record.version);
            return Ok(see_other(&format!("{place}?done=suite-imported")));
        }
        Err(ImportError::Problem(problem)) => return Err(problem.into()),
        Err(ImportError::Faults(faults)) => faults,
    };
    let mut chrome = visit.chrome(Section::Packs);
    chrome.place = "/console/suites/import".to_owned();
    let shown = faults.iter().take(SHOWN);
    html(&Page {
        chrome,
        faults: shown.map(|it| Fault::of(it, suite, scoring)).collect(),
        found: faults.len(),
        suite: suite.to_owned(),
        scoring: scoring.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_names_its_document_line_and_column() {
        let fault = |pointer: &str| SuiteFault {
            pointer: pointer.to_owned(),
            reason: "is wrong".to_owned(),
        };
        let suite = "{\n  \"version\": 1\n}";
        let found = Fault::of(&fault("/version"), suite, "");
        assert_eq!((found.document, found.line), ("Suite", 2));
        let scoring = "{\n\n  \"tasks\": 1\n}";
        let found = Fault::of(&fault("/scoring/tasks"), suite, scoring);
        assert_eq!((found.document, found.line), ("Scoring document", 3));
        assert_eq!(found.pointer, "/tasks");
        let found = Fault::of(&fault(""), "{\n  oops", "");
        assert_eq!((found.line, found.column), (2, 3));
    }
}
