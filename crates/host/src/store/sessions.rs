//! Sessions of the console.

use jiff::Timestamp;

use crate::ports::sessions::{
    OpenSessions, ReplacedToken, SessionOrigin, SessionRecord, SignInAttempt,
};
use crate::ports::store::StoreError;
use crate::store::convert::column;
use crate::store::database::Database;
use crate::store::sql::{Target, Transaction, query};
use touchstone_kit::ids::TenantId;

const ADD: &str =
    "INSERT INTO console_session (id, tenant, principal, method, key_id, key_hash, oidc,
        token_hash, previous_hash, previous_until, csrf, created_at, used_at, rotated_at, ended_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULL, NULL, $9, $10, $10, $10, NULL)";
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, tenant, principal, method, key_id, key_hash, oidc, token_hash, previous_hash,
                previous_until, csrf, created_at, used_at, rotated_at, ended_at
            FROM console_session WHERE ",
            $rest
        )
    };
}
const ONE: &str = select!("id = $1");
/// Sessions used after `$2` that began after `$3`, from a place in the list.
const OF_TENANT: &str = select!(
    "tenant = $1 AND ended_at IS NULL AND used_at > $2 AND created_at > $3
        AND (created_at, id) < ($4, $5)
    ORDER BY created_at DESC, id DESC LIMIT $6"
);
const OF_PRINCIPAL: &str = select!(
    "tenant = $1 AND ended_at IS NULL AND used_at > $2 AND created_at > $3
        AND (created_at, id) < ($4, $5) AND principal = $7
    ORDER BY created_at DESC, id DESC LIMIT $6"
);
const OPEN: &str = "SELECT id FROM console_session
    WHERE tenant = $1 AND principal = $2 AND ended_at IS NULL AND used_at > $3 AND created_at > $4
    ORDER BY created_at DESC, id DESC";
const USE: &str = "UPDATE console_session SET used_at = $2 WHERE id = $1 AND used_at < $2";
/// Only the holder of the current token replaces it, so that of two concurrent requests one does.
const ROTATE: &str =
    "UPDATE console_session SET previous_hash = token_hash, previous_until = $4, token_hash = $3,
        rotated_at = $5, used_at = $5
    WHERE id = $1 AND token_hash = $2 AND ended_at IS NULL";
const END: &str = "UPDATE console_session SET ended_at = $2 WHERE id = $1 AND ended_at IS NULL";
const FORGET: &str = "DELETE FROM console_session WHERE created_at < $1";
const ADD_ATTEMPT: &str =
    "INSERT INTO sign_in_attempt (state_hash, browser_hash, to_path, session_id, expires_at)
    VALUES ($1, $2, $3, $4, $5)";
const TAKE_ATTEMPT: &str = "DELETE FROM sign_in_attempt WHERE state_hash = $1
    RETURNING browser_hash, to_path, session_id, expires_at";
/// The expired ones, and the oldest beyond a number.
const FORGET_ATTEMPTS: &str = "DELETE FROM sign_in_attempt WHERE expires_at < $1 OR expires_at <=
        (SELECT expires_at FROM sign_in_attempt ORDER BY expires_at DESC LIMIT 1 OFFSET $2)";
/// Sign-ins under way. Anyone can begin one, so the oldest give way.
const MAX_ATTEMPTS: i64 = 50_000;

/// In the order of `ONE`.
type SessionRow = (
    String,
    String,
    String,
    String,
    Option<String>,
    Option<Vec<u8>>,
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
    let (id, tenant, principal, method, key_id, key_hash, oidc, token_hash, ..) = row;
    let (.., previous_hash, previous_until, csrf, created_at, used_at, rotated_at, ended_at) = row;
    let of = |name| column("console_session", name);
    let origin = match (method.as_str(), key_id.zip(key_hash), oidc) {
        ("key", Some((key, hash)), None) => SessionOrigin::Key {
            id: key.into(),
            secret: of("key_hash").number(hash)?,
        },
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
        SessionOrigin::Key { id, secret } => (Some((id.as_str(), secret.as_slice())), None),
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
        .bind(key.map(|(id, _)| id))
        .bind(key.map(|(_, secret)| secret))
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

/// The ids of a principal's open sessions, newest first, within a transaction.
pub async fn open_sessions(
    transaction: &mut Transaction,
    tenant: &TenantId,
    principal: &str,
    (used_after, begun_after): (Timestamp, Timestamp),
) -> Result<Vec<String>, StoreError> {
    query(OPEN)
        .bind(tenant.as_str())
        .bind(principal)
        .bind(used_after.as_microsecond())
        .bind(begun_after.as_microsecond())
        .fetch_all(transaction)
        .await
}

impl Database {
    /// The session with this id, ended or not.
    pub async fn session(&self, id: &str) -> Result<Option<SessionRecord>, StoreError> {
        let row = query(ONE).bind(id).fetch_optional(self.readers()).await?;
        row.map(session_of).transpose()
    }

    /// Sessions of a tenant that are open, newest first.
    pub async fn sessions(
        &self,
        tenant: &TenantId,
        wanted: &OpenSessions<'_>,
    ) -> Result<Vec<SessionRecord>, StoreError> {
        let (before, id) = wanted.before.unwrap_or((Timestamp::MAX, ""));
        let asked = match wanted.principal {
            Some(_) => query(OF_PRINCIPAL),
            None => query(OF_TENANT),
        };
        let asked = asked
            .bind(tenant.as_str())
            .bind(wanted.used_after.as_microsecond())
            .bind(wanted.begun_after.as_microsecond())
            .bind(before.as_microsecond())
            .bind(id)
            .bind(i64::from(wanted.limit));
        let asked = match wanted.principal {
            Some(principal) => asked.bind(principal),
            None => asked,
        };
        let rows = asked.fetch_all(self.readers()).await?;
        rows.into_iter().map(session_of).collect()
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

    /// Adds an attempt. Those that expired before `now` are deleted, so that they do not pile up.
    pub async fn add_sign_in_attempt(
        &self,
        attempt: &SignInAttempt,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.forget_sign_in_attempts(now).await?;
        query(ADD_ATTEMPT)
            .bind(attempt.state_hash.as_slice())
            .bind(attempt.browser_hash.as_slice())
            .bind(attempt.to.as_str())
            .bind(attempt.session.as_deref())
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
        let rows: Vec<(Vec<u8>, String, Option<String>, i64)> = query(TAKE_ATTEMPT)
            .bind(state_hash.as_slice())
            .fetch_all(self.writer()?)
            .await?;
        let of = |name| column("sign_in_attempt", name);
        let attempt = rows.into_iter().next().map(|row| {
            let (browser, to, session, expires_at) = row;
            Ok(SignInAttempt {
                state_hash: *state_hash,
                browser_hash: of("browser_hash").number(browser)?,
                to,
                session,
                expires_at: of("expires_at").time(expires_at)?,
            })
        });
        attempt.transpose()
    }

    /// Deletes the sign-in attempts that expired before a moment, and the oldest if there are too
    /// many.
    pub async fn forget_sign_in_attempts(&self, before: Timestamp) -> Result<u64, StoreError> {
        query(FORGET_ATTEMPTS)
            .bind(before.as_microsecond())
            .bind(MAX_ATTEMPTS - 1)
            .execute(self.writer()?)
            .await
    }
}
