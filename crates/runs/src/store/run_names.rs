//! The names that runs are searched by.

use std::collections::BTreeSet;

use serde_json::json;

use crate::rules::run::search::folded;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::{Sql, Transaction, query};
use touchstone_kit::ids::TenantId;

/// Names of a word that are followed one by one.
const MOST_NAMES: usize = 64;
/// Runs of a word that are sorted together.
const MOST_RUNS: usize = 2000;
/// Names may be deleted with their last run while a new run gets them.
const ATTEMPTS: usize = 8;

const ADD_NAMES: &str = "INSERT INTO run_name (tenant, name)
    SELECT $1, it FROM (SELECT CAST(NULL AS TEXT) AS it WHERE FALSE UNION ALL {each $2}) AS names
    WHERE NOT EXISTS (SELECT 1 FROM run_name known WHERE known.tenant = $1 AND known.name = it)
    ORDER BY it ON CONFLICT DO NOTHING";
/// Locks the names, so that none is deleted before its row for this run is written.
const NAME: Sql = Sql {
    sqlite: "INSERT INTO run_named (name_number, created_at, run_id, run_number)
        SELECT m.number, s.created_at, s.run_id, s.run_number FROM run_summary s, run_name m
        WHERE s.run_number = $1 AND m.tenant = $2 AND m.name IN (SELECT value FROM json_each($3))",
    postgres: "INSERT INTO run_named (name_number, created_at, run_id, run_number)
        SELECT m.number, s.created_at, s.run_id, s.run_number FROM run_summary s, run_name m
        WHERE s.run_number = $1 AND m.tenant = $2
            AND m.name IN (SELECT jsonb_array_elements_text($3::text::jsonb)) FOR KEY SHARE OF m",
};
const UNNAME: &str = "DELETE FROM run_named WHERE run_number = $1 AND name_number = $2";
/// A name that another transaction locks is in use.
const LOCK_NAME: &str = "SELECT number FROM run_name WHERE number = $1 {skip locked}";
const DROP_NAME: &str = "DELETE FROM run_name WHERE number = $1
    AND NOT EXISTS (SELECT 1 FROM run_named WHERE name_number = $1)";
const NAMES_OF: &str =
    "SELECT m.number, m.name FROM run_named n JOIN run_name m ON m.number = n.name_number
    WHERE n.run_number = $1 ORDER BY m.number";
const SUBJECT: &str =
    "SELECT tenant, suite_id, agent_id, model FROM run_summary WHERE run_number = $1";
const EXACT: &str = "SELECT number FROM run_name WHERE tenant = $1 AND name = $2";
const MATCHING: &str =
    "SELECT number FROM run_name WHERE tenant = $1 AND name LIKE $2 ESCAPE '\\' LIMIT $3";
/// The inner limit keeps PostgreSQL from reading all names of all runs.
const RUNS_OF_WORD: &str = "SELECT n.run_number FROM (
        SELECT number FROM run_name WHERE tenant = $1 AND name LIKE $2 ESCAPE '\\' LIMIT $3) AS m
    CROSS JOIN run_named n WHERE n.name_number = m.number LIMIT $3";

/// The names of a run: of its suite, its agent, its model and its tags.
pub fn names<'a>(
    subject: impl IntoIterator<Item = Option<&'a str>>,
    tags: impl IntoIterator<Item = &'a String>,
) -> BTreeSet<String> {
    let subject = subject.into_iter().flatten();
    let tags = tags.into_iter().map(String::as_str);
    subject.chain(tags).map(folded).collect()
}

/// Stores names of a run that it does not have yet.
pub async fn add(
    transaction: &mut Transaction,
    tenant: &str,
    number: i64,
    names: &BTreeSet<String>,
) -> Result<(), StoreError> {
    if names.is_empty() {
        return Ok(());
    }
    let list = json!(names).to_string();
    for _ in 0..ATTEMPTS {
        query(ADD_NAMES)
            .bind(tenant)
            .bind(&list)
            .execute(&mut *transaction)
            .await?;
        let named = query(NAME)
            .bind(number)
            .bind(tenant)
            .bind(&list)
            .execute(&mut *transaction)
            .await?;
        if named == names.len() as u64 {
            return Ok(());
        }
        for name in known(transaction, number).await? {
            if names.contains(&name.1) {
                unname(transaction, number, name.0).await?;
            }
        }
    }
    Ok(())
}

/// Gives a run the names that it has with these tags.
pub async fn change(
    transaction: &mut Transaction,
    number: i64,
    tags: &[String],
) -> Result<(), StoreError> {
    type Subject = (String, Option<String>, Option<String>, Option<String>);
    let (tenant, suite, agent, model): Subject = query(SUBJECT)
        .bind(number)
        .fetch_one(&mut *transaction)
        .await?;
    let wanted = names([suite.as_deref(), agent.as_deref(), model.as_deref()], tags);
    let had = known(transaction, number).await?;
    let is_known = |name: &&String| had.iter().any(|(_, known)| known == *name);
    let new = wanted.iter().filter(|name| !is_known(name)).cloned();
    add(transaction, &tenant, number, &new.collect()).await?;
    for (name, text) in &had {
        if !wanted.contains(text) {
            unname(transaction, number, *name).await?;
            drop_unused(transaction, *name).await?;
        }
    }
    Ok(())
}

/// Deletes the names of a run that is deleted.
pub async fn forget(transaction: &mut Transaction, number: i64) -> Result<(), StoreError> {
    for (name, _) in known(transaction, number).await? {
        unname(transaction, number, name).await?;
        drop_unused(transaction, name).await?;
    }
    Ok(())
}

async fn known(
    transaction: &mut Transaction,
    number: i64,
) -> Result<Vec<(i64, String)>, StoreError> {
    query(NAMES_OF).bind(number).fetch_all(transaction).await
}

async fn unname(transaction: &mut Transaction, number: i64, name: i64) -> Result<(), StoreError> {
    let delete = query(UNNAME).bind(number).bind(name);
    delete.execute(transaction).await?;
    Ok(())
}

async fn drop_unused(transaction: &mut Transaction, name: i64) -> Result<(), StoreError> {
    let locked: Option<i64> = query(LOCK_NAME)
        .bind(name)
        .fetch_optional(&mut *transaction)
        .await?;
    if locked.is_some() {
        query(DROP_NAME).bind(name).execute(transaction).await?;
    }
    Ok(())
}

/// How the runs with a word are found.
pub enum Way {
    /// There are none.
    None,
    /// In the order of the list, name by name.
    Names(Vec<i64>),
    /// These runs, by their numbers.
    Runs(BTreeSet<i64>),
    /// Too many runs and names: by reading the list.
    List,
}

/// The runs that have exactly this name.
pub async fn exact(database: &Database, tenant: &TenantId, name: &str) -> Result<Way, StoreError> {
    let found: Option<i64> = query(EXACT)
        .bind(tenant.as_str())
        .bind(folded(name))
        .fetch_optional(database.readers())
        .await?;
    Ok(found.map_or(Way::None, |name| Way::Names(vec![name])))
}

/// The way to the runs with all words; it starts from the word with the fewest runs.
pub async fn way(
    database: &Database,
    tenant: &TenantId,
    patterns: &[String],
) -> Result<Way, StoreError> {
    let mut rarest: Option<Vec<i64>> = None;
    for pattern in patterns {
        let runs: Vec<i64> = query(RUNS_OF_WORD)
            .bind(tenant.as_str())
            .bind(pattern)
            .bind(one_more(MOST_RUNS))
            .fetch_all(database.readers())
            .await?;
        if rarest.as_ref().is_none_or(|known| runs.len() < known.len()) {
            rarest = Some(runs);
        }
    }
    match rarest {
        None => return Ok(Way::List),
        Some(runs) if runs.is_empty() => return Ok(Way::None),
        Some(runs) if runs.len() <= MOST_RUNS => {
            return Ok(Way::Runs(runs.into_iter().collect()));
        }
        Some(_) => {}
    }
    let mut fewest: Option<Vec<i64>> = None;
    for pattern in patterns {
        let names: Vec<i64> = query(MATCHING)
            .bind(tenant.as_str())
            .bind(pattern)
            .bind(one_more(MOST_NAMES))
            .fetch_all(database.readers())
            .await?;
        if fewest
            .as_ref()
            .is_none_or(|known| names.len() < known.len())
        {
            fewest = Some(names);
        }
    }
    let few = fewest.filter(|names| names.len() <= MOST_NAMES);
    Ok(few.map_or(Way::List, Way::Names))
}

fn one_more(most: usize) -> i64 {
    i64::try_from(most + 1).unwrap_or(i64::MAX)
}
