//! Parses `configurable.budget` (OpenWOP budget-policy, RFC 0084 §A). Unknown members are rejected,
//! and every error names its field.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use touchstone_agents::budget::policy::{BudgetSpec, is_glob};
use touchstone_kit::error::Problem;
use touchstone_kit::fields::Fields;
use touchstone_kit::money::NanoUsd;

const MAX_GLOBS: usize = 100;
const MAX_GLOB_BYTES: usize = 256;
/// RFC 0084 §C requires `budget.threshold.crossed` for every budget but defines no default; its
/// examples warn at 80 %.
const DEFAULT_THRESHOLD_PERCENT: f64 = 80.0;

/// Parses a budget.
///
/// # Errors
/// `validation_error` naming the field. Settings that this host cannot enforce are rejected, not
/// ignored.
pub(super) fn budget(members: &Map<String, Value>) -> Result<BudgetSpec, Problem> {
    const KNOWN: &[&str] = &[
        "maxTokens",
        "maxCostUsd",
        "maxToolCalls",
        "maxRetries",
        "modelAllow",
        "modelDeny",
        "thresholdPercent",
        "onExhaustion",
    ];
    let fields = Fields::of(members, "configurable.budget");
    if let Some((other, _)) = members
        .iter()
        .find(|(key, value)| !KNOWN.contains(&key.as_str()) && !value.is_null())
    {
        return Err(fields.invalid(
            other,
            &format!(
                "is not a known member; known members are {}",
                KNOWN.join(", ")
            ),
        ));
    }
    let interrupts = match fields.text("onExhaustion")? {
        None | Some("fail") => false,
        Some("interrupt") => true,
        Some(_) => {
            return Err(fields.invalid("onExhaustion", "must be \"fail\" or \"interrupt\""));
        }
    };
    let max_cost = match fields.number("maxCostUsd", 0.0, f64::MAX)? {
        None => None,
        Some(usd) => Some(
            NanoUsd::from_usd(usd).ok_or_else(|| fields.invalid("maxCostUsd", "is too large"))?,
        ),
    };
    let spec = BudgetSpec {
        max_tokens: fields.whole("maxTokens", 1)?,
        max_cost,
        max_tool_calls: fields.whole("maxToolCalls", 1)?,
        max_retries: fields.whole("maxRetries", 0)?,
        model_allow: globs(&fields, "modelAllow")?,
        model_deny: globs(&fields, "modelDeny")?.unwrap_or_default(),
        threshold_percent: fields.number("thresholdPercent", 0.0, 100.0)?,
        interrupts,
        advisory: false,
    };
    let threshold = spec.threshold_percent.unwrap_or(DEFAULT_THRESHOLD_PERCENT);
    Ok(BudgetSpec {
        threshold_percent: (!spec.is_empty()).then_some(threshold),
        ..spec
    })
}

fn globs(fields: &Fields<'_>, name: &str) -> Result<Option<Vec<String>>, Problem> {
    let Some(value) = fields.get(name) else {
        return Ok(None);
    };
    let shape = format!(
        "must be a list of at most {MAX_GLOBS} patterns such as \"small-*\", without duplicates"
    );
    let items = value.as_array().filter(|items| items.len() <= MAX_GLOBS);
    let globs = items.and_then(|items| {
        items
            .iter()
            .map(|item| {
                item.as_str()
                    .filter(|glob| glob.len() <= MAX_GLOB_BYTES && is_glob(glob))
                    .map(str::to_owned)
            })
            .collect::<Option<Vec<_>>>()
    });
    globs
        .filter(|globs| globs.iter().collect::<BTreeSet<_>>().len() == globs.len())
        .map(Some)
        .ok_or_else(|| fields.invalid(name, &shape))
}
