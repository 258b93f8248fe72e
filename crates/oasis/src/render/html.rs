//! The report as one HTML page without scripts or external resources. The template engine escapes
//! all text.

use std::collections::HashMap;

use askama::Template;

use crate::render::particulars;
use crate::render::particulars::Fact;
use crate::render::words;
use crate::rules::report::results::safety::{CategoryResult, SubcategoryResult};
use crate::rules::report::{Report, ScenarioDetail, Tally};
use crate::rules::scenario::Classification;
use crate::rules::verdict::document::Status;

#[derive(Template)]
#[template(path = "oasis.html")]
struct Page<'a> {
    report: &'a Report,
    /// Always `Some`; optional because the templates share helpers with other statuses.
    verdict: Option<Status>,
    metadata: Vec<Fact>,
    environment: Vec<Fact>,
    adversarial: Vec<Fact>,
    claim: Vec<Fact>,
    rows: Vec<Row<'a>>,
    failed: Vec<Link<'a>>,
    details: Vec<Detail<'a>>,
}

/// A category with a cell for each of its scenarios.
struct Row<'a> {
    category: &'a str,
    core: &'a str,
    status: Option<Status>,
    cells: Vec<Cell>,
    counts: Tally,
    subcategories: &'a [SubcategoryResult],
}

struct Cell {
    class: &'static str,
    sign: &'static str,
    /// The scenario and its result.
    label: String,
    /// Id of its detail section; empty if it was not executed.
    anchor: String,
}

/// A scenario with a link to its detail section.
struct Link<'a> {
    id: &'a str,
    name: &'a str,
    description: &'a str,
    anchor: String,
    deviation: String,
}

struct Detail<'a> {
    anchor: String,
    it: &'a ScenarioDetail,
    open: bool,
    result: String,
    preconditions: Vec<Fact>,
    deviation: String,
    cross_check: String,
}

pub fn write(report: &Report) -> Result<String, askama::Error> {
    let anchors: HashMap<&str, String> = (1..)
        .zip(&report.scenarios)
        .map(|(number, it): (usize, _)| (it.descriptor.id.as_str(), format!("s-{number}")))
        .collect();
    let anchor = |id: &str| anchors.get(id).cloned().unwrap_or_default();
    let failed = report.safety.scenarios.iter();
    let failed = failed.filter(|it| it.result == Some(Status::Fail));
    let details = report.scenarios.iter().map(|it| Detail {
        anchor: anchor(&it.descriptor.id),
        it,
        open: matches!(
            it.execution.status,
            Some(Status::Fail | Status::ProviderFailure)
        ),
        result: words::result(it),
        preconditions: particulars::preconditions(it),
        deviation: particulars::deviation(it),
        cross_check: particulars::cross_check(it),
    });
    Page {
        report,
        verdict: Some(report.header.verdict),
        metadata: particulars::metadata(report),
        environment: particulars::environment(report),
        adversarial: particulars::adversarial(report),
        claim: particulars::claim(report),
        rows: rows(report, anchor),
        failed: failed
            .map(|it| Link {
                id: &it.scenario_id,
                name: &it.name,
                description: &it.description,
                anchor: anchor(&it.scenario_id),
                deviation: it
                    .measured_deviation
                    .map(words::percent)
                    .unwrap_or_default(),
            })
            .collect(),
        details: details.collect(),
    }
    .render()
}

fn rows<'a>(report: &'a Report, anchor: impl Fn(&str) -> String) -> Vec<Row<'a>> {
    let safety = &report.safety;
    let row = |row: &'a CategoryResult| {
        let CategoryResult {
            category,
            core_mapping,
            status,
            counts,
            subcategories,
        } = row;
        let judged = safety
            .scenarios
            .iter()
            .filter(|it| it.category == *category);
        let cells = judged.map(|it| {
            let became = match it.result {
                Some(status) => status.as_str(),
                None => "not executed",
            };
            Cell {
                class: words::class(it.result),
                sign: words::sign(it.result),
                label: format!("{}: {became}", it.scenario_id),
                anchor: anchor(&it.scenario_id),
            }
        });
        let excluded = safety
            .exclusions
            .iter()
            .filter(|it| it.category == *category && it.classification == Classification::Safety);
        let excluded = excluded.map(|it| Cell {
            class: "excluded",
            sign: "○",
            label: format!("{}: not applicable", it.scenario_id),
            anchor: String::new(),
        });
        Row {
            category,
            core: core_mapping.as_deref().unwrap_or("the profile's own"),
            status: *status,
            cells: cells.chain(excluded).collect(),
            counts: *counts,
            subcategories,
        }
    };
    safety.categories.iter().map(row).collect()
}
