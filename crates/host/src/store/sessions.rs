//! Sessions of the console.

use jiff::Timestamp;

use crate::ports::sessions::{ReplacedToken, SessionOrigin, SessionRecord, SignInAttempt};
use crate::ports::store::StoreError;
use crate::store::convert::column;
use crate::store::database::Database;
use crate::store::sql::{Target, query};
use touchstone_kit::ids::TenantId;

const ADD: &str = "INSERT INTO console_session (id, tenant, principal, method, key_id, oidc,
        token_hash, previous_hash, previous_until, csrf, created_at, used_at, rotated_at, ended_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, NULL, NULL, $8, $9, $9, $9, NULL)";
const ONE: &str = "SELECT id, tenant, principal, method, key_id, oidc,
        token_hash, previous_hash, previous_until, csrf, created_at, used_at, rotated_at, ended_at
    FROM console_session WHERE id = $1";
const OF_TENANT: &str = "SELECT id, tenant, principal, method, key_id, oidc,
        token_hash, previous_hash, previous_until, csrf, created_at, used_at, rotated_at, ended_at
    FROM console_session WHERE tenant = $1 AND ended_at IS NULL
    ORDER BY created_at DESC LIMIT $2";
const OF_PRINCIPAL: &str = "SELECT id, tenant, principal, method, key_id, oidc,
        token_hash, previous_hash, previous_until, csrf, created_at, used_at, rotated_at, ended_at
    FROM console_session WHERE tenant = $1 AND principal = $3 AND ended_at IS NULL
    ORDER BY created_at DESC LIMIT $2";
const END_OTHERS: &str = "UPDATE console_session SET ended_at = $4
    WHERE tenant = $1 AND principal = $2 AND id <> $3 AND ended_at IS NULL";
const USE: &str = "UPDATE console_session SET used_at = $2 WHERE id = $1 AND used_at < $2";
/// Only the holder of the current token replaces it, so that of two concurrent requests one does.
const ROTATE: &str =
    "UPDATE console_session SET previous_hash = token_hash, previous_until = $4, token_hash = $3,
        rotated_at = $5, used_at = $5
    WHERE id = $1 AND token_hash = $2 AND ended_at IS NULL";
const END: &str = "UPDATE console_session SET ended_at = $2 WHERE id = $1 AND ended_at IS NULL";
const FORGET: &str = "DELETE FROM console_session WHERE created_at < $1";
const ADD_ATTEMPT: &str =
    "INSERT INTO sign_in_attempt (state_hash, browser_hash, to_path, expires_at)
    VALUES ($1, $2, $3, $4)";
const TAKE_ATTEMPT: &str = "DELETE FROM sign_in_attempt WHERE state_hash = $1
    RETURNING browser_hash, to_path, expires_at";
const FORGET_ATTEMPTS: &str = "DELETE FROM sign_in_attempt WHERE expires_at < $1";

/// In the order of `ONE`.
type SessionRow = (
    String,
    String,
    String,
    String,
    Option<String>,
    Option<String>,
    Vec<u8>,
    Option<Vec<u8>>,
    Option<i64>,
    Vec<u8>,
    i64,
    i64,
    i64,
    Option<i64>,
);

fn session_of(row: SessionRow) -> Result<SessionRecord, StoreError> {
    let (id, tenant, principal, method, key_id, oidc, token_hash, ..) = row;
    let (.., previous_hash, previous_until, csrf, created_at, used_at, rotated_at, ended_at) = row;
    let of = |name| column("console_session", name);
    let origin = match (method.as_str(), key_id, oidc) {
        ("key", Some(key), None) => SessionOrigin::Key(key.into()),
        ("local", None, None) => SessionOrigin::Local,
        ("oidc", None, Some(grant)) => SessionOrigin::Oidc(of("oidc").document(&grant)?),
        _ => return Err(of("method").inconsistent()),
    };
    let previous = match (previous_hash, previous_until) {
        (Some(hash), Some(until)) => Some(ReplacedToken {
            hash: of("previous_hash").number(hash)?,
            valid_until: of("previous_until").time(until)?,
        }),
        (None, None) => None,
        _ => return Err(of("previous_hash").inconsistent()),
    };
    Ok(SessionRecord {
        id,
        tenant: tenant.into(),
        principal,
        origin,
        token_hash: of("token_hash").number(token_hash)?,
        previous,
        csrf: of("csrf").number(csrf)?,
        created_at: of("created_at").time(created_at)?,
        used_at: of("used_at").time(used_at)?,
        rotated_at: of("rotated_at").time(rotated_at)?,
        ended_at: ended_at.map(|it| of("ended_at").time(it)).transpose()?,
    })
}

/// Adds a session on a connection or within a transaction.
pub async fn add_session(
    on: impl Into<Target<'_>>,
    session: &SessionRecord,
) -> Result<(), StoreError> {
    let (key, oidc) = match &session.origin {
        SessionOrigin::Key(key) => (Some(key.as_str()), None),
        SessionOrigin::Local => (None, None),
        SessionOrigin::Oidc(grant) => {
            let text = column("console_session", "oidc").text(grant)?;
            (None, Some(text))
        }
    };
    query(ADD)
        .bind(session.id.as_str())
        .bind(session.tenant.as_str())
        .bind(session.principal.as_str())
        .bind(session.origin.method())
        .bind(key)
        .bind(oidc)
        .bind(session.token_hash.as_slice())
        .bind(session.csrf.as_slice())
        .bind(session.created_at.as_microsecond())
        .execute(on)
        .await?;
    Ok(())
}

/// Ends a session on a connection or within a transaction; `false` if it does not exist or has
/// ended.
pub async fn end_session(
    on: impl Into<Target<'_>>,
    id: &str,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let ended = query(END)
        .bind(id)
        .bind(now.as_microsecond())
        .execute(on)
        .await?;
    Ok(ended > 0)
}

impl Database {
    /// The session with this id, ended or not.
    pub async fn session(&self, id: &str) -> Result<Option<SessionRecord>, StoreError> {
        let row = query(ONE).bind(id).fetch_optional(self.readers()).await?;
        row.map(session_of).transpose()
    }

    /// Up to `limit` sessions of a tenant that were not ended, newest first; of one principal, or
    /// of all.
    pub async fn sessions(
        &self,
        tenant: &TenantId,
        principal: Option<&str>,
        limit: u32,
    ) -> Result<Vec<SessionRecord>, StoreError> {
        let asked = match principal {
            Some(_) => query(OF_PRINCIPAL),
            None => query(OF_TENANT),
        };
        let asked = asked.bind(tenant.as_str()).bind(i64::from(limit));
        let asked = match principal {
            Some(principal) => asked.bind(principal),
            None => asked,
        };
        let rows = asked.fetch_all(self.readers()).await?;
        rows.into_iter().map(session_of).collect()
    }

    /// Ends the sessions of a principal except one.
    pub async fn end_other_sessions(
        &self,
        tenant: &TenantId,
        principal: &str,
        kept: &str,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        query(END_OTHERS)
            .bind(tenant.as_str())
            .bind(principal)
            .bind(kept)
            .bind(now.as_microsecond())
            .execute(self.writer()?)
            .await
    }

    pub async fn use_session(&self, id: &str, now: Timestamp) -> Result<(), StoreError> {
        query(USE)
            .bind(id)
            .bind(now.as_microsecond())
            .execute(self.writer()?)
            .await?;
        Ok(())
    }

    /// Replaces the token whose hash is `held`; `false` if it is no longer the current one.
    pub async fn rotate_session(
        &self,
        id: &str,
        held: &[u8; 32],
        next: &[u8; 32],
        now: Timestamp,
        previous_until: Timestamp,
    ) -> Result<bool, StoreError> {
        let rotated = query(ROTATE)
            .bind(id)
            .bind(held.as_slice())
            .bind(next.as_slice())
            .bind(previous_until.as_microsecond())
            .bind(now.as_microsecond())
            .execute(self.writer()?)
            .await?;
        Ok(rotated > 0)
    }

    /// Deletes the sessions that began before a moment.
    pub async fn forget_sessions(&self, before: Timestamp) -> Result<u64, StoreError> {
        query(FORGET)
            .bind(before.as_microsecond())
            .execute(self.writer()?)
            .await
    }

    pub async fn add_sign_in_attempt(&self, attempt: &SignInAttempt) -> Result<(), StoreError> {
        query(ADD_ATTEMPT)
            .bind(attempt.state_hash.as_slice())
            .bind(attempt.browser_hash.as_slice())
            .bind(attempt.to.as_str())
            .bind(attempt.expires_at.as_microsecond())
            .execute(self.writer()?)
            .await?;
        Ok(())
    }

    /// Removes a sign-in attempt and returns it, so that of several callers one gets it.
    pub async fn take_sign_in_attempt(
        &self,
        state_hash: &[u8; 32],
    ) -> Result<Option<SignInAttempt>, StoreError> {
        let rows: Vec<(Vec<u8>, String, i64)> = query(TAKE_ATTEMPT)
            .bind(state_hash.as_slice())
            .fetch_all(self.writer()?)
            .await?;
        let of = |name| column("sign_in_attempt", name);
        let attempt = rows.into_iter().next().map(|(browser, to, expires_at)| {
            Ok(SignInAttempt {
                state_hash: *state_hash,
                browser_hash: of("browser_hash").number(browser)?,
                to,
                expires_at: of("expires_at").time(expires_at)?,
            })
        });
        attempt.transpose()
    }

    /// Deletes the sign-in attempts that expired before a moment.
    pub async fn forget_sign_in_attempts(&self, before: Timestamp) -> Result<u64, StoreError> {
        query(FORGET_ATTEMPTS)
            .bind(before.as_microsecond())
            .execute(self.writer()?)
            .await
    }
}
