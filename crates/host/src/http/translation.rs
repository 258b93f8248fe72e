//! The translation of requests of major 2 into the form inside this host, which is that of major 1,
//! and of their answers back.
//!
//! It stands between the guard of a route and its handler: the caller is known, and nothing has
//! been looked up. Handlers do not know the major of a request. The rules are pure functions of
//! `touchstone_openwop::wire`.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts as _, RawPathParams, Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::MethodRouter;
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use url::form_urlencoded;

use crate::http::HttpHost;
use crate::http::answer::etag::conditional;
use crate::http::answer::{Answer, Failure};
use crate::http::extract::{QUICKLY_PARSED, TranslatedBody, TranslatedIds, json_if_sent};
use crate::http::negotiation::{Spoken, aim};
use crate::http::routes;
use crate::service::access::Caller;
use crate::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::TenantId;
use touchstone_kit::json;
use touchstone_openwop::wire::id::{IdError, Seat, names_tenant, opaque};
use touchstone_openwop::wire::operation::{self, Operation};
use touchstone_openwop::wire::v2::{self, Context, Inner, Refusal, Unprojectable};
use touchstone_openwop::wire::{Major, error, idempotency};

/// Operations that answer with a document of the request's major, which their handlers know. They
/// have no tenant.
const DOCUMENTS: [&str; 2] = ["getCapabilities", "getOpenApiSpec"];

/// Path parameters that name their tenant.
const TENANT_BOUND: [&str; 2] = ["runId", "webhookId"];

/// Request headers that have other names under major 1. Those names mean nothing under major 2.
const RENAMED: [(&str, &str, HeaderName); 2] = [
    (
        "OpenWOP-Dedup",
        "X-Dedup",
        HeaderName::from_static("x-dedup"),
    ),
    (
        "OpenWOP-Force-Engine-Version",
        "X-Force-Engine-Version",
        HeaderName::from_static("x-force-engine-version"),
    ),
];

/// The tenant of a request that has no API key. A guard of its own attaches it.
#[derive(Clone)]
pub struct ActingFor(pub TenantId);

/// Marks an answer that has the form of its major already.
#[derive(Clone, Copy)]
pub struct Translated;

/// A route with an operation that major 2 has too.
#[derive(Clone)]
struct TranslatedRoute {
    host: Arc<HttpHost>,
    operation: &'static Operation,
}

/// The route, with the translation around its handler if major 2 has the operation. Guards go around
/// the result.
pub fn around<S: Clone + Send + Sync + 'static>(
    route: MethodRouter<S>,
    host: &Arc<HttpHost>,
    of: routes::Operation,
) -> MethodRouter<S> {
    let operation = operation::find(of.method, of.path);
    let is_translated =
        |it: &&Operation| it.majors.contains(&Major::V2) && !DOCUMENTS.contains(&it.id);
    match operation.filter(is_translated) {
        Some(operation) => {
            let host = host.clone();
            let translated = TranslatedRoute { host, operation };
            route.route_layer(middleware::from_fn_with_state(translated, translate))
        }
        None => route,
    }
}

async fn translate(
    State(route): State<TranslatedRoute>,
    mut request: Request,
    next: Next,
) -> Answer {
    if request.extensions().get() != Some(&Spoken(Major::V2)) {
        return Ok(next.run(request).await);
    }
    let tenant = tenant_of(&request);
    let context = context_of(tenant.as_ref().map_or("", TenantId::as_str));
    let known = conditions(request.headers_mut());
    let request = inner_request(&route, &context, request).await?;
    let mut response = next.run(request).await;
    match response.extensions_mut().remove::<Problem>() {
        Some(problem) => {
            let problem = spelled(&route, &context, problem);
            response.extensions_mut().insert(problem);
            Ok(response)
        }
        None => outer_answer(&route, &context, &known, response).await,
    }
}

/// What the rules of this host's major 2 depend on.
fn context_of(tenant: &str) -> Context<'_> {
    Context { tenant }
}

fn tenant_of(request: &Request) -> Option<TenantId> {
    let extensions = request.extensions();
    let caller = extensions.get::<Caller>().map(|it| it.tenant.clone());
    caller.or_else(|| extensions.get::<ActingFor>().map(|it| it.0.clone()))
}

/// Takes the conditions of a request: they name representations of major 2, which the handler does
/// not know.
fn conditions(headers: &mut HeaderMap) -> HeaderMap {
    let mut known = HeaderMap::new();
    for tag in headers.get_all(IF_NONE_MATCH) {
        known.append(IF_NONE_MATCH, tag.clone());
    }
    headers.remove(IF_NONE_MATCH);
    known
}

async fn inner_request(
    route: &TranslatedRoute,
    context: &Context<'_>,
    request: Request,
) -> Result<Request, Failure> {
    let (mut parts, body) = request.into_parts();
    // First of all, so that nothing else tells a tenant of another's ids.
    let admits_bare = route.host.settings.protocol.majors.admit_bare_ids();
    let ids = opaque_ids(&mut parts, context.tenant, admits_bare).await?;
    parts.extensions.insert(ids);
    let writes = route.operation.writes();
    if writes {
        check_key(&parts.headers)?;
    }
    rename(&mut parts.headers);
    let (mut request, body) = match writes {
        true => {
            let sent = Request::from_parts(parts.clone(), body);
            let body = json_if_sent(sent, &route.host).await?;
            (Request::from_parts(parts, Body::empty()), body)
        }
        false => (Request::from_parts(parts, body), None),
    };
    let query = request.uri().query().unwrap_or_default();
    let query: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    if !admits_bare && let Some((_, against)) = query.iter().find(|(name, _)| name == "against") {
        check_tenant("against", against)?;
    }
    let given = Inner {
        query: query.clone(),
        body,
    };
    let inner = v2::request(route.operation.id, context, given).map_err(|it| match it {
        Refusal::Invalid(problem) => problem,
        Refusal::OtherTenant(name) => refused_id(&name, IdError::OtherTenant),
    })?;
    if inner.query != query {
        let path = request.uri().path();
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(inner.query)
            .finish();
        let target = format!("{path}?{query}");
        aim(&mut request, &target);
    }
    if let Some(body) = inner.body {
        request.extensions_mut().insert(TranslatedBody(body));
    }
    Ok(request)
}

fn check_key(headers: &HeaderMap) -> Result<(), Problem> {
    let mut keys = headers.get_all("idempotency-key").iter();
    match (keys.next(), keys.next()) {
        (None, _) => Ok(()),
        (Some(key), None) if idempotency::is_key(key.as_bytes()) => Ok(()),
        _ => Err(Problem::new(
            ErrorCode::IdempotencyKeyInvalid,
            format!(
                "`Idempotency-Key` must be sent once, with {}",
                idempotency::GRAMMAR
            ),
        )
        .with("field", "Idempotency-Key")),
    }
}

/// The opaque parts of the ids in the path.
///
/// # Errors
/// `id_tenant_mismatch` for another tenant, whether or not it has such an id; `validation_error` for
/// a malformed escape, and for an id without its tenant unless those are admitted.
async fn opaque_ids(
    parts: &mut Parts,
    tenant: &str,
    admits_bare: bool,
) -> Result<TranslatedIds, Problem> {
    let Ok(parameters) = RawPathParams::from_request_parts(parts, &()).await else {
        // Not UTF-8: the handler answers that there is no such thing.
        return Ok(TranslatedIds::default());
    };
    let mut ids = HashMap::new();
    for (name, given) in parameters.iter().filter(|it| TENANT_BOUND.contains(&it.0)) {
        let id = opaque(tenant, Seat::Url, given).map_err(|fault| refused_id(name, fault))?;
        if !admits_bare {
            check_tenant(name, given)?;
        }
        ids.insert(name.to_owned(), id);
    }
    Ok(TranslatedIds(ids))
}

fn check_tenant(name: &str, given: &str) -> Result<(), Problem> {
    match names_tenant(given) {
        true => Ok(()),
        false => Err(refused_id(name, IdError::Malformed)),
    }
}

fn refused_id(name: &str, fault: IdError) -> Problem {
    match fault {
        IdError::OtherTenant => Problem::new(
            ErrorCode::IdTenantMismatch,
            format!("`{name}` names another tenant than the one of your key"),
        )
        .with("field", name),
        IdError::Malformed => Problem::validation(
            name,
            format!(
                "`{name}` must be TENANT~2FID: every `~` is followed by two upper-case \
                 hexadecimal digits, and the part after the tenant is not empty"
            ),
        ),
    }
}

fn rename(headers: &mut HeaderMap) {
    for (outer, _, inner) in RENAMED {
        headers.remove(&inner);
        let values: Vec<_> = headers.get_all(outer).iter().cloned().collect();
        for value in values {
            headers.append(inner.clone(), value);
        }
    }
}

/// A refusal of the handler in the words of major 2.
fn spelled(route: &TranslatedRoute, context: &Context<'_>, problem: Problem) -> Problem {
    let mut problem = v2::refusal(route.operation.id, problem);
    for (outer, inner, _) in RENAMED {
        problem.message = problem.message.replace(inner, outer);
        if problem.details.get("field").is_some_and(|it| it == inner) {
            problem = problem.with("field", outer);
        }
    }
    error::bound(context.tenant, problem)
}

async fn outer_answer(
    route: &TranslatedRoute,
    context: &Context<'_>,
    known: &HeaderMap,
    response: Response,
) -> Answer {
    let is_tagged = response.headers().contains_key(ETAG);
    let is_translated = response.extensions().get::<Translated>().is_some();
    let is_json = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|it| it == "application/json");
    if !response.status().is_success() || !is_json || (is_translated && !is_tagged) {
        return Ok(response);
    }
    let (mut parts, body) = response.into_parts();
    let body = whole(body, route.host.settings.max_body_memory).await?;
    let body = match is_translated {
        true => body,
        false => projected(route, context, parts.status.as_u16(), body).await?,
    };
    parts.headers.remove(CONTENT_LENGTH);
    if !is_tagged {
        return Ok(Response::from_parts(parts, Body::from(body)));
    }
    // The tag is one of this representation, not of the handler's.
    parts.headers.remove(ETAG);
    parts.headers.remove(CONTENT_TYPE);
    let mut response = conditional(known, body);
    response.headers_mut().extend(parts.headers);
    Ok(response)
}

/// The bytes of an answer, which a handler may write piece by piece.
async fn whole(body: Body, limit: usize) -> Result<Bytes, Problem> {
    let read = Limited::new(body, limit).collect().await;
    let read = read.map_err(|cause| match cause.is::<LengthLimitError>() {
        true => too_large(),
        false => internal(cause.as_ref()),
    })?;
    Ok(read.to_bytes())
}

fn too_large() -> Problem {
    Problem::new(
        ErrorCode::PayloadTooLarge,
        "the answer has too many values for version 2.0 of the protocol; read it under version 1.0",
    )
}

/// The text of an answer under major 2.
async fn projected(
    route: &TranslatedRoute,
    context: &Context<'_>,
    status: u16,
    bytes: Bytes,
) -> Result<Bytes, Problem> {
    // Parsed, an answer takes as much memory as a body of a request.
    let memory = route.host.limits.weigh(json::weight(&bytes));
    let _memory = memory.map_err(|refusal| match refusal.code {
        ErrorCode::PayloadTooLarge => too_large(),
        _ => refusal,
    })?;
    let is_large = bytes.len() > QUICKLY_PARSED;
    let (operation, tenant) = (route.operation.id, context.tenant.to_owned());
    let project = move || {
        let body = serde_json::from_slice(&bytes).map_err(|cause| internal(&cause))?;
        let context = context_of(&tenant);
        let body = v2::answer(operation, &context, status, body).map_err(unprojectable)?;
        Ok(Bytes::from(body.to_string()))
    };
    match is_large {
        true => tokio::task::spawn_blocking(project)
            .await
            .map_err(|cause| internal(&cause))?,
        false => project(),
    }
}

fn unprojectable(it: Unprojectable) -> Problem {
    tracing::error!(of = it.of, keys = ?it.keys, "an answer has no form under major 2");
    Problem::new(
        ErrorCode::PayloadUnprojectable,
        "the answer has members that this version of the protocol has no place for; read it under \
         version 1.0",
    )
    .with("type", it.of)
    .with("keys", it.keys)
}
