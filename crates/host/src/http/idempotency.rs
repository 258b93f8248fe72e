//! `Idempotency-Key`, layer 1 (OpenWOP idempotency, RFC 0093).
//!
//! Every mutating endpoint goes through [`once`]. A key belongs to a tenant and an endpoint,
//! including the run in the path, and is stored as a hash. It counts under both majors, and a
//! repeated request gets the stored answer in the form of its own major.
//!
//! Under major 1, only successful responses are stored: a failed request may be retried with the same
//! key. Major 2 also repeats refusals that are final.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};
use tracing::Instrument as _;

use crate::background::spawn;
use crate::http::HttpHost;
use crate::http::answer::{Answer, Failure, json_text};
use crate::http::extract::RequestKey;
use crate::otlp::span::{current, within};
use crate::ports::idempotency::{IdempotencyBegin, IdempotencyClaim, IdempotencyCompletion};
use crate::service::access::Caller;
use crate::service::fault::internal;
use crate::telemetry::names;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::TenantId;
use touchstone_kit::json::canonical_text;
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::idempotency::is_final;

pub(super) const REPLAYED: HeaderName = HeaderName::from_static("openwop-idempotent-replay");
/// How long a key stays locked without a heartbeat before another request may take over; heartbeats
/// come at a third of it.
const LEASE: Duration = Duration::from_secs(15);
/// How long a second request waits for the response of the first.
const MAX_WAIT: Duration = Duration::from_secs(2);
const POLL_EVERY: Duration = Duration::from_millis(50);

pub struct Done {
    status: StatusCode,
    body: Value,
    recorded: bool,
    /// A member that only the first response contains: a secret that is not stored.
    first_only: Option<(&'static str, Value)>,
}

impl Done {
    /// A response that this module has to record.
    pub fn new(status: StatusCode, body: Value) -> Self {
        Self {
            status,
            body,
            recorded: false,
            first_only: None,
        }
    }

    /// Sets whether the operation's own transaction has `recorded` the response.
    #[must_use]
    pub fn recorded(mut self, recorded: bool) -> Self {
        self.recorded = recorded;
        self
    }

    /// Adds a member that a repeated request does not get.
    #[must_use]
    pub fn telling(mut self, name: &'static str, value: Value) -> Self {
        self.first_only = Some((name, value));
        self
    }

    fn into_answer(self) -> Response {
        let mut body = self.body;
        if let (Some((name, value)), Some(members)) = (self.first_only, body.as_object_mut()) {
            members.insert(name.to_owned(), value);
        }
        json_text(self.status, text(&body))
    }
}

/// Executes `operation` at most once per key; without a key, just executes it.
///
/// # Errors
/// The operation's own; `idempotency_key_mismatch`, `idempotency_in_flight`.
///
/// # Cancel safety
/// With a key, the operation continues when the client disconnects, so that its response is there
/// for the next attempt.
pub async fn once<F>(
    state: &Arc<HttpHost>,
    caller: &Caller,
    endpoint: String,
    key: Option<RequestKey>,
    body: &Value,
    operation: impl FnOnce(Option<IdempotencyClaim>) -> F,
) -> Answer
where
    F: Future<Output = Result<Done, Problem>> + Send + 'static,
{
    once_for(state, &caller.tenant, endpoint, key, body, operation).await
}

/// [`once`] for an operation whose result depends on the principal: the principal is part of the
/// digest, so that another one never gets this answer.
///
/// # Errors
/// As [`once`].
///
/// # Cancel safety
/// As [`once`].
pub async fn once_per_principal<F>(
    state: &Arc<HttpHost>,
    caller: &Caller,
    endpoint: String,
    key: Option<RequestKey>,
    body: &Value,
    operation: impl FnOnce(Option<IdempotencyClaim>) -> F,
) -> Answer
where
    F: Future<Output = Result<Done, Problem>> + Send + 'static,
{
    let digested = json!({"body": body, "principal": caller.principal});
    once(state, caller, endpoint, key, &digested, operation).await
}

/// [`once`] for a request that acts for a tenant without an API key.
///
/// # Errors
/// As [`once`].
///
/// # Cancel safety
/// As [`once`].
pub async fn once_for<F>(
    state: &Arc<HttpHost>,
    tenant: &TenantId,
    endpoint: String,
    key: Option<RequestKey>,
    body: &Value,
    operation: impl FnOnce(Option<IdempotencyClaim>) -> F,
) -> Answer
where
    F: Future<Output = Result<Done, Problem>> + Send + 'static,
{
    let Some(key) = key else {
        let done = operation(None).await?;
        return Ok(done.into_answer());
    };
    let claim = IdempotencyClaim {
        tenant: tenant.clone(),
        endpoint,
        key_hash: Sha256::digest(key.text.as_bytes()).into(),
        digest: Sha256::digest(canonical_text(body).as_bytes()).into(),
        owner: state.ids.mint("req"),
    };
    if let Some(replayed) = begin(state, &claim).await? {
        return Ok(replayed);
    }
    let operation = operation(Some(claim.clone()));
    let executed = execute(state.clone(), claim, key.major, operation);
    // The operation must end even if the client disconnects, which drops this future.
    let executed = within(current(), executed.in_current_span());
    let executed = spawn("request", executed);
    executed
        .await
        .map_err(|cause| internal(&cause))?
        .map_err(|cause| internal(&cause))?
}

/// Locks the key, or returns the recorded response.
async fn begin(state: &HttpHost, claim: &IdempotencyClaim) -> Result<Option<Response>, Failure> {
    let give_up = Instant::now() + MAX_WAIT;
    loop {
        let begun = state
            .store
            .begin(claim, state.clock.now(), LEASE)
            .await
            .map_err(|cause| internal(&cause))?;
        match begun {
            IdempotencyBegin::Fresh => return Ok(None),
            IdempotencyBegin::Replay { status, body } => {
                metrics::counter!(names::IDEMPOTENT_REPLAYS).increment(1);
                let status = StatusCode::from_u16(status).map_err(|cause| internal(&cause))?;
                let mut response = match status.is_success() {
                    true => json_text(status, body),
                    false => Failure(Refused::read(&body)?).into_response(),
                };
                response
                    .headers_mut()
                    .insert(REPLAYED, HeaderValue::from_static("true"));
                return Ok(Some(response));
            }
            IdempotencyBegin::Mismatch => {
                return Err(Problem::new(
                    ErrorCode::IdempotencyKeyMismatch,
                    "this `Idempotency-Key` was used for another request; use a new key for a \
                     new request",
                )
                .into());
            }
            IdempotencyBegin::InFlight { .. } if Instant::now() < give_up => {
                sleep(POLL_EVERY).await;
            }
            IdempotencyBegin::InFlight { left } => {
                // By then the key is free: the first request has been answered, or its host is
                // dead.
                let seconds = left.as_millis().div_ceil(1000).max(1);
                return Err(Problem::new(
                    ErrorCode::IdempotencyInFlight,
                    "the first request with this `Idempotency-Key` is still in progress; try again",
                )
                .with("retryAfter", u64::try_from(seconds).unwrap_or(u64::MAX))
                .into());
            }
        }
    }
}

/// A stored refusal. The names of a code under the majors do not tell all codes apart.
#[derive(Deserialize)]
struct Refused {
    code: String,
    message: String,
    details: Map<String, Value>,
}

impl Refused {
    fn text(problem: &Problem) -> Bytes {
        let refused = json!({
            "code": problem.code.name(),
            "message": problem.message,
            "details": problem.details,
        });
        text(&refused)
    }

    fn read(body: &[u8]) -> Result<Problem, Problem> {
        let read: Self = serde_json::from_slice(body).map_err(|cause| internal(&cause))?;
        Ok(Problem {
            // A later version may know more codes.
            code: ErrorCode::named(&read.code).unwrap_or(ErrorCode::Conflict),
            message: read.message,
            details: read.details,
        })
    }
}

/// What is digested of a request to which the majors answer differently: the answer of one is not
/// repeated under the other.
pub fn of_major(major: Major, body: Value) -> Value {
    match major {
        Major::V1 => body,
        Major::V2 => json!({"protocolVersion": major.version(), "body": body}),
    }
}

async fn execute(
    state: Arc<HttpHost>,
    claim: IdempotencyClaim,
    major: Major,
    operation: impl Future<Output = Result<Done, Problem>>,
) -> Answer {
    match with_lease(&state, &claim, operation).await {
        Ok(done) => {
            if !done.recorded {
                state
                    .store
                    .complete(&IdempotencyCompletion {
                        claim,
                        status: done.status.as_u16(),
                        body: text(&done.body),
                    })
                    .await
                    .map_err(|cause| internal(&cause))?;
            }
            Ok(done.into_answer())
        }
        Err(problem) if major == Major::V2 && is_final(&problem) => {
            let completion = IdempotencyCompletion {
                claim,
                status: problem.code.status(),
                body: Refused::text(&problem),
            };
            if let Err(cause) = state.store.complete(&completion).await {
                // The lease frees the key a little later.
                internal(&cause);
            }
            Err(problem.into())
        }
        Err(problem) => {
            if let Err(cause) = state.store.abandon(&claim).await {
                // The lease frees the key a little later.
                internal(&cause);
            }
            Err(problem.into())
        }
    }
}

/// Executes the operation and extends the lease meanwhile.
async fn with_lease(
    state: &HttpHost,
    claim: &IdempotencyClaim,
    operation: impl Future<Output = Result<Done, Problem>>,
) -> Result<Done, Problem> {
    tokio::select! {
        biased;
        done = operation => done,
        never = hold(state, claim) => never,
    }
}

/// Extends the lease for as long as it is polled; never returns. The operation is polled at the
/// same time: it may hold the connection that the extension waits for.
async fn hold<T>(state: &HttpHost, claim: &IdempotencyClaim) -> T {
    loop {
        sleep(LEASE / 3).await;
        // An operation in progress cannot be undone; its response is refused if another request has
        // taken over.
        if let Err(cause) = state.store.extend(claim, LEASE).await {
            internal(&cause);
        }
    }
}

fn text(body: &Value) -> Bytes {
    Bytes::from(body.to_string())
}
