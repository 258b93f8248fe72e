use super::*;
use crate::rules::eval::matrix::{Variant, matrix};
use crate::rules::eval::report::EvalReport;
use crate::rules::eval::sample;
use crate::rules::eval::statistics::ListedRun;
use touchstone_kit::money::NanoUsd;

/// The first `passed` of 40 tasks pass; `None` is unjudged.
fn report(id: &str, passed: usize, unjudged: usize, usd: f64) -> EvalReport {
    let scores: Vec<Option<f64>> = (0..40)
        .map(|n| match n {
            n if n < unjudged => None,
            3 => Some(0.5),
            n => Some(f64::from(u8::from(n * 7 % 40 < passed))),
        })
        .collect();
    let mut report = sample::report(id, &["golden"], &scores);
    report.summary.total_cost_usd = NanoUsd::from_usd(usd);
    report
}

fn page(variants: &[(&str, EvalReport)]) -> String {
    let listed: Vec<ListedRun> = variants.iter().map(|(_, it)| ListedRun::of(it)).collect();
    let of: Vec<Variant<'_>> = variants
        .iter()
        .zip(&listed)
        .map(|((name, _), first)| Variant {
            name,
            first,
            further: &[],
        })
        .collect();
    let found = matrix(&of);
    let reports: Vec<&RunTotals> = listed.iter().map(|it| &it.run.report).collect();
    matrix_page(MatrixPage {
        found: &found,
        reports: &reports,
        made_at: "2026-11-24T12:00:00Z".parse().unwrap(),
    })
    .unwrap()
}

fn sample_page() -> String {
    page(&[
        ("short.md, small", report("run_a", 12, 0, 0.004)),
        ("short.md, large", report("run_b", 38, 0, 0.21)),
        ("long.md, <small>", report("run_c", 30, 0, 0.02)),
        ("long.md, large", report("run_d", 39, 0, 0.47)),
        ("rules\u{1b}[2J", report("run_e", 31, 2, 0.05)),
    ])
}

#[test]
fn a_page_shows_variants_differences_front_and_tasks() {
    let html = sample_page();
    for part in [
        "D (long.md, large) has the highest score, 0.",
        "are best for their cost",
        "Passed by some variants only",
        "best for its cost",
        "It is better than A, C and E, beyond chance; B may be as good.",
        "2 unjudged",
        "&#60;small&#62;",
        "Not every task was judged with E",
    ] {
        assert!(html.contains(part), "{part}\n{html}");
    }
    insta::assert_snapshot!(html);
}

#[test]
fn a_page_loads_nothing_and_has_no_scripts() {
    let html = sample_page();
    for part in [
        "http://", "https://", "src=", "url(", "@import", "<script", "\u{1b}",
    ] {
        assert!(!html.contains(part), "{part}");
    }
}

#[test]
fn equal_costs_have_no_chart_and_equal_scores_no_difference() {
    let html = page(&[
        ("a", report("run_a", 20, 0, 0.1)),
        ("b", report("run_b", 20, 0, 0.1)),
    ]);
    assert!(html.contains("There is no chart"), "{html}");
    assert!(html.contains("No difference is beyond chance."));
    assert!(!html.contains("<figure>"));
}

#[test]
fn a_single_variant_has_no_differences() {
    let html = page(&[("only", report("run_a", 20, 0, 0.1))]);
    assert!(html.contains("1 variant compared"), "{html}");
    assert!(!html.contains("<h2>Differences"));
}

#[test]
fn variants_without_judged_tasks_have_no_score() {
    let html = page(&[
        ("a", report("run_a", 0, 40, 0.0)),
        ("b", report("run_b", 0, 40, 0.0)),
    ]);
    assert!(html.contains("No variant has a score"), "{html}");
    assert!(html.contains("Not judged with every variant: 40"));
}
