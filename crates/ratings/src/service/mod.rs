//! Use cases for rating agents (AAAF S14): organizations, their agents, and the evidence about
//! them.
//!
//! Use cases take a [`Member`], which is a caller with its organization. Records of other
//! organizations are reported as not found.

pub mod agents;
pub mod appeals;
pub mod assessments;
pub mod badges;
pub mod config;
pub mod dimensions;
pub mod evidence;
pub mod gate;
pub mod housekeeping;
pub mod organizations;
pub mod standings;
pub mod stress_tests;
pub mod webhooks;

use std::sync::Arc;

use uuid::Uuid;

use crate::ports::organizations::OrganizationRecord;
use crate::rules::organization::Auditor;
use crate::service::assessments::ProgressCounter;
use crate::service::badges::BadgeRenderer;
pub use crate::service::gate::RatingGate;
use crate::store;
use touchstone_host::access::Scope;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_host::service::keys::Keys;
use touchstone_host::service::vault::Vault;
use touchstone_host::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_runs::service::runs::Runs;
use touchstone_runs::webhook_client::WebhookClient;

/// The dependencies of [`Ratings`].
pub struct RatingServices {
    pub store: Arc<Database>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub keys: Arc<Keys>,
    pub vault: Arc<Vault>,
    pub badges: BadgeRenderer,
    pub notifier: Arc<WebhookClient>,
    pub runs: Arc<Runs>,
}

/// The rating use cases.
pub struct Ratings {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    keys: Arc<Keys>,
    vault: Arc<Vault>,
    badges: BadgeRenderer,
    notifier: Arc<WebhookClient>,
    runs: Arc<Runs>,
    counting: ProgressCounter,
}

/// A caller that acts for an organization.
#[derive(Clone, Debug)]
pub struct Member {
    pub caller: Caller,
    /// The organization of the caller's tenant, or the one that names the caller as its auditor.
    pub organization: Arc<OrganizationRecord>,
}

impl Member {
    /// The third-party auditor that the caller is; `None` for a caller of the organization's own
    /// tenant.
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

impl Ratings {
    pub fn new(deps: RatingServices) -> Self {
        Self {
            store: deps.store,
            clock: deps.clock,
            ids: deps.ids,
            keys: deps.keys,
            vault: deps.vault,
            badges: deps.badges,
            notifier: deps.notifier,
            runs: deps.runs,
            counting: ProgressCounter::default(),
        }
    }

    /// The organization that a caller acts for.
    ///
    /// # Errors
    /// `forbidden` if its tenant has no organization, or the organization's status does not allow
    /// the request.
    pub async fn member(&self, caller: Caller, writes: bool) -> Result<Member, Problem> {
        let membership = self.membership(caller, writes).await?;
        membership.ok_or_else(|| {
            Problem::new(
                ErrorCode::Forbidden,
                "the tenant of this key has no organization; the host's operator creates \
                one with `touchstone rating organization create` or \
                `POST /api/v1/organizations`",
            )
        })
    }

    /// The organization that a caller acts for; `None` if its tenant has none.
    ///
    /// # Errors
    /// `forbidden` if the organization's status does not allow the request.
    pub async fn membership(
        &self,
        caller: Caller,
        writes: bool,
    ) -> Result<Option<Member>, Problem> {
        let organization = store::organizations::organization_of(&self.store, &caller.tenant).await;
        let Some(organization) = organization.map_err(|cause| internal(&cause))? else {
            return Ok(None);
        };
        if let Some(hindrance) = organization.status.hinders(writes) {
            return Err(Problem::new(ErrorCode::Forbidden, hindrance));
        }
        Ok(Some(Member {
            caller,
            organization: Arc::new(organization),
        }))
    }

    /// Rejects an agent's own key, whatever its scopes; `why` says what the agent must not decide.
    pub async fn reject_agent_keys(
        &self,
        caller: &Caller,
        organization: &OrganizationRecord,
        why: &'static str,
    ) -> Result<(), Problem> {
        let own = store::organizations::organization_of(&self.store, &caller.tenant).await;
        let own = own.map_err(|cause| internal(&cause))?;
        let own = own.map(|own| own.number);
        for number in own.into_iter().chain([organization.number]) {
            let agent =
                store::agents::is_agent(&self.store, number, &caller.principal, &caller.key_id)
                    .await;
            if agent.map_err(|cause| internal(&cause))? {
                return Err(Problem::new(ErrorCode::Forbidden, why));
            }
        }
        Ok(())
    }

    /// Rejects the key of an agent of the caller's own organization, if its tenant has one.
    ///
    /// # Errors
    /// `forbidden`, with what the agent must not decide.
    pub async fn refuse_own(&self, caller: &Caller, why: &'static str) -> Result<(), Problem> {
        let own = store::organizations::organization_of(&self.store, &caller.tenant).await;
        match own.map_err(|cause| internal(&cause))? {
            Some(organization) => self.reject_agent_keys(caller, &organization, why).await,
            None => Ok(()),
        }
    }

    fn fresh_id(&self) -> String {
        self.ids.uuid().to_string()
    }
}

/// Whether a text has the form of an id.
fn is_id(text: &str) -> bool {
    // Only the hyphenated form counts, so that every id has one spelling.
    text.len() == uuid::fmt::Hyphenated::LENGTH
        && Uuid::try_parse(text).is_ok()
        && !text.bytes().any(|octet| octet.is_ascii_uppercase())
}

/// The answer for a record that does not exist or belongs to another organization.
fn not_found(what: &str) -> Problem {
    Problem::new(ErrorCode::NotFound, format!("no such {what}"))
}

/// The answer for a record that was changed concurrently.
fn changed_concurrently(what: &str) -> Problem {
    Problem::new(
        ErrorCode::Conflict,
        format!("the {what} has changed in the meantime; read it and send the change again"),
    )
}

/// Whether a caller may act on other organizations.
fn is_operator(caller: &Caller) -> bool {
    caller.has(Scope::OrganizationsWrite)
}
