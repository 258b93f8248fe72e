//! Members of a request, read with errors that name the field and the remedy.

use serde_json::{Map, Value};

use crate::protocol::error::Problem;

/// Members of an object, read with errors that name the field. `null` counts as absent: the published client sends every
/// reserved key it knows as null.
pub(super) struct Fields<'a> {
    pub(super) members: &'a Map<String, Value>,
    pub(super) prefix: &'static str,
}

impl<'a> Fields<'a> {
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn invalid(&self, name: &str, message: &str) -> Problem {
        let field = format!("{}{name}", self.prefix);
        Problem::validation(&field, format!("`{field}` {message}"))
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
            Some(_) => Err(self.invalid(name, "must be a non-empty text")),
        }
    }

    pub(super) fn required_text(&self, name: &str) -> Result<&'a str, Problem> {
        self.text(name)?
            .ok_or_else(|| self.invalid(name, "is required with `mode: \"eval\"`"))
    }

    pub(super) fn object(&self, name: &str) -> Result<Option<Map<String, Value>>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Object(members)) => Ok(Some(members.clone())),
            Some(_) => Err(self.invalid(name, "must be an object")),
        }
    }

    pub(super) fn boolean(&self, name: &str) -> Result<Option<bool>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(_) => Err(self.invalid(name, "must be true or false")),
        }
    }

    pub(super) fn whole(&self, name: &str, least: u64) -> Result<Option<u64>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match value.as_u64().filter(|number| *number >= least) {
                Some(number) => Ok(Some(number)),
                None => {
                    Err(self.invalid(name, &format!("must be a whole number of at least {least}")))
                }
            },
        }
    }

    pub(super) fn number(&self, name: &str, least: f64, most: f64) -> Result<Option<f64>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match value
                .as_f64()
                .filter(|number| (least..=most).contains(number))
            {
                Some(number) => Ok(Some(number)),
                None if most < f64::MAX => {
                    Err(self.invalid(name, &format!("must be a number from {least} to {most}")))
                }
                None => Err(self.invalid(name, &format!("must be a number of at least {least}"))),
            },
        }
    }
}
