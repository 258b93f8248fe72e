//! The list of runs.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::json;

use crate::rules::eval::report::Verdict;
use crate::rules::run::fold::RunStatus;
use crate::rules::run::listing::{RunListing, RunQuery, RunResult, RunSubject, TagRequest};
use crate::rules::run::record::RunRecord;
use crate::rules::run::search::{MAX_WORDS, pattern};
use crate::store::run_names::{self, Way};
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::{Column, column};
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::{Query, Transaction, query};
use touchstone_kit::ids::{RunId, TenantId};

const INSERT: &str = "INSERT INTO run_summary
        (run_number, tenant, run_id, created_at, kind, suite_id, suite_version, agent_id, agent_version, model,
        status, subject)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'pending', $11)";
const ADD_TAG: &str =
    "INSERT INTO run_tag (run_number, tag) VALUES ($1, $2) ON CONFLICT DO NOTHING";
const REMOVE_TAG: &str = "DELETE FROM run_tag WHERE run_number = $1 AND tag = $2";
const TAGS_OF: &str = "SELECT tag FROM run_tag WHERE run_number = $1 ORDER BY tag";
/// Locks the row, so that concurrent changes of the tags are serialized.
const LOCK: &str = "UPDATE run SET tenant = tenant
    WHERE run_id = $1 AND tenant = $2 AND deleted_at IS NULL RETURNING number";
const SET_STATUS: &str = "UPDATE run_summary SET status = $2
    WHERE run_number = (SELECT number FROM run WHERE run_id = $1)";
const SET_RESULT: &str = "UPDATE run_summary SET status = $2, verdict = $3, result = $4
    WHERE run_number = (SELECT number FROM run WHERE run_id = $1 AND ended)";
const WITHOUT_RESULT: &str =
    "SELECT s.run_id FROM run_summary s JOIN run r ON r.number = s.run_number
    WHERE s.tenant = $1 AND s.result IS NULL AND r.ended ORDER BY s.run_number LIMIT $2";
const TAGS: &str = "SELECT r.run_id, t.tag FROM run r JOIN run_tag t ON t.run_number = r.number
    WHERE r.run_id IN ({each $1}) ORDER BY t.tag";

/// A query of the numbers in a JSON array of texts.
macro_rules! numbers {
    ($array:literal) => {
        concat!(
            "SELECT CAST(it AS BIGINT) AS number FROM (
                SELECT CAST(NULL AS TEXT) AS it WHERE FALSE UNION ALL {each ",
            $array,
            "}) AS numbers"
        )
    };
}

/// The condition that the run has a name with the word.
macro_rules! word {
    ($parameter:literal) => {
        concat!(
            " AND (",
            $parameter,
            " IS NULL OR EXISTS (SELECT 1 FROM run_named n JOIN run_name m ON m.number = n.name_number
            WHERE n.run_number = s.run_number AND m.name LIKE ",
            $parameter,
            " ESCAPE '\\'))"
        )
    };
}

/// A statement that lists runs from `$source`, whose rows meet `$condition`: together they choose an
/// index. All statements have the same parameters.
macro_rules! list {
    ($source:expr, $condition:literal) => {
        list!($source, $condition, "s.created_at", "s.run_id")
    };
    ($source:expr, $condition:literal, $created_at:literal, $run_id:literal) => {
        concat!(
            "SELECT s.run_id, s.created_at,
        CASE WHEN r.cancel IS NOT NULL AND NOT r.ended THEN 'cancelling'
            WHEN s.status = 'pending' AND r.head > 0 THEN 'running' ELSE s.status END,
        s.subject, s.result, EXISTS (SELECT 1 FROM run_void v WHERE v.run_number = s.run_number)
    FROM ",
            $source,
            " WHERE r.number = s.run_number AND s.tenant = $1 AND ",
            $condition,
            " AND s.created_at >= $2 AND s.created_at < $3 AND (s.created_at, s.run_id) < ($4, $5)
        AND s.run_id >= $6 AND s.run_id < $7
        AND ($8 IS NULL OR s.kind = $8)
        AND ($9 IS NULL OR s.suite_id = $9) AND ($10 IS NULL OR s.suite_version = $10)
        AND ($11 IS NULL OR s.agent_id = $11) AND ($12 IS NULL OR s.agent_version = $12)
        AND ($13 IS NULL OR s.model = $13) AND ($14 IS NULL OR s.verdict = $14)
        AND ($15 IS NULL OR $15 = CASE WHEN r.cancel IS NOT NULL AND NOT r.ended THEN 'cancelling'
            WHEN s.status = 'pending' AND r.head > 0 THEN 'running' ELSE s.status END)
        AND ($16 IS NULL OR EXISTS (SELECT 1 FROM run_tag t WHERE t.run_number = s.run_number AND t.tag = $16))",
            word!("$18"),
            word!("$19"),
            word!("$20"),
            word!("$21"),
            " ORDER BY ",
            $created_at,
            " DESC, ",
            $run_id,
            " DESC LIMIT $17"
        )
    };
}

// `CROSS JOIN` fixes the order of the tables on SQLite.
const LIST: &str = list!("run_summary s CROSS JOIN run r", "TRUE");
const LIST_OF_SUITE: &str = list!("run_summary s CROSS JOIN run r", "s.suite_id = $9");
const LIST_OF_AGENT: &str = list!("run_summary s CROSS JOIN run r", "s.agent_id = $11");
// An expression keeps SQLite from reading all rows in the order of the list.
const LIST_UNFINISHED: &str = list!(
    "run_summary s CROSS JOIN run r",
    "s.result IS NULL",
    "+s.created_at",
    "s.run_id"
);
const LIST_OF_VERDICT: &str = list!("run_summary s CROSS JOIN run r", "s.verdict = $14");
/// The runs with a name, in the order of the name's index.
const LIST_OF_NAME: &str = list!(
    "run_named f CROSS JOIN run_summary s CROSS JOIN run r",
    "f.name_number = $22 AND s.run_number = f.run_number AND f.created_at >= $2 AND f.created_at < $3
        AND (f.created_at, f.run_id) < ($4, $5)",
    "f.created_at",
    "f.run_id"
);
const LIST_OF_RUNS: &str = list!(
    concat!(
        "(",
        numbers!("$22"),
        ") f CROSS JOIN run_summary s CROSS JOIN run r"
    ),
    "s.run_number = f.number"
);
/// The newest run with a verdict of each suite and agent version.
const NEWEST_OF_VERSIONS: &str = "SELECT MAX(run_number) FROM run_summary
    WHERE tenant = $1 AND verdict IS NOT NULL AND suite_id IS NOT NULL
        AND run_number NOT IN (SELECT run_number FROM run_void)
        AND ($2 IS NULL OR agent_id = $2)
    GROUP BY suite_id, agent_id, agent_version ORDER BY MAX(run_number) DESC LIMIT $3";
const LIST_OF_PREFIX: &str = list!(
    "run r CROSS JOIN run_summary s",
    "r.run_id >= $6 AND r.run_id < $7"
);

const ROWS: &str = concat!(
    "SELECT s.run_id, s.created_at, s.status, s.subject, s.result, FALSE
    FROM run_summary s WHERE s.run_number IN (",
    numbers!("$1"),
    ") ORDER BY s.run_number DESC"
);

/// A row: id, time of creation, status, subject, result, and whether the run is void.
type Row = (String, i64, String, String, Option<String>, bool);

/// Follows every run id: they are ASCII, and without this character.
const AFTER_ALL_IDS: &str = "~";

/// Stores the row of a new run, and the tags of its request.
pub async fn insert(
    transaction: &mut Transaction,
    number: i64,
    run: &RunRecord,
) -> Result<(), StoreError> {
    let subject = RunSubject::of(run);
    let (suite, agent) = (subject.suite.as_ref(), subject.agent.as_ref());
    query(INSERT)
        .bind(number)
        .bind(run.tenant.as_str())
        .bind(run.run_id.as_str())
        .bind(run.created_at.as_microsecond())
        .bind(subject.kind.as_str())
        .bind(suite.map(|it| it.suite_id.as_str()))
        .bind(suite.map(|it| it.version.as_str()))
        .bind(agent.map(|it| it.agent_id.as_str()))
        .bind(agent.map(|it| it.version.as_str()))
        .bind(subject.model.as_ref().map(|it| it.model.as_str()))
        .bind(column("run_summary", "subject").text(&subject)?)
        .execute(&mut *transaction)
        .await?;
    for tag in &run.spec.tags {
        query(ADD_TAG)
            .bind(number)
            .bind(tag)
            .execute(&mut *transaction)
            .await?;
    }
    let named = [
        suite.map(|it| it.suite_id.as_str()),
        agent.map(|it| it.agent_id.as_str()),
        subject.model.as_ref().map(|it| it.model.as_str()),
    ];
    let names = run_names::names(named, &run.spec.tags);
    run_names::add(transaction, run.tenant.as_str(), number, &names).await
}

pub async fn set_status(
    transaction: &mut Transaction,
    run: &RunId,
    status: RunStatus,
) -> Result<(), StoreError> {
    query(SET_STATUS)
        .bind(run.as_str())
        .bind(status.as_str())
        .execute(transaction)
        .await?;
    Ok(())
}

/// Stores the result of a run that has ended.
pub async fn set_result(
    database: &Database,
    run: &RunId,
    status: RunStatus,
    result: &RunResult,
) -> Result<(), StoreError> {
    query(SET_RESULT)
        .bind(run.as_str())
        .bind(status.as_str())
        .bind(result.verdict.map(Verdict::as_str))
        .bind(column("run_summary", "result").text(result)?)
        .execute(database.writer()?)
        .await?;
    Ok(())
}

/// Up to `limit` runs that have ended and whose result is not stored.
pub async fn without_result(
    database: &Database,
    tenant: &TenantId,
    limit: u32,
) -> Result<Vec<RunId>, StoreError> {
    let runs: Vec<String> = query(WITHOUT_RESULT)
        .bind(tenant.as_str())
        .bind(limit)
        .fetch_all(database.readers())
        .await?;
    Ok(runs.into_iter().map(RunId::from).collect())
}

/// Up to `limit` rows that meet the query, newest first.
pub async fn list(
    database: &Database,
    tenant: &TenantId,
    asked: &RunQuery,
) -> Result<Vec<RunListing>, StoreError> {
    let patterns: Vec<String> = asked.words.iter().map(|word| pattern(word)).collect();
    let base = || query_of(statement(asked), tenant, asked, &patterns);
    let mut rows = match way(database, tenant, asked, &patterns).await? {
        Way::None => return Ok(Vec::new()),
        Way::List => base().fetch_all(database.readers()).await?,
        Way::Runs(runs) => {
            query_of(LIST_OF_RUNS, tenant, asked, &patterns)
                .bind(array(runs))
                .fetch_all(database.readers())
                .await?
        }
        Way::Names(names) => {
            let mut rows: Vec<Row> = Vec::new();
            for name in names {
                let found = query_of(LIST_OF_NAME, tenant, asked, &patterns).bind(name);
                rows.extend(found.fetch_all::<Row>(database.readers()).await?);
            }
            rows.sort_by(|a, b| (b.1, &b.0).cmp(&(a.1, &a.0)));
            rows.dedup_by(|a, b| a.0 == b.0);
            rows
        }
    };
    rows.truncate(asked.limit);
    listings(database, rows).await
}

/// The newest judged run of each suite and agent version, newest first; at most `limit`.
pub async fn newest_of_versions(
    database: &Database,
    tenant: &TenantId,
    agent: Option<&str>,
    limit: u32,
) -> Result<Vec<RunListing>, StoreError> {
    let numbers: Vec<i64> = query(NEWEST_OF_VERSIONS)
        .bind(tenant.as_str())
        .bind(agent)
        .bind(limit)
        .fetch_all(database.readers())
        .await?;
    let rows: Vec<Row> = query(ROWS)
        .bind(array(numbers))
        .fetch_all(database.readers())
        .await?;
    listings(database, rows).await
}

fn array(numbers: impl IntoIterator<Item = i64>) -> String {
    let texts: Vec<String> = numbers.into_iter().map(|it| it.to_string()).collect();
    json!(texts).to_string()
}

/// Words, tags and models have names; a run's id or the few unfinished runs are narrower.
async fn way(
    database: &Database,
    tenant: &TenantId,
    asked: &RunQuery,
    patterns: &[String],
) -> Result<Way, StoreError> {
    let is_narrow =
        asked.id_prefix.is_some() || asked.status.is_some_and(|status| !status.is_terminal());
    let has_index = asked.suite_id.is_some() || asked.agent_id.is_some();
    match (&asked.tag, &asked.model) {
        _ if is_narrow => Ok(Way::List),
        (Some(tag), _) => run_names::exact(database, tenant, tag).await,
        _ if !patterns.is_empty() => run_names::way(database, tenant, patterns).await,
        (None, Some(model)) if !has_index => run_names::exact(database, tenant, model).await,
        _ => Ok(Way::List),
    }
}

fn query_of<'q>(
    text: &'static str,
    tenant: &'q TenantId,
    asked: &'q RunQuery,
    patterns: &'q [String],
) -> Query<'q> {
    let micros =
        |time: Option<Timestamp>, otherwise| time.map_or(otherwise, |it| it.as_microsecond());
    let prefix = asked.id_prefix.as_deref().unwrap_or_default();
    let after = asked.after.as_ref();
    let mut asking = query(text)
        .bind(tenant.as_str())
        .bind(micros(asked.since, i64::MIN))
        .bind(micros(asked.until, i64::MAX))
        .bind(micros(after.map(|it| it.created_at), i64::MAX))
        .bind(after.map_or("", |it| it.run_id.as_str()))
        .bind(prefix)
        .bind(format!("{prefix}{AFTER_ALL_IDS}"))
        .bind(asked.kind.map(|it| it.as_str()))
        .bind(asked.suite_id.as_deref())
        .bind(asked.suite_version.as_deref())
        .bind(asked.agent_id.as_deref())
        .bind(asked.agent_version.as_deref())
        .bind(asked.model.as_deref())
        .bind(asked.verdict.map(Verdict::as_str))
        .bind(asked.status.map(|it| it.as_str()))
        .bind(asked.tag.as_deref())
        .bind(i64::try_from(asked.limit).unwrap_or(i64::MAX));
    for word in 0..MAX_WORDS {
        asking = asking.bind(patterns.get(word).map(String::as_str));
    }
    asking
}

async fn listings(database: &Database, rows: Vec<Row>) -> Result<Vec<RunListing>, StoreError> {
    const SUBJECT: Column = column("run_summary", "subject");
    const RESULT: Column = column("run_summary", "result");

    let ids: Vec<&str> = rows.iter().map(|row| row.0.as_str()).collect();
    let mut tags = tags(database, &ids).await?;
    rows.into_iter()
        .map(|(run, created_at, status, subject, result, voided)| {
            Ok(RunListing {
                created_at: column("run_summary", "created_at").time(created_at)?,
                status,
                subject: SUBJECT.document(&subject)?,
                result: result.map(|it| RESULT.document(&it)).transpose()?,
                tags: tags.remove(&run).unwrap_or_default(),
                voided,
                run_id: run.into(),
            })
        })
        .collect()
}

fn statement(asked: &RunQuery) -> &'static str {
    if asked.id_prefix.is_some() {
        LIST_OF_PREFIX
    } else if asked.status.is_some_and(|status| !status.is_terminal()) {
        LIST_UNFINISHED
    } else if asked.agent_id.is_some() {
        LIST_OF_AGENT
    } else if asked.suite_id.is_some() {
        LIST_OF_SUITE
    } else if asked.verdict.is_some() {
        LIST_OF_VERDICT
    } else {
        LIST
    }
}

/// The tags of a run, sorted.
pub async fn tags_of(database: &Database, run: &RunId) -> Result<Vec<String>, StoreError> {
    let mut tags = tags(database, &[run.as_str()]).await?;
    Ok(tags.remove(run.as_str()).unwrap_or_default())
}

async fn tags(
    database: &Database,
    runs: &[&str],
) -> Result<HashMap<String, Vec<String>>, StoreError> {
    let rows: Vec<(String, String)> = query(TAGS)
        .bind(json!(runs).to_string())
        .fetch_all(database.readers())
        .await?;
    let mut found: HashMap<String, Vec<String>> = HashMap::new();
    for (run, tag) in rows {
        found.entry(run).or_default().push(tag);
    }
    Ok(found)
}

/// The outcome of a change of tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagChange {
    /// The run's tags afterwards.
    Changed(Vec<String>),
    /// The run would have this many tags; nothing was changed.
    TooMany(usize),
    NoSuchRun,
}

/// Removes and adds tags, unless the run would have more than `most`.
pub async fn change_tags(
    database: &Database,
    tenant: &TenantId,
    run: &RunId,
    change: &TagRequest,
    most: usize,
) -> Result<TagChange, StoreError> {
    let mut transaction = database.begin_write().await?;
    let number: Option<i64> = query(LOCK)
        .bind(run.as_str())
        .bind(tenant.as_str())
        .fetch_optional(&mut transaction)
        .await?;
    let Some(number) = number else {
        return Ok(TagChange::NoSuchRun);
    };
    for (statement, tags) in [(REMOVE_TAG, &change.remove), (ADD_TAG, &change.add)] {
        for tag in tags {
            query(statement)
                .bind(number)
                .bind(tag)
                .execute(&mut transaction)
                .await?;
        }
    }
    let tags: Vec<String> = query(TAGS_OF)
        .bind(number)
        .fetch_all(&mut transaction)
        .await?;
    if tags.len() > most {
        transaction.rollback().await?;
        return Ok(TagChange::TooMany(tags.len()));
    }
    run_names::change(&mut transaction, number, &tags).await?;
    transaction.commit().await?;
    Ok(TagChange::Changed(tags))
}
