//! The assessment configuration of an organization, stored as its differences from the framework's
//! defaults.

use serde_json::{Map, Value, json};

use crate::ports::organizations::OrganizationRecord;
use crate::rules::config::{Config, ConfigFault};
use crate::rules::scoring::weights::WeightFault;
use crate::service::Ratings;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};

/// Maximum size of the stored settings, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// The complete configuration of an organization.
///
/// # Errors
/// The stored settings are invalid.
pub fn of(organization: &OrganizationRecord) -> Result<Config, Problem> {
    Config::read(&Value::Object(organization.config.clone())).map_err(|cause| internal(&cause))
}

impl Ratings {
    /// Changes the configuration of an organization. Each member replaces the stored setting;
    /// `null` restores the framework's default.
    ///
    /// # Errors
    /// `not_found`, `forbidden`; `validation_error` or `WEIGHT_SUM_INVALID` for settings that
    /// cannot be used for scoring; `conflict` if the organization was changed concurrently.
    pub async fn change_config(
        &self,
        caller: &Caller,
        id: &str,
        patch: &Value,
    ) -> Result<Config, Problem> {
        let organization = self.changeable(caller, id).await?;
        let patch = patch.as_object().ok_or_else(not_an_object)?;
        self.reconfigure(caller, organization, patch).await
    }

    /// Replaces whole parts of the configuration of an organization.
    ///
    /// # Errors
    /// As for [`Self::change_config`].
    pub async fn replace_config(
        &self,
        caller: &Caller,
        organization: OrganizationRecord,
        body: &Value,
        parts: &[&str],
    ) -> Result<Config, Problem> {
        let given = body.as_object().ok_or_else(not_an_object)?;
        if let Some(unknown) = given.keys().find(|key| !parts.contains(&key.as_str())) {
            let message = format!("`{unknown}` is unknown; known are {}", parts.join(", "));
            return Err(Problem::validation(unknown, message));
        }
        if given.is_empty() {
            let message = format!("at least one of {} is required", parts.join(", "));
            return Err(Problem::validation(parts.first().unwrap_or(&""), message));
        }
        let part = |name: &&str| {
            let value = given.get(*name).cloned().unwrap_or_default();
            ((*name).to_owned(), value)
        };
        let patch: Map<String, Value> = parts.iter().map(part).collect();
        self.reconfigure(caller, organization, &patch).await
    }

    async fn reconfigure(
        &self,
        caller: &Caller,
        mut organization: OrganizationRecord,
        patch: &Map<String, Value>,
    ) -> Result<Config, Problem> {
        let why = "an agent cannot change the configuration that decides how it is scored; use \
            another principal's key";
        self.reject_agent_keys(caller, &organization, why).await?;
        for (name, value) in patch {
            match value {
                Value::Null => organization.config.remove(name),
                value => organization.config.insert(name.clone(), value.clone()),
            };
        }
        let config = validated(&organization.config)?;
        self.store_organization(caller, organization, "organizations:configure")
            .await?;
        Ok(config)
    }
}

/// The configuration that results from an organization's settings.
///
/// # Errors
/// `validation_error`, `WEIGHT_SUM_INVALID`.
pub(super) fn validated(settings: &Map<String, Value>) -> Result<Config, Problem> {
    let settings = Value::Object(settings.clone());
    if settings.to_string().len() > MAX_BYTES {
        return Err(Problem::validation(
            "",
            format!("a configuration must be at most {MAX_BYTES} bytes; shorten its lists"),
        ));
    }
    Config::read(&settings).map_err(config_problem)
}

fn not_an_object() -> Problem {
    Problem::validation("", "the body must be a JSON object")
}

fn config_problem(fault: ConfigFault) -> Problem {
    let message = fault.to_string();
    match fault {
        ConfigFault::Weights(WeightFault::Sum { axis, thousandths }) => {
            Problem::new(ErrorCode::WeightSumInvalid, message)
                .with("field", format!("{axis}_weights"))
                .with("sum", json!(f64::from(thousandths) / 1000.0))
        }
        ConfigFault::Weights(WeightFault::Keys { axis, .. }) => {
            Problem::validation(&format!("{axis}_weights"), message)
        }
        ConfigFault::Weights(WeightFault::Value { axis, key }) => {
            Problem::validation(&format!("{axis}_weights.{key}"), message)
        }
        ConfigFault::Field { field, .. } => Problem::validation(&field, message),
    }
}
