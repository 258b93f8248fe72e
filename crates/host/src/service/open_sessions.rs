//! The open sessions of a tenant: seen and ended by people, and bounded for each principal.

use jiff::Timestamp;

use crate::access::Scope;
use crate::audit::Decision;
use crate::ports::sessions::{OpenSessions, SessionRecord};
use crate::ports::store::StoreError;
use crate::service::access::Caller;
use crate::service::fault::internal;
use crate::service::sessions::{END_SESSION, Sessions};
use crate::store;
use crate::store::sql::Transaction;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::TenantId;

/// Open sessions of one principal; a further one ends the oldest.
pub const MOST_OPEN: usize = 20;

/// A page of open sessions, newest first.
#[derive(Debug)]
pub struct SessionPage {
    pub sessions: Vec<SessionRecord>,
    /// The id that asks for the next page.
    pub next: Option<String>,
}

impl Sessions {
    /// The open sessions that a caller may see and end: its own, with `keys:manage` also those of
    /// other people of its tenant. `before` is the id of the last session of the page before.
    ///
    /// # Errors
    /// `not_found` for an unknown `before`.
    pub async fn visible(
        &self,
        caller: &Caller,
        before: Option<&str>,
        limit: u32,
    ) -> Result<SessionPage, Problem> {
        let place = match before {
            Some(id) => Some((self.seen(caller, id).await?.created_at, id)),
            None => None,
        };
        let (used_after, begun_after) = self.open_since();
        let wanted = OpenSessions {
            principal: (!caller.has(Scope::KeysManage)).then_some(caller.principal.as_str()),
            before: place,
            used_after,
            begun_after,
            limit: limit.saturating_add(1),
        };
        let found = self.store.sessions(&caller.tenant, &wanted).await;
        let mut sessions = found.map_err(|cause| internal(&cause))?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = sessions.len() > limit;
        sessions.truncate(limit);
        let next = sessions.last().map(|last| last.id.clone());
        Ok(SessionPage {
            next: next.filter(|_| has_more),
            sessions,
        })
    }

    /// Ends a session that the caller may end.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn end_visible(&self, caller: &Caller, id: &str) -> Result<(), Problem> {
        let record = self.seen(caller, id).await?;
        self.end_by(caller, END_SESSION, &record.id).await.map(drop)
    }

    /// Ends the sessions of the caller itself except one.
    ///
    /// # Errors
    /// The store failed.
    pub async fn end_own_others(&self, caller: &Caller, kept: &str) -> Result<(), Problem> {
        let ended = async {
            let mut transaction = self.store.begin_write().await?;
            let (tenant, principal) = (&caller.tenant, &caller.principal);
            let since = self.open_since();
            let open =
                store::sessions::open_sessions(&mut transaction, tenant, principal, since).await?;
            let others = open.iter().filter(|id| *id != kept);
            for id in others {
                let entry = self.entry(principal, END_SESSION, id);
                end(&mut transaction, tenant, &entry).await?;
            }
            transaction.commit().await
        };
        let ended: Result<(), StoreError> = ended.await;
        ended.map_err(|cause| internal(&cause))
    }

    /// Ends the oldest sessions of a new session's principal, so that with the new one at most
    /// [`MOST_OPEN`] are open. The audit log has an entry for each.
    pub(super) async fn end_excess(
        &self,
        transaction: &mut Transaction,
        new: &SessionRecord,
    ) -> Result<(), StoreError> {
        let (tenant, principal) = (&new.tenant, &new.principal);
        let since = self.open_since();
        let open = store::sessions::open_sessions(transaction, tenant, principal, since).await?;
        for id in open.iter().skip(MOST_OPEN - 1) {
            let reason = format!("limit: {MOST_OPEN} sessions of one principal may be open");
            let entry = Decision {
                reasons: vec![reason],
                ..self.entry(principal, END_SESSION, id)
            };
            end(transaction, tenant, &entry).await?;
        }
        Ok(())
    }

    /// A session that a caller may see, ended or not.
    async fn seen(&self, caller: &Caller, id: &str) -> Result<SessionRecord, Problem> {
        let found = self.store.session(id).await;
        let found = found.map_err(|cause| internal(&cause))?;
        let seen = found.filter(|record| may_end(caller, record));
        seen.ok_or_else(|| Problem::new(ErrorCode::NotFound, "no such session"))
    }

    /// Sessions that were not used since the first moment, or began before the second, are over.
    fn open_since(&self) -> (Timestamp, Timestamp) {
        let now = self.clock.now();
        let before = |time| now.saturating_sub(time).unwrap_or(Timestamp::MIN);
        (before(self.limits.idle), before(self.limits.absolute))
    }
}

/// Ends the session that an entry of the audit log names.
async fn end(
    transaction: &mut Transaction,
    tenant: &TenantId,
    entry: &Decision,
) -> Result<(), StoreError> {
    store::audit::record(&mut *transaction, tenant, entry).await?;
    store::sessions::end_session(&mut *transaction, &entry.resource, entry.at).await?;
    Ok(())
}

fn may_end(caller: &Caller, record: &SessionRecord) -> bool {
    let is_own = record.principal == caller.principal || caller.has(Scope::KeysManage);
    record.tenant == caller.tenant && is_own
}
