//! The list of runs.

mod statements;
pub mod verdicts;

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::json;

use crate::rules::eval::report::Verdict;
use crate::rules::run::fold::RunStatus;
use crate::rules::run::listing::{RunListing, RunQuery, RunResult, RunSubject, TagRequest};
use crate::rules::run::record::RunRecord;
use crate::rules::run::search::{MAX_WORDS, pattern};
use crate::store::run_list::statements::{
    LIST_OF_NAME, LIST_OF_RUNS, NEWEST_OF_VERSIONS, ROWS, statement,
};
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
const SET_RESULT: &str =
    "UPDATE run_summary SET status = $2, verdict = $3, decided = NULL, result = $4
    WHERE run_number = (SELECT number FROM run WHERE run_id = $1 AND ended)";
const WITHOUT_RESULT: &str =
    "SELECT s.run_id FROM run_summary s JOIN run r ON r.number = s.run_number
    WHERE s.tenant = $1 AND s.result IS NULL AND r.ended ORDER BY s.run_number LIMIT $2";
const TAGS: &str = "SELECT r.run_id, t.tag FROM run r JOIN run_tag t ON t.run_number = r.number
    WHERE r.run_id IN ({each $1}) ORDER BY t.tag";

/// A row: id, time of creation, status, subject, result, decided verdict, and whether the run is
/// void.
type Row = (
    String,
    i64,
    String,
    String,
    Option<String>,
    Option<String>,
    bool,
);

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

/// Stores the result of a run that has ended; its verdict is the one of its own scores.
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
    asking.bind(asked.workflow_id.as_deref().map(workflow_member))
}

/// The member of a stored subject that names the workflow.
fn workflow_member(id: &str) -> String {
    format!(r#""workflowId":{}"#, json!(id))
}

async fn listings(database: &Database, rows: Vec<Row>) -> Result<Vec<RunListing>, StoreError> {
    const SUBJECT: Column = column("run_summary", "subject");
    const RESULT: Column = column("run_summary", "result");

    let ids: Vec<&str> = rows.iter().map(|row| row.0.as_str()).collect();
    let mut tags = tags(database, &ids).await?;
    rows.into_iter()
        .map(
            |(run, created_at, status, subject, result, decided, voided)| {
                let result = result.map(|it| RESULT.document(&it)).transpose()?;
                let decided = decided.map(|it| verdicts::read(&it)).transpose()?;
                Ok(RunListing {
                    created_at: column("run_summary", "created_at").time(created_at)?,
                    status,
                    subject: SUBJECT.document(&subject)?,
                    result: result.map(|it: RunResult| it.decided(decided)),
                    tags: tags.remove(&run).unwrap_or_default(),
                    voided,
                    run_id: run.into(),
                })
            },
        )
        .collect()
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
