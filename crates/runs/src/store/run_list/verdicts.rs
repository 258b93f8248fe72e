//! The verdicts of runs that account for chance.

use serde_json::json;

use crate::rules::eval::report::Verdict;
use crate::rules::run::listing::RunSubject;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::{Column, column};
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::query;
use touchstone_kit::ids::{RunId, TenantId};

const UNDECIDED: &str =
    "SELECT DISTINCT suite_id, suite_version, agent_id, agent_version FROM run_summary
    WHERE tenant = $1 AND verdict IS NOT NULL AND decided IS NULL
        AND suite_id IS NOT NULL AND agent_id IS NOT NULL LIMIT $2";
const OF_VERSION: &str = "SELECT run_id, subject, verdict, decided FROM run_summary
    WHERE tenant = $1 AND suite_id = $2 AND suite_version = $3 AND agent_id = $4 AND agent_version = $5
        AND verdict IS NOT NULL ORDER BY run_number";
const DECIDE: &str = "UPDATE run_summary SET decided = $2
    WHERE run_number IN (SELECT number FROM run WHERE run_id IN ({each $1}))
        AND (decided IS NULL OR decided <> $2)";

const SUBJECT: Column = column("run_summary", "subject");

/// The runs of one suite version and agent version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub suite_id: String,
    pub suite_version: String,
    pub agent_id: String,
    pub agent_version: String,
}

/// A run with a verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedRun {
    pub run_id: RunId,
    pub subject: RunSubject,
    /// The verdict of its own scores.
    pub lenient: Verdict,
    /// The verdict that accounts for chance; `None` until it is decided.
    pub decided: Option<Verdict>,
}

/// Up to `limit` versions with a run whose verdict is not decided.
pub async fn undecided(
    database: &Database,
    tenant: &TenantId,
    limit: u32,
) -> Result<Vec<Version>, StoreError> {
    let rows: Vec<(String, String, String, String)> = query(UNDECIDED)
        .bind(tenant.as_str())
        .bind(limit)
        .fetch_all(database.readers())
        .await?;
    let version = |(suite_id, suite_version, agent_id, agent_version)| Version {
        suite_id,
        suite_version,
        agent_id,
        agent_version,
    };
    Ok(rows.into_iter().map(version).collect())
}

/// The judged runs of a version, oldest first.
pub async fn of_version(
    database: &Database,
    tenant: &TenantId,
    version: &Version,
) -> Result<Vec<JudgedRun>, StoreError> {
    let rows: Vec<(String, String, String, Option<String>)> = query(OF_VERSION)
        .bind(tenant.as_str())
        .bind(version.suite_id.as_str())
        .bind(version.suite_version.as_str())
        .bind(version.agent_id.as_str())
        .bind(version.agent_version.as_str())
        .fetch_all(database.readers())
        .await?;
    rows.into_iter()
        .map(|(run, subject, lenient, decided)| {
            Ok(JudgedRun {
                run_id: run.into(),
                subject: SUBJECT.document(&subject)?,
                lenient: read(&lenient)?,
                decided: decided.map(|it| read(&it)).transpose()?,
            })
        })
        .collect()
}

/// Stores the decided verdict of runs.
pub async fn decide(
    database: &Database,
    runs: &[&RunId],
    verdict: Verdict,
) -> Result<(), StoreError> {
    let runs: Vec<&str> = runs.iter().map(|run| run.as_str()).collect();
    query(DECIDE)
        .bind(json!(runs).to_string())
        .bind(verdict.as_str())
        .execute(database.writer()?)
        .await?;
    Ok(())
}

/// Reads a stored verdict.
pub fn read(text: &str) -> Result<Verdict, StoreError> {
    column("run_summary", "verdict").document(&json!(text).to_string())
}
