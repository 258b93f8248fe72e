//! A fresh PostgreSQL database for each test.
//!
//! `./test` starts a private server and names it in `TOUCHSTONE_TEST_POSTGRES_URL`. Without one,
//! the PostgreSQL half of the tests prints a note and is skipped; on CI (`CI=true`) that is a
//! failure.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection};

const SERVER: &str = "TOUCHSTONE_TEST_POSTGRES_URL";

/// A database that is dropped with this value, even while clients are connected.
pub struct TestDatabase {
    server: String,
    name: String,
}

impl TestDatabase {
    /// `None` if there is no server and none is required.
    pub async fn create() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);

        let Ok(server) = std::env::var(SERVER) else {
            eprintln!("NOT RUN: no PostgreSQL ({SERVER} unset)");
            let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
            assert!(!ci, "CI must run the PostgreSQL half: set {SERVER}");
            return None;
        };
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("touchstone_test_{}_{count}", std::process::id());
        // A killed test run may have left a database with this name.
        execute(
            &server,
            format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
        )
        .await;
        execute(&server, format!("CREATE DATABASE {name}")).await;
        Some(Self { server, name })
    }

    pub fn url(&self) -> String {
        self.options().to_url_lossy().to_string()
    }

    pub fn options(&self) -> PgConnectOptions {
        let options: PgConnectOptions = self.server.parse().unwrap();
        options.database(&self.name)
    }

    /// Breaks every connection to it, as a server restart would.
    pub async fn disconnect_all(&self) {
        let sql = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = ";
        execute(&self.server, format!("{sql} '{}'", self.name)).await;
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let server = self.server.clone();
        let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(execute(&server, sql));
        });
        assert!(dropped.join().is_ok() || std::thread::panicking());
    }
}

/// Executes a statement. The server refuses it while others use the template or the database, as
/// clients that connect again do for a moment.
async fn execute(server: &str, sql: String) {
    for _ in 0..9 {
        if attempt(server, &sql).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    attempt(server, &sql).await.unwrap();
}

async fn attempt(server: &str, sql: &str) -> Result<(), sqlx::Error> {
    let mut connection = PgConnection::connect(server).await?;
    sqlx::query(AssertSqlSafe(sql.to_owned()))
        .execute(&mut connection)
        .await?;
    connection.close().await
}
