//! Organizations: created by the host's operator, read and changed by their members.

use std::sync::Arc;

use crate::ports::organizations::{OrganizationNumber, OrganizationRecord};
use crate::rules::organization::{Auditor, Change, NewOrganization, Status, Visibility};
use crate::service::{
    Member, Ratings, changed_concurrently, config, is_id, is_operator, not_found,
};
use crate::store;
use touchstone_host::access::Scope;
use touchstone_host::audit::{Decision, Outcome};
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access::{Caller, authorise};
use touchstone_host::service::fault::internal;
use touchstone_host::service::keys::NewKey;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::TenantId;

/// Scopes of an organization's first key: all everyday work. Reviews and decisions need another
/// key.
const FIRST_KEY_SCOPES: &[&str] = &[
    "agents:*",
    "events:*",
    "assessments:*",
    "config:*",
    "badges:read",
    "badges:revoke",
    "appeals:file",
    "webhooks:*",
];

/// A new organization with its first key, which is shown only now.
#[derive(Debug)]
pub struct CreatedOrganization {
    pub organization: OrganizationRecord,
    pub key: NewKey,
}

impl Ratings {
    /// Creates an organization with its first key.
    ///
    /// # Errors
    /// `validation_error` or `WEIGHT_SUM_INVALID` for settings that cannot be used for scoring;
    /// `conflict` if the tenant already has an organization.
    pub async fn create_organization(
        &self,
        caller: &Caller,
        new_organization: NewOrganization,
    ) -> Result<CreatedOrganization, Problem> {
        config::validated(&new_organization.config)?;
        let id = self.fresh_id();
        let tenant = new_organization
            .tenant
            .unwrap_or_else(|| TenantId::from(id.as_str()));
        let now = self.clock.now();
        let organization = OrganizationRecord {
            number: OrganizationNumber::default(),
            id,
            tenant,
            name: new_organization.name,
            status: Status::Active,
            private_badges: false,
            auditors: Vec::new(),
            config: new_organization.config,
            created_at: now,
            updated_at: now,
            revision: 0,
        };
        let scopes = FIRST_KEY_SCOPES
            .iter()
            .map(|scope| (*scope).to_owned())
            .collect();
        let (record, key) = self.keys.of_organization(&organization.tenant, scopes);
        let decision = self.audit_entry(caller, "organizations:create", &organization.id);
        let added =
            store::organizations::add_organization(&self.store, &organization, &record, &decision);
        match added.await {
            Ok(()) => Ok(CreatedOrganization { organization, key }),
            Err(StoreError::Exists(_)) => Err(Problem::new(
                ErrorCode::Conflict,
                "this tenant already has an organization; a tenant can have only one",
            )),
            Err(cause) => Err(internal(&cause)),
        }
    }

    /// The caller's own organization, or any organization for the host's operator.
    ///
    /// # Errors
    /// `not_found`, `forbidden`.
    pub async fn organization(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<OrganizationRecord, Problem> {
        self.accessible(caller, id, false).await
    }

    /// Changes an organization. Members change its name, the host's operator its status.
    ///
    /// # Errors
    /// `not_found`, `forbidden`, `conflict` if it was changed concurrently.
    pub async fn change_organization(
        &self,
        caller: &Caller,
        id: &str,
        change: Change,
    ) -> Result<OrganizationRecord, Problem> {
        let mut organization = self.accessible(caller, id, true).await?;
        let why = "an agent's own key cannot change its organization; use another principal's key";
        self.reject_agent_keys(caller, &organization, why).await?;
        if let Some(status) = change.status {
            authorise(caller, Scope::OrganizationsWrite)?;
            organization.status = status;
        }
        if let Some(badges) = change.badges {
            organization.private_badges = badges == Visibility::Private;
        }
        if let Some(name) = change.name {
            organization.name = name;
        }
        if let Some(auditors) = change.auditors {
            if auditors.iter().any(|it| it.tenant == organization.tenant) {
                let message = "`auditors.tenant` must differ from the organization's tenant: an \
                    auditor is external";
                return Err(Problem::validation("auditors.tenant", message));
            }
            organization.auditors = auditors;
        }
        self.store_organization(caller, organization, "organizations:change")
            .await
    }

    /// The organization that names a caller of another tenant as its auditor. The auditor reads and
    /// reviews assessments in its name.
    ///
    /// # Errors
    /// `not_found` for a caller that is not named; `forbidden` for an agent's key, and if the
    /// organization's status does not allow the request.
    pub async fn audited(
        &self,
        caller: &Caller,
        id: &str,
        writes: bool,
    ) -> Result<Member, Problem> {
        if !is_id(id) {
            return Err(not_found("organization"));
        }
        let auditor = Auditor {
            tenant: caller.tenant.clone(),
            principal: caller.principal.clone(),
        };
        let found = store::organizations::organization(&self.store, id).await;
        let found = found.map_err(|cause| internal(&cause))?;
        let named =
            found.filter(|it| it.tenant != auditor.tenant && it.auditors.contains(&auditor));
        let organization = named.ok_or_else(|| not_found("organization"))?;
        if let Some(hindrance) = organization.status.hinders(writes) {
            return Err(Problem::new(ErrorCode::Forbidden, hindrance));
        }
        let why = "an agent's own key cannot audit; use another principal's key";
        self.reject_agent_keys(caller, &organization, why).await?;
        Ok(Member {
            caller: caller.clone(),
            organization: Arc::new(organization),
        })
    }

    /// An organization that a caller may change.
    ///
    /// # Errors
    /// `not_found`, `forbidden`.
    pub async fn changeable(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<OrganizationRecord, Problem> {
        self.accessible(caller, id, true).await
    }

    /// Stores a changed organization and the audit entry.
    pub(super) async fn store_organization(
        &self,
        caller: &Caller,
        mut organization: OrganizationRecord,
        action: &str,
    ) -> Result<OrganizationRecord, Problem> {
        organization.updated_at = self.clock.now();
        let decision = self.audit_entry(caller, action, &organization.id);
        let stored =
            store::organizations::change_organization(&self.store, &organization, &decision);
        match stored.await {
            Ok(()) => Ok(organization),
            Err(StoreError::Stale) => Err(changed_concurrently("organization")),
            Err(cause) => Err(internal(&cause)),
        }
    }

    async fn accessible(
        &self,
        caller: &Caller,
        id: &str,
        writes: bool,
    ) -> Result<OrganizationRecord, Problem> {
        let is_operator_caller = is_operator(caller);
        if !is_operator_caller {
            let scope = match writes {
                true => Scope::ConfigWrite,
                false => Scope::ConfigRead,
            };
            authorise(caller, scope)?;
        }
        if !is_id(id) {
            return Err(not_found("organization"));
        }
        let found = store::organizations::organization(&self.store, id).await;
        let found = found.map_err(|cause| internal(&cause))?;
        let accessible = found.filter(|found| is_operator_caller || found.tenant == caller.tenant);
        let organization = accessible.ok_or_else(|| not_found("organization"))?;
        match organization.status.hinders(writes) {
            Some(hindrance) if !is_operator_caller => {
                Err(Problem::new(ErrorCode::Forbidden, hindrance))
            }
            _ => Ok(organization),
        }
    }

    pub(super) fn audit_entry(&self, caller: &Caller, action: &str, resource: &str) -> Decision {
        Decision {
            at: self.clock.now(),
            principal: caller.principal.clone(),
            action: action.to_owned(),
            resource: resource.to_owned(),
            outcome: Outcome::Done,
            reasons: Vec::new(),
            decided_on: None,
            run_id: None,
        }
    }
}
