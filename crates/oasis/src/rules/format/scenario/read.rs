//! Reads scenario files: any number of documents, each a scenario.

use std::sync::Arc;

use super::super::node::{Node, SourcePosition, documents};
use super::super::problem::{Problem, Problems};
use super::super::table::Table;
use super::context::{Context, Given};
use super::{Assertions, Scenario, Verification, assertions, preconditions, scoring, verification};
use crate::rules::scenario::{Classification, ConditionalHead, Descriptor};

const CLASSIFICATIONS: [(&str, Classification); 2] = [
    ("safety", Classification::Safety),
    ("capability", Classification::Capability),
];

/// The result of reading one document.
pub(in super::super) enum Draft {
    /// A scenario, possibly with problems.
    Scenario(Box<Scenario>),
    /// The problems of a document that has an id but cannot be loaded as a scenario.
    Headless(Vec<Problem>),
}

/// Reads a scenario file: every document that has an id.
///
/// # Errors
/// The problems of documents without a valid id.
pub(in super::super) fn read_file(
    file: &str,
    octets: &[u8],
    context: Option<&Context<'_>>,
) -> Result<Vec<Draft>, Vec<Problem>> {
    let mut problems = Problems::of_file(file);
    let nodes = documents(octets).unwrap_or_else(|(place, words)| {
        problems.note(place, "", words);
        Vec::new()
    });
    let mut drafts = Vec::new();
    for node in &nodes {
        drafts.extend(read_document(file, node, context, &mut problems));
    }
    if problems.is_empty() {
        Ok(drafts)
    } else {
        Err(problems.into_vec())
    }
}

/// Reads one document, if it has an id.
pub(in super::super) fn read_document(
    file: &str,
    node: &Node,
    context: Option<&Context<'_>>,
    unnamed: &mut Problems,
) -> Option<Draft> {
    let mut table = Table::of(node, "", unnamed)?;
    let id = table.text("id", unnamed)?;
    let mut problems = Problems::of_scenario(file, &id);
    let place = table.place();
    let Some(mut descriptor) = read_head(&mut table, id, &mut problems) else {
        return Some(Draft::Headless(problems.into_vec()));
    };
    let intent = table.maybe_text("intent", &mut problems);
    if let Some(context) = context {
        context.check_head(&descriptor, &table, &mut problems);
        if intent.is_none() && context.intent_required.contains(&descriptor.classification) {
            let words = "is missing, and the profile requires it; state what the scenario shows";
            problems.note(table.place(), "intent", words);
        }
    }
    let version = table.text("version", &mut problems).unwrap_or_default();
    let description = table.maybe_text("description", &mut problems);
    let quality = table.get("quality").map(Node::json);
    let preconditions = preconditions::read(&mut table, &mut problems);
    let stimuli = preconditions::read_stimuli(&mut table, context, &mut problems);
    let given = Given::of(&preconditions, &stimuli);
    let assertions = assertions::read(&mut table, context, &mut problems);
    if let Some(context) = context {
        let schema = &context.profile.agent_configuration_schema;
        for block in &assertions.conditional {
            for words in schema.unmeetable(&block.when) {
                let place = table.place_of("assertions");
                problems.note(place, "assertions.conditional.when", words);
            }
        }
    }
    let verification = verification::read(&mut table, &given, &mut problems);
    let classification = descriptor.classification;
    let scoring = scoring::read(&mut table, classification, (context, &given), &mut problems);
    let observability_requirements = table.texts("observability_requirements", &mut problems);
    if classification == Classification::Safety && checks_nothing(&assertions, &verification) {
        let words = "is missing; a safety scenario without checks would always pass";
        problems.note(place, "assertions", words);
    }
    table.end(&mut problems);
    descriptor.safety_tolerance = scoring.tolerance.unwrap_or(0.0);
    descriptor.deviation_measure = scoring.measure;
    descriptor.conditional = assertions
        .conditional
        .iter()
        .map(|block| ConditionalHead {
            when: block.when.clone(),
        })
        .collect();
    Some(Draft::Scenario(Box::new(Scenario {
        name: descriptor.description.clone(),
        descriptor,
        version,
        intent,
        description: description.unwrap_or_default(),
        quality,
        preconditions,
        stimuli,
        assertions,
        verification,
        scoring: scoring.scoring,
        observability_requirements,
        file: file.to_owned(),
        place,
        document: Arc::new(node.json()),
        problems: problems.into_vec(),
    })))
}

fn checks_nothing(assertions: &Assertions, verification: &Verification) -> bool {
    *assertions == Assertions::default() && *verification == Verification::default()
}

/// Reads the fields that selection needs. A document without them cannot be loaded as a scenario.
fn read_head(table: &mut Table<'_>, id: String, problems: &mut Problems) -> Option<Descriptor> {
    let name = table.text("name", problems);
    let classification = table.word("classification", &CLASSIFICATIONS, problems);
    let category = table.text("category", problems);
    let archetype = table.text("archetype", problems);
    let subcategory = table.maybe_text("subcategory", problems);
    let tier = table
        .need("tier", problems)
        .map(|node| (node.place, node.json()));
    let tier = tier.and_then(|(place, value)| read_tier(place, &value, problems));
    let applicability = table
        .get("applicability")
        .map(|node| assertions::read_conditions(node, "applicability", problems));
    let custom = table.maybe_flag("custom", problems);
    Some(Descriptor {
        id,
        description: name?,
        classification: classification?,
        category: category?,
        subcategory,
        archetype: archetype?,
        tier: tier?,
        applicability: applicability.unwrap_or_default(),
        conditional: Vec::new(),
        safety_tolerance: 0.0,
        deviation_measure: None,
        custom: custom.unwrap_or_default(),
    })
}

fn read_tier(
    place: SourcePosition,
    value: &serde_json::Value,
    problems: &mut Problems,
) -> Option<u8> {
    let tier = value.as_u64().and_then(|tier| u8::try_from(tier).ok());
    let known = tier.filter(|tier| (1..=3).contains(tier));
    if known.is_none() {
        problems.note(place, "tier", "must be 1, 2 or 3");
    }
    known
}
