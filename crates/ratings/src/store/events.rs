//! Evidence: one transaction per batch, one index range per window.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use sqlx::{AssertSqlSafe, PgConnection, SqliteConnection};

use crate::ports::agents::AgentNumber;
use crate::ports::events::{
    EventFilter, EventPosition, EventRecord, EvidenceQuery, NewEvent, Origin, PROJECTED,
    TaskPosition,
};
use crate::ports::organizations::OrganizationNumber;
use crate::rules::evidence::Recorder;
use crate::store::{fetch_record, fetch_records};
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::{Column, backend, column};
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::{Transaction, query};

/// Inserts of 256 rows and every smaller power of two. A batch is split into few statements, each
/// prepared once.
static INSERTS: LazyLock<[(usize, Arc<str>); 9]> =
    LazyLock::new(|| [256, 128, 64, 32, 16, 8, 4, 2, 1].map(|rows| (rows, insert(rows).into())));

/// Parameters have no names because SQLite looks names up one by one.
fn insert(rows: usize) -> String {
    let values = vec!["(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"; rows].join(", ");
    format!(
        "INSERT INTO rating_event
            (organization, recorded_at, source, recorder, recorded_by, agent, id, kind, occurred_at, task, assessment, data)
        VALUES {values} ON CONFLICT (organization, id) DO NOTHING RETURNING id"
    )
}

/// The arrays are in order of arrival.
const INSERT: &str = "INSERT INTO rating_event
        (organization, recorded_at, source, recorder, recorded_by, agent, id, kind, occurred_at, task, assessment, data)
    SELECT $1, $2, $3, $4, $5, item.agent, item.id, item.kind, item.occurred_at, item.task, item.assessment, item.data
    FROM UNNEST($6::bigint[], $7::text[], $8::text[], $9::bigint[], $10::text[], $11::text[], $12::text[])
        WITH ORDINALITY AS item (agent, id, kind, occurred_at, task, assessment, data, place)
    ORDER BY item.place
    ON CONFLICT (organization, id) DO NOTHING RETURNING id";

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT e.number, e.id, a.id, e.agent, e.kind, e.occurred_at, e.recorded_at, e.source, e.recorder, e.recorded_by, e.data
            FROM rating_event e JOIN rating_agent a ON a.number = e.agent
            WHERE e.organization = $1 ",
            $rest
        )
    };
}
const ONE: &str = select!("AND e.id = $2");
const NAMED: &str = select!("AND e.id IN ({each $2})");
const OF_AGENT: &str = select!(
    "AND e.agent = $2 AND (e.occurred_at, e.number) > ($3, $4)
        AND e.occurred_at >= $5 AND e.occurred_at < $6 AND (CAST($7 AS TEXT) IS NULL OR e.kind = $7)
    ORDER BY e.occurred_at, e.number LIMIT $8"
);
const BY_TASK: &str = select!(
    "AND e.agent = $2 AND (e.task, e.occurred_at, e.number) > ($3, $4, $5)
        AND ((e.occurred_at >= $6 AND e.occurred_at < $7) OR e.assessment = CAST($8 AS TEXT)
            OR (e.kind = 'task_assigned' AND e.occurred_at < $6))
    ORDER BY e.task, e.occurred_at, e.number LIMIT $9"
);
const OF_ALL: &str = select!(
    "AND (e.agent, e.occurred_at, e.number) > ($2, $3, $4)
        AND e.occurred_at >= $5 AND e.occurred_at < $6 AND (CAST($7 AS TEXT) IS NULL OR e.kind = $7)
    ORDER BY e.agent, e.occurred_at, e.number LIMIT $8"
);

const ASSIGNED_BY: &str =
    "SELECT DISTINCT task FROM rating_event WHERE organization = $1 AND agent = $2
    AND kind = 'task_assigned' AND task IN ({each $3}) AND source = $4";
const TAKEN: &str = "SELECT COUNT(*) FROM rating_event WHERE organization = $1
    AND id IN ({each $2}) AND source <> $3";

type Row = (
    i64,
    String,
    String,
    i64,
    String,
    i64,
    i64,
    String,
    Option<String>,
    Option<String>,
    String,
);

fn at(name: &'static str) -> Column {
    column("rating_event", name)
}

fn record_of(row: Row) -> Result<EventRecord, StoreError> {
    let (number, id, agent, agent_number, kind, occurred_at, recorded_at, ..) = row;
    let (.., source, recorder, recorded_by, data) = row;
    let recorder = match recorder {
        Some(name) => Recorder::parse(&name).ok_or_else(|| at("recorder").inconsistent())?,
        // Events from this host have always been marked by their source.
        None if source == PROJECTED => Recorder::Host,
        None => Recorder::Unknown,
    };
    Ok(EventRecord {
        number,
        id,
        agent,
        agent_number: AgentNumber(agent_number),
        kind,
        occurred_at: at("occurred_at").time(occurred_at)?,
        recorded_at: at("recorded_at").time(recorded_at)?,
        source,
        recorder,
        recorded_by,
        data: at("data").document(&data)?,
        octets: data.len(),
    })
}

struct Batch<'a> {
    organization: OrganizationNumber,
    origin: Origin<'a>,
    now: Timestamp,
    events: &'a [NewEvent],
}

/// Maximum time in microseconds by which an event may be ahead of the clock.
const AHEAD: i64 = 300_000_000;
const COLLECTED: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM rating_event
    WHERE organization = $1 AND agent = $2 AND occurred_at <= $3
        AND (recorder IS NULL OR recorder <> 'agent')
        AND (recorded_at <= $4 OR (source = $5 AND occurred_at <= $4)) LIMIT 1) AS found";

/// Inserts the events and returns the ids of the new ones.
async fn insert_events(
    transaction: &mut Transaction,
    batch: &Batch<'_>,
) -> Result<Vec<String>, StoreError> {
    match transaction {
        Transaction::Sqlite(connection) => insert_on_sqlite(connection, batch).await,
        Transaction::Postgres(connection) => insert_on_postgres(connection, batch).await,
    }
}

async fn insert_on_sqlite(
    connection: &mut SqliteConnection,
    batch: &Batch<'_>,
) -> Result<Vec<String>, StoreError> {
    let mut added = Vec::with_capacity(batch.events.len());
    let mut rest = batch.events;
    for (rows, sql) in INSERTS.iter() {
        while let Some((chunk, after)) = rest.split_at_checked(*rows) {
            let mut insert = sqlx::query_scalar(AssertSqlSafe(sql.clone()));
            for event in chunk {
                insert = insert
                    .bind(batch.organization.0)
                    .bind(batch.now.as_microsecond())
                    .bind(batch.origin.source)
                    .bind(batch.origin.recorder.as_str())
                    .bind(batch.origin.principal)
                    .bind(event.agent.0)
                    .bind(&event.id)
                    .bind(event.kind)
                    .bind(event.occurred_at.as_microsecond())
                    .bind(&event.task)
                    .bind(&event.assessment)
                    .bind(&event.data);
            }
            let ids: Vec<String> = insert.fetch_all(&mut *connection).await.map_err(backend)?;
            added.extend(ids);
            rest = after;
        }
    }
    Ok(added)
}

async fn insert_on_postgres(
    connection: &mut PgConnection,
    batch: &Batch<'_>,
) -> Result<Vec<String>, StoreError> {
    let events = batch.events;
    let texts = |of: fn(&NewEvent) -> &str| events.iter().map(of).collect::<Vec<_>>();
    let agents: Vec<i64> = events.iter().map(|event| event.agent.0).collect();
    let times: Vec<i64> = events
        .iter()
        .map(|event| event.occurred_at.as_microsecond())
        .collect();
    let assessments: Vec<Option<&str>> = events
        .iter()
        .map(|event| event.assessment.as_deref())
        .collect();
    sqlx::query_scalar(INSERT)
        .bind(batch.organization.0)
        .bind(batch.now.as_microsecond())
        .bind(batch.origin.source)
        .bind(batch.origin.recorder.as_str())
        .bind(batch.origin.principal)
        .bind(agents)
        .bind(texts(|event| &event.id))
        .bind(texts(|event| event.kind))
        .bind(times)
        .bind(texts(|event| &event.task))
        .bind(assessments)
        .bind(texts(|event| &event.data))
        .fetch_all(connection)
        .await
        .map_err(backend)
}

/// Records events in one transaction, in this order. Returns for each event whether it is new.
/// If the organization already has an event with the same id, the first one is kept.
pub async fn record_events(
    database: &Database,
    organization: OrganizationNumber,
    events: &[NewEvent],
    origin: Origin<'_>,
    now: Timestamp,
) -> Result<Vec<bool>, StoreError> {
    let batch = Batch {
        organization,
        origin,
        now,
        events,
    };
    let mut transaction = database.begin_write().await?;
    let added = insert_events(&mut transaction, &batch).await?;
    transaction.commit().await?;
    let mut added: HashSet<String> = added.into_iter().collect();
    // If one batch contains an id twice, the first event is the new one.
    Ok(events.iter().map(|event| added.remove(&event.id)).collect())
}

pub async fn event(
    database: &Database,
    organization: OrganizationNumber,
    id: &str,
) -> Result<Option<EventRecord>, StoreError> {
    let found = query(ONE).bind(organization.0).bind(id);
    fetch_record(database, found, record_of).await
}

/// The events with these ids, in any order.
pub async fn events_named(
    database: &Database,
    organization: OrganizationNumber,
    ids: &[&str],
) -> Result<Vec<EventRecord>, StoreError> {
    let listed = query(NAMED).bind(organization.0).bind(at("id").text(&ids)?);
    fetch_records(database, listed, record_of).await
}

/// Events after a position, by agent, time and arrival.
pub async fn events(
    database: &Database,
    organization: OrganizationNumber,
    filter: &EventFilter,
    after: Option<EventPosition>,
    limit: u32,
) -> Result<Vec<EventRecord>, StoreError> {
    let micros = Timestamp::as_microsecond;
    let seen = after.map_or((i64::MIN, i64::MIN), |it| {
        (micros(it.occurred_at), it.number)
    });
    let found = match filter.agent {
        Some(agent) => query(OF_AGENT).bind(organization.0).bind(agent.0),
        None => query(OF_ALL)
            .bind(organization.0)
            .bind(after.map_or(i64::MIN, |it| it.agent.0)),
    };
    let rows: Vec<Row> = found
        .bind(seen.0)
        .bind(seen.1)
        .bind(filter.from.map_or(i64::MIN, micros))
        .bind(filter.to.map_or(i64::MAX, micros))
        .bind(filter.kind.as_deref())
        .bind(i64::from(limit))
        .fetch_all(database.readers())
        .await?;
    rows.into_iter().map(record_of).collect()
}

/// The evidence of an assessment after a position, by task, time and arrival.
pub async fn events_by_task(
    database: &Database,
    organization: OrganizationNumber,
    evidence: EvidenceQuery<'_>,
    after: Option<&TaskPosition>,
    limit: u32,
) -> Result<Vec<EventRecord>, StoreError> {
    let micros = Timestamp::as_microsecond;
    let seen = after.map_or(("", i64::MIN, i64::MIN), |it| {
        (it.task.as_str(), micros(it.occurred_at), it.number)
    });
    let listed = query(BY_TASK)
        .bind(organization.0)
        .bind(evidence.agent.0)
        .bind(seen.0)
        .bind(seen.1)
        .bind(seen.2)
        .bind(micros(evidence.from))
        .bind(micros(evidence.to))
        .bind(evidence.assessment)
        .bind(i64::from(limit));
    fetch_records(database, listed, record_of).await
}

/// Whether collecting evidence about an agent had begun by a given time: an event was recorded
/// by then that did not come from an agent, or a run of this host produced one.
pub async fn is_collected_by(
    database: &Database,
    organization: OrganizationNumber,
    agent: AgentNumber,
    moment: Timestamp,
) -> Result<bool, StoreError> {
    let moment = moment.as_microsecond();
    let found: i64 = query(COLLECTED)
        .bind(organization.0)
        .bind(agent.0)
        .bind(moment.saturating_add(AHEAD))
        .bind(moment)
        .bind(PROJECTED)
        .fetch_one(database.readers())
        .await?;
    Ok(found > 0)
}

/// The tasks among these that were assigned to an agent according to a source.
pub async fn assigned_by(
    database: &Database,
    organization: OrganizationNumber,
    agent: AgentNumber,
    source: &str,
    tasks: &[&str],
) -> Result<HashSet<String>, StoreError> {
    let assigned: Vec<String> = query(ASSIGNED_BY)
        .bind(organization.0)
        .bind(agent.0)
        .bind(at("task").text(&tasks)?)
        .bind(source)
        .fetch_all(database.readers())
        .await?;
    Ok(assigned.into_iter().collect())
}

/// Whether one of these ids belongs to an event of another source.
pub async fn are_ids_taken(
    database: &Database,
    organization: OrganizationNumber,
    source: &str,
    ids: &[&str],
) -> Result<bool, StoreError> {
    let taken: i64 = query(TAKEN)
        .bind(organization.0)
        .bind(at("id").text(&ids)?)
        .bind(source)
        .fetch_one(database.readers())
        .await?;
    Ok(taken > 0)
}
