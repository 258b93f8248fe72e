//! Open sessions of the console.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use crate::api::ConsoleApi;
use crate::operations::SESSIONS;
use crate::page::answer::{html, see_other, segment};
use crate::page::chrome::{Chrome, Section};
use crate::page::text::Time;
use crate::page::visit::Visit;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{PathParameters, Query};
use touchstone_host::ports::sessions::{SessionOrigin, SessionRecord};
use touchstone_host::render::words::plain;

/// Most sessions of a page.
const MOST: u32 = 200;

#[derive(Template)]
#[template(path = "operations/sessions.html")]
struct Page {
    chrome: Chrome,
    rows: Vec<Row>,
    others: usize,
    sees_all: bool,
    idle_minutes: i64,
    hours: i64,
    is_first: bool,
    next: Option<String>,
}

struct Row {
    id: String,
    href: String,
    principal: String,
    by: String,
    is_this: bool,
    began: Time,
    used: Time,
}

impl Row {
    fn of(record: &SessionRecord, visit: &Visit) -> Self {
        Self {
            id: record.id.clone(),
            href: format!("{SESSIONS}/{}", segment(&record.id)),
            principal: plain(&record.principal),
            by: match &record.origin {
                SessionOrigin::Key { id, .. } => format!("API key {id}"),
                SessionOrigin::Local => "This machine, without a key".to_owned(),
                SessionOrigin::Oidc(grant) => format!("Single sign-on, {}", plain(&grant.issuer)),
            },
            is_this: record.id == visit.session_id,
            began: record.created_at.into(),
            used: record.used_at.into(),
        }
    }
}

/// `GET /console/sessions?before=ID`.
pub async fn page(State(api): State<Arc<ConsoleApi>>, visit: Visit, query: Query) -> Answer {
    let before = query.get("before");
    let found = api.sessions.visible(&visit.caller, before, MOST).await?;
    let (found, next) = (found.sessions, found.next);
    let is_own_other = |record: &&SessionRecord| {
        record.principal == visit.caller.principal && record.id != visit.session_id
    };
    let limits = api.sessions.limits();
    html(&Page {
        rows: found.iter().map(|it| Row::of(it, &visit)).collect(),
        others: found.iter().filter(is_own_other).count(),
        sees_all: visit.may(Scope::KeysManage),
        idle_minutes: limits.idle.as_mins(),
        hours: limits.absolute.as_hours(),
        is_first: before.is_none(),
        next: next.map(|id| format!("{SESSIONS}?before={}", segment(&id))),
        chrome: visit.chrome(Section::Sessions),
    })
}

/// `POST /console/sessions/{sessionId}/end`.
pub async fn end(State(api): State<Arc<ConsoleApi>>, visit: Visit, path: PathParameters) -> Answer {
    let id = path.get("sessionId");
    api.sessions.end_visible(&visit.caller, id).await?;
    Ok(see_other(&format!("{SESSIONS}?done=session-ended")))
}

/// `POST /console/sessions/end-others`.
pub async fn end_others(State(api): State<Arc<ConsoleApi>>, visit: Visit) -> Answer {
    let sessions = &api.sessions;
    sessions
        .end_own_others(&visit.caller, &visit.session_id)
        .await?;
    Ok(see_other(&format!("{SESSIONS}?done=sessions-ended")))
}
