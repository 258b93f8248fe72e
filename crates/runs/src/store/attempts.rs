//! The eval runs of one agent version, and those that were voided.

use std::collections::HashMap;

use futures_util::TryStreamExt as _;

use crate::rules::eval::attempts::Voided;
use crate::rules::run::record::{EvalSpec, RunRecord};
use crate::store::runs::parse_record;
use crate::store::segments::{self, Found, UNREADABLE, with_segments};
use touchstone_host::audit::Decision;
use touchstone_host::ports::idempotency::IdempotencyCompletion;
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::audit::record;
use touchstone_host::store::convert::column;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::query;
use touchstone_kit::ids::{AgentId, RunId, TenantId};

const EVALS: &str = "SELECT number, record FROM run JOIN run_record ON run_number = number
    WHERE tenant = $1 AND eval_agent = $2 AND eval_version = $3 AND number > $4
    ORDER BY number LIMIT $5";
/// Runs of other suites are left out without reading their records. A deleted run, which has no
/// row in the list, still counts.
const EVALS_OF_SUITE: &str = "SELECT r.number, c.record
    FROM run r JOIN run_record c ON c.run_number = r.number
        LEFT JOIN run_summary s ON s.run_number = r.number
    WHERE r.tenant = $1 AND r.eval_agent = $2 AND r.eval_version = $3 AND r.number > $4
        AND (s.suite_id IS NULL OR (s.suite_id = $6 AND s.suite_version = $7))
    ORDER BY r.number LIMIT $5";
/// `agent.invocation.started` is included because a repeated invocation discards the verdict of the
/// previous one.
const VERDICT_KINDS: [&str; 9] = [
    "run.started",
    "run.completed",
    "run.failed",
    "run.cancelled",
    "agent.invocation.started",
    "eval.scored",
    "touchstone.task.unjudged",
    "touchstone.task.reused",
    "touchstone.task.safety",
];
const VERDICTS: &str = with_segments!(
    "SELECT sequence, kind, body FROM event
    WHERE run_number = (SELECT number FROM run WHERE run_id = $1) AND sequence > $2 AND kind IN ({each $4})
    ORDER BY sequence LIMIT $3"
);
const VOID: &str = "INSERT INTO run_void (run_number, document)
    SELECT number, $3 FROM run WHERE tenant = $1 AND run_id = $2
    ON CONFLICT DO NOTHING";
/// The next list of runs decides the verdicts of the version again.
const UNDECIDE: &str = "UPDATE run_summary SET decided = NULL
    WHERE run_number = (SELECT number FROM run WHERE tenant = $1 AND run_id = $2)";
const VOIDED: &str = "SELECT run_id, document FROM run JOIN run_void ON run_number = number
    WHERE tenant = $1 AND eval_agent = $2 AND eval_version = $3";
/// The partial indexes of runs answer this without reading a run.
const COUNTS: &str = "SELECT COUNT(*), COALESCE(MAX(number), 0),
        (SELECT COUNT(*) FROM run
            WHERE tenant = $1 AND eval_agent = $2 AND eval_version = $3 AND eval_agent IS NOT NULL AND ended),
        (SELECT COUNT(*) FROM run_void JOIN run ON number = run_number
            WHERE tenant = $1 AND eval_agent = $2 AND eval_version = $3)
    FROM run WHERE tenant = $1 AND eval_agent = $2 AND eval_version = $3 AND eval_agent IS NOT NULL";

/// How many eval runs a version has. Another run, or another state of one, changes the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptCounts {
    pub all: i64,
    pub last: i64,
    pub ended: i64,
    pub voided: i64,
}

/// The numbers of eval runs of a version.
pub async fn counts(
    database: &Database,
    tenant: &TenantId,
    agent: &AgentId,
    version: &str,
) -> Result<AttemptCounts, StoreError> {
    let (all, last, ended, voided) = query(COUNTS)
        .bind(tenant.as_str())
        .bind(agent.as_str())
        .bind(version)
        .fetch_one(database.readers())
        .await?;
    Ok(AttemptCounts {
        all,
        last,
        ended,
        voided,
    })
}

/// Up to `limit` eval runs of a version with a number above `after`, in any state, oldest
/// first, each with its number.
pub async fn eval_runs(
    database: &Database,
    tenant: &TenantId,
    agent: &AgentId,
    version: &str,
    after: i64,
    limit: u32,
) -> Result<Vec<(i64, RunRecord)>, StoreError> {
    let rows: Vec<(i64, String)> = query(EVALS)
        .bind(tenant.as_str())
        .bind(agent.as_str())
        .bind(version)
        .bind(after)
        .bind(i64::from(limit))
        .fetch_all(database.readers())
        .await?;
    let read = |(number, record): (i64, String)| Ok((number, parse_record(&record)?));
    rows.into_iter().map(read).collect()
}

/// As [`eval_runs`], without runs of other suites.
pub async fn eval_runs_of_suite(
    database: &Database,
    tenant: &TenantId,
    eval: &EvalSpec,
    after: i64,
    limit: u32,
) -> Result<Vec<(i64, RunRecord)>, StoreError> {
    // One record after another, because each may name very many tasks.
    let mut rows = query(EVALS_OF_SUITE)
        .bind(tenant.as_str())
        .bind(eval.agent_id.as_str())
        .bind(eval.agent_version.as_str())
        .bind(after)
        .bind(i64::from(limit))
        .bind(eval.suite_id.as_str())
        .bind(eval.suite_version.as_str())
        .fetch::<(i64, String)>(database.readers())?;
    let mut found = Vec::new();
    while let Some((number, record)) = rows.try_next().await? {
        found.push((number, parse_record(&record)?));
    }
    Ok(found)
}

/// As [`read`](super::RunLog::read), but only events that report how a run or one of its tasks
/// ended.
pub async fn verdicts(
    database: &Database,
    run: &RunId,
    after: u64,
    limit: u32,
) -> Result<Vec<StoredEvent>, StoreError> {
    let kinds = column("event", "kind").text(&VERDICT_KINDS)?;
    let (mut events, mut after) = (Vec::new(), after);
    loop {
        let left = (limit as usize).saturating_sub(events.len());
        let rows = query(VERDICTS)
            .bind(run.as_str())
            .bind(i64::try_from(after).unwrap_or(i64::MAX))
            .bind(i64::try_from(left).unwrap_or(i64::MAX))
            .bind(&kinds)
            .fetch_all(database.readers())
            .await?;
        let compressed = match segments::found(rows, after)? {
            Found::Rows(rows) => {
                events.extend(rows);
                return Ok(events);
            }
            Found::Segments(compressed) => compressed,
        };
        for event in compressed {
            after = event.sequence;
            // Without its verdicts, an attempt that failed might not count.
            if &*event.kind == UNREADABLE {
                return Err(column("log_segment", "octets").inconsistent());
            }
            if VERDICT_KINDS.contains(&&*event.kind) {
                events.push(event);
            }
            if events.len() >= limit as usize {
                return Ok(events);
            }
        }
    }
}

/// Declares a run void, together with the audit entry and the response to the request, all or
/// nothing.
///
/// # Errors
/// [`StoreError::Exists`] if it is already void.
pub async fn void(
    database: &Database,
    tenant: &TenantId,
    run: &RunId,
    voided: &Voided,
    decision: &Decision,
    completes: Option<&IdempotencyCompletion>,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    let inserted = query(VOID)
        .bind(tenant.as_str())
        .bind(run.as_str())
        .bind(column("run_void", "document").text(voided)?)
        .execute(&mut transaction)
        .await?;
    if inserted == 0 {
        return Err(StoreError::Exists("a record that this run was voided"));
    }
    query(UNDECIDE)
        .bind(tenant.as_str())
        .bind(run.as_str())
        .execute(&mut transaction)
        .await?;
    record(&mut transaction, tenant, decision).await?;
    if let Some(completion) = completes {
        database
            .complete_within(&mut transaction, completion)
            .await?;
    }
    transaction.commit().await
}

/// The runs of a version that were voided.
pub async fn voided(
    database: &Database,
    tenant: &TenantId,
    agent: &AgentId,
    version: &str,
) -> Result<HashMap<RunId, Voided>, StoreError> {
    let rows: Vec<(String, String)> = query(VOIDED)
        .bind(tenant.as_str())
        .bind(agent.as_str())
        .bind(version)
        .fetch_all(database.readers())
        .await?;
    let read = |(run, document): (String, String)| {
        let voided = column("run_void", "document").document(&document)?;
        Ok((RunId::from(run), voided))
    };
    rows.into_iter().map(read).collect()
}
