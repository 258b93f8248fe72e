//! API keys of the tenant.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use jiff::{SignedDuration, Timestamp};
use secrecy::ExposeSecret as _;

use crate::api::ConsoleApi;
use crate::operations::KEYS;
use crate::page::answer::{html, see_other, segment};
use crate::page::badge::Badge;
use crate::page::chrome::{Chrome, Section};
use crate::page::form::Form;
use crate::page::text::Time;
use crate::page::visit::Visit;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::PathParameters;
use touchstone_host::ports::keys::KeyRecord;
use touchstone_host::render::words::plain;
use touchstone_host::service::key_management::NewGrant;
use touchstone_host::service::keys::{KeyState, NewKey};
use touchstone_kit::error::Problem;
use touchstone_kit::ids::KeyId;

/// Scopes that the form offers first: those that evaluating agents needs.
const USUAL: [Scope; 4] = [
    Scope::ManifestRead,
    Scope::RunsCreate,
    Scope::RunsRead,
    Scope::RunsCancel,
];
/// Times until a key expires.
const EXPIRIES: [(&str, &str); 4] = [
    ("30", "30 days"),
    ("90", "90 days"),
    ("365", "1 year"),
    ("", "Never"),
];
/// How long a replaced secret stays valid, in hours.
const OVERLAPS: [(&str, &str); 3] = [("24", "24 hours"), ("1", "1 hour"), ("0", "Not at all")];

#[derive(Template)]
#[template(path = "operations/keys.html")]
struct Page {
    chrome: Chrome,
    rows: Vec<Row>,
    scopes: Vec<Choice>,
    roles: Vec<String>,
    expiries: &'static [(&'static str, &'static str)],
    overlaps: &'static [(&'static str, &'static str)],
}

struct Choice {
    name: &'static str,
    is_chosen: bool,
}

struct Row {
    id: String,
    href: String,
    principal: String,
    state: Badge,
    scopes: Vec<String>,
    roles: Vec<String>,
    is_test: bool,
    is_own: bool,
    is_good: bool,
    created: Time,
    expires: Option<Time>,
    replaced_until: Option<Time>,
}

impl Row {
    fn of(key: &KeyRecord, visit: &Visit, now: Timestamp) -> Self {
        let state = KeyState::of(key, now);
        let previous = key.previous.as_ref();
        let previous = previous.filter(|_| state == KeyState::Rotating);
        Self {
            id: key.id.to_string(),
            href: format!("{KEYS}/{}", segment(key.id.as_str())),
            principal: plain(key.principal.as_deref().unwrap_or_default()),
            state: match state {
                KeyState::Active => Badge::good("Active"),
                KeyState::Rotating => Badge::info("Active, with two secrets"),
                KeyState::Expired => Badge::warn("Expired"),
                KeyState::Revoked => Badge::bad("Revoked"),
            },
            scopes: key.scopes.iter().map(|it| plain(it)).collect(),
            roles: key.roles.iter().map(|it| plain(it)).collect(),
            is_test: key.test,
            is_own: key.id == visit.caller.key_id,
            is_good: state.is_good(),
            created: key.created_at.into(),
            expires: key.expires_at.map(Time::from),
            replaced_until: previous.map(|it| it.valid_until.into()),
        }
    }
}

/// `GET /console/keys`.
pub async fn page(State(api): State<Arc<ConsoleApi>>, visit: Visit) -> Answer {
    let mut keys = api.host.keys.tenant_keys(&visit.caller).await?;
    keys.reverse();
    let now = api.host.clock.now();
    let may_give = |scope: &Scope| visit.may(*scope) && !scope.is_operator();
    let scopes = Scope::ALL.iter().copied().filter(may_give);
    html(&Page {
        rows: keys.iter().map(|key| Row::of(key, &visit, now)).collect(),
        scopes: scopes
            .map(|scope| Choice {
                name: scope.as_str(),
                is_chosen: USUAL.contains(&scope),
            })
            .collect(),
        roles: visit.caller.grants.roles.iter().cloned().collect(),
        expiries: &EXPIRIES,
        overlaps: &OVERLAPS,
        chrome: visit.chrome(Section::Keys),
    })
}

/// A new secret; the page is never stored, and no other page shows the secret.
#[derive(Template)]
#[template(path = "operations/new-key.html")]
struct New {
    chrome: Chrome,
    title: &'static str,
    id: String,
    text: String,
    hours: Option<i64>,
}

fn show_once(visit: &Visit, title: &'static str, key: &NewKey, hours: Option<i64>) -> Answer {
    let mut chrome = visit.chrome(Section::Keys);
    // The page of the answer cannot be opened again.
    chrome.place = KEYS.to_owned();
    html(&New {
        chrome,
        title,
        id: key.id.to_string(),
        text: key.text.expose_secret().to_owned(),
        hours,
    })
}

/// `POST /console/keys`.
pub async fn create(State(api): State<Arc<ConsoleApi>>, visit: Visit, form: Form) -> Answer {
    let own = |name| form.all(name).map(str::to_owned).collect();
    let days = whole(&form, "expiresIn", 36_500)?;
    let grant = NewGrant {
        scopes: own("scope"),
        roles: own("role"),
        principal: form.get("principal").map(|it| it.trim().to_owned()),
        expires_in: days.map(|days| SignedDuration::from_hours(days * 24)),
    };
    let key = api.host.keys.grant(&visit.caller, grant).await?;
    show_once(&visit, "The new key", &key, None)
}

/// `POST /console/keys/{keyId}/rotate`.
pub async fn rotate(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
    form: Form,
) -> Answer {
    let id = KeyId::from(path.get("keyId"));
    let hours = whole(&form, "overlap", 10_000)?.unwrap_or_default();
    let overlap = SignedDuration::from_hours(hours);
    let key = api.host.keys.rotate_own(&visit.caller, &id, overlap);
    show_once(
        &visit,
        "The new secret of the key",
        &key.await?,
        Some(hours),
    )
}

/// `POST /console/keys/{keyId}/revoke`.
pub async fn revoke(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
) -> Answer {
    let id = KeyId::from(path.get("keyId"));
    api.host.keys.revoke_own(&visit.caller, &id).await?;
    Ok(see_other(&format!("{KEYS}?done=key-revoked")))
}

fn whole(form: &Form, name: &'static str, most: i64) -> Result<Option<i64>, Problem> {
    let Some(text) = form.get(name) else {
        return Ok(None);
    };
    let value = text.parse().ok().filter(|value| (0..=most).contains(value));
    let invalid = || Problem::validation(name, format!("`{name}` must be from 0 to {most}"));
    value.ok_or_else(invalid).map(Some)
}
