//! Suites: import, list, remove. Imported suites are marked as unsigned.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{FromRequest as _, Request, State};
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::http::PacksApi;
use crate::ports::inventory::SuiteRecord;
use crate::rules::suite_stream::reader::LineFaults;
use crate::service::packs::{Actor, ImportError};
use crate::service::suite_upload::{SuiteUpload, UploadError};
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, PathParameters};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::http::lines::{self, Lines};
use touchstone_host::service::access::Caller;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::json::canonical_text;
use touchstone_kit::json::value_of;

/// `GET /v1/host/touchstone/suites`.
pub async fn list(
    State(state): State<Arc<PacksApi>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    let suites = state.packs.suites(&caller.tenant).await?;
    let suites: Vec<Value> = suites.iter().map(shown).collect();
    json(StatusCode::OK, &json!({"suites": suites}))
}

/// `GET /v1/host/touchstone/suites/{suiteId}/{version}`.
pub async fn get(
    State(state): State<Arc<PacksApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
) -> Answer {
    let (id, version) = (path.get("suiteId"), path.get("version"));
    let suites = state.packs.suites(&caller.tenant).await?;
    let found = suites
        .iter()
        .find(|suite| suite.suite_id == id && suite.version == version);
    match found {
        Some(suite) => json(StatusCode::OK, &shown(suite)),
        None => Err(Problem::new(ErrorCode::NotFound, "no such suite").into()),
    }
}

/// `GET /v1/host/touchstone/suites/{suiteId}/{version}/document`.
pub async fn document(
    State(state): State<Arc<PacksApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
) -> Answer {
    let (id, version) = (path.get("suiteId"), path.get("version"));
    let found = state.packs.suite_documents(&caller, id, version).await?;
    let mut document = json!({"suite": found.suite});
    if let (Some(scoring), Some(members)) = (found.scoring, document.as_object_mut()) {
        members.insert("scoring".to_owned(), scoring);
    }
    json(StatusCode::OK, &document)
}

/// `POST /v1/host/touchstone/suites`: one document, or a stream of lines.
pub async fn import(
    State(state): State<Arc<PacksApi>>,
    Extension(caller): Extension<Caller>,
    IdempotencyKey(key): IdempotencyKey,
    request: Request,
) -> Answer {
    if lines::are_sent(request.method(), request.headers()) {
        // Importing the same suite again changes nothing, so the key is not needed.
        let suite = import_lines(&state, &caller, request).await?;
        return json(StatusCode::CREATED, &shown(&suite));
    }
    let JsonBody(body) = JsonBody::from_request(request, &state).await?;
    let (packs, by) = (state.packs.clone(), Actor::of(&caller));
    let Import { suite, scoring } = Import::of(&body);
    let endpoint = "POST /v1/host/touchstone/suites".to_owned();
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        let suite = packs
            .import_suite(&by, suite.as_bytes(), scoring.map(String::into_bytes))
            .await
            .map_err(refused)?;
        Ok(Done::new(StatusCode::CREATED, shown(&suite)))
    })
    .await
}

async fn import_lines(
    state: &PacksApi,
    caller: &Caller,
    request: Request,
) -> Result<SuiteRecord, Problem> {
    let mut upload = SuiteUpload::begin(&state.packs, &Actor::of(caller)).await?;
    let mut lines = Lines::of(request, &state.host, &caller.tenant);
    match take_all(&mut upload, &mut lines).await {
        Ok(()) => upload.finish().await.map_err(line_refused),
        Err(problem) => {
            upload.discard().await;
            Err(problem)
        }
    }
}

async fn take_all(upload: &mut SuiteUpload, lines: &mut Lines) -> Result<(), Problem> {
    while let Some(line) = lines.next().await? {
        upload.line(&line.bytes).await.map_err(line_refused)?;
    }
    Ok(())
}

/// The documents of an import: a suite, or an object with a suite and its scoring document.
struct Import {
    suite: String,
    scoring: Option<String>,
}

impl Import {
    fn of(body: &Value) -> Self {
        match (body.get("suite"), body.get("scoring")) {
            (Some(suite), scoring) => Self {
                suite: canonical_text(suite),
                scoring: scoring.map(canonical_text),
            },
            (None, _) => Self {
                suite: canonical_text(body),
                scoring: None,
            },
        }
    }
}

/// `DELETE /v1/host/touchstone/suites/{suiteId}/{version}`.
pub async fn remove(
    State(state): State<Arc<PacksApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    IdempotencyKey(key): IdempotencyKey,
) -> Answer {
    let (id, version) = (
        path.get("suiteId").to_owned(),
        path.get("version").to_owned(),
    );
    let endpoint = format!("DELETE /v1/host/touchstone/suites/{id}/{version}");
    let (packs, by) = (state.packs.clone(), Actor::of(&caller));
    once(
        &state.host,
        &caller,
        endpoint,
        key,
        &Value::Null,
        |_| async move {
            packs
                .remove_suite(&by, &id, &version)
                .await
                .map_err(not_imported)?;
            Ok(Done::new(StatusCode::OK, json!({"removed": true})))
        },
    )
    .await
}

/// The error without the suite's id from the path, which may be anything.
fn not_imported(problem: Problem) -> Problem {
    match problem.code {
        ErrorCode::NotFound => Problem::new(
            ErrorCode::NotFound,
            "no such imported suite; to remove a suite of a pack, remove the pack",
        ),
        _ => problem,
    }
}

fn refused(error: ImportError) -> Problem {
    match error {
        ImportError::Problem(problem) => problem,
        ImportError::Faults(faults) => {
            let field = faults
                .first()
                .map_or("", |fault| fault.pointer.as_str())
                .to_owned();
            let listed = value_of(&faults);
            Problem::validation(
                &field,
                "the document is not a valid suite; see `details.faults`",
            )
            .with("faults", listed)
        }
    }
}

fn line_refused(error: UploadError) -> Problem {
    match error {
        UploadError::Problem(problem) => problem,
        UploadError::Line(LineFaults { line, faults }) => {
            let first = faults.first();
            let field = first.map_or("", |fault| fault.pointer.as_str());
            let reason = first.map_or_else(String::new, |fault| format!(": {fault}"));
            let message = format!(
                "line {line} is not valid{reason}; correct the line and send all lines again"
            );
            Problem::validation(field, message)
                .with("line", line)
                .with("faults", value_of(&faults))
        }
    }
}

fn shown(suite: &SuiteRecord) -> Value {
    let mut shown = json!({
        "suiteId": suite.suite_id,
        "version": suite.version,
        "digest": suite.digest,
        "taskCount": suite.task_count,
        "signed": suite.signed,
        "addedAt": suite.added_at,
    });
    let members = [("pack", &suite.pack), ("scoringDigest", &suite.scoring)];
    for (name, value) in members {
        if let (Some(value), Some(members)) = (value, shown.as_object_mut()) {
            members.insert(name.to_owned(), json!(value));
        }
    }
    shown
}
