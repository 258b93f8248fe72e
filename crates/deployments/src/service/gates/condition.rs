//! Conditions that features add to promotion policies.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use crate::described::Described;
use crate::promotion::Requirement;
use crate::service::gates::GateInput;
use touchstone_host::service::fault::{internal, unread_member};
use touchstone_kit::error::Problem;

/// A condition that a feature adds to promotion policies.
#[async_trait]
pub trait Condition: Send + Sync {
    /// The member of a policy that sets the condition, such as `agentCard`.
    fn member(&self) -> &'static str;

    /// The kind of its unmet requirements, such as `agent-card`.
    fn kind(&self) -> &'static str;

    /// The member's value with every default, in the order in which it is shown.
    ///
    /// # Errors
    /// [`Undescribed`].
    fn complete(&self, value: &RawValue) -> Result<Box<RawValue>, Undescribed>;

    /// Refuses a complete value that is contradictory or can never be met.
    ///
    /// # Errors
    /// `validation_error`.
    fn check(&self, value: &RawValue) -> Result<(), Problem>;

    /// The conditions of a complete value that [`unmet`](Self::unmet) checks, in words.
    ///
    /// # Errors
    /// An internal error.
    fn describe(&self, value: &RawValue) -> Result<Vec<Described>, Problem>;

    /// Every requirement of a complete value that the version does not meet now.
    ///
    /// # Errors
    /// An internal error. Missing evidence is an unmet requirement.
    async fn unmet(
        &self,
        value: &RawValue,
        input: &GateInput<'_>,
        now: Timestamp,
    ) -> Result<Vec<Requirement>, Problem>;
}

/// A value that does not match the API description, by the path of the member that does not; empty
/// for the value itself.
#[derive(Debug, thiserror::Error)]
#[error("member `{0}` does not match the API description")]
pub struct Undescribed(pub String);

/// [`Condition::complete`] for a value that is an object of type `T`.
pub fn complete<T: DeserializeOwned + Serialize>(
    value: &RawValue,
) -> Result<Box<RawValue>, Undescribed> {
    // serde would accept an array in place of the object, with the members in order.
    if !value.get().starts_with('{') {
        return Err(Undescribed(String::new()));
    }
    let mut text = serde_json::Deserializer::from_str(value.get());
    let parsed: T = serde_path_to_error::deserialize(&mut text)
        .map_err(|fault| Undescribed(unread_member(&fault)))?;
    to_raw_value(&parsed).map_err(|_| Undescribed(String::new()))
}

/// Reads a complete value.
pub fn read<T: DeserializeOwned>(value: &RawValue) -> Result<T, Problem> {
    serde_json::from_str(value.get()).map_err(|cause| internal(&cause))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde::Deserialize;

    use super::*;

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Moon {
        phase: u8,
        #[serde(default)]
        colours: Vec<String>,
    }

    #[rstest]
    #[case(r#"{"phase":2}"#, Ok(r#"{"phase":2,"colours":[]}"#))]
    #[case(
        r#"{"colours":["red"],"phase":2}"#,
        Ok(r#"{"phase":2,"colours":["red"]}"#)
    )]
    #[case("{}", Err("phase"))]
    #[case("[2,[]]", Err(""))]
    #[case("null", Err(""))]
    #[case(r#"{"phase":256}"#, Err("phase"))]
    #[case(r#"{"phase":2,"faze":2}"#, Err("faze"))]
    #[case(r#"{"phase":2,"colours":["red",1]}"#, Err("colours[1]"))]
    fn a_condition_gets_its_defaults_or_names_its_first_invalid_member(
        #[case] value: &str,
        #[case] expected: Result<&str, &str>,
    ) {
        let value = RawValue::from_string(value.to_owned()).unwrap();
        let found = complete::<Moon>(&value);
        let found = found.map_err(|Undescribed(member)| member);
        assert_eq!(
            found.as_ref().map(|it| it.get()).map_err(String::as_str),
            expected
        );
    }
}
