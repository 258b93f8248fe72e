//! Sentences and table rows of the page.

use std::collections::BTreeSet;

use super::{letter, rounded};
use crate::render::matrix::{cost, latencies, p_value};
use crate::rules::eval::matrix::{Matrix, MatrixPair, MatrixRow};
use crate::rules::eval::report::{RunTotals, Verdict};
use touchstone_host::render::words::plain;

pub struct VariantRow {
    pub letter: String,
    pub name: String,
    pub class: &'static str,
    pub sign: &'static str,
    pub verdict: &'static str,
    pub score: String,
    pub interval: String,
    pub scale: Option<Scale>,
    pub passed: String,
    pub unjudged: String,
    pub cost: String,
    pub latency: String,
    pub on_front: bool,
}

/// An interval and its point, in percent of the width.
pub struct Scale {
    pub low: f64,
    pub width: f64,
    pub point: f64,
    pub description: String,
}

pub struct PairRow {
    pub better: String,
    pub worse: String,
    pub difference: String,
    pub interval: String,
    pub scale: Option<Scale>,
    pub p: String,
    pub n_tasks: usize,
}

pub struct Fact {
    pub name: String,
    pub value: String,
    pub is_warning: bool,
}

pub fn title(found: &Matrix) -> String {
    format!("{} compared", counted(found.variants.len(), "variant"))
}

pub fn variants(found: &Matrix) -> Vec<VariantRow> {
    let rows = found.variants.iter().enumerate();
    rows.map(|(index, row)| variant(index, row)).collect()
}

fn variant(index: usize, row: &MatrixRow) -> VariantRow {
    let (class, sign, verdict) = match row.verdict {
        Verdict::Pass => ("good", "✓", "passed"),
        Verdict::Fail => ("bad", "✗", "failed"),
        Verdict::Inconclusive => ("doubtful", "?", "inconclusive"),
        Verdict::Pending => ("doubtful", "?", "not finished"),
    };
    let limits = row.low.zip(row.high);
    let on_scale = |value: f64| rounded(value.clamp(0.0, 1.0) * 100.0);
    VariantRow {
        letter: letter(index),
        name: plain(&row.name),
        class,
        sign,
        verdict,
        score: row.score.map_or_else(none, |score| format!("{score:.3}")),
        interval: limits.map_or_else(none, |(low, high)| format!("{low:.2} to {high:.2}")),
        scale: row.score.zip(limits).map(|(score, (low, high))| Scale {
            low: on_scale(low),
            width: rounded(on_scale(high) - on_scale(low)),
            point: on_scale(score),
            description: format!("Score {score:.3}, interval {low:.2} to {high:.2}"),
        }),
        passed: format!("{} of {}", row.passed, row.tasks),
        unjudged: match row.tasks.saturating_sub(row.judged) {
            0 => String::new(),
            n => format!("{n} unjudged"),
        },
        cost: cost(row),
        latency: latencies(row),
        on_front: row.on_front,
    }
}

fn none() -> String {
    "–".to_owned()
}

/// The pairs with a difference beyond chance, and the others; the largest differences first.
pub fn pairs(found: &Matrix) -> (Vec<PairRow>, Vec<PairRow>) {
    let mut pairs: Vec<&MatrixPair> = found.pairs.iter().collect();
    pairs.sort_by(|a, b| b.difference.abs().total_cmp(&a.difference.abs()));
    let (beyond, others): (Vec<&MatrixPair>, Vec<&MatrixPair>) =
        pairs.into_iter().partition(|pair| pair.beyond_chance);
    let rows = |pairs: Vec<&MatrixPair>| pairs.into_iter().map(pair).collect();
    (rows(beyond), rows(others))
}

/// A pair, from the worse to the better variant.
fn pair(of: &MatrixPair) -> PairRow {
    let is_turned = of.difference < 0.0;
    let (better, worse) = match is_turned {
        true => (&of.first, &of.second),
        false => (&of.second, &of.first),
    };
    let limits = of.low.zip(of.high).map(|(low, high)| match is_turned {
        true => (-high, -low),
        false => (low, high),
    });
    let limits = limits.map(|(low, high)| (low.max(-1.0), high.min(1.0)));
    let difference = of.difference.abs();
    // From -1 to 1.
    let on_scale = |value: f64| rounded((value.clamp(-1.0, 1.0) + 1.0) * 50.0);
    PairRow {
        better: plain(better),
        worse: plain(worse),
        difference: format!("{difference:+.3}"),
        interval: limits.map_or_else(none, |(low, high)| format!("{low:+.2} to {high:+.2}")),
        scale: limits.map(|(low, high)| Scale {
            low: on_scale(low),
            width: rounded(on_scale(high) - on_scale(low)),
            point: on_scale(difference),
            description: format!("Difference {difference:+.3}, interval {low:+.2} to {high:+.2}"),
        }),
        p: p_value(of.p_adjusted),
        n_tasks: of.n_tasks,
    }
}

/// Conclusions from the numbers, in sentences.
pub fn conclusions(found: &Matrix) -> Vec<String> {
    let Some((best_letter, best)) = best(found) else {
        return vec!["No variant has a score, because no task was judged.".to_owned()];
    };
    let mut said = vec![format!(
        "{best_letter} ({}) has the highest score, {:.3}.",
        plain(&best.name),
        best.score.unwrap_or_default()
    )];
    let (worse, equal): (Vec<Lettered<'_>>, Vec<Lettered<'_>>) = lettered(found)
        .filter(|(letter, row)| *letter != best_letter && row.score.is_some())
        .partition(|(_, row)| is_beyond_chance(found, &row.name, &best.name));
    let named = |rows: &[Lettered<'_>]| {
        let letters = rows.iter().map(|(letter, _)| letter.clone());
        list(&letters.collect::<Vec<_>>())
    };
    if !(worse.is_empty() && equal.is_empty()) {
        said.push(match (worse.as_slice(), equal.as_slice()) {
            ([], _) => "No other variant is worse beyond chance.".to_owned(),
            (worse, []) => format!("It is better than {}, beyond chance.", named(worse)),
            (worse, equal) => format!(
                "It is better than {}, beyond chance; {} may be as good.",
                named(worse),
                named(equal)
            ),
        });
    }
    let candidates: Vec<Lettered<'_>> = equal
        .into_iter()
        .chain([(best_letter.clone(), best)])
        .collect();
    if let Some((letter, row)) = cheapest(&candidates)
        && *letter != best_letter
    {
        said.push(format!(
            "Of the variants that are not shown to be worse, {letter} ({}) costs least.",
            plain(&row.name)
        ));
    }
    said
}

/// A variant and its letter.
type Lettered<'a> = (String, &'a MatrixRow);

fn lettered(found: &Matrix) -> impl Iterator<Item = Lettered<'_>> {
    let rows = found.variants.iter().enumerate();
    rows.map(|(index, row)| (letter(index), row))
}

/// The variant with the highest score; of several, the first.
fn best(found: &Matrix) -> Option<Lettered<'_>> {
    let mut best: Option<Lettered<'_>> = None;
    for (letter, row) in lettered(found).filter(|(_, row)| row.score.is_some()) {
        if best.as_ref().is_none_or(|(_, best)| row.score > best.score) {
            best = Some((letter, row));
        }
    }
    best
}

fn is_beyond_chance(found: &Matrix, one: &str, other: &str) -> bool {
    found.pairs.iter().any(|pair| {
        let names = [pair.first.as_str(), pair.second.as_str()];
        pair.beyond_chance && (names == [one, other] || names == [other, one])
    })
}

/// The variant that costs least; `None` if a cost is not known or all are equal.
fn cheapest<'a, 'b>(rows: &'b [Lettered<'a>]) -> Option<&'b Lettered<'a>> {
    let costs: Option<Vec<f64>> = rows.iter().map(|(_, row)| row.cost_usd).collect();
    let costs = costs?;
    let least = costs.iter().copied().reduce(f64::min)?;
    let most = costs.iter().copied().reduce(f64::max)?;
    let cheapest = rows.iter().zip(&costs).find(|(_, cost)| **cost == least);
    cheapest.filter(|_| least < most).map(|(row, _)| row)
}

fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

pub fn warnings(found: &Matrix) -> Vec<String> {
    let unjudged: Vec<String> = lettered(found)
        .filter(|(_, row)| row.judged < row.tasks)
        .map(|(letter, _)| letter)
        .collect();
    match unjudged.is_empty() {
        true => Vec::new(),
        false => vec![format!(
            "Not every task was judged with {}. Pairs are compared over the tasks that both judged.",
            list(&unjudged)
        )],
    }
}

/// The runs and suites, so that a reader can check them.
pub fn facts(found: &Matrix, reports: &[&RunTotals]) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |name: String, value: String, is_warning| {
        facts.push(Fact {
            name,
            value: plain(&value),
            is_warning,
        });
    };
    let suites: BTreeSet<String> = reports
        .iter()
        .map(|report| format!("{}@{}", report.suite.suite_id, report.suite.version))
        .collect();
    let suites: Vec<String> = suites.into_iter().take(8).collect();
    let name = if suites.len() == 1 { "Suite" } else { "Suites" };
    add(name.to_owned(), suites.join(", "), false);
    if reports.iter().any(|report| !report.suite.signed) {
        let value = "not signed: a gate does not accept these runs by default";
        add("Suite signature".to_owned(), value.to_owned(), true);
    }
    for (index, row) in found.variants.iter().enumerate() {
        let runs = match row.trial_run_ids.as_slice() {
            [] => row.run_id.to_string(),
            [first, ..] => format!("{} trials, the first is {first}", row.trial_run_ids.len()),
        };
        let model = row.model.as_deref();
        let model = model.map_or_else(String::new, |model| format!(", model {model}"));
        add(
            format!("Variant {}", letter(index)),
            format!("{runs}; {}@{}{model}", row.agent_id, row.agent_version),
            false,
        );
    }
    facts
}

pub fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}
