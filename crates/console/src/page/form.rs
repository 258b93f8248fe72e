//! The fields of a form.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::page::answer::own_place;
use touchstone_host::http::answer::Failure;
use touchstone_kit::error::{ErrorCode, Problem};

/// Most fields of a form. A field takes many times the memory of its shortest text.
const MAX_FIELDS: usize = 2000;

/// The fields in their order; the guard has checked the token.
#[derive(Clone, Debug, Default)]
pub struct Form(Arc<[(String, String)]>);

impl Form {
    /// # Errors
    /// `payload_too_large` for too many fields.
    pub fn parse(body: &[u8]) -> Result<Self, Problem> {
        let pairs = url::form_urlencoded::parse(body);
        if pairs.clone().nth(MAX_FIELDS).is_some() {
            return Err(Problem::new(
                ErrorCode::PayloadTooLarge,
                format!("the form has more than {MAX_FIELDS} fields; send fewer"),
            ));
        }
        let owned = pairs.map(|(name, value)| (name.into_owned(), value.into_owned()));
        Ok(Self(owned.collect()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_form_are_bounded() {
        let most = Form::parse("a&".repeat(MAX_FIELDS).as_bytes()).unwrap();
        assert_eq!(most.all("a").count(), MAX_FIELDS);
        let more = Form::parse("a&".repeat(MAX_FIELDS + 1).as_bytes());
        assert_eq!(more.unwrap_err().code, ErrorCode::PayloadTooLarge);
    }
}
