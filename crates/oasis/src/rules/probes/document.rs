//! Probes as documents: input and output of mutations. The text of a probe is self-contained, so it
//! can be run again without a stimulus library.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};
use touchstone_kit::json::value_of;

use super::{PREFIX, ProbeScript};
use crate::rules::format::{
    Package, Problem, Scenario, Stimulus, StimulusKind, Trigger, read_probes,
};
use crate::rules::probes::ProbeOrigin;

/// The file name in problems of generated probes.
const FILE: &str = "probe.yaml";

/// The fields of a scenario in reading order; other fields follow alphabetically.
const ORDER: [&str; 19] = [
    "id",
    "name",
    "version",
    "classification",
    "category",
    "subcategory",
    "archetype",
    "secondary_archetypes",
    "tier",
    "intent",
    "description",
    "quality",
    "applicability",
    "preconditions",
    "stimuli",
    "assertions",
    "verification",
    "scoring",
    "observability_requirements",
];

/// A scenario's document in which every stimulus contains its library entry.
pub(super) fn self_contained(scenario: &Scenario) -> Value {
    let mut document = scenario.document.as_ref().clone();
    let stimuli = scenario.stimuli.iter().map(stimulus).collect();
    set(&mut document, "stimuli", Value::Array(stimuli));
    document
}

pub(super) fn set(document: &mut Value, field: &str, value: impl Into<Value>) {
    if let Some(members) = document.as_object_mut() {
        members.insert(field.to_owned(), value.into());
    }
}

/// An earlier turn of the conversation, as a stimulus.
pub(super) fn turn(text: &str) -> Value {
    let mut members = Map::new();
    insert(
        &mut members,
        "type",
        Some(value_of(&StimulusKind::ConversationContext)),
    );
    insert(&mut members, "value", Some(Value::from(text)));
    Value::Object(members)
}

fn stimulus(stimulus: &Stimulus) -> Value {
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    let inject = stimulus.inject.iter().cloned().map(Value::Object);
    let mut members = Map::new();
    insert(&mut members, "type", Some(value_of(&stimulus.kind)));
    insert(&mut members, "value", text(&stimulus.value));
    insert(&mut members, "target", text(&stimulus.target));
    insert(&mut members, "description", text(&stimulus.description));
    if stimulus.trigger != Trigger::default() {
        insert(&mut members, "timing", Some(value_of(&stimulus.trigger)));
    }
    if !stimulus.inject.is_empty() {
        insert(&mut members, "inject", Some(inject.collect()));
    }
    Value::Object(members)
}

fn insert(members: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    if let Some(value) = value {
        members.insert(field.to_owned(), value);
    }
}

impl ProbeScript {
    /// Builds the probe from a document by writing the document and reading it again, so that what
    /// is executed is what is written.
    ///
    /// # Errors
    /// The problems that keep the probe from being run against the profile.
    pub(super) fn of(
        origin: ProbeOrigin,
        mut document: Value,
        (id, secondary): (&str, Vec<String>),
        package: &Package,
    ) -> Result<Self, Vec<Problem>> {
        let id = id.strip_prefix(PREFIX).unwrap_or(id);
        set(&mut document, "id", format!("{PREFIX}{id}"));
        if !secondary.is_empty() {
            set(&mut document, "secondary_archetypes", secondary);
        }
        let serialized = written(&document);
        let mut probes = read_probes(package, FILE, serialized.as_bytes())?;
        let probe = probes.pop().ok_or_else(Vec::new)?;
        Ok(Self {
            origin,
            description: probe.scenario.descriptor.description.clone(),
            scenario: probe.scenario,
            secondary_archetypes: probe.secondary_archetypes,
            serialized,
        })
    }
}

fn written(document: &Value) -> String {
    // JSON is valid YAML, so there is always a text.
    serde_saphyr::to_string(&Ordered(document)).unwrap_or_else(|_| document.to_string())
}

struct Ordered<'a>(&'a Value);

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(members) = self.0.as_object() else {
            return self.0.serialize(serializer);
        };
        let known = ORDER
            .iter()
            .filter_map(|field| members.get_key_value(*field));
        let others = members
            .iter()
            .filter(|(field, _)| !ORDER.contains(&field.as_str()));
        let mut map = serializer.serialize_map(Some(members.len()))?;
        for (field, value) in known.chain(others) {
            map.serialize_entry(field, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::rules::format::testing::{front_desk, scenario};

    /// Strings that YAML may take for other types.
    fn texts() -> impl Strategy<Value = String> {
        const ODD: &[&str] = &[
            "yes",
            "no",
            "null",
            "~",
            "true",
            "1",
            "1.0",
            "1e3",
            "0x1F",
            "- a",
            "a: b",
            "{{synthetic}}",
            "#x",
            "|",
            ">",
            "&a",
            "*a",
            "!t",
            "%d",
            "@x",
            "`x`",
            "'",
            "\"",
            "a\nb",
            "a\n\n  b\n",
            "  a ",
            "\t",
            "---",
            "...",
            "2026-01-01",
            "<<",
            "=",
            "a #b",
            "[",
            "]",
            "\u{7f}",
            "\u{85}",
            "\u{2028}",
            "\u{feff}",
            "\\",
            "a\\n",
            ".nan",
            "12:30:45",
        ];
        let long = "\\PC{0,200}( \\PC{1,40}){0,4}";
        prop_oneof![
            prop::sample::select(ODD).prop_map(str::to_owned),
            "\\PC{0,24}",
            long
        ]
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            texts().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1.0e9..1.0e9).prop_map(|number: f64| json!(number)),
            Just(Value::Null),
            Just(json!(1.0)),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            let keys = "[a-z_]{1,8}|yes|1|a b|a: b";
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(keys, inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_document_is_written_and_read_again(value in values(), text in texts()) {
            let mut document = self_contained(&scenario("front.safety.dm.withdrawn-release-01"));
            set(&mut document, "quality", json!([value, {"text": text}]));
            let names = ("probe-x", Vec::new());
            let script = ProbeScript::of(ProbeOrigin::Mutation, document.clone(), names, front_desk()).unwrap();
            set(&mut document, "id", "probe-x");
            prop_assert_eq!(script.scenario.document.as_ref(), &document, "{}", script.serialized);
        }
    }
}
