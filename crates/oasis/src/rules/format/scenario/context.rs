//! Checks that a scenario is consistent with its profile, the libraries, and its own preconditions.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::library::{Behaviors, Stimuli, resource_of};
use super::super::problem::Problems;
use super::super::table::Table;
use super::{Preconditions, Stimulus};
use crate::rules::evidence::Resource;
use crate::rules::profile::Profile;
use crate::rules::scenario::{Classification, Descriptor};

/// The definitions that scenarios refer to.
pub(in super::super) struct Context<'a> {
    pub profile: &'a Profile,
    pub behaviors: &'a Behaviors,
    pub stimuli: &'a Stimuli,
    pub measures: &'a BTreeSet<String>,
    /// The classifications that need an intent.
    pub intent_required: &'a BTreeSet<Classification>,
    /// Whether probes are read. Their stimuli may contain their own state, because their authors
    /// cannot add to the library.
    pub of_probes: bool,
}

impl Context<'_> {
    /// Checks a head against the profile.
    pub fn check_head(&self, head: &Descriptor, table: &Table<'_>, problems: &mut Problems) {
        let mut note = |field: &str, words: String| {
            problems.note(table.place_of(field), table.path(field), words);
        };
        match self.archetypes(head) {
            None => note(
                "category",
                format!(
                    "`{}` is not a category of the profile for this classification",
                    head.category
                ),
            ),
            Some(all) if !all.contains(&head.archetype) => {
                let words = format!(
                    "`{}` is not an archetype of {}",
                    head.archetype, head.category
                );
                note("archetype", words);
            }
            Some(_) => {}
        }
        let schema = &self.profile.agent_configuration_schema;
        for words in schema.unmeetable(&head.applicability) {
            note("applicability", words);
        }
        let Some(name) = &head.subcategory else {
            return;
        };
        let mut all = self.profile.subcategories.iter();
        match all.find(|subcategory| subcategory.identifier == *name) {
            None => note(
                "subcategory",
                format!("`{name}` is not a subcategory of the profile"),
            ),
            Some(known) if !known.parents.contains(&head.category) => {
                let words = format!("`{name}` does not belong to {}", head.category);
                note("subcategory", words);
            }
            Some(_) => {}
        }
    }

    /// Whether any category of the profile has the archetype.
    pub fn has_archetype(&self, name: &str) -> bool {
        let safety = self
            .profile
            .safety_categories
            .iter()
            .map(|it| &it.archetypes);
        let capability = self
            .profile
            .capability_scoring
            .categories
            .iter()
            .map(|it| &it.archetypes);
        safety.chain(capability).flatten().any(|it| it == name)
    }

    fn archetypes(&self, head: &Descriptor) -> Option<&[String]> {
        let category = head.category.as_str();
        match head.classification {
            Classification::Safety => {
                let mut all = self.profile.safety_categories.iter();
                all.find(|it| it.id == category)
                    .map(|it| it.archetypes.as_slice())
            }
            Classification::Capability => {
                let mut all = self.profile.capability_scoring.categories.iter();
                all.find(|it| it.id == category)
                    .map(|it| it.archetypes.as_slice())
            }
        }
    }
}

/// Every resource that a scenario provisions or injects.
pub(super) struct Given(Vec<(Resource, Map<String, Value>)>);

impl Given {
    pub fn of(preconditions: &Preconditions, stimuli: &[Stimulus]) -> Self {
        let injected = stimuli.iter().flat_map(|stimulus| &stimulus.inject);
        let all = preconditions.environment.state.iter().chain(injected);
        Self(
            all.filter_map(|entry| Some((resource_of(entry)?, entry.clone())))
                .collect(),
        )
    }

    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.0.iter().map(|(resource, _)| resource)
    }

    /// Whether `kind/name.field.key` refers to a string in one of the resources.
    pub fn resolves(&self, reference: &str) -> bool {
        self.0.iter().any(|(resource, fields)| {
            let place = reference
                .strip_prefix(resource.kind.as_str())
                .and_then(|rest| rest.strip_prefix('/'))
                .and_then(|rest| rest.strip_prefix(resource.name.as_str()))
                .and_then(|rest| rest.strip_prefix('.'))
                .and_then(|rest| rest.split_once('.'));
            place
                .and_then(|(field, key)| fields.get(field)?.get(key)?.as_str())
                .is_some_and(|value| !value.is_empty())
        })
    }
}
