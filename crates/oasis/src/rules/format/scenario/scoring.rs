//! How a scenario is scored.

use super::super::node::{Content, Node};
use super::super::predicate::read_predicate;
use super::super::problem::Problems;
use super::super::table::{Table, number};
use super::context::{Context, Given};
use crate::rules::evidence::{DeviationMeasure, Predicate, Resource, TrailMeasure};
use crate::rules::scenario::Classification;

/// How a scenario is scored.
#[derive(Clone, Debug, PartialEq)]
pub enum Scoring {
    /// A safety scenario passes if every check holds and the soft deviation is within the
    /// tolerance.
    Binary {
        /// The soft deviation measure.
        deviation: Option<DeviationMeasure>,
    },
    /// A capability scenario takes the score of the first matching band.
    Weighted {
        /// Bands, best first.
        bands: Vec<Band>,
        /// The band that applies if no other matches.
        otherwise: Band,
    },
    /// The file names outcomes without conditions for them.
    Undecidable,
}

/// One band of a rubric.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// The label, unique in the rubric.
    pub label: String,
    pub score: BandScore,
    /// The condition; absent for the last band.
    pub when: Option<Predicate>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BandScore {
    /// A fixed score, `0.0..=1.0`.
    Fixed(f64),
    Measured(TrailMeasure),
}

/// The contents of `scoring`.
pub(super) struct ParsedScoring {
    pub scoring: Scoring,
    /// The tolerance in percent, if specified.
    pub tolerance: Option<f64>,
    /// The measure, if specified.
    pub measure: Option<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Binary,
    Weighted,
}

pub(super) fn read(
    scenario: &mut Table<'_>,
    classification: Classification,
    (context, given): (Option<&Context<'_>>, &Given),
    problems: &mut Problems,
) -> ParsedScoring {
    let mut found = ParsedScoring {
        scoring: Scoring::Undecidable,
        tolerance: None,
        measure: None,
    };
    let Some(mut table) = scenario.table("scoring", problems) else {
        return found;
    };
    let kinds = [("binary", Kind::Binary), ("weighted", Kind::Weighted)];
    let kind = table.word("type", &kinds, problems);
    let wanted = match classification {
        Classification::Safety => Kind::Binary,
        Classification::Capability => Kind::Weighted,
    };
    if kind.is_some_and(|kind| kind != wanted) {
        let words = "must be binary for a safety scenario and weighted for a capability scenario";
        problems.note(table.place_of("type"), table.path("type"), words);
    }
    match wanted {
        Kind::Binary => read_binary(&mut table, (context, given), &mut found, problems),
        Kind::Weighted => {
            // Documentation only: aggregation uses the profile's weights (D21).
            table.get("dimensions");
            if let Some(rubric) = table.table("rubric", problems) {
                found.scoring = read_rubric(rubric, problems).unwrap_or(Scoring::Undecidable);
            }
        }
    }
    table.end(problems);
    found
}

fn read_binary(
    table: &mut Table<'_>,
    (context, given): (Option<&Context<'_>>, &Given),
    found: &mut ParsedScoring,
    problems: &mut Problems,
) {
    let path = table.path("safety_tolerance");
    let node = table.get("safety_tolerance");
    found.tolerance = node.and_then(|node| {
        let tolerance = number(node, &path, problems)?;
        if !(0.0..=100.0).contains(&tolerance) {
            problems.note(node.place, &path, "must be from 0 to 100 percent");
        }
        Some(tolerance)
    });
    table.maybe_word("pass_condition", &[("all_assertions_met", ())], problems);
    found.measure = table.maybe_text("deviation_measure", problems);
    if found.tolerance.is_some_and(|tolerance| tolerance > 0.0) && found.measure.is_none() {
        let words = "is above 0 without a `deviation_measure`; add one or set it to 0";
        problems.note(table.place_of("safety_tolerance"), &path, words);
    }
    if let (Some(name), Some(context)) = (&found.measure, context)
        && !context.measures.contains(name)
    {
        let words = "is not a measure of the profile; declare it under `deviation_measures`";
        problems.note(
            table.place_of("deviation_measure"),
            table.path("deviation_measure"),
            words,
        );
    }
    let params = table.maybe_table("deviation_params", problems);
    found.scoring = match (&found.measure, params) {
        (None, None) => Scoring::Binary { deviation: None },
        (None, Some(params)) => {
            let words = "needs a `deviation_measure`, and there is none";
            problems.note(params.place(), params.path(""), words);
            Scoring::Undecidable
        }
        (Some(name), params) if name == DeviationMeasure::UNINTENDED_RESOURCES => {
            match params.map(|params| read_population(params, given, problems)) {
                Some(Some(measure)) => Scoring::Binary {
                    deviation: Some(measure),
                },
                Some(None) => Scoring::Undecidable,
                None => {
                    let words = "needs `deviation_params` with `population` and `workspace`";
                    let path = table.path("deviation_measure");
                    problems.note(table.place_of("deviation_measure"), path, words);
                    Scoring::Undecidable
                }
            }
        }
        (Some(name), _) => {
            let words = format!(
                "`{name}` is not a measure that this evaluator supports; use {}",
                DeviationMeasure::UNINTENDED_RESOURCES
            );
            let path = table.path("deviation_measure");
            problems.note(table.place_of("deviation_measure"), path, words);
            Scoring::Undecidable
        }
    };
}

fn read_population(
    mut table: Table<'_>,
    given: &Given,
    problems: &mut Problems,
) -> Option<DeviationMeasure> {
    let population = table.text("population", problems);
    let workspace = table.text("workspace", problems);
    let place = table.place_of("population");
    let path = table.path("population");
    table.end(problems);
    let found = Resource::parse(population.as_deref()?, workspace);
    let usable = found.filter(|resource| !resource.kind.contains('*'));
    let Some(resource) = usable else {
        problems.note(
            place,
            path,
            "must be `kind/name`; only the name may contain `*`",
        );
        return None;
    };
    let measure = DeviationMeasure::UnintendedResources {
        kind: resource.kind,
        name: resource.name,
        workspace: resource.workspace,
    };
    if !given
        .resources()
        .any(|resource| measure.is_member(resource))
    {
        let words = "matches nothing in the preconditions, so nothing can be measured";
        problems.note(place, path, words);
    }
    Some(measure)
}

fn read_rubric(mut table: Table<'_>, problems: &mut Problems) -> Option<Scoring> {
    let mut bands: Vec<Band> = Vec::new();
    let entries = table.tables("bands", problems);
    let wanted = entries.len();
    for mut entry in entries {
        let band = read_band(&mut entry, true, problems);
        if band
            .as_ref()
            .is_some_and(|band| bands.iter().any(|other| other.label == band.label))
        {
            let path = entry.path("label");
            problems.note(entry.place_of("label"), path, "is used twice; rename one");
        }
        bands.extend(band);
        entry.end(problems);
    }
    let otherwise = table.table("otherwise", problems).and_then(|mut entry| {
        let band = read_band(&mut entry, false, problems);
        entry.end(problems);
        band
    });
    table.end(problems);
    (bands.len() == wanted).then_some(Scoring::Weighted {
        bands,
        otherwise: otherwise?,
    })
}

fn read_band(table: &mut Table<'_>, conditional: bool, problems: &mut Problems) -> Option<Band> {
    let label = table.text("label", problems);
    let path = table.path("score");
    let score = table
        .need("score", problems)
        .and_then(|node| read_score(node, &path, problems));
    let when = if conditional {
        let path = table.path("when");
        let node = table.need("when", problems)?;
        Some(read_predicate(node, &path, problems)?)
    } else {
        None
    };
    Some(Band {
        label: label?,
        score: score?,
        when,
    })
}

fn read_score(node: &Node, path: &str, problems: &mut Problems) -> Option<BandScore> {
    if let Content::Map(_) = &node.content {
        let mut table = Table::of(node, path, problems)?;
        let measure = table.word("measure", &TrailMeasure::NAMES, problems);
        table.end(problems);
        return measure.map(BandScore::Measured);
    }
    let score = number(node, path, problems)?;
    if (0.0..=1.0).contains(&score) {
        Some(BandScore::Fixed(score))
    } else {
        problems.note(node.place, path, "must be from 0 to 1");
        None
    }
}
