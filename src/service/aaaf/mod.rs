//! Assessing agents (AAAF S14): organizations, their agents, the evidence about these.
//!
//! Everything is asked for as a [`Member`]: a caller with its organization. What belongs to another organization is not
//! there for it.

pub mod agents;
pub mod appeals;
pub mod assessments;
pub mod assessor;
pub mod badges;
mod collection;
pub mod config;
pub mod corrections;
pub mod deliveries;
pub mod dimensions;
pub mod evidence;
pub mod gathering;
pub mod housekeeping;
pub mod issuer;
pub mod issuer_keys;
pub mod organizations;
pub mod own_tasks;
pub mod profiles;
mod projected;
pub mod schedule;
mod standing;
pub mod stress_tests;
pub mod webhooks;

use std::sync::Arc;

use uuid::Uuid;

use self::assessments::Counting;
use self::badges::Gallery;
use super::access::{Caller, Scope};
use super::fault::internal;
use super::keys::Keys;
use super::runs::Runs;
use super::vault::Vault;
use crate::domain::aaaf::organization::Auditor;
use crate::ports::aaaf::OrganizationRecord;
use crate::ports::{Clock, Ids, Notifier, Store};
use crate::protocol::error::{ErrorCode, Problem};

/// What the use cases work with.
pub struct AaafDeps {
    /// Everything that is kept.
    pub store: Arc<dyn Store>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Fresh ids.
    pub ids: Arc<dyn Ids>,
    /// Keys of organizations.
    pub keys: Arc<Keys>,
    /// Secrets at rest.
    pub vault: Arc<Vault>,
    /// Badges and their pictures.
    pub gallery: Gallery,
    /// Who tells webhooks.
    pub notifier: Arc<dyn Notifier>,
    /// Eval runs.
    pub runs: Arc<Runs>,
}

/// The use cases over their ports.
pub struct Aaaf {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    keys: Arc<Keys>,
    vault: Arc<Vault>,
    gallery: Gallery,
    notifier: Arc<dyn Notifier>,
    runs: Arc<Runs>,
    counting: Counting,
}

/// Who asks, in whose name.
#[derive(Clone, Debug)]
pub struct Member {
    /// Who.
    pub caller: Caller,
    /// The organization of the caller's tenant, or the one that names the caller as its auditor.
    pub organization: Arc<OrganizationRecord>,
}

impl Member {
    /// The third-party auditor that the caller is; `None` for a caller of the organization's own tenant.
    fn auditor(&self) -> Option<Auditor> {
        let Caller {
            tenant, principal, ..
        } = &self.caller;
        (*tenant != self.organization.tenant).then(|| Auditor {
            tenant: tenant.clone(),
            principal: principal.clone(),
        })
    }
}

impl Aaaf {
    /// The use cases over their ports.
    pub fn new(deps: AaafDeps) -> Self {
        Self {
            store: deps.store,
            clock: deps.clock,
            ids: deps.ids,
            keys: deps.keys,
            vault: deps.vault,
            gallery: deps.gallery,
            notifier: deps.notifier,
            runs: deps.runs,
            counting: Counting::default(),
        }
    }

    /// The organization that a caller acts for.
    ///
    /// # Errors
    /// `forbidden` if its tenant has none, or one that may not do this now.
    pub async fn member(&self, caller: Caller, writes: bool) -> Result<Member, Problem> {
        let organization = self.store.organization_of(&caller.tenant).await;
        let organization = organization
            .map_err(|cause| internal(&cause))?
            .ok_or_else(|| {
                Problem::new(
                    ErrorCode::Forbidden,
                    "the tenant of this key has no organization; the host's operator creates \
                    one with `POST /api/v1/organizations`",
                )
            })?;
        if let Some(hindrance) = organization.status.hinders(writes) {
            return Err(Problem::new(ErrorCode::Forbidden, hindrance));
        }
        Ok(Member {
            caller,
            organization: Arc::new(organization),
        })
    }

    /// Refuses a key that an agent acts by, whatever its scopes: `why` says what the agent must not decide.
    pub(super) async fn refuse_agents(
        &self,
        caller: &Caller,
        organization: &OrganizationRecord,
        why: &'static str,
    ) -> Result<(), Problem> {
        let own = self.store.organization_of(&caller.tenant).await;
        let own = own.map_err(|cause| internal(&cause))?;
        let own = own.map(|own| own.number);
        for number in own.into_iter().chain([organization.number]) {
            let agent = self
                .store
                .is_agent(number, &caller.principal, &caller.key_id)
                .await;
            if agent.map_err(|cause| internal(&cause))? {
                return Err(Problem::new(ErrorCode::Forbidden, why));
            }
        }
        Ok(())
    }

    /// Refuses a key of an agent of the caller's own organization, if its tenant has one.
    ///
    /// # Errors
    /// `forbidden`, with what the agent must not decide.
    pub async fn refuse_own(&self, caller: &Caller, why: &'static str) -> Result<(), Problem> {
        let own = self.store.organization_of(&caller.tenant).await;
        match own.map_err(|cause| internal(&cause))? {
            Some(organization) => self.refuse_agents(caller, &organization, why).await,
            None => Ok(()),
        }
    }

    fn fresh_id(&self) -> String {
        self.ids.uuid().to_string()
    }
}

/// Whether a text can be an id of ours.
fn is_id(text: &str) -> bool {
    // Every id has one spelling.
    text.len() == uuid::fmt::Hyphenated::LENGTH
        && Uuid::try_parse(text).is_ok()
        && !text.bytes().any(|octet| octet.is_ascii_uppercase())
}

/// The one answer to what is not there, or another organization's.
fn not_there(what: &str) -> Problem {
    Problem::new(ErrorCode::NotFound, format!("no such {what}"))
}

/// The answer to a change of what somebody else has just changed.
fn changed_meanwhile(what: &str) -> Problem {
    Problem::new(
        ErrorCode::Conflict,
        format!("the {what} has changed in the meantime; read it and send the change again"),
    )
}

/// Whether a caller may act on organizations that are not its own.
fn is_operator(caller: &Caller) -> bool {
    caller.has(Scope::OrganizationsWrite)
}
