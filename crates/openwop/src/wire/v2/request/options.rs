//! `configurable` (OpenWOP v2 runs, "Run options"): nested and closed under major 2, one flat map
//! inside.
//!
//! A member of the flat map that has no seat in a section is an option of this host. It is in
//! `extensions.touchstone`.

use serde_json::{Map, Value};

use crate::wire::id::{Seat, bound};
use crate::wire::v2::translation::{Context, Refusal, invalid, opaque_id};
use touchstone_kit::error::Problem;
use touchstone_kit::fields::{Fields, Nulls};

/// The organization of this host's options.
const ORGANIZATION: &str = "touchstone";
const ROOT: &[&str] = &[
    "version",
    "run",
    "ai",
    "distillation",
    "budget",
    "extensions",
];
const VERSION: u64 = 1;

/// Members of the create body that are members of the flat map inside.
pub const EVAL_MEMBERS: &[&str] = &["evalModes", "baselineRunId", "fixtureRuns"];
const BUDGET: &str = "budget";
const EXTENSIONS: &str = "extensions";
const VERBOSITY: &str = "reasoningVerbosity";
/// The other name of `model` under major 1.
const MODEL_ALIAS: &str = "ai.model";
/// The option that names a run.
const TASKS: &str = "evalTasks";
const FAILED_OF: &str = "failedOf";

/// A member of a section.
struct Setting {
    section: &'static str,
    name: &'static str,
    flat: &'static str,
    form: Form,
}

#[derive(Clone, Copy)]
enum Form {
    /// An integer of at least this.
    Whole(u64),
    Number,
    Text,
    /// An object of strings.
    Texts,
    Object,
    Verbosity,
}

const fn setting(
    section: &'static str,
    name: &'static str,
    flat: &'static str,
    form: Form,
) -> Setting {
    Setting {
        section,
        name,
        flat,
        form,
    }
}

const SETTINGS: &[Setting] = &[
    setting("run", "recursionLimit", "recursionLimit", Form::Whole(1)),
    setting("run", "runTimeoutMs", "runTimeoutMs", Form::Whole(1)),
    setting(
        "run",
        "maxLoopIterations",
        "maxLoopIterations",
        Form::Whole(1),
    ),
    setting(
        "run",
        "escalationThreshold",
        "escalationThreshold",
        Form::Number,
    ),
    setting("ai", "provider", "ai.provider", Form::Text),
    setting("ai", "model", "model", Form::Text),
    setting("ai", "temperature", "temperature", Form::Number),
    setting("ai", "maxTokens", "maxTokens", Form::Whole(1)),
    setting("ai", "credentialRef", "ai.credentialRef", Form::Text),
    setting("ai", "promptOverrides", "promptOverrides", Form::Texts),
    setting("ai", "mockProvider", "mockProvider", Form::Object),
    setting("ai", VERBOSITY, VERBOSITY, Form::Verbosity),
    setting("ai", "maxRefusals", "ai.maxRefusals", Form::Whole(0)),
    setting(
        "distillation",
        "tokenBudget",
        "distillation.tokenBudget",
        Form::Whole(1),
    ),
];

const SECTIONS: &[(&str, &str)] = &[
    ("run", "configurable.run"),
    ("ai", "configurable.ai"),
    ("distillation", "configurable.distillation"),
];

impl Form {
    fn admits(self, value: &Value) -> bool {
        match self {
            Self::Whole(least) => value.as_u64().is_some_and(|it| it >= least),
            Self::Number => value.is_number(),
            Self::Text => value.as_str().is_some_and(|it| !it.is_empty()),
            Self::Texts => value
                .as_object()
                .is_some_and(|it| it.values().all(Value::is_string)),
            Self::Object => value.is_object(),
            Self::Verbosity => matches!(value.as_str(), Some("none" | "summary" | "full")),
        }
    }

    fn in_words(self) -> String {
        match self {
            Self::Whole(least) => format!("an integer of at least {least}"),
            Self::Number => "a number".to_owned(),
            Self::Text => "a non-empty string".to_owned(),
            Self::Texts => "an object of strings".to_owned(),
            Self::Object => "an object".to_owned(),
            Self::Verbosity => "one of none, summary, full".to_owned(),
        }
    }

    /// The value of major 1.
    fn inner(self, value: Value) -> Value {
        match (self, value.as_str()) {
            (Self::Verbosity, Some("none")) => "off".into(),
            _ => value,
        }
    }

    /// The value of major 2.
    fn outer(self, value: Value) -> Value {
        match (self, value.as_str()) {
            (Self::Verbosity, Some("off")) => "none".into(),
            _ => value,
        }
    }
}

/// The flat map of `configurable`.
///
/// # Errors
/// A member that is unknown or has the wrong type; an id of another tenant.
pub fn flat(context: &Context<'_>, configurable: &Value) -> Result<Map<String, Value>, Refusal> {
    let fields = Fields::closed(configurable, "configurable", ROOT, Nulls::Absent)?;
    if fields.get("version").and_then(Value::as_u64) != Some(VERSION) {
        return Err(fields
            .invalid("version", "is required and must be 1")
            .into());
    }
    let mut flat = Map::new();
    for (section, path) in SECTIONS {
        if let Some(value) = fields.get(section) {
            flat.extend(of_section(section, path, value)?);
        }
    }
    if let Some(budget) = fields.object(BUDGET)? {
        if let Some((name, _)) = budget.iter().find(|(_, value)| value.is_null()) {
            return Err(not_null(&format!("configurable.budget.{name}")));
        }
        if !budget.is_empty() {
            flat.insert(BUDGET.to_owned(), Value::Object(budget));
        }
    }
    if let Some(extensions) = fields.object(EXTENSIONS)? {
        flat.extend(of_extensions(context, extensions)?);
    }
    Ok(flat)
}

fn of_section(
    section: &str,
    path: &'static str,
    value: &Value,
) -> Result<Vec<(String, Value)>, Problem> {
    let options = || SETTINGS.iter().filter(|option| option.section == section);
    let known: Vec<&str> = options().map(|option| option.name).collect();
    let fields = Fields::closed(value, path, &known, Nulls::Wrong)?;
    let mut found = Vec::new();
    for option in options() {
        let Some(value) = fields.get(option.name) else {
            continue;
        };
        if !option.form.admits(value) {
            let rule = format!("must be {}", option.form.in_words());
            return Err(fields.invalid(option.name, &rule));
        }
        found.push((option.flat.to_owned(), option.form.inner(value.clone())));
    }
    Ok(found)
}

fn of_extensions(
    context: &Context<'_>,
    extensions: Map<String, Value>,
) -> Result<Vec<(String, Value)>, Refusal> {
    let mut found = Vec::new();
    let mut others = Map::new();
    for (organization, options) in extensions {
        let path = format!("configurable.extensions.{organization}");
        if !is_organization(&organization) {
            let rule = format!(
                "`{path}` is not named like an organization: lower-case letters, digits and `-`"
            );
            return Err(Problem::validation(&path, rule).into());
        }
        let Value::Object(options) = options else {
            return Err(Problem::validation(&path, format!("`{path}` must be an object")).into());
        };
        if organization == ORGANIZATION {
            found = own(context, &path, options)?;
        } else {
            others.insert(organization, Value::Object(options));
        }
    }
    if !others.is_empty() {
        found.push((EXTENSIONS.to_owned(), Value::Object(others)));
    }
    Ok(found)
}

fn own(
    context: &Context<'_>,
    path: &str,
    options: Map<String, Value>,
) -> Result<Vec<(String, Value)>, Refusal> {
    let mut found = Vec::with_capacity(options.len());
    for (name, mut value) in options {
        let field = format!("{path}.{name}");
        if let Some(seat) = seat(&name) {
            let rule = format!("`{field}` is not an extension; send it as `{seat}`");
            return Err(Problem::validation(&field, rule).into());
        }
        if value.is_null() {
            return Err(not_null(&field));
        }
        if let Some(run) = failed_of(&name, &mut value) {
            let field = format!("{field}.{FAILED_OF}");
            *run = opaque_id(context.tenant, Seat::Body, &field, run)?;
        }
        found.push((name, value));
    }
    Ok(found)
}

/// The run that the option `evalTasks` names.
fn failed_of<'a>(name: &str, value: &'a mut Value) -> Option<&'a mut String> {
    if name != TASKS {
        return None;
    }
    match value.get_mut(FAILED_OF) {
        Some(Value::String(run)) => Some(run),
        _ => None,
    }
}

pub(super) fn not_null(field: &str) -> Refusal {
    invalid(field, "must not be null; leave it out")
}

fn is_organization(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.split('-').all(|part| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit())
        })
}

/// The path under major 2 of a member of the flat map that is not an option of this host.
fn seat(flat: &str) -> Option<String> {
    if EVAL_MEMBERS.contains(&flat) {
        return Some(flat.to_owned());
    }
    match flat {
        BUDGET | EXTENSIONS => Some(format!("configurable.{flat}")),
        MODEL_ALIAS => Some("configurable.ai.model".to_owned()),
        _ => {
            let option = SETTINGS.iter().find(|option| option.flat == flat)?;
            Some(format!("configurable.{}.{}", option.section, option.name))
        }
    }
}

/// The path under major 2 of a field of the flat map, given without `configurable`.
pub fn path(field: &str) -> String {
    // Names of the flat map may have dots.
    let names = SETTINGS.iter().map(|option| option.flat);
    let names = names.chain([BUDGET, EXTENSIONS, MODEL_ALIAS]);
    for name in names.chain(EVAL_MEMBERS.iter().copied()) {
        if let (Some(seat), Some(rest)) = (seat(name), field.strip_prefix(name))
            && (rest.is_empty() || rest.starts_with('.'))
        {
            return format!("{seat}{rest}");
        }
    }
    format!("configurable.{EXTENSIONS}.{ORGANIZATION}.{field}")
}

/// `configurable` of a flat map; `None` if it has no members for it.
///
/// Major 1 admits any member. One that has a seat under major 2, but not the type of it, is shown
/// as an option of this host.
pub fn nested(tenant: &str, flat: &Value) -> Option<Value> {
    let mut nested = Map::new();
    let mut own = Map::new();
    let mut others = Map::new();
    let has_model = flat.get("model").is_some();
    for (name, value) in flat.as_object().into_iter().flatten() {
        if value.is_null() || EVAL_MEMBERS.contains(&name.as_str()) {
            continue;
        }
        let mut value = value.clone();
        let alias = name == MODEL_ALIAS && !has_model;
        let flat = if alias { "model" } else { name.as_str() };
        let option = SETTINGS.iter().find(|option| option.flat == flat);
        if let Some(option) = option {
            let outer = option.form.outer(value);
            if option.form.admits(&outer) {
                let section = nested
                    .entry(option.section)
                    .or_insert_with(|| Value::Object(Map::new()));
                if let Some(section) = section.as_object_mut() {
                    section.insert(option.name.to_owned(), outer);
                }
                continue;
            }
            value = outer;
        }
        match value {
            Value::Object(budget) if name == BUDGET => {
                let budget = budget.into_iter().filter(|(_, value)| !value.is_null());
                nested.insert(name.clone(), Value::Object(budget.collect()));
            }
            Value::Object(found) if name == EXTENSIONS && are_others(&found) => others = found,
            mut value => {
                if let Some(run) = failed_of(name, &mut value) {
                    *run = bound(tenant, run);
                }
                own.insert(name.clone(), value);
            }
        }
    }
    if !own.is_empty() {
        others.insert(ORGANIZATION.to_owned(), Value::Object(own));
    }
    if !others.is_empty() {
        nested.insert(EXTENSIONS.to_owned(), Value::Object(others));
    }
    if nested.is_empty() {
        return None;
    }
    nested.insert("version".to_owned(), VERSION.into());
    Some(Value::Object(nested))
}

/// Whether these are extensions of other organizations.
fn are_others(extensions: &Map<String, Value>) -> bool {
    extensions
        .iter()
        .all(|(name, value)| is_organization(name) && name != ORGANIZATION && value.is_object())
}
