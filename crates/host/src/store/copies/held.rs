//! Work that is held in a copy of a database (ADR 58). The original may still be alive: a second host
//! that continues its runs and delivers its webhooks would do everything twice.

use serde::Serialize;

use crate::audit::Decision;
use crate::ports::store::StoreError;
use crate::store::audit;
use crate::store::convert::column;
use crate::store::database::Database;
use crate::store::sql::{Transaction, query};
use touchstone_kit::ids::TenantId;

/// How much of one kind of work is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldCount {
    /// Plural name, such as `webhooks`.
    pub name: &'static str,
    pub count: u64,
}

/// Browsers that hold a session of the original must not have one here.
const END_SESSIONS: &str = "UPDATE console_session SET ended_at = {now} WHERE ended_at IS NULL";
const TENANTS: &str = "SELECT tenant FROM audit_head ORDER BY tenant";

impl Database {
    /// Prepares a copy: ends the sessions of the console, holds work if `hold`, and records
    /// `decision` in the audit log of every tenant. Returns what is held afterwards.
    ///
    /// # Errors
    /// The database failed; then nothing was changed.
    pub async fn begin_copy(
        &self,
        hold: bool,
        decision: &Decision,
    ) -> Result<Vec<HeldCount>, StoreError> {
        let mut transaction = self.begin_write().await?;
        query(END_SESSIONS).execute(&mut transaction).await?;
        if hold {
            for work in self.held_work() {
                query(work.hold).execute(&mut transaction).await?;
            }
        }
        record_for_all(&mut transaction, decision).await?;
        transaction.commit().await?;
        self.held().await
    }

    /// Lets hosts continue what is held. Returns what was held.
    ///
    /// # Errors
    /// The database failed; then nothing was changed.
    pub async fn release_held(&self, decision: &Decision) -> Result<Vec<HeldCount>, StoreError> {
        let held = self.held().await?;
        let mut transaction = self.begin_write().await?;
        for work in self.held_work() {
            query(work.release).execute(&mut transaction).await?;
        }
        record_for_all(&mut transaction, decision).await?;
        transaction.commit().await?;
        self.notify_work().await;
        Ok(held)
    }

    /// The kinds of work of which something is held.
    ///
    /// # Errors
    /// The database failed.
    pub async fn held(&self) -> Result<Vec<HeldCount>, StoreError> {
        let mut held = Vec::new();
        for work in self.held_work() {
            let count: i64 = query(work.count).fetch_one(self.readers()).await?;
            let count = column("database", "held").number(count)?;
            if count > 0 {
                let name = work.name;
                held.push(HeldCount { name, count });
            }
        }
        Ok(held)
    }
}

async fn record_for_all(
    transaction: &mut Transaction,
    decision: &Decision,
) -> Result<(), StoreError> {
    let tenants: Vec<String> = query(TENANTS).fetch_all(&mut *transaction).await?;
    for tenant in tenants {
        audit::record(transaction, &TenantId::from(tenant.as_str()), decision).await?;
    }
    Ok(())
}
