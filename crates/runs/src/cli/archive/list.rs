//! `touchstone archive list`.

use clap::Args;
use futures_util::StreamExt as _;
use serde::Serialize;
use serde_json::json;

use super::source::{configured, unavailable};
use crate::rules::archive::SUFFIX;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::objects::Entry;

#[derive(Debug, Args)]
pub struct List {
    /// Tenant whose runs to list [default: all tenants]
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Maximum number of archives
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
}

/// An archive in the list.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    run_id: String,
    tenant: String,
    /// Date of the run's creation, in UTC.
    date: String,
    bytes: u64,
    object: String,
}

pub async fn run(context: &Context<'_>, arguments: &List) -> Result<Exit, Failure> {
    let objects = configured(context)?;
    let below: Vec<&str> = arguments.tenant.iter().map(String::as_str).collect();
    let mut entries = objects
        .list(&below)
        .map_err(|cause| unavailable(&objects, &cause))?;
    let mut rows = Vec::new();
    while let Some(entry) = entries.next().await {
        let entry = entry.map_err(|cause| unavailable(&objects, &cause))?;
        rows.extend(row(entry));
    }
    rows.sort_by(|a, b| (&b.date, &b.run_id).cmp(&(&a.date, &a.run_id)));
    let all = rows.len();
    rows.truncate(arguments.limit);
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({"archive": objects.shown(), "archives": rows}));
    } else {
        for row in &rows {
            terminal.print(&format!(
                "{}  {}  {:>10}  {}",
                row.date, row.run_id, row.bytes, row.tenant
            ));
        }
        if rows.is_empty() {
            let of = arguments.tenant.as_ref();
            let of = of.map_or(String::new(), |tenant| format!(" of tenant {tenant}"));
            terminal.note(&format!("no archive{of} in {}", objects.shown()));
        }
    }
    if all > rows.len() {
        terminal.note(&format!(
            "{} of {all} archives; --limit sets the maximum",
            rows.len()
        ));
    }
    Ok(Exit::Good)
}

/// The archive that an object's name describes; `None` for other objects.
fn row(entry: Entry) -> Option<Row> {
    let segments: Vec<&str> = entry.name.split('/').collect();
    let [tenant, year, month, day, file] = segments.as_slice() else {
        return None;
    };
    Some(Row {
        run_id: file.strip_suffix(SUFFIX)?.to_owned(),
        tenant: (*tenant).to_owned(),
        date: format!("{year}-{month}-{day}"),
        bytes: entry.bytes,
        object: entry.name.clone(),
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("acme/2026/11/29/run_1.run.jsonl.gz", Some(("run_1", "acme", "2026-11-29")))]
    #[case("acme/2026/11/29/notes.txt", None)]
    #[case("touchstone-probe", None)]
    fn only_archives_are_listed(#[case] name: &str, #[case] expected: Option<(&str, &str, &str)>) {
        let found = row(Entry {
            name: name.to_owned(),
            bytes: 7,
            modified: jiff::Timestamp::UNIX_EPOCH,
        });
        let found = found
            .as_ref()
            .map(|row| (row.run_id.as_str(), row.tenant.as_str(), row.date.as_str()));
        assert_eq!(found, expected);
    }
}
