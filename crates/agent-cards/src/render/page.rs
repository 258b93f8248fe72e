//! The scores of a card as one HTML page, without scripts or external resources. The template
//! engine escapes all text; control characters are removed before.

use askama::Template;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::render::{code_of, listed};
use crate::rules::finding::Severity;
use crate::rules::points::Points;
use crate::rules::{Scorecard, Shortfall, Thresholds};
use touchstone_host::render::words::plain;

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Template)]
#[template(path = "card.html")]
struct Page {
    version: &'static str,
    made_at: Timestamp,
    name: String,
    ready: bool,
    verdict: String,
    missed: String,
    axes: Vec<Axis>,
    signatures: Vec<Signature>,
    findings: Vec<Row>,
    omitted: usize,
}

struct Axis {
    name: &'static str,
    total: String,
    percent: u64,
    rating: &'static str,
    needed: Points,
    class: &'static str,
    categories: Vec<Category>,
}

struct Category {
    name: String,
    points: String,
    checks: Vec<Check>,
}

struct Check {
    name: String,
    value: String,
    class: &'static str,
}

struct Signature {
    index: usize,
    state: String,
    detail: String,
}

struct Row {
    severity: &'static str,
    code: String,
    dimension: String,
    path: String,
    message: String,
}

/// Renders the page. `name` identifies the card, `below` lists the missed thresholds.
///
/// # Errors
/// The template cannot be rendered.
pub fn page(
    name: &str,
    scorecard: &Scorecard,
    below: &[Shortfall],
    made_at: Timestamp,
) -> Result<String, askama::Error> {
    let verdict = if scorecard.production_ready {
        "ready for production".to_owned()
    } else {
        let short = listed(&scorecard.below(&Thresholds::PRODUCTION));
        format!("not ready for production: {short}")
    };
    Page {
        version: VERSION,
        made_at,
        name: plain(name),
        ready: scorecard.production_ready,
        verdict,
        missed: listed(below),
        axes: axes(scorecard),
        signatures: signatures(scorecard),
        findings: findings(scorecard),
        omitted: scorecard.omitted_issues,
    }
    .render()
}

fn axes(scorecard: &Scorecard) -> Vec<Axis> {
    let needs = Thresholds::PRODUCTION;
    let (compliance, trust) = (&scorecard.compliance, &scorecard.trust);
    let availability = &scorecard.availability;
    let axis = |name, total: Option<Points>, rating, needed, breakdown| Axis {
        name,
        total: total.map_or_else(|| "–".to_owned(), |it| it.to_string()),
        percent: total.map_or(0, |it| it.hundredths() / 100),
        rating,
        needed,
        class: match total {
            None => "none",
            Some(total) if total >= needed => "good",
            Some(_) => "bad",
        },
        categories: categories(breakdown),
    };
    vec![
        axis(
            "Compliance",
            Some(compliance.total),
            compliance.rating_label,
            needs.compliance,
            serde_json::to_value(&compliance.breakdown),
        ),
        axis(
            "Trust",
            Some(trust.total),
            trust.rating_label,
            needs.trust,
            serde_json::to_value(&trust.breakdown),
        ),
        axis(
            "Availability",
            availability.total,
            availability.rating_label,
            needs.availability,
            serde_json::to_value(&availability.breakdown),
        ),
    ]
}

/// The categories of a breakdown; empty without a breakdown.
fn categories(breakdown: serde_json::Result<Value>) -> Vec<Category> {
    let Ok(Value::Object(categories)) = breakdown else {
        return Vec::new();
    };
    let category = |(name, members): (String, Value)| {
        let Value::Object(members) = members else {
            return None;
        };
        let number = |name: &str| members.get(name).map(Value::to_string).unwrap_or_default();
        Some(Category {
            name: words(&name),
            points: format!("{} of {}", number("score"), number("maxScore")),
            checks: checks(&members),
        })
    };
    categories.into_iter().filter_map(category).collect()
}

/// The checks of a category and their results.
fn checks(members: &Map<String, Value>) -> Vec<Check> {
    const WRONG_IF_TRUE: [&str; 3] = ["hasInvalidSignature", "hasExpiredSignature", "hasHttpUrls"];
    let check = |(name, value): (&String, &Value)| {
        let (value, class) = match value {
            Value::Bool(flag) if *flag != WRONG_IF_TRUE.contains(&name.as_str()) => {
                (if *flag { "✓ yes" } else { "✓ no" }.to_owned(), "good")
            }
            Value::Bool(flag) => (if *flag { "✗ yes" } else { "✗ no" }.to_owned(), "bad"),
            Value::Number(number) => (number.to_string(), ""),
            Value::Array(items) if !items.is_empty() => {
                let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                (items.join(", "), "")
            }
            _ => return None,
        };
        Some(Check {
            name: words(name),
            value,
            class,
        })
    };
    members
        .iter()
        .filter(|(name, _)| !["score", "maxScore"].contains(&name.as_str()))
        .filter_map(check)
        .collect()
}

fn signatures(scorecard: &Scorecard) -> Vec<Signature> {
    let results = scorecard.trust.signature_results.iter();
    results
        .map(|result| Signature {
            index: result.index,
            state: code_of(result.state),
            detail: result.reason.map(code_of).unwrap_or_default(),
        })
        .collect()
}

/// The findings, worst first.
fn findings(scorecard: &Scorecard) -> Vec<Row> {
    let mut found = Vec::new();
    for (severity, name) in [
        (Severity::Error, "error"),
        (Severity::Warning, "warning"),
        (Severity::Info, "info"),
    ] {
        let of_severity = scorecard.issues.iter().filter(|it| it.severity == severity);
        found.extend(of_severity.map(|it| Row {
            severity: name,
            code: code_of(it.code),
            dimension: code_of(it.dimension),
            path: plain(&it.path),
            message: plain(&it.message),
        }));
    }
    found
}

/// `hasValidSignature` as `has valid signature`.
fn words(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(c.to_ascii_lowercase());
    }
    words
}
