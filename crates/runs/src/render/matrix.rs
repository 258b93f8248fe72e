//! Several variants side by side, for a terminal and as Markdown.

use std::fmt::Write as _;

use comfy_table::{Cell, CellAlignment};

use crate::render::markdown::escaped;
use crate::render::words::{fitted, in_words};
use crate::rules::eval::matrix::{Matrix, MatrixPair, MatrixRow};
use crate::rules::eval::scoring::tasks;
use touchstone_host::render::table;
use touchstone_host::render::table::{GOOD, Style};
use touchstone_host::render::words::{duration, plain, usd_or_unknown};
use touchstone_kit::ids::RunId;
use touchstone_kit::money::NanoUsd;

/// Pairs listed in a terminal; the document has all.
const LISTED: usize = 20;

const HEADER: [&str; 6] = [
    "variant",
    "score",
    "95 % interval",
    "passed",
    "cost",
    "latency p50 / p95",
];
/// The column of the latencies, and what is between them.
const LATENCY: usize = 5;
const BETWEEN: &str = " / ";
const FRONT: &str = "best for its cost";
const NONE: &str = "–";

pub fn matrix(found: &Matrix, style: Style) -> String {
    let mut text = match style.table.then(|| rows_as_table(found, style)) {
        Some(Some(table)) => table,
        Some(None) => rows_as_lists(found),
        None => rows_as_lines(found),
    };
    text.push('\n');
    for line in pair_lines(found, LISTED)
        .into_iter()
        .chain(variant_lines(found))
    {
        let _ = writeln!(text, "{line}");
    }
    fitted(&text, style)
}

/// What the rows cannot hold: the run of each variant, why tasks are unjudged, and whose latencies
/// include answers from the cache.
fn variant_lines(found: &Matrix) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &found.variants {
        let name = plain(&row.name);
        match row.trial_run_ids.as_slice() {
            [] => lines.push(format!("{name}: {}", row.run_id)),
            runs => {
                let runs: Vec<&str> = runs.iter().map(RunId::as_str).collect();
                lines.push(format!("{name}: {}", runs.join(", ")));
            }
        }
        if !row.unjudged_reasons.is_empty() {
            let reasons = row.unjudged_reasons.iter().map(|it| plain(&in_words(it)));
            let reasons = reasons.collect::<Vec<_>>().join("; ");
            lines.push(format!("{name}: unjudged: {reasons}"));
        }
    }
    let cached = found.variants.iter().filter(|row| row.cached_answers > 0);
    let cached: Vec<String> = cached.map(|row| plain(&row.name)).collect();
    if !cached.is_empty() {
        lines.push(format!(
            "latencies are not the model's where answers came from the cache: {} (--no-cache \
             calls the models)",
            cached.join("; ")
        ));
    }
    lines
}

pub fn markdown(found: &Matrix) -> String {
    let mut text = String::from("## Variants\n\n");
    let _ = writeln!(text, "| {} |  |", HEADER.join(" | "));
    text.push_str("| --- | ---: | :---: | ---: | ---: | ---: | --- |\n");
    for row in &found.variants {
        let cells: Vec<String> = cells(row).iter().map(|cell| escaped(cell)).collect();
        let front = if row.on_front { FRONT } else { "" };
        let _ = writeln!(text, "| {} | {front} |", cells.join(" | "));
    }
    text.push('\n');
    for line in pair_lines(found, usize::MAX)
        .into_iter()
        .chain(variant_lines(found))
    {
        let _ = writeln!(text, "- {}", escaped(&line));
    }
    text
}

/// `None` if the terminal is too narrow.
fn rows_as_table(found: &Matrix, style: Style) -> Option<String> {
    let mut table = table::begin(style);
    table.set_header(HEADER.iter().copied().chain([""]));
    for row in &found.variants {
        let cells = cells(row).into_iter().enumerate().map(|(column, text)| {
            let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
            match column {
                0 => Cell::new(text),
                LATENCY => {
                    let parts: Vec<String> = text.split(BETWEEN).map(table::unbroken).collect();
                    right(parts.join(BETWEEN))
                }
                _ => right(text),
            }
        });
        let front = if row.on_front { FRONT } else { "" };
        table.add_row(cells.chain([Cell::new(front).fg(GOOD)]));
    }
    Some(format!("{}\n", table::drawn(table, style)?))
}

/// One variant after the other, for terminals that are too narrow for the table.
fn rows_as_lists(found: &Matrix) -> String {
    let mut text = String::new();
    for row in &found.variants {
        let cells = cells(row);
        let mut named = HEADER.iter().zip(&cells);
        if let Some((_, name)) = named.next() {
            let _ = writeln!(text, "{name}");
        }
        for (name, cell) in named {
            let _ = writeln!(text, "  {name:<18}{cell}");
        }
        if row.on_front {
            let _ = writeln!(text, "  {FRONT}");
        }
    }
    text
}

fn rows_as_lines(found: &Matrix) -> String {
    let line = |row: &MatrixRow| {
        let front = if row.on_front { FRONT } else { "" };
        let line = format!("{}  {front}", cells(row).join("  "));
        format!("{}\n", line.trim_end())
    };
    found.variants.iter().map(line).collect()
}

fn cells(row: &MatrixRow) -> [String; 6] {
    let unjudged = match row.tasks.saturating_sub(row.judged) {
        0 => String::new(),
        n => format!(", {n} unjudged"),
    };
    [
        plain(&row.name),
        row.score
            .map_or_else(|| NONE.to_owned(), |score| format!("{score:.3}")),
        row.low.zip(row.high).map_or_else(
            || NONE.to_owned(),
            |(low, high)| format!("{low:.2} to {high:.2}"),
        ),
        format!("{} of {}{unjudged}", row.passed, row.judged),
        cost(row),
        latencies(row),
    ]
}

pub fn cost(row: &MatrixRow) -> String {
    let cost = row.cost_usd.and_then(NanoUsd::from_usd);
    usd_or_unknown(cost)
}

/// Median and 95th percentile.
pub fn latencies(row: &MatrixRow) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a latency in milliseconds is positive and far below 2^53"
    )]
    let ms = |value: Option<f64>| {
        value.map_or_else(|| NONE.to_owned(), |ms| duration(ms.round() as u64))
    };
    format!(
        "{}{BETWEEN}{}",
        ms(row.latency_p50_ms),
        ms(row.latency_p95_ms)
    )
}

pub fn p_value(p: f64) -> String {
    match p {
        p if p < 0.001 => "< 0.001".to_owned(),
        p => format!("{p:.3}"),
    }
}

/// The differences beyond chance, the largest first, and the number of the others.
fn pair_lines(found: &Matrix, most: usize) -> Vec<String> {
    let (mut beyond, others): (Vec<&MatrixPair>, Vec<&MatrixPair>) =
        found.pairs.iter().partition(|pair| pair.beyond_chance);
    beyond.sort_by(|a, b| b.difference.abs().total_cmp(&a.difference.abs()));
    let mut lines: Vec<String> = beyond
        .iter()
        .take(most)
        .map(|pair| pair_line(pair))
        .collect();
    if let Some(more) = beyond.len().checked_sub(most).filter(|more| *more > 0) {
        lines.push(format!("and {more} more; --json lists all"));
    }
    let compared = format!("significance level {:.2} over all pairs, Holm", found.alpha);
    if found.pairs.is_empty() {
        let several = found.variants.len() > 1;
        lines.extend(several.then(|| "no two variants have a judged task in common".to_owned()));
        return lines;
    }
    lines.push(match (beyond.len(), others.len()) {
        (_, 0) => format!("every difference is beyond chance ({compared})"),
        (0, _) => format!("no difference is beyond chance ({compared})"),
        (_, 1) => format!("the other pair may differ by chance ({compared})"),
        (_, n) => format!("the other {n} pairs may differ by chance ({compared})"),
    });
    lines
}

fn pair_line(pair: &MatrixPair) -> String {
    let (better, worse) = match pair.difference < 0.0 {
        true => (&pair.first, &pair.second),
        false => (&pair.second, &pair.first),
    };
    let p = match p_value(pair.p_adjusted) {
        p if p.starts_with('<') => format!("p {p}"),
        p => format!("p = {p}"),
    };
    format!(
        "{} is better than {} by {:.3} ({p}, {})",
        plain(better),
        plain(worse),
        pair.difference.abs(),
        tasks(pair.n_tasks)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::eval::matrix;
    use crate::rules::eval::matrix::Variant;
    use crate::rules::eval::sample;
    use crate::rules::eval::statistics::ListedRun;

    fn found(passed: &[(&str, usize, f64)]) -> Matrix {
        let runs: Vec<(&str, ListedRun)> = passed
            .iter()
            .map(|(name, passed, usd)| {
                let scores: Vec<Option<f64>> = (0..40)
                    .map(|n| Some(f64::from(u8::from(n < *passed))))
                    .collect();
                let mut report = sample::report("run_x", &["golden"], &scores);
                report.summary.total_cost_usd = NanoUsd::from_usd(*usd);
                (*name, ListedRun::of(&report))
            })
            .collect();
        let variants: Vec<Variant<'_>> = runs
            .iter()
            .map(|(name, first)| Variant {
                name,
                first,
                further: &[],
            })
            .collect();
        matrix::matrix(&variants)
    }

    #[test]
    fn variants_are_a_table_and_the_pairs_beyond_chance_are_named() {
        let found = found(&[
            ("small", 10, 0.01),
            ("large", 38, 0.5),
            ("larger|x", 37, 2.0),
        ]);
        let style = Style {
            table: true,
            width: Some(110),
            ..Style::default()
        };
        insta::assert_snapshot!("matrix_table", matrix(&found, style));
        insta::assert_snapshot!("matrix_lines", matrix(&found, Style::default()));
        insta::assert_snapshot!("matrix_markdown", markdown(&found));
    }

    #[test]
    fn no_word_is_broken_on_a_terminal_of_any_width() {
        let found = found(&[
            ("prompts/short.md, vendor-small-2026", 10, 0.01),
            ("prompts/long.md, vendor-large-2026", 38, 0.5),
        ]);
        for width in 40..130 {
            let style = Style {
                table: true,
                width: Some(width),
                ..Style::default()
            };
            let text = matrix(&found, style);
            let (rows, _) = text.split_once("\n\n").unwrap_or((&text, ""));
            for word in ["prompts/short.md,", "vendor-large-2026", "$0.5000"] {
                assert!(rows.contains(word), "{width}: {word}\n{text}");
            }
            let longest = rows.lines().map(|line| line.chars().count()).max();
            let is_list = rows.contains("  best for its cost\n");
            assert!(
                is_list || longest <= Some(usize::from(width)),
                "{width}\n{text}"
            );
        }
    }

    #[test]
    fn a_single_variant_is_not_said_to_differ() {
        let text = matrix(&found(&[("a", 10, 0.01)]), Style::default());
        assert!(!text.contains("difference"), "{text}");
    }

    #[test]
    fn equal_variants_do_not_differ() {
        let found = found(&[("a", 10, 0.01), ("b", 10, 0.01)]);
        let text = matrix(&found, Style::default());
        assert!(text.contains("no difference is beyond chance"), "{text}");
    }
}
