//! The fields of a form.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::page::answer::own_place;
use touchstone_host::http::answer::Failure;
use touchstone_kit::error::{ErrorCode, Problem};

/// The fields in their order; the guard has checked the token.
#[derive(Clone, Debug, Default)]
pub struct Form(Vec<(String, String)>);

impl Form {
    pub fn parse(body: &[u8]) -> Self {
        let pairs = url::form_urlencoded::parse(body);
        let owned = pairs.map(|(name, value)| (name.into_owned(), value.into_owned()));
        Self(owned.collect())
    }

    /// The value of a field, if it is not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut found = self.all(name);
        found.next().filter(|value| !value.is_empty())
    }

    /// The values of a field that may appear several times.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.0.iter().filter(move |(key, _)| key == name);
        named.map(|(_, value)| value.as_str())
    }

    /// A required text without spaces at its ends.
    ///
    /// # Errors
    /// `validation_error` that names the field.
    pub fn required(&self, name: &str) -> Result<&str, Problem> {
        let text = self.get(name).map(str::trim).filter(|it| !it.is_empty());
        let text = text.filter(|text| !text.contains('\0'));
        text.ok_or_else(|| {
            Problem::validation(
                name,
                format!("fill in the field `{name}`, then send the form again"),
            )
        })
    }

    /// The page to come back to.
    pub fn place(&self) -> Option<&str> {
        self.get("place").and_then(own_place)
    }
}

impl<S: Sync> FromRequestParts<S> for Form {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let form = parts.extensions.get::<Self>().cloned();
        form.ok_or_else(|| {
            Problem::new(
                ErrorCode::InternalError,
                "this form has no guard; report it",
            )
            .into()
        })
    }
}
