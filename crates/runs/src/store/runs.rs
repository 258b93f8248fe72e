//! Runs and their logs.

use std::borrow::Cow;

use futures_util::TryStreamExt;
use serde::Deserialize;

use crate::ports::webhooks::WebhookRecord;
use crate::rules::run::fold::RunStatus;
use crate::rules::run::record::RunRecord;
use crate::store::pauses::END_PAUSE;
use crate::store::run_list;
use crate::store::segments::{self, Found, with_segments};
use crate::store::webhooks::{self, FOLLOW};
use touchstone_host::ports::idempotency::IdempotencyCompletion;
use touchstone_host::ports::run_log::{CompanionRecord, Fence, READ_BYTES, StoredEvent};
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::audit::record;
use touchstone_host::store::convert::{Batch, NEVER, column};
use touchstone_host::store::database::{Database, append_within};
use touchstone_host::store::sql::{Sql, Transaction, query};
use touchstone_kit::ids::{AgentId, EventId, RunId, TenantId};

const CREATE: &str = "INSERT INTO run
        (run_id, tenant, created_at, lease_until, scope, eval_agent, eval_version, experiment, profile, executor,
        retry_root, retry_number, bytes)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT DO NOTHING RETURNING number";
const CREATE_RECORD: &str = "INSERT INTO run_record (run_number, record) VALUES ($1, $2)";
const ACTIVE: &str = "SELECT run_id FROM run
    WHERE tenant = $1 AND scope = $2 AND scope IS NOT NULL AND NOT ended ORDER BY number LIMIT 1";
const ONE: &str = "SELECT record FROM run JOIN run_record ON run_number = number
    WHERE run_id = $1 AND tenant = $2 AND deleted_at IS NULL";
const NEWEST_EVAL: &str = "SELECT run_id FROM run
    WHERE tenant = $1 AND eval_agent = $2 AND eval_version = $3 AND ended AND deleted_at IS NULL
        AND number NOT IN (SELECT run_number FROM run_void)
    ORDER BY number DESC LIMIT 1";
const NEWEST_OF_PROFILE: &str = "SELECT run_id FROM run
    WHERE tenant = $1 AND eval_agent = $2 AND eval_version = $3 AND profile = $4 AND ended
    ORDER BY number DESC LIMIT 1";
const TRIALS: &str = "SELECT record FROM run JOIN run_record ON run_number = number
    WHERE tenant = $1 AND experiment = $2 ORDER BY number LIMIT $3";
const RETRIES: &str = "SELECT MAX(retry_number) FROM run WHERE tenant = $1 AND retry_root = $2";
/// Events whose body contains an id.
const CONTAINING: Sql = Sql {
    sqlite: "SELECT sequence, body FROM event
        WHERE run_number = (SELECT number FROM run WHERE run_id = $1) AND instr(body, $2) > 0
        ORDER BY sequence",
    postgres: "SELECT sequence, body FROM event
        WHERE run_number = (SELECT number FROM run WHERE run_id = $1) AND strpos(body, $2) > 0
        ORDER BY sequence",
};
/// Locks the subscriptions, so that none is deleted before its row for this run is written.
const FOLLOW_RUN: Sql = Sql {
    sqlite: "INSERT INTO webhook_run (webhook_number, run_number, sequence)
        SELECT number, $1, $3 FROM webhook WHERE tenant = $2 AND following AND run_number IS NULL",
    postgres: "INSERT INTO webhook_run (webhook_number, run_number, sequence)
        SELECT number, $1, $3 FROM webhook WHERE tenant = $2 AND following AND run_number IS NULL FOR KEY SHARE",
};
// The point where the bodies reach $4 bytes is found from their lengths alone; neither engine loads
// a body to get its length.
const READ: &str = with_segments!(
    "SELECT sequence, kind, body FROM event
    WHERE run_number = (SELECT number FROM run WHERE run_id = $1) AND sequence > $2
      AND sequence <= COALESCE((
        SELECT MIN(sequence) FROM (
            SELECT sequence, SUM(OCTET_LENGTH(body)) OVER (ORDER BY sequence) AS total FROM event
            WHERE run_number = (SELECT number FROM run WHERE run_id = $1) AND sequence > $2
            ORDER BY sequence LIMIT $3) AS sized
        WHERE total >= $4), 9223372036854775807)
    ORDER BY sequence LIMIT $3"
);

/// OpenWOP run-event: maximum length of `eventId`, in characters.
const EVENT_ID_MAX: usize = 128;

pub fn parse_record(record: &str) -> Result<RunRecord, StoreError> {
    column("run_record", "record").document(record)
}

/// Whether the event has this id, rather than only mentioning it. An unreadable event does not
/// match.
fn has_event_id(body: &[u8], event_id: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct EventHead<'a> {
        #[serde(borrow)]
        event_id: Cow<'a, str>,
    }
    serde_json::from_slice(body).is_ok_and(|head: EventHead<'_>| head.event_id == event_id)
}

/// Stores a run without events within a transaction; returns its number.
pub async fn insert(transaction: &mut Transaction, run: &RunRecord) -> Result<i64, StoreError> {
    let claimable_from = match run.spec.work.is_claimable() {
        true => 0,
        false => NEVER,
    };
    let eval = run.spec.eval();
    // A replay is not a new evaluation: it would make an old result the newest.
    let profile = eval
        .filter(|_| run.fork.is_none())
        .and_then(|eval| eval.extensions.profile());
    // A fork of a retry is not itself a retry.
    let retry = eval
        .map(|eval| &eval.execution)
        .filter(|retry| run.fork.is_none() && retry.retries > 0);
    let record = column("run_record", "record").text(run)?;
    let number: Option<i64> = query(CREATE)
        .bind(run.run_id.as_str())
        .bind(run.tenant.as_str())
        .bind(run.created_at.as_microsecond())
        .bind(claimable_from)
        .bind(run.spec.scope.as_ref().map(|scope| scope.id.as_str()))
        .bind(eval.map(|eval| eval.agent_id.as_str()))
        .bind(eval.map(|eval| eval.agent_version.as_str()))
        .bind(
            eval.and_then(|eval| eval.trial.as_ref())
                .map(|trial| trial.experiment_id.as_str()),
        )
        .bind(profile)
        .bind(eval.and_then(|eval| eval.execution.command.as_deref()))
        .bind(retry.and_then(|retry| retry.retry_root.as_ref().map(|root| root.as_str())))
        .bind(retry.map(|retry| i64::from(retry.retries)))
        .bind(i64::try_from(record.len()).unwrap_or(i64::MAX))
        .fetch_optional(&mut *transaction)
        .await?;
    let number = number.ok_or(StoreError::Exists("a run with this id or retry number"))?;
    query(CREATE_RECORD)
        .bind(number)
        .bind(record)
        .execute(&mut *transaction)
        .await?;
    run_list::insert(transaction, number, run).await?;
    // The tenant's subscriptions follow the run.
    if let Some(sequence) = run.notified_to() {
        query(FOLLOW_RUN)
            .bind(number)
            .bind(run.tenant.as_str())
            .bind(i64::try_from(sequence).unwrap_or(i64::MAX))
            .execute(&mut *transaction)
            .await?;
    }
    Ok(number)
}

/// As [`create`], with a subscription to only this run, if given: it is served once the run has
/// ended, and deleted then. The functions for a tenant's subscriptions do not return it.
pub async fn create_with_callback(
    database: &Database,
    run: &RunRecord,
    callback: Option<&WebhookRecord>,
    completes: Option<&IdempotencyCompletion>,
) -> Result<(), StoreError> {
    let scope = run.spec.scope.as_ref();
    let mut transaction = match scope.filter(|scope| scope.exclusive) {
        Some(scope) => {
            let mut transaction = database.begin_scope(&run.tenant, &scope.id).await?;
            let active: Option<String> = query(ACTIVE)
                .bind(run.tenant.as_str())
                .bind(&scope.id)
                .fetch_optional(&mut transaction)
                .await?;
            if let Some(active) = active {
                return Err(StoreError::ScopeTaken(active.into()));
            }
            transaction
        }
        None => database.begin_write().await?,
    };
    let number = insert(&mut transaction, run).await?;
    if let Some(callback) = callback {
        let cipher = database.cipher();
        let subscription =
            webhooks::insert(cipher, &mut transaction, callback, Some(number)).await?;
        query(FOLLOW)
            .bind(subscription)
            .bind(number)
            .execute(&mut transaction)
            .await?;
    }
    if let Some(completion) = completes {
        database
            .complete_within(&mut transaction, completion)
            .await?;
    }
    transaction.commit().await
}

/// Records a new run and, unless it is a journal, its place in the queue; completes the
/// idempotency record. All or nothing.
pub async fn create(
    database: &Database,
    run: &RunRecord,
    completes: Option<&IdempotencyCompletion>,
) -> Result<(), StoreError> {
    create_with_callback(database, run, None, completes).await
}

/// The immutable record of a run of this tenant.
pub async fn find(
    database: &Database,
    tenant: &TenantId,
    run: &RunId,
) -> Result<Option<RunRecord>, StoreError> {
    let record: Option<String> = query(ONE)
        .bind(run.as_str())
        .bind(tenant.as_str())
        .fetch_optional(database.readers())
        .await?;
    record.as_deref().map(parse_record).transpose()
}

/// Appends `events` (consecutive, the first one directly after the head) if `fence` is still
/// the newest claim. `ends` marks the last one as terminal and takes the run out of the queue.
/// Durable when this returns.
pub async fn append(
    database: &Database,
    run: &RunId,
    fence: Fence,
    events: &[StoredEvent],
    ends: bool,
) -> Result<(), StoreError> {
    match Batch::check(events)? {
        Some(batch) => database.append_batch(run, fence, &batch, ends).await,
        None if ends => Err(column("event", "sequence").inconsistent()),
        None => Ok(()),
    }
}

/// As [`append`] of at least one event, together with another record: both are
/// written, or neither.
pub async fn append_with(
    database: &Database,
    run: &RunRecord,
    fence: Fence,
    events: &[StoredEvent],
    ends: bool,
    companion: &CompanionRecord,
) -> Result<(), StoreError> {
    append_changing(database, run, fence, events, ends, Some(companion), None).await
}

/// As [`append`] of at least one event, together with another record and the status that the run
/// has afterwards, if they are given.
pub async fn append_changing(
    database: &Database,
    run: &RunRecord,
    fence: Fence,
    events: &[StoredEvent],
    ends: bool,
    companion: Option<&CompanionRecord>,
    status: Option<RunStatus>,
) -> Result<(), StoreError> {
    let batch = Batch::check(events)?.ok_or_else(|| column("event", "sequence").inconsistent())?;
    let mut transaction = database.begin_write().await?;
    append_within(&mut transaction, &run.run_id, fence, &batch, ends).await?;
    match companion {
        Some(CompanionRecord::Decision(decision)) => {
            record(&mut transaction, &run.tenant, decision).await?;
        }
        Some(CompanionRecord::Resumed) => {
            query(END_PAUSE)
                .bind(run.run_id.as_str())
                .execute(&mut transaction)
                .await?;
        }
        None => {}
    }
    if let Some(status) = status {
        run_list::set_status(&mut transaction, &run.run_id, status).await?;
    }
    transaction.commit().await
}

/// Up to `limit` events with a sequence above `after`, in order; stops once their documents
/// exceed [`READ_BYTES`]; see [`reaches_end`].
pub async fn read(
    database: &Database,
    run: &RunId,
    after: u64,
    limit: u32,
) -> Result<Vec<StoredEvent>, StoreError> {
    let (mut events, mut bytes, mut after) = (Vec::new(), 0, after);
    loop {
        let left = (limit as usize).saturating_sub(events.len());
        let rows = query(READ)
            .bind(run.as_str())
            .bind(i64::try_from(after).unwrap_or(i64::MAX))
            .bind(i64::try_from(left).unwrap_or(i64::MAX))
            .bind(i64::try_from(READ_BYTES - bytes).unwrap_or(i64::MAX))
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
            if events.len() >= limit as usize || bytes >= READ_BYTES {
                return Ok(events);
            }
            after = event.sequence;
            bytes += event.body.len();
            events.push(event);
        }
        if events.len() >= limit as usize || bytes >= READ_BYTES {
            return Ok(events);
        }
    }
}

/// The sequence of an event id within a run, for `Last-Event-ID`. An event at the position its
/// id names is found directly; one copied from another log to another position is searched for.
pub async fn sequence_of(
    database: &Database,
    run: &RunId,
    event_id: &str,
) -> Result<Option<u64>, StoreError> {
    let place = EventId::place(event_id).and_then(|place| place.checked_sub(1));
    let (Some(before), true) = (place, event_id.len() <= EVENT_ID_MAX) else {
        return Ok(None);
    };
    if let [event] = read(database, run, before, 1).await?.as_slice()
        && has_event_id(&event.body, event_id)
    {
        return Ok(Some(event.sequence));
    }
    let mut rows = query(CONTAINING)
        .bind(run.as_str())
        .bind(event_id)
        .fetch::<(i64, String)>(database.readers())?;
    while let Some((sequence, body)) = rows.try_next().await? {
        if has_event_id(body.as_bytes(), event_id) {
            return column("event", "sequence").number(sequence).map(Some);
        }
    }
    // After the rows, which may be compressed meanwhile.
    let mut after = 0;
    loop {
        let events = segments::after(database, run, after).await?;
        let Some(last) = events.last() else {
            return Ok(None);
        };
        after = last.sequence;
        if let Some(found) = events.iter().find(|it| has_event_id(&it.body, event_id)) {
            return Ok(Some(found.sequence));
        }
    }
}

/// The newest eval run of this version of an agent among those that have ended and were not
/// deleted.
pub async fn newest_eval(
    database: &Database,
    tenant: &TenantId,
    agent: &AgentId,
    version: &str,
) -> Result<Option<RunId>, StoreError> {
    let run: Option<String> = query(NEWEST_EVAL)
        .bind(tenant.as_str())
        .bind(agent.as_str())
        .bind(version)
        .fetch_optional(database.readers())
        .await?;
    Ok(run.map(RunId::from))
}

/// The newest finished evaluation of this version of an agent by a profile, whatever its outcome.
pub async fn newest_of_profile(
    database: &Database,
    tenant: &TenantId,
    agent: &AgentId,
    version: &str,
    profile: &str,
) -> Result<Option<RunId>, StoreError> {
    let run: Option<String> = query(NEWEST_OF_PROFILE)
        .bind(tenant.as_str())
        .bind(agent.as_str())
        .bind(version)
        .bind(profile)
        .fetch_optional(database.readers())
        .await?;
    Ok(run.map(RunId::from))
}

/// The number of the last retry of a run, retries of its retries included; 0 without retries.
pub async fn last_retry_number(
    database: &Database,
    tenant: &TenantId,
    root: &RunId,
) -> Result<u32, StoreError> {
    let made: Option<i64> = query(RETRIES)
        .bind(tenant.as_str())
        .bind(root.as_str())
        .fetch_one(database.readers())
        .await?;
    column("run", "retry_number").number(made.unwrap_or_default())
}

/// The first `limit` runs of an experiment, in the order of their creation.
pub async fn trials(
    database: &Database,
    tenant: &TenantId,
    experiment: &str,
    limit: u32,
) -> Result<Vec<RunRecord>, StoreError> {
    let records: Vec<String> = query(TRIALS)
        .bind(tenant.as_str())
        .bind(experiment)
        .bind(i64::from(limit))
        .fetch_all(database.readers())
        .await?;
    records.iter().map(|record| parse_record(record)).collect()
}
