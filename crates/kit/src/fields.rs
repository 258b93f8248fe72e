//! Reads members of a JSON body; errors name the field and the remedy.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::error::Problem;

/// How to treat a member that is `null`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// As absent: clients send all members they know, with `null` for those that are not set.
    Absent,
    /// As a type error: the schema of the body is closed and does not allow `null`.
    Wrong,
}

/// Members of a JSON object.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    members: &'a Map<String, Value>,
    path: &'static str,
    nulls: Nulls,
}

impl<'a> Fields<'a> {
    /// Reads an object that may have other members too. `path` is the path of the object, such as
    /// `configurable.budget`; empty for the body itself.
    pub fn of(members: &'a Map<String, Value>, path: &'static str) -> Self {
        Self {
            members,
            path,
            nulls: Nulls::Absent,
        }
    }

    /// Reads an object that may have only the `known` members.
    ///
    /// # Errors
    /// `validation_error` naming the first unknown member, or `path` if the value is not an object.
    pub fn closed(
        value: &'a Value,
        path: &'static str,
        known: &[&str],
        nulls: Nulls,
    ) -> Result<Self, Problem> {
        let Some(members) = value.as_object() else {
            let message = match path {
                "" => "the body must be a JSON object".to_owned(),
                path => format!("`{path}` must be an object"),
            };
            return Err(Problem::validation(path, message));
        };
        let fields = Self {
            members,
            path,
            nulls,
        };
        match members.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(fields),
            Some(unknown) => Err(fields.invalid(
                unknown,
                &format!(
                    "is not a known member; known members are {}",
                    known.join(", ")
                ),
            )),
        }
    }

    /// A member, unchanged.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        let absent = |value: &&Value| self.nulls == Nulls::Absent && value.is_null();
        self.members.get(name).filter(|value| !absent(value))
    }

    /// The name, of two aliases of one member, that the object uses; the first one if it uses
    /// neither.
    ///
    /// # Errors
    /// `validation_error` if the object has both.
    pub fn either(&self, name: &'static str, alias: &'static str) -> Result<&'static str, Problem> {
        match (self.get(name), self.get(alias)) {
            (Some(_), Some(_)) => Err(self.invalid(
                alias,
                &format!("is an alias of `{name}`; send only one of them"),
            )),
            (None, Some(_)) => Ok(alias),
            _ => Ok(name),
        }
    }

    /// A validation error for a member; `message` continues the sentence that starts with its name.
    pub fn invalid(&self, name: &str, message: &str) -> Problem {
        let field = match self.path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        Problem::validation(&field, format!("`{field}` {message}"))
    }

    /// A string of `least` to `most` characters.
    ///
    /// # Errors
    /// `validation_error`, as for the methods below.
    pub fn text_of(
        &self,
        name: &str,
        characters: RangeInclusive<usize>,
    ) -> Result<Option<&'a str>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if characters.contains(&text.chars().count()) => {
                Ok(Some(text))
            }
            Some(_) => Err(self.invalid(
                name,
                &match characters.into_inner() {
                    (0, most) => format!("must be a string of at most {most} characters"),
                    (least, most) => format!("must be a string of {least} to {most} characters"),
                },
            )),
        }
    }

    /// A list of at most `most` non-empty strings.
    ///
    /// # Errors
    /// `validation_error`.
    pub fn texts(
        &self,
        name: &str,
        most: usize,
        longest: usize,
    ) -> Result<Option<Vec<String>>, Problem> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let text = |item: &Value| {
            let text = item.as_str()?;
            (1..=longest)
                .contains(&text.chars().count())
                .then(|| text.to_owned())
        };
        let items = value.as_array().filter(|items| items.len() <= most);
        let texts = items.and_then(|items| items.iter().map(text).collect::<Option<Vec<_>>>());
        texts.map(Some).ok_or_else(|| {
            let shape =
                format!("must be a list of at most {most} strings of 1 to {longest} characters");
            self.invalid(name, &shape)
        })
    }

    /// A non-empty string.
    ///
    /// # Errors
    /// `validation_error`.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
            Some(_) => Err(self.invalid(name, "must be a non-empty string")),
        }
    }

    /// An object.
    ///
    /// # Errors
    /// `validation_error`.
    pub fn object(&self, name: &str) -> Result<Option<Map<String, Value>>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Object(members)) => Ok(Some(members.clone())),
            Some(_) => Err(self.invalid(name, "must be an object")),
        }
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// `validation_error`.
    pub fn boolean(&self, name: &str) -> Result<Option<bool>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(_) => Err(self.invalid(name, "must be true or false")),
        }
    }

    /// An integer of at least `least`.
    ///
    /// # Errors
    /// `validation_error`.
    pub fn whole(&self, name: &str, least: u64) -> Result<Option<u64>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match value.as_u64().filter(|number| *number >= least) {
                Some(number) => Ok(Some(number)),
                None => Err(self.invalid(name, &format!("must be an integer of at least {least}"))),
            },
        }
    }

    /// A number from `least` to `most`.
    ///
    /// # Errors
    /// `validation_error`.
    pub fn number(&self, name: &str, least: f64, most: f64) -> Result<Option<f64>, Problem> {
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

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(Nulls::Absent, Ok(None))]
    #[case(Nulls::Wrong, Err("at.name"))]
    fn null_is_absent_or_invalid_as_the_caller_chooses(
        #[case] nulls: Nulls,
        #[case] expected: Result<Option<&str>, &str>,
    ) {
        let body = json!({"name": null});
        let fields = Fields::closed(&body, "at", &["name"], nulls).unwrap();
        let read = fields.text_of("name", 1..=9);
        let read = read.map_err(|problem| problem.details["field"].as_str().unwrap().to_owned());
        assert_eq!(read, expected.map_err(str::to_owned));
    }

    #[rstest]
    #[case(json!([]), "", "")]
    #[case(json!([]), "at", "at")]
    #[case(json!({"other": 1}), "", "other")]
    #[case(json!({"other": null}), "at", "at.other")]
    fn unknown_members_are_rejected_by_path(
        #[case] body: Value,
        #[case] path: &'static str,
        #[case] field: &str,
    ) {
        let problem = Fields::closed(&body, path, &["name"], Nulls::Absent).unwrap_err();
        assert_eq!(problem.details["field"], field, "{problem}");
    }

    #[rstest]
    #[case(json!({}), Ok("name"))]
    #[case(json!({"name": 1}), Ok("name"))]
    #[case(json!({"title": null}), Ok("title"))]
    #[case(json!({"name": 1, "title": 1}), Err("title"))]
    fn a_member_has_one_of_its_two_names(
        #[case] body: Value,
        #[case] expected: Result<&str, &str>,
    ) {
        let fields = Fields::closed(&body, "", &["name", "title"], Nulls::Wrong).unwrap();
        let read = fields.either("name", "title");
        let read = read.map_err(|problem| problem.details["field"].as_str().unwrap().to_owned());
        assert_eq!(read, expected.map_err(str::to_owned));
    }

    #[rstest]
    #[case("", 0..=2, true)]
    #[case("", 1..=2, false)]
    #[case("žž", 1..=2, true)]
    #[case("žžž", 1..=2, false)]
    fn texts_are_measured_in_characters(
        #[case] text: &str,
        #[case] characters: RangeInclusive<usize>,
        #[case] sound: bool,
    ) {
        let body = json!({ "name": text });
        let fields = Fields::closed(&body, "", &["name"], Nulls::Wrong).unwrap();
        assert_eq!(fields.text_of("name", characters).is_ok(), sound);
    }
}
