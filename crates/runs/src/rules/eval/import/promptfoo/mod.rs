//! Configurations of promptfoo: test cases with variables and assertions.
//!
//! The variables become the input of a task, the assertions its expectation, and the prompts the
//! instructions of agents. Code and templates with statements are reported, not executed.

mod asserts;
mod case;
mod checks;
mod csv_tests;
mod files;
mod judged;
mod prompts;
mod providers;
mod template;

use serde_json::{Map, Value, json};

use self::asserts::Context;
use self::case::Case;
use self::files::Located;
pub use self::providers::{ProviderDraft, ProviderEndpoint};
use super::draft::{Draft, MAX_OCTETS, octets, short};
use super::source::{Files, Source, mapping};

/// Maximum number of test cases that lists of values may expand to.
const MAX_COMBINATIONS: usize = 10_000;
/// Maximum depth of references to templates.
const MAX_REFERENCE_DEPTH: usize = 16;
/// Maximum number of tests that scenarios may expand to.
const MAX_SCENARIO_TESTS: usize = 100_000;

/// The place of the loss of the providers. Commands that call them do not report it.
pub const PROVIDERS: &str = "providers";

/// Converts a configuration.
///
/// # Errors
/// It is not a mapping in YAML or JSON.
pub fn convert(source: &Source<'_>, draft: &mut Draft) -> Result<(), String> {
    let mut config = mapping(source.bytes)?;
    if let Some(templates) = config.remove("assertionTemplates") {
        for value in config.values_mut() {
            replace_references(value, &templates, 0);
        }
    }
    let mut take = |name: &str| config.remove(name).filter(|value| !value.is_null());
    let (prompts, tests, defaults) = (take("prompts"), take("tests"), take("defaultTest"));
    let (scenarios, description) = (take("scenarios"), take("description"));
    let providers = take("providers").or_else(|| take("targets"));
    config.remove("$schema");
    config.remove("yaml-language-server");
    if description.is_some() {
        draft.report_loss(
            "description",
            "`description`: a suite has an id but no description",
        );
    }
    if let Some(providers) = providers {
        draft.report_loss(PROVIDERS, providers_lost(&providers));
        draft.providers = providers::read(&providers);
    }
    draft.report_unknown("the configuration", "the configuration", &config);
    draft.agents = prompts::read(prompts, source.files, draft);
    let defaults = match defaults.map(|defaults| files::mapping(defaults, source.files)) {
        Some(Ok(defaults)) => defaults,
        Some(Err(reason)) => {
            draft.report_loss(
                "defaultTest",
                format!("`defaultTest` cannot be read: {reason}"),
            );
            Map::new()
        }
        None => Map::new(),
    };
    let defaults = Case::of(defaults, "defaultTest", source.files, draft);
    let is_empty = tests.is_none() && scenarios.is_none();
    if is_empty {
        draft.skip("tests", "a configuration without `tests` or `scenarios`");
    }
    let tests = tests.map(|tests| files::tests(tests, "tests", source.files, draft));
    for test in tests.into_iter().flatten() {
        convert_test(test, &[&defaults], source.files, draft);
    }
    if let Some(scenarios) = scenarios {
        convert_scenarios(scenarios, &defaults, source.files, draft);
    }
    Ok(())
}

/// Replaces `$ref: "#/assertionTemplates/NAME"` by the template.
fn replace_references(value: &mut Value, templates: &Value, depth: usize) {
    if depth > MAX_REFERENCE_DEPTH {
        return;
    }
    if let Some(Value::String(reference)) = value.get("$ref")
        && let Some(name) = reference.strip_prefix("#/assertionTemplates/")
        && let Some(template) = templates.get(name)
    {
        *value = template.clone();
    }
    match value {
        Value::Array(items) => {
            for item in items {
                replace_references(item, templates, depth + 1);
            }
        }
        Value::Object(members) => {
            for member in members.values_mut() {
                replace_references(member, templates, depth + 1);
            }
        }
        _ => {}
    }
}

/// The loss of the providers, with their names.
fn providers_lost(providers: &Value) -> String {
    let items = match providers {
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let names: Vec<String> = items
        .iter()
        .filter_map(|item| match item {
            Value::String(name) => Some(name.as_str()),
            Value::Object(provider) => provider
                .get("id")
                .and_then(Value::as_str)
                .or_else(|| provider.keys().next().map(String::as_str)),
            _ => None,
        })
        .take(8)
        .map(|name| short(name).into_owned())
        .collect();
    format!(
        "`providers` ({}): choose the model with --model-url and --model, or run a program as the \
         agent with --agent-command",
        names.join(", ")
    )
}

/// Converts a test with everything that it inherits, from the most general to the most specific.
fn convert_test(test: Located, inherited: &[&Case], files: &dyn Files, draft: &mut Draft) {
    let Located { place, test } = test;
    let own = Case::of(test, &place, files, draft);
    let cases: Vec<&Case> = inherited.iter().copied().chain([&own]).collect();
    if let Some(reason) = cases.iter().find_map(|case| case.fault.as_ref()) {
        draft.skip(
            &place,
            &format!("a test whose variables cannot be read: {reason}"),
        );
        return;
    }
    let mut vars = Map::new();
    for case in &cases {
        vars.extend(case.vars.clone());
    }
    let is_in_file = |text: &str| text.starts_with("file://");
    if vars
        .values()
        .any(|value| template::any_string(value, is_in_file))
    {
        draft.skip(&place, "a test whose variables are in another file");
        return;
    }
    let asserts: Vec<Value> = cases
        .iter()
        .rev()
        .flat_map(|case| case.asserts.iter().cloned())
        .collect();
    let expanded = match cases.iter().any(|case| case.keeps_lists) {
        true => Some(vec![vars]),
        false => combinations(vars),
    };
    let Some(expanded) = expanded else {
        draft.skip(
            &place,
            "a test whose lists of values expand to more than 10,000 cases or 256 MiB",
        );
        return;
    };
    let tags = cases.iter().rev().map(|case| &case.tags);
    let parts = Parts {
        asserts: &asserts,
        threshold: cases.iter().rev().find_map(|case| case.threshold),
        tags: tags.into_iter().find(|tags| !tags.is_empty()),
        name: own.name.as_ref(),
        place: &place,
    };
    for vars in expanded {
        if draft.is_full() {
            draft.skip(&place, "tests after the first 100,000 or 256 MiB");
            return;
        }
        convert_case(vars, &parts, files, draft);
    }
}

/// The parts that the cases of a test share.
struct Parts<'a> {
    asserts: &'a [Value],
    threshold: Option<f64>,
    tags: Option<&'a Vec<String>>,
    name: Option<&'a Value>,
    place: &'a str,
}

fn convert_case(vars: Map<String, Value>, parts: &Parts<'_>, files: &dyn Files, draft: &mut Draft) {
    let place = parts.place;
    let vars = match template::fill_variables(vars) {
        Ok(vars) => vars,
        Err(why) => {
            draft.skip(
                place,
                &format!("a test with a variable that is {}", why.reason()),
            );
            return;
        }
    };
    let prompt = draft.agents.first().map(|agent| agent.prompt.clone());
    let input = match (vars.is_empty(), prompt) {
        (false, _) => Value::Object(vars.clone()),
        (true, Some(prompt)) if draft.agents.len() == 1 && !template::is_template(&prompt) => {
            json!(prompt)
        }
        (true, Some(_))
            if !draft
                .agents
                .iter()
                .any(|it| template::is_template(&it.prompt)) =>
        {
            json!({})
        }
        (true, _) => {
            draft.skip(
                place,
                "a test without input: it sets no variables, and no prompt stands alone",
            );
            return;
        }
    };
    let context = Context {
        vars: &vars,
        files,
        place,
        in_set: false,
    };
    match asserts::expectation(parts.asserts, parts.threshold, &context, draft) {
        Some(expectation) => {
            let tags = parts.tags.map(Vec::as_slice).unwrap_or_default();
            draft.add(place, parts.name, input, expectation.tagged(tags));
        }
        None => draft.skip(place, "a test without an assertion that can be imported"),
    }
}

/// Expands lists of texts: one case per text, and all combinations for several lists. `None` if
/// there are too many.
fn combinations(vars: Map<String, Value>) -> Option<Vec<Map<String, Value>>> {
    let size: usize = vars.values().map(octets).sum();
    let mut count = 1_usize;
    let mut all = vec![Map::new()];
    for (name, value) in vars {
        let values = match value {
            Value::Array(values) if values.first().is_some_and(Value::is_string) => values,
            value => vec![value],
        };
        count = count.saturating_mul(values.len());
        if count > MAX_COMBINATIONS || count.saturating_mul(size) > MAX_OCTETS {
            return None;
        }
        all = all
            .iter()
            .flat_map(|known| {
                values.iter().map(|value| {
                    let mut case = known.clone();
                    case.insert(name.clone(), value.clone());
                    case
                })
            })
            .collect();
    }
    Some(all)
}

/// Converts scenarios: every test with every configuration.
fn convert_scenarios(scenarios: Value, defaults: &Case, files: &dyn Files, draft: &mut Draft) {
    let scenarios = files::tests(scenarios, "scenarios", files, draft);
    let mut count = 0_usize;
    for Located { place, mut test } in scenarios {
        let mut take = |name: &str| test.remove(name).filter(|value| !value.is_null());
        let (config, tests) = (take("config"), take("tests"));
        take("description");
        draft.report_unknown(&place, "a scenario", &test);
        let config = config.unwrap_or_else(|| json!([{}]));
        let configs = files::tests(config, &format!("{place}.config"), files, draft);
        // A scenario without tests asks each configuration once.
        let tests = tests.unwrap_or_else(|| json!([{}]));
        let tests = files::tests(tests, &format!("{place}.tests"), files, draft);
        let configs: Vec<Case> = configs
            .into_iter()
            .map(|config| Case::of(config.test, &config.place, files, draft))
            .collect();
        for config in &configs {
            for test in &tests {
                count += 1;
                if count > MAX_SCENARIO_TESTS {
                    draft.skip(&place, "scenarios that expand to more than 100,000 tests");
                    return;
                }
                let test = Located {
                    place: test.place.clone(),
                    test: test.test.clone(),
                };
                convert_test(test, &[defaults, config], files, draft);
            }
        }
    }
}
