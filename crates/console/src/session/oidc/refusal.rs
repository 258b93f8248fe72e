//! The page after a sign-in that did not succeed: what happened, and what to do next.

use askama::Template;
use axum::http::StatusCode;

use crate::page::answer::html;
use crate::page::assets::{self, Links};
use crate::session::oidc::START;
use crate::session::oidc::provider::ProviderFault;
use touchstone_host::http::answer::{Answer, OwnPage};
use touchstone_host::render::words::plain;
use touchstone_host::rules::claims::ClaimFault;
use touchstone_host::service::sign_in::AttemptFault;

/// Longest error code of a provider that is recorded, in characters.
const MAX_CODE: usize = 60;

#[derive(Debug)]
pub enum Refusal {
    /// The answer belongs to no sign-in of this browser; with the address of this host.
    Attempt(AttemptFault, String),
    /// The person or the provider said no.
    Denied,
    /// Another error code of the provider.
    Error(String),
    NoCode,
    OtherProvider,
    Provider(ProviderFault),
    Claims(ClaimFault),
}

#[derive(Template)]
#[template(path = "session/refused.html")]
struct Page<'a> {
    links: &'static Links,
    title: &'static str,
    what: String,
    next: String,
    again: &'a str,
}

impl Refusal {
    /// The error code that a provider sent back.
    pub fn answered(code: &str) -> Self {
        match code {
            "access_denied" | "login_required" | "consent_required" | "interaction_required" => {
                Self::Denied
            }
            other => Self::Error(plain(other).chars().take(MAX_CODE).collect()),
        }
    }

    /// For the log and the audit log.
    pub fn reason(&self) -> String {
        match self {
            Self::Attempt(fault, _) => match fault {
                AttemptFault::Unknown => "attempt: it is unknown or was used before".to_owned(),
                AttemptFault::Expired => "attempt: it is older than ten minutes".to_owned(),
                AttemptFault::OtherBrowser => "attempt: another browser began it".to_owned(),
            },
            Self::Denied => "denied: the person or the provider refused".to_owned(),
            Self::Error(code) => format!("provider: it answered with the error {code}"),
            Self::NoCode => "provider: its answer has no code".to_owned(),
            Self::OtherProvider => "provider: the answer names another provider".to_owned(),
            Self::Provider(fault) => format!("provider: {fault}"),
            Self::Claims(fault) => format!("claims: {fault}"),
        }
    }

    /// A page that says so; `to` is where the person wanted to go.
    pub fn page(&self, to: &str) -> Answer {
        let to: String = url::form_urlencoded::byte_serialize(to.as_bytes()).collect();
        let (title, what, next) = self.words();
        let mut response = html(&Page {
            links: assets::links(),
            title,
            what,
            next,
            again: &format!("{START}?to={to}"),
        })?;
        *response.status_mut() = self.status();
        response.extensions_mut().insert(OwnPage);
        Ok(response)
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Attempt(..) | Self::NoCode | Self::OtherProvider => StatusCode::BAD_REQUEST,
            Self::Denied | Self::Claims(_) => StatusCode::FORBIDDEN,
            Self::Error(_) | Self::Provider(_) => StatusCode::BAD_GATEWAY,
        }
    }

    fn words(&self) -> (&'static str, String, String) {
        const AGAIN: &str = "Sign in again.";
        const OPERATOR: &str = "Sign in again. If this page comes back, tell the operator of this host, whose log \
             has the reason.";
        let words = |title, what: &str, next: &str| (title, what.to_owned(), next.to_owned());
        match self {
            Self::Attempt(AttemptFault::Unknown, _) => words(
                "This sign-in is over",
                "It was already used, or this host did not begin it.",
                AGAIN,
            ),
            Self::Attempt(AttemptFault::Expired, _) => words(
                "This sign-in took too long",
                "A sign-in must be complete within ten minutes.",
                AGAIN,
            ),
            Self::Attempt(AttemptFault::OtherBrowser, home) => (
                "This browser did not begin the sign-in",
                "The cookie of the sign-in is missing or belongs to another sign-in.".to_owned(),
                format!("Open {home}/console in this browser, allow cookies, and sign in there."),
            ),
            Self::Denied => words(
                "You are not signed in",
                "You cancelled the sign-in, or your organization does not let you use this \
                 application.",
                "Sign in again, or ask the person who manages your account for access.",
            ),
            Self::Error(_) | Self::NoCode | Self::OtherProvider => words(
                "You are not signed in",
                "The sign-in page of your organization sent an answer that this host cannot use.",
                OPERATOR,
            ),
            Self::Provider(ProviderFault::Unusable(_)) => words(
                "Single sign-on does not answer",
                "This host cannot reach the sign-in service of your organization.",
                "Try again in a minute. If it stays so, tell the operator of this host, whose log \
                 has the reason.",
            ),
            Self::Provider(ProviderFault::Refused(_) | ProviderFault::Invalid(_)) => words(
                "You are not signed in",
                "The sign-in service of your organization sent an answer that is not valid.",
                OPERATOR,
            ),
            Self::Claims(fault) => (
                "You may not use this console",
                format!(
                    "Your account does not give access: {}.",
                    plain(&fault.to_string())
                ),
                "Tell the person who manages your account this sentence, then sign in again."
                    .to_owned(),
            ),
        }
    }
}
