//! The person who looks at a page.

use axum::extract::{FromRequestParts, Request};
use axum::http::HeaderMap;
use axum::http::request::Parts;

use crate::api::ConsoleApi;
use crate::page::assets;
use crate::page::chrome::{Chrome, Section, done, navigation};
use crate::session::{cookie, csrf};
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Failure;
use touchstone_host::service::access::Caller;
use touchstone_host::service::sessions::Session;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::TenantId;

/// A signed-in person's request, attached by the guard.
#[derive(Clone)]
pub struct Visit {
    pub caller: Caller,
    pub session_id: String,
    csrf: String,
    theme: &'static str,
    place: String,
    done: &'static str,
}

impl Visit {
    pub fn of(api: &ConsoleApi, session: &Session, request: &Request) -> Self {
        let theme = match cookie::read(request.headers(), cookie::THEME) {
            Some("light") => "light",
            Some("dark") => "dark",
            _ => "auto",
        };
        let uri = request.uri();
        let query = uri.query().unwrap_or_default();
        let mut members = url::form_urlencoded::parse(query.as_bytes());
        let name = members.find_map(|(name, value)| (name == "done").then_some(value));
        Self {
            caller: session.caller.clone(),
            session_id: session.record.id.clone(),
            csrf: csrf::masked(&session.record.csrf, &api.host.ids.secret()),
            theme,
            place: uri.to_string(),
            done: match is_own(request.headers()) {
                true => done(name.as_deref()),
                false => "",
            },
        }
    }

    pub fn tenant(&self) -> &TenantId {
        &self.caller.tenant
    }

    pub fn may(&self, scope: Scope) -> bool {
        self.caller.has(scope)
    }

    /// The same person at another place, where nothing was done.
    #[must_use]
    pub fn at(&self, place: &str) -> Self {
        Self {
            place: place.to_owned(),
            done: "",
            ..self.clone()
        }
    }

    pub fn place(&self) -> &str {
        &self.place
    }

    pub fn chrome(&self, current: impl Into<Option<Section>>) -> Chrome {
        Chrome {
            links: assets::links(),
            principal: self.caller.principal.clone(),
            tenant: self.caller.tenant.to_string(),
            theme: self.theme,
            csrf: self.csrf.clone(),
            place: self.place.clone(),
            navigation: navigation(current.into(), |scope| self.may(scope)),
            done: self.done,
        }
    }
}

/// Whether a page of the console led here. A link of another page must not claim that something
/// was done.
fn is_own(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    site.is_none_or(|site| site == "same-origin")
}

impl<S: Sync> FromRequestParts<S> for Visit {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let visit = parts.extensions.get::<Self>().cloned();
        visit.ok_or_else(|| {
            Problem::new(
                ErrorCode::InternalError,
                "this page has no guard; report it",
            )
            .into()
        })
    }
}
