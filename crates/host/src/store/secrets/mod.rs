//! Secrets in tables. They are encrypted with the host's key before they are written, and
//! re-encrypted when that key changes.

mod host;

use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::ports::host_keys::HostKeys;
use crate::ports::host_secrets::{AUDIT_CHECKPOINTS, IDEMPOTENCY_DIGESTS, Reencrypt};
use crate::ports::store::StoreError;
use crate::store::convert::column;
use crate::store::database::Database;
use crate::store::migrations::SecretTable;
use crate::store::secrets::host::{PLAIN_BYTES, REPLACE_SECRET, SECRET};
use crate::store::sql::query;
use touchstone_kit::sealing::{HostKeyRing, SealingKey, keyed_digest, owner};

/// Rows per transaction.
const BATCH: i64 = 200;
/// Name of the encryption key that earlier versions without a key file stored in the database.
const KEY_IN_DATABASE: &str = "sealing";

/// Encrypts and decrypts stored secrets.
pub struct Cipher {
    keys: Arc<dyn HostKeys>,
    /// The key for digests of idempotent requests, once it has been read.
    digests: OnceCell<[u8; 32]>,
}

impl Cipher {
    pub(super) fn new(keys: Arc<dyn HostKeys>) -> Self {
        Self {
            keys,
            digests: OnceCell::new(),
        }
    }

    fn ring(&self) -> Result<Arc<HostKeyRing>, StoreError> {
        self.keys.ring().map_err(StoreError::HostKey)
    }

    /// The digest of a request as it is stored, keyed with the secret that `read` returns.
    pub(super) async fn keyed(
        &self,
        digest: &[u8; 32],
        read: impl Future<Output = Result<[u8; 32], StoreError>>,
    ) -> Result<[u8; 32], StoreError> {
        let key = self.digests.get_or_try_init(|| read).await?;
        Ok(keyed_digest(key, digest))
    }

    /// Encrypts a secret for `owner`.
    pub fn seal(&self, owner: &str, secret: &[u8]) -> Result<String, StoreError> {
        seal(&*self.ring()?, owner, secret)
    }

    /// Decrypts a secret of `owner`.
    pub fn open(
        &self,
        table: &'static str,
        owner: &str,
        sealed: &str,
    ) -> Result<Vec<u8>, StoreError> {
        open(&*self.ring()?, table, owner, sealed)
    }
}

fn seal(ring: &HostKeyRing, owner: &str, secret: &[u8]) -> Result<String, StoreError> {
    let sealed = ring.seal(rand::random(), owner, secret);
    sealed.ok_or_else(|| StoreError::Backend("encryption with the host key failed".into()))
}

fn open(
    ring: &HostKeyRing,
    table: &'static str,
    owner: &str,
    sealed: &str,
) -> Result<Vec<u8>, StoreError> {
    let opened = ring.open(owner, sealed);
    opened.map_err(|source| StoreError::Undecryptable { table, source })
}

type SecretRow = (i64, String, String, Option<String>, bool);

/// A row's re-encrypted secrets; `None` if they are already encrypted with the current key.
fn rewritten(
    ring: &HostKeyRing,
    table: &SecretTable,
    (_, id, secret, previous, sealed): &SecretRow,
) -> Result<Option<(String, Option<String>)>, StoreError> {
    let texts = [Some(secret), previous.as_ref()];
    let is_current = texts.iter().flatten().all(|text| ring.is_current(text));
    if *sealed && is_current {
        return Ok(None);
    }
    let owner = (table.owner)(id);
    let again = |text: &String| {
        let secret = match sealed {
            true => open(ring, table.name, &owner, text)?,
            false => text.clone().into_bytes(),
        };
        seal(ring, &owner, &secret)
    };
    let previous = previous.as_ref().map(again).transpose()?;
    Ok(Some((again(secret)?, previous)))
}

const ANSWERS: &str = "SELECT tenant, endpoint, key_hash, body, sealed FROM idempotency
    WHERE status IS NOT NULL AND body IS NOT NULL AND (tenant, endpoint, key_hash) > ($1, $2, $3)
    ORDER BY tenant, endpoint, key_hash LIMIT $4";
const PLAIN_ANSWERS: &str = "SELECT tenant, endpoint, key_hash, body, sealed FROM idempotency
    WHERE NOT sealed AND status IS NOT NULL AND body IS NOT NULL
        AND (tenant, endpoint, key_hash) > ($1, $2, $3)
    ORDER BY tenant, endpoint, key_hash LIMIT $4";
const REPLACE_ANSWER: &str = "UPDATE idempotency SET body = $4, sealed = TRUE
    WHERE tenant = $1 AND endpoint = $2 AND key_hash = $3 AND body = $5";

type AnswerRow = (String, String, Vec<u8>, Vec<u8>, bool);

/// The re-encrypted body of a stored response; `None` if it is already encrypted with the current
/// key.
fn rewritten_answer(
    ring: &HostKeyRing,
    (tenant, endpoint, key_hash, body, sealed): &AnswerRow,
) -> Result<Option<String>, StoreError> {
    let owner = owner::idempotent_answer(tenant, endpoint, key_hash);
    if !sealed {
        return seal(ring, &owner, body).map(Some);
    }
    let place = column("idempotency", "body");
    let text = std::str::from_utf8(body).map_err(|_| place.inconsistent())?;
    if ring.is_current(text) {
        return Ok(None);
    }
    let body = open(ring, "idempotency", &owner, text)?;
    seal(ring, &owner, &body).map(Some)
}

const HOST_SECRETS: &str = "SELECT name, secret FROM host_secret";
const FORGET_SECRET: &str = "DELETE FROM host_secret WHERE name = $1 AND secret = $2";

impl Database {
    async fn reencrypt_table(
        &self,
        ring: &HostKeyRing,
        table: &SecretTable,
        select: &'static str,
    ) -> Result<u64, StoreError> {
        let (mut after, mut changed) = (i64::MIN, 0);
        loop {
            let rows: Vec<SecretRow> = query(select)
                .bind(after)
                .bind(BATCH)
                .fetch_all(self.readers())
                .await?;
            let Some(last) = rows.last() else {
                return Ok(changed);
            };
            after = last.0;
            let mut transaction = self.begin_write().await?;
            for row in &rows {
                let Some((secret, previous)) = rewritten(ring, table, row)? else {
                    continue;
                };
                let updated = query(table.update)
                    .bind(row.0)
                    .bind(secret)
                    .bind(previous)
                    .bind(&row.2)
                    .execute(&mut transaction)
                    .await?;
                changed += updated;
            }
            transaction.commit().await?;
        }
    }

    async fn reencrypt_answers(
        &self,
        ring: &HostKeyRing,
        select: &'static str,
    ) -> Result<u64, StoreError> {
        let mut after = (String::new(), String::new(), Vec::new());
        let mut changed = 0;
        loop {
            let rows: Vec<AnswerRow> = query(select)
                .bind(&after.0)
                .bind(&after.1)
                .bind(&after.2)
                .bind(BATCH)
                .fetch_all(self.readers())
                .await?;
            let Some((tenant, endpoint, key_hash, ..)) = rows.last() else {
                return Ok(changed);
            };
            after = (tenant.clone(), endpoint.clone(), key_hash.clone());
            let mut transaction = self.begin_write().await?;
            for row in &rows {
                let Some(body) = rewritten_answer(ring, row)? else {
                    continue;
                };
                let updated = query(REPLACE_ANSWER)
                    .bind(&row.0)
                    .bind(&row.1)
                    .bind(&row.2)
                    .bind(body.as_bytes())
                    .bind(&row.3)
                    .execute(&mut transaction)
                    .await?;
                changed += updated;
            }
            transaction.commit().await?;
        }
    }

    /// Replaces the secrets that the host generated for itself, because a holder of the old key may
    /// know them. The keys for idempotency digests and audit checkpoints are re-encrypted instead.
    async fn replace_host_secrets(&self, ring: &HostKeyRing) -> Result<u64, StoreError> {
        let rows: Vec<(String, Vec<u8>)> = query(HOST_SECRETS).fetch_all(self.readers()).await?;
        let mut changed = 0;
        for (name, stored) in rows {
            let text = std::str::from_utf8(&stored).unwrap_or_default();
            if name == KEY_IN_DATABASE || ring.is_current(text) {
                continue;
            }
            let owner = owner::host_secret(&name);
            let secret = match name.as_str() {
                IDEMPOTENCY_DIGESTS | AUDIT_CHECKPOINTS => open(ring, "host_secret", &owner, text)?,
                _ => rand::random::<[u8; 32]>().to_vec(),
            };
            let fresh = seal(ring, &owner, &secret)?;
            let updated = query(REPLACE_SECRET)
                .bind(&name)
                .bind(fresh.as_bytes())
                .bind(&stored)
                .execute(self.writer()?)
                .await?;
            changed += updated;
        }
        Ok(changed)
    }

    /// Re-encrypts with the host's key everything encrypted with a key in the database, and deletes
    /// that key.
    async fn leave_key_in_database(&self, ring: &HostKeyRing) -> Result<u64, StoreError> {
        let stored: Option<Vec<u8>> = query(SECRET)
            .bind(KEY_IN_DATABASE)
            .fetch_optional(self.readers())
            .await?;
        let Some(stored) = stored else { return Ok(0) };
        let key = <&[u8; PLAIN_BYTES]>::try_from(stored.as_slice()).ok();
        let key = key.map(SealingKey::of);
        let ring = match key {
            Some(key) => ring.with_previous(key),
            None => return Err(column("host_secret", "secret").inconsistent()),
        };
        let mut changed = 0;
        loop {
            let before = changed;
            for table in self.secrets().iter().filter(|it| it.select_plain.is_none()) {
                let select = table.select;
                changed += self.reencrypt_table(&ring, table, select).await?;
            }
            if changed == before {
                break;
            }
        }
        query(FORGET_SECRET)
            .bind(KEY_IN_DATABASE)
            .bind(&stored)
            .execute(self.writer()?)
            .await?;
        Ok(changed)
    }
}

/// Secrets as they are stored: encrypted with the host's key, which is not in the database.
impl Database {
    /// Encrypts stored secrets with the current key and returns the number of rewritten rows. Rows
    /// changed concurrently are left to the next pass. Under [`Reencrypt::All`], secrets of the
    /// host itself are replaced by new ones, except [`IDEMPOTENCY_DIGESTS`] and
    /// [`AUDIT_CHECKPOINTS`].
    ///
    /// # Errors
    /// [`StoreError::Undecryptable`] for a secret that no key of the host decrypts.
    pub async fn reencrypt(&self, which: Reencrypt) -> Result<u64, StoreError> {
        let ring = self.cipher().ring()?;
        let all = which == Reencrypt::All;
        self.clear_old_content(true).await?;
        let mut changed = self.leave_key_in_database(&ring).await?;
        for table in self.secrets() {
            let select = match all {
                true => Some(table.select),
                false => table.select_plain,
            };
            if let Some(select) = select {
                changed += self.reencrypt_table(&ring, table, select).await?;
            }
        }
        let answers = if all { ANSWERS } else { PLAIN_ANSWERS };
        changed += self.reencrypt_answers(&ring, answers).await?;
        if all {
            changed += self.replace_host_secrets(&ring).await?;
        }
        if changed > 0 {
            self.fold_log().await?;
        }
        self.clear_old_content(false).await?;
        Ok(changed)
    }
}

impl Database {
    /// Whether the database has secrets that a key outside it encrypted. Every host stores one when
    /// it first starts.
    ///
    /// # Errors
    /// [`StoreError::Backend`].
    pub async fn has_encrypted_secrets(&self) -> Result<bool, StoreError> {
        let rows: Vec<(String, Vec<u8>)> = query(HOST_SECRETS).fetch_all(self.readers()).await?;
        let is_encrypted = |(name, stored): &(String, Vec<u8>)| {
            name != KEY_IN_DATABASE && stored.len() != PLAIN_BYTES
        };
        Ok(rows.iter().any(is_encrypted))
    }

    /// Decrypts every stored secret and returns their number. Values that an earlier version stored
    /// in plaintext count too.
    ///
    /// # Errors
    /// [`StoreError::Undecryptable`] for the first secret that no key of the host decrypts.
    pub async fn check_secrets(&self) -> Result<u64, StoreError> {
        let ring = self.cipher().ring()?;
        let mut count = 0;
        for table in self.secrets() {
            let mut after = i64::MIN;
            loop {
                let rows: Vec<SecretRow> = query(table.select)
                    .bind(after)
                    .bind(BATCH)
                    .fetch_all(self.readers())
                    .await?;
                let Some(last) = rows.last() else { break };
                after = last.0;
                for (_, id, secret, previous, sealed) in &rows {
                    let owner = (table.owner)(id);
                    for text in [Some(secret), previous.as_ref()].into_iter().flatten() {
                        if *sealed {
                            open(&ring, table.name, &owner, text)?;
                        }
                        count += 1;
                    }
                }
            }
        }
        let rows: Vec<(String, Vec<u8>)> = query(HOST_SECRETS).fetch_all(self.readers()).await?;
        for (name, stored) in rows {
            if name != KEY_IN_DATABASE && stored.len() != PLAIN_BYTES {
                let text = std::str::from_utf8(&stored)
                    .map_err(|_| column("host_secret", "secret").inconsistent())?;
                open(&ring, "host_secret", &owner::host_secret(&name), text)?;
            }
            count += 1;
        }
        Ok(count)
    }

    /// Makes SQLite overwrite deleted content with zeros: freed pages too, or only content replaced
    /// within a page. On PostgreSQL, vacuum removes replaced content.
    async fn clear_old_content(&self, free_pages_too: bool) -> Result<(), StoreError> {
        self.pragma(match free_pages_too {
            true => "PRAGMA secure_delete = ON",
            false => "PRAGMA secure_delete = FAST",
        })
        .await
    }

    /// Checkpoints and truncates SQLite's write-ahead log, which contains earlier versions of
    /// pages. An active reader may postpone this to the next call.
    async fn fold_log(&self) -> Result<(), StoreError> {
        self.pragma("PRAGMA wal_checkpoint(TRUNCATE)").await
    }
}
