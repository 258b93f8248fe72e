//! OpenAI evals: samples with `input` (a string or chat messages) and `ideal` (an answer, or
//! several equivalent ones), alone or named by a registry file.

use serde_json::{Map, Value, json};

use super::{Columns, Sample, Shape, answers, chat};
use crate::rules::eval::import::draft::{Draft, short};
use crate::rules::eval::import::rows::Rows;
use crate::rules::eval::import::scoring::{Expectation, answer, one_of};
use crate::rules::eval::import::source::{Source, mapping};
use touchstone_kit::json::canonical_text;
use touchstone_openwop::suite::MatchStrategy;

pub const SHAPE: Shape = Shape {
    input: &["input"],
    expected: &["ideal"],
    id: &["id", "sample_id"],
};

/// How a class of evals compares answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    /// As the user says.
    Chosen,
    /// The answer starts with an ideal one.
    StartsWith,
    Includes,
    IncludesIgnoringCase,
    Json,
}

impl Comparison {
    /// The comparison of a class, such as `evals.elsuite.basic.match:Match`.
    fn of(class: &str, ignore_case: bool) -> Option<Self> {
        match class.rsplit(':').next()? {
            "Match" => Some(Self::StartsWith),
            "Includes" if ignore_case => Some(Self::IncludesIgnoringCase),
            "Includes" => Some(Self::Includes),
            "FuzzyMatch" => Some(Self::IncludesIgnoringCase),
            "JsonMatch" => Some(Self::Json),
            _ => None,
        }
    }

    fn expectation(self, strategy: MatchStrategy, ideals: Vec<Value>) -> Option<Expectation> {
        let first = ideals.first()?.clone();
        let texts = || {
            let texts = ideals.iter().map(|ideal| match ideal {
                Value::String(text) => text.clone(),
                other => canonical_text(other),
            });
            texts.collect::<Vec<String>>()
        };
        let fallback = || answer(MatchStrategy::Contains, first.clone());
        match self {
            Self::StartsWith => {
                let each = texts().into_iter();
                let mut each: Vec<Value> = each
                    .map(|ideal| json!({"type": "starts-with", "value": ideal}))
                    .collect();
                let assertion = match each.len() {
                    1 => each.remove(0),
                    _ => json!({"type": "any", "assertions": each}),
                };
                Some(Expectation::scored(fallback(), vec![assertion]))
            }
            Self::IncludesIgnoringCase => {
                let assertion =
                    json!({"type": "contains-any", "values": texts(), "ignoreCase": true});
                Some(Expectation::scored(fallback(), vec![assertion]))
            }
            Self::Includes => one_of(MatchStrategy::Contains, ideals),
            Self::Json => {
                let parsed = ideals.into_iter().map(|ideal| {
                    let text = ideal.as_str().map(str::as_bytes);
                    let value = text.and_then(|text| touchstone_kit::json::parse(text).ok());
                    value.unwrap_or(ideal)
                });
                one_of(strategy, parsed.collect())
            }
            Self::Chosen => one_of(strategy, ideals),
        }
    }
}

/// Converts samples.
pub fn convert(rows: Rows, columns: &Columns, draft: &mut Draft) {
    convert_with(rows, columns, Comparison::Chosen, draft);
}

fn convert_with(rows: Rows, columns: &Columns, comparison: Comparison, draft: &mut Draft) {
    super::convert(rows, &SHAPE, columns, draft, |sample, draft| {
        task(sample, comparison, draft);
    });
}

fn task(sample: Sample, comparison: Comparison, draft: &mut Draft) {
    draft.report_unknown(&sample.place, "a sample", &sample.rest);
    let mut ideals = sample.answer.map(answers).unwrap_or_default();
    if comparison != Comparison::Chosen {
        ideals.retain(|ideal| ideal.as_str() != Some(""));
    }
    let Some(expectation) = comparison.expectation(draft.strategy, ideals) else {
        draft.skip(
            &sample.place,
            "a sample without an `ideal` answer, which only a custom grader could score",
        );
        return;
    };
    let chat = chat::read(draft, &sample.place, sample.input);
    let expectation = chat.applied(expectation).tagged(&sample.tags);
    draft.add(&sample.place, sample.id.as_ref(), chat.input, expectation);
}

/// Whether a document is a registry file: evals with a class and its arguments.
pub fn is_registry(document: &Map<String, Value>) -> bool {
    document.values().any(|entry| entry.get("class").is_some())
}

/// Converts the evals of a registry file with their samples.
///
/// # Errors
/// The file is not a registry, or no samples can be read.
pub fn convert_registry(
    source: &Source<'_>,
    columns: &Columns,
    draft: &mut Draft,
) -> Result<(), String> {
    let registry = mapping(source.bytes)?;
    if !is_registry(&registry) {
        return Err("no entry has a `class`".to_owned());
    }
    for (name, entry) in &registry {
        let place = short(name).into_owned();
        let Some(class) = entry.get("class").and_then(Value::as_str) else {
            // The name of an eval, which refers to its default version.
            continue;
        };
        let arguments = entry.get("args").and_then(Value::as_object);
        let argument = |name: &str| arguments.and_then(|it| it.get(name));
        let ignore_case = argument("ignore_case").and_then(Value::as_bool) == Some(true);
        let Some(comparison) = Comparison::of(class, ignore_case) else {
            let class = short(class);
            draft.skip(
                &place,
                &format!("an eval of the class {class:?}, which has its own grader"),
            );
            continue;
        };
        let known = ["samples_jsonl", "ignore_case"];
        let mut rest = arguments.cloned().unwrap_or_default();
        rest.retain(|name, _| !known.contains(&name.as_str()));
        draft.report_unknown(&place, "the arguments of an eval", &rest);
        let Some(file) = argument("samples_jsonl").and_then(Value::as_str) else {
            draft.skip(&place, "an eval without `samples_jsonl`");
            continue;
        };
        match read_samples(source, file) {
            Ok(mut rows) => {
                for row in &mut rows.rows {
                    row.place = format!("{} {}", short(file), row.place);
                }
                convert_with(rows, columns, comparison, draft);
            }
            Err(reason) => draft.skip(&place, &format!("an eval whose samples {reason}")),
        }
    }
    Ok(())
}

/// Reads samples from the folder of the registry file, or from the folder `data` of the registry.
fn read_samples(source: &Source<'_>, file: &str) -> Result<Rows, String> {
    let mut first = None;
    for name in [
        file.to_owned(),
        format!("data/{file}"),
        format!("../data/{file}"),
    ] {
        match source.files.read(&name) {
            Ok(bytes) => {
                return Rows::read(&bytes)
                    .map_err(|fault| format!("in {} are not valid: {fault}", short(&name)));
            }
            Err(reason) => {
                first.get_or_insert(reason);
            }
        }
    }
    let reason = first.unwrap_or_default();
    Err(format!(
        "in {} cannot be read: {reason} (also tried data/ and ../data/; --root allows a wider folder)",
        short(file)
    ))
}
