//! Which databases are opened, and that a refused one is not changed.

use std::error::Error;
use std::fs::File;
use std::iter::successors;

use rstest::rstest;
use tokio::task::JoinSet;

use crate::store::{Engine, Engine::*, TestStore, open};
use crate::support::host_keys;

const PRE_RELEASE: &str = include_str!("../../../fixtures/pre-release-database.sql");

/// A database after these statements; `None` if this engine is not available.
async fn database_after(engine: Engine, statements: &str) -> Option<TestStore> {
    let database = engine.database().await?;
    if let TestStore::Sqlite(folder) = &database {
        File::create(folder.path().join("test.db")).unwrap();
    }
    for statement in statements.split_terminator(";\n") {
        database.execute(statement.to_owned()).await;
    }
    Some(database)
}

/// Why the database is not opened.
async fn refusal(database: &TestStore) -> String {
    let refused = database.open_with(host_keys::usual()).await;
    let refused = refused.err().expect("the database was opened");
    let causes = successors(Some(&refused as &dyn Error), |cause| (**cause).source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    causes.join(": ")
}

/// The names of all tables and the ids of all keys.
async fn content(database: &TestStore) -> String {
    let bytes = database.bytes(match database {
        TestStore::Sqlite(_) => {
            "SELECT CAST((SELECT GROUP_CONCAT(name) FROM (SELECT name FROM sqlite_master ORDER BY name))
                || (SELECT COALESCE(GROUP_CONCAT(id), '') FROM api_key) AS BLOB)"
        }
        TestStore::Postgres(_) => {
            "SELECT CONVERT_TO((SELECT STRING_AGG(tablename::text, ',' ORDER BY tablename) FROM pg_tables
                WHERE schemaname = 'public')
                || (SELECT COALESCE(STRING_AGG(id, ','), '') FROM api_key), 'UTF8')"
        }
    });
    String::from_utf8(bytes.await).unwrap()
}

#[rstest]
#[tokio::test]
async fn a_database_from_before_the_first_release_is_refused(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = database_after(engine, PRE_RELEASE).await else {
        return;
    };
    let before = content(&database).await;
    let refusal = refusal(&database).await;
    assert!(refusal.contains("before the first release"), "{refusal}");
    assert!(refusal.contains("new data folder"), "{refusal}");
    assert_eq!(content(&database).await, before);
}

#[rstest]
#[tokio::test]
async fn a_database_with_a_table_of_another_program_is_refused(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let foreign = "CREATE TABLE api_key (id TEXT);\nINSERT INTO api_key (id) VALUES ('theirs');\n";
    let Some(database) = database_after(engine, foreign).await else {
        return;
    };
    let before = content(&database).await;
    let refusal = refusal(&database).await;
    assert!(refusal.contains("api_key"), "{refusal}");
    assert_eq!(content(&database).await, before);
}

#[rstest]
#[case::of_a_known_feature("runs")]
#[case::of_an_unknown_feature("invoices")]
#[tokio::test]
async fn a_database_that_a_newer_version_changed_is_refused(
    #[values(Sqlite, Postgres)] engine: Engine,
    #[case] feature: &str,
) {
    open!(engine => database, store);
    store.close().await;
    database
        .execute(format!(
            "INSERT INTO schema_migration (feature, version, checksum, applied_at) VALUES ('{feature}', 999, '', 0)"
        ))
        .await;
    let before = content(&database).await;
    let refusal = refusal(&database).await;
    assert!(refusal.contains("newer version"), "{refusal}");
    assert!(refusal.contains(feature), "{refusal}");
    assert_eq!(content(&database).await, before);
}

/// During an upgrade, replicas of both versions share the database.
#[rstest]
#[case::of_a_known_feature("runs")]
#[case::of_an_unknown_feature("invoices")]
#[tokio::test]
async fn a_database_to_which_a_newer_version_only_added_is_opened(
    #[values(Sqlite, Postgres)] engine: Engine,
    #[case] feature: &str,
) {
    open!(engine => database, store);
    store.close().await;
    database
        .execute(format!(
            "INSERT INTO schema_migration (feature, version, checksum, applied_at, additive)
             VALUES ('{feature}', 999, '', 0, TRUE)"
        ))
        .await;
    database.open().await.close().await;
}

#[rstest]
#[tokio::test]
async fn a_database_whose_migrations_had_another_text_is_refused(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    store.close().await;
    let changed = "UPDATE schema_migration SET checksum = '0' WHERE feature = 'packs'";
    database.execute(changed.to_owned()).await;
    let refusal = refusal(&database).await;
    assert!(refusal.contains("different build"), "{refusal}");
    assert!(refusal.contains("packs"), "{refusal}");
}

/// A migration that was added after the database was created. `agent_cards` stands for its tables.
#[rstest]
#[tokio::test]
async fn missing_migrations_are_applied(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    store.close().await;
    let before = content(&database).await;
    for statement in [
        "DROP TABLE card_look",
        "DROP TABLE card_watch",
        "DELETE FROM schema_migration WHERE feature = 'agent_cards'",
    ] {
        database.execute(statement.to_owned()).await;
    }
    assert_ne!(content(&database).await, before);
    database.open().await;
    assert_eq!(content(&database).await, before);
}

#[rstest]
#[tokio::test]
async fn processes_that_start_together_create_the_tables_once(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let mut starting = JoinSet::new();
    for _ in 0..4 {
        let location = database.location();
        starting.spawn(async move {
            touchstone::database::open(&location, host_keys::usual())
                .await
                .map(drop)
        });
    }
    for started in starting.join_all().await {
        started.unwrap();
    }
}
