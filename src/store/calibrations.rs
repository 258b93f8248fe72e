//! Judges compared with people.

use async_trait::async_trait;

use super::audit::record;
use super::convert::{backend, column};
use super::{PostgresStore, SqliteStore};
use crate::domain::audit::Decision;
use crate::domain::eval::rubric::calibration::Calibration;
use crate::domain::ids::TenantId;
use crate::ports::{Calibrations, StoreError};

const KEEP: &str = "INSERT INTO calibration (tenant, identity, document) VALUES ($1, $2, $3)
    ON CONFLICT (tenant, identity) DO UPDATE SET document = excluded.document";
const OF_JUDGE: &str = "SELECT document FROM calibration WHERE tenant = $1 AND identity = $2";
const ALL: &str = "SELECT document FROM calibration WHERE tenant = $1 ORDER BY identity";

fn read(document: &str) -> Result<Calibration, StoreError> {
    column("calibration", "document").document(document)
}

macro_rules! calibrations {
    ($store:ty) => {
        #[async_trait]
        impl Calibrations for $store {
            async fn keep_calibration(
                &self,
                tenant: &TenantId,
                calibration: &Calibration,
                decision: &Decision,
            ) -> Result<(), StoreError> {
                let document = column("calibration", "document").text(calibration)?;
                let mut transaction = self.begin_write().await?;
                record!(transaction, tenant, decision);
                sqlx::query(KEEP)
                    .bind(tenant.as_str())
                    .bind(&calibration.judge.identity)
                    .bind(document)
                    .execute(&mut *transaction)
                    .await
                    .map_err(backend)?;
                transaction.commit().await.map_err(backend)
            }

            async fn calibration(
                &self,
                tenant: &TenantId,
                identity: &str,
            ) -> Result<Option<Calibration>, StoreError> {
                let document: Option<String> = sqlx::query_scalar(OF_JUDGE)
                    .bind(tenant.as_str())
                    .bind(identity)
                    .fetch_optional(self.readers())
                    .await
                    .map_err(backend)?;
                document.as_deref().map(read).transpose()
            }

            async fn calibrations(
                &self,
                tenant: &TenantId,
            ) -> Result<Vec<Calibration>, StoreError> {
                let documents: Vec<String> = sqlx::query_scalar(ALL)
                    .bind(tenant.as_str())
                    .fetch_all(self.readers())
                    .await
                    .map_err(backend)?;
                documents.iter().map(|document| read(document)).collect()
            }
        }
    };
}

calibrations!(SqliteStore);
calibrations!(PostgresStore);
