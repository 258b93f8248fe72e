//! API keys of a tenant, managed by a caller of the tenant (scope `keys:manage`).
//!
//! A caller gives at most the rights that it has itself, and never rights beyond its tenant. For
//! the same reason it gets a new secret only of keys whose rights it has. Every change is in the
//! audit log.

use jiff::{SignedDuration, Timestamp};

use crate::access::{Grants, Scope};
use crate::audit::{Decision, Outcome};
use crate::ports::keys::{KeyRecord, Rotation};
use crate::service::access::{Caller, authorise};
use crate::service::fault::internal;
use crate::service::keys::{Issue, KeyState, Keys, NewKey};
use crate::store;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::KeyId;

/// How long the replaced secret of a rotated key may stay valid.
pub const MAX_OVERLAP: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The rights of a new key, and until when it is valid.
#[derive(Clone, Debug, Default)]
pub struct NewGrant {
    /// Wire names.
    pub scopes: Vec<String>,
    pub roles: Vec<String>,
    /// The acting principal, if it is not the key itself.
    pub principal: Option<String>,
    /// Time until it expires; `None` for never.
    pub expires_in: Option<SignedDuration>,
}

impl Keys {
    /// The keys of the caller's tenant, without their secrets, oldest first.
    ///
    /// # Errors
    /// `forbidden`.
    pub async fn tenant_keys(&self, caller: &Caller) -> Result<Vec<KeyRecord>, Problem> {
        authorise(caller, Scope::KeysManage)?;
        let keys = self.store.keys(Some(&caller.tenant)).await;
        keys.map_err(|cause| internal(&cause))
    }

    /// Creates a key of the caller's tenant. A test key creates test keys.
    ///
    /// # Errors
    /// `forbidden` for rights that the caller lacks; `validation_error`.
    pub async fn grant(&self, caller: &Caller, grant: NewGrant) -> Result<NewKey, Problem> {
        authorise(caller, Scope::KeysManage)?;
        let grants = self.requested(&grant)?;
        within(caller, &grants)?;
        if let Some(principal) = &grant.principal
            && !is_principal(principal)
        {
            return Err(Problem::validation(
                "principal",
                "the principal must have 1 to 128 letters, digits, `.`, `_` and `-`",
            ));
        }
        let expires_at = grant
            .expires_in
            .map(|time| self.ends_in(time))
            .transpose()?;
        let (record, key) = self.make(
            self.fresh_id(),
            Issue {
                tenant: caller.tenant.clone(),
                scopes: grant
                    .scopes
                    .iter()
                    .flat_map(|name| Scope::named(name))
                    .collect(),
                roles: grant.roles,
                principal: grant.principal,
                test: caller.test,
                expires_at,
            },
        );
        let entry = self.entry(caller, "keys:create", &record.id, given(&record));
        let added = async {
            let mut transaction = self.store.begin_write().await?;
            store::audit::record(&mut transaction, &caller.tenant, &entry).await?;
            store::keys::add_key(&mut transaction, &record).await?;
            transaction.commit().await
        };
        added.await.map_err(|cause| internal(&cause))?;
        Ok(key)
    }

    /// Gives a key of the caller's tenant a new secret; the replaced one stays valid for `overlap`.
    ///
    /// # Errors
    /// `not_found`; `forbidden` for a key with rights that the caller lacks; `conflict` for one
    /// that was revoked or has expired; `validation_error`.
    pub async fn rotate_own(
        &self,
        caller: &Caller,
        id: &KeyId,
        overlap: SignedDuration,
    ) -> Result<NewKey, Problem> {
        authorise(caller, Scope::KeysManage)?;
        let key = self.tenant_key(caller, id).await?;
        within(caller, &self.roles().resolve(&key.scopes, &key.roles))?;
        let now = self.clock.now();
        if !KeyState::of(&key, now).is_good() {
            return Err(Problem::new(
                ErrorCode::Conflict,
                "the key was revoked or has expired; create another one",
            ));
        }
        if overlap.is_negative() || overlap > MAX_OVERLAP {
            return Err(Problem::validation(
                "overlap",
                "the old secret may stay valid for 0 to 168 hours",
            ));
        }
        let (secret_hash, text) = match key.whole {
            true => self.whole_secret(),
            false => self.secret(id, key.test),
        };
        let rotation = Rotation {
            secret_hash,
            previous_until: in_micros(now.saturating_add(overlap).unwrap_or(now)),
            expires_at: None,
        };
        let entry = self.entry(caller, "keys:rotate", id, Vec::new());
        let rotated = async {
            let mut transaction = self.store.begin_write().await?;
            store::audit::record(&mut transaction, &caller.tenant, &entry).await?;
            let rotated = store::keys::rotate_key(&mut transaction, id, &rotation).await?;
            if rotated {
                transaction.commit().await?;
            }
            Ok(rotated)
        };
        let rotated: Result<bool, crate::ports::store::StoreError> = rotated.await;
        match rotated.map_err(|cause| internal(&cause))? {
            true => Ok(NewKey {
                id: id.clone(),
                text,
            }),
            false => Err(Problem::new(
                ErrorCode::Conflict,
                "the key was revoked; create another one",
            )),
        }
    }

    /// Revokes a key of the caller's tenant at once, whatever its rights.
    ///
    /// # Errors
    /// `not_found`, `forbidden`.
    pub async fn revoke_own(&self, caller: &Caller, id: &KeyId) -> Result<(), Problem> {
        authorise(caller, Scope::KeysManage)?;
        self.tenant_key(caller, id).await?;
        let now = self.clock.now();
        let entry = self.entry(caller, "keys:revoke", id, Vec::new());
        let revoked = async {
            let mut transaction = self.store.begin_write().await?;
            store::audit::record(&mut transaction, &caller.tenant, &entry).await?;
            store::keys::revoke_key(&mut transaction, id, now).await?;
            transaction.commit().await
        };
        revoked.await.map_err(|cause| internal(&cause))
    }

    async fn tenant_key(&self, caller: &Caller, id: &KeyId) -> Result<KeyRecord, Problem> {
        let found = self.store.key(id).await.map_err(|cause| internal(&cause))?;
        let own = found.filter(|key| key.tenant == caller.tenant);
        own.ok_or_else(|| Problem::new(ErrorCode::NotFound, "no such key"))
    }

    /// The rights that a new key would have.
    fn requested(&self, grant: &NewGrant) -> Result<Grants, Problem> {
        let unknown = grant.scopes.iter().find(|it| Scope::named(it).is_empty());
        if let Some(unknown) = unknown {
            let message = format!("`{unknown}` is not a scope of this host");
            return Err(Problem::validation("scope", message));
        }
        if let Some(unknown) = grant.roles.iter().find(|it| !self.roles().knows(it)) {
            let message = format!("`{unknown}` is not a role of this host");
            return Err(Problem::validation("role", message));
        }
        if grant.scopes.is_empty() && grant.roles.is_empty() {
            return Err(Problem::validation(
                "scope",
                "choose at least one scope or role",
            ));
        }
        Ok(self.roles().resolve(&grant.scopes, &grant.roles))
    }

    fn ends_in(&self, time: SignedDuration) -> Result<Timestamp, Problem> {
        let end = self.clock.now().checked_add(time).ok();
        let end = end.filter(|_| time.is_positive());
        let invalid = || Problem::validation("expiresIn", "the key must expire in the future");
        end.map(in_micros).ok_or_else(invalid)
    }

    fn entry(&self, caller: &Caller, action: &str, id: &KeyId, reasons: Vec<String>) -> Decision {
        Decision {
            at: self.clock.now(),
            principal: caller.principal.clone(),
            action: action.to_owned(),
            resource: id.to_string(),
            outcome: Outcome::Done,
            reasons,
            decided_on: None,
            run_id: None,
        }
    }
}

/// What a new key may do, for whom and until when, for the audit log.
fn given(key: &KeyRecord) -> Vec<String> {
    let roles = key.roles.iter().map(|role| format!("role: {role}"));
    let principal = key.principal.iter().map(|it| format!("principal: {it}"));
    let expires = key.expires_at.iter().map(|it| format!("expires: {it}"));
    let more = roles.chain(principal).chain(expires);
    key.scopes.iter().cloned().chain(more).collect()
}

/// The precision of the store.
fn in_micros(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

fn is_principal(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=128).contains(&text.len()) && text.bytes().all(allowed)
}

/// Whether a caller may hand out these rights.
fn within(caller: &Caller, grants: &Grants) -> Result<(), Problem> {
    let beyond = |scope: &&Scope| scope.is_operator() || !caller.has(**scope);
    if let Some(scope) = grants.scopes.iter().find(beyond) {
        let reason = match scope.is_operator() {
            true => "only the operator of the host gives it, with `touchstone key create`",
            false => "you give at most the rights that you have",
        };
        return Err(Problem::new(
            ErrorCode::Forbidden,
            format!("the key has the scope `{scope}`; {reason}"),
        )
        .with("scopeRequired", scope.as_str()));
    }
    let held = &caller.grants.roles;
    match grants.roles.iter().find(|role| !held.contains(*role)) {
        Some(role) => Err(Problem::new(
            ErrorCode::Forbidden,
            format!("the key has the role `{role}`; you give at most the rights that you have"),
        )
        .with("roleRequired", role.as_str())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use crate::access::Roles;

    use super::*;

    fn grants(scopes: &[&str], roles: &[&str]) -> Grants {
        let own = |texts: &[&str]| -> Vec<String> { texts.iter().map(|it| (*it).into()).collect() };
        let scopes_of_role = own(&["deploy:promote"]);
        let known = Roles::new([("release", scopes_of_role.as_slice())]).unwrap();
        known.resolve(&own(scopes), &own(roles))
    }

    fn caller(scopes: &[&str], roles: &[&str]) -> Caller {
        Caller {
            tenant: "acme".into(),
            principal: "dana".to_owned(),
            key_id: "k".into(),
            grants: grants(scopes, roles),
            test: false,
        }
    }

    #[rstest]
    #[case::own_scope(&["runs:read"], &[], true)]
    #[case::missing_scope(&["runs:create"], &[], false)]
    #[case::missing_scope_among_own(&["runs:read", "runs:create"], &[], false)]
    #[case::wildcard_beyond_own(&["agents:*"], &[], false)]
    #[case::itself(&["keys:manage"], &[], true)]
    #[case::missing_role(&[], &["release"], false)]
    #[case::operator_scope_that_is_held(&["metrics:read"], &[], false)]
    fn a_caller_gives_at_most_its_rights_within_the_tenant(
        #[case] scopes: &[&str],
        #[case] roles: &[&str],
        #[case] allowed: bool,
    ) {
        let held = ["keys:manage", "runs:read", "agents:read", "metrics:read"];
        let given = within(&caller(&held, &[]), &grants(scopes, roles));
        assert_eq!(given.is_ok(), allowed);
    }

    #[test]
    fn the_scopes_of_a_role_do_not_stand_for_the_role() {
        let holder_of_scope = caller(&["keys:manage", "deploy:promote"], &[]);
        assert!(within(&holder_of_scope, &grants(&[], &["release"])).is_err());
        let holder_of_role = caller(&["keys:manage"], &["release"]);
        assert!(within(&holder_of_role, &grants(&[], &["release"])).is_ok());
    }
}
