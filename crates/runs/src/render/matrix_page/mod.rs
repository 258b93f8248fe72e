//! The comparison of several variants as one HTML page: no scripts, no external resources, no task
//! content. The template engine escapes all text; control characters are removed before.

mod chart;
mod grid;
mod rows;
#[cfg(test)]
mod tests;

use askama::Template;
use jiff::Timestamp;

use self::chart::Chart;
use self::grid::Grid;
use self::rows::{Fact, PairRow, VariantRow};
use crate::rules::eval::matrix::Matrix;
use crate::rules::eval::report::RunTotals;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The content of the page.
#[derive(Clone, Copy, Debug)]
pub struct MatrixPage<'a> {
    pub found: &'a Matrix,
    /// The first run of each variant, in order.
    pub reports: &'a [&'a RunTotals],
    pub made_at: Timestamp,
}

#[derive(Template)]
#[template(path = "matrix.html")]
struct Page {
    version: &'static str,
    made_at: String,
    title: String,
    conclusions: Vec<String>,
    warnings: Vec<String>,
    confidence: String,
    alpha: String,
    variants: Vec<VariantRow>,
    chart: Option<Chart>,
    /// Whether the cost of a variant is unknown.
    lacks_prices: bool,
    /// The pairs whose difference is beyond chance, the largest first.
    beyond: Vec<PairRow>,
    others: Vec<PairRow>,
    grid: Grid,
    facts: Vec<Fact>,
}

/// Renders the page.
///
/// # Errors
/// The template engine fails; it does not for any comparison.
pub fn matrix_page(of: MatrixPage<'_>) -> Result<String, askama::Error> {
    let found = of.found;
    let (beyond, others) = rows::pairs(found);
    Page {
        version: VERSION,
        made_at: of.made_at.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        title: rows::title(found),
        conclusions: rows::conclusions(found),
        warnings: rows::warnings(found),
        confidence: format!("{:.0} %", found.confidence * 100.0),
        alpha: format!("{:.2}", found.alpha),
        variants: rows::variants(found),
        chart: chart::chart(&found.variants),
        lacks_prices: found.variants.iter().any(|row| row.cost_usd.is_none()),
        beyond,
        others,
        grid: grid::grid(found),
        facts: rows::facts(found, of.reports),
    }
    .render()
}

/// The letter of a variant in chart and grid. A matrix has at most 24 variants.
fn letter(index: usize) -> String {
    let letter = u8::try_from(index)
        .ok()
        .and_then(|index| b'A'.checked_add(index))
        .filter(u8::is_ascii_uppercase);
    letter.map_or_else(|| (index + 1).to_string(), |it| char::from(it).to_string())
}

/// To two decimals, for positions.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
