//! The newest judged run of each agent version (rows) and suite (columns).

use crate::compare::history::{distinct, encoded, suite_of, version_of};
use crate::page::text::{Time, score};
use crate::runs::words::{Badge, interval, state};
use touchstone_host::render::words::plain;
use touchstone_runs::rules::run::listing::RunListing;

pub struct Matrix {
    /// Name and address of each.
    pub suites: Vec<(String, String)>,
    pub rows: Vec<(String, Vec<Option<Cell>>)>,
}

pub struct Cell {
    pub href: String,
    pub state: Badge,
    pub score: String,
    pub interval: String,
    pub started: Time,
}

impl Matrix {
    /// `None` without runs.
    pub fn of(runs: &[RunListing]) -> Option<Self> {
        let suites = distinct(runs.iter().filter_map(suite_of));
        let versions = distinct(runs.iter().filter_map(version_of));
        let cell = |version: &str, suite: &str| {
            let mut of_cell = runs.iter().filter(|run| {
                version_of(run).as_deref() == Some(version)
                    && suite_of(run).as_deref() == Some(suite)
            });
            of_cell.next().map(Cell::of)
        };
        let rows = versions.into_iter().map(|version| {
            let cells = suites.iter().map(|suite| cell(&version, suite)).collect();
            (version, cells)
        });
        let rows: Vec<_> = rows.collect();
        let address = |suite: &String| {
            let href = format!("/console/history?suiteId={}", encoded(suite));
            (plain(suite), href)
        };
        (!rows.is_empty()).then(|| Self {
            suites: suites.iter().map(address).collect(),
            rows,
        })
    }
}

impl Cell {
    fn of(run: &RunListing) -> Self {
        Self {
            href: format!("/console/runs/{}", run.run_id),
            state: state(run),
            score: score(run.result.as_ref().and_then(|it| it.score)),
            interval: interval(run).unwrap_or_default(),
            started: run.created_at.into(),
        }
    }
}
