//! Who calls, and what they may do.
//!
//! The tenant comes from the credential and from nothing else (OpenWOP auth, RFC 0048). A scope grants what it names; none
//! implies another.

use std::collections::BTreeSet;
use std::fmt;

use crate::domain::ids::{KeyId, TenantId};
use crate::protocol::error::{ErrorCode, Problem};

macro_rules! scopes {
    ($( $(#[$doc:meta])* $variant:ident = $wire:literal; )*) => {
        /// What a key may do. The first block is OpenWOP's list, the second one is this host's own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Scope { $( $(#[$doc])* $variant, )* }

        impl Scope {
            /// Every scope.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The wire name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $wire,)* }
            }

            /// The scope with this wire name.
            pub fn parse(name: &str) -> Option<Self> {
                match name { $($wire => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

scopes! {
    /// Read workflows, agents, packs and suites.
    ManifestRead = "manifest:read";
    /// Create and retry runs.
    RunsCreate = "runs:create";
    /// Read runs, their events, summaries and reports.
    RunsRead = "runs:read";
    /// Cancel runs.
    RunsCancel = "runs:cancel";
    /// Read artifacts.
    ArtifactsRead = "artifacts:read";
    /// Manage webhook subscriptions.
    WebhooksManage = "webhooks:manage";
    /// Answer interrupts.
    ApprovalsRespond = "approvals:respond";
    /// Publish packs to a registry.
    PacksPublish = "packs:publish";
    /// Yank packs from a registry.
    PacksYank = "packs:yank";
    /// Undo a yank.
    PacksYankRevert = "packs:yank-revert";
    /// Read the audit log.
    AuditRead = "audit:read";
    /// Promote deployments (RFC 0082).
    DeployPromote = "deploy:promote";
    /// Roll deployments back (RFC 0082).
    DeployRollback = "deploy:rollback";
    /// Pause deployments (RFC 0082).
    DeployPause = "deploy:pause";

    /// Install and remove packs.
    PacksInstall = "packs:install";
    /// Import and remove suites.
    SuitesWrite = "suites:write";
    /// Read the host's metrics, which are of all tenants and content-free.
    MetricsRead = "metrics:read";
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Whose data it sees.
    pub tenant: TenantId,
    /// The key, for the record.
    pub key_id: KeyId,
    /// What it may do.
    pub scopes: BTreeSet<Scope>,
}

/// Lets `caller` pass if it has `scope`.
///
/// # Errors
/// `forbidden` with `details.scopeRequired`.
pub fn authorise(caller: &Caller, scope: Scope) -> Result<(), Problem> {
    if caller.scopes.contains(&scope) {
        return Ok(());
    }
    Err(Problem::new(
        ErrorCode::Forbidden,
        format!("this key lacks the scope `{scope}`; ask for a key that has it"),
    )
    .with("scopeRequired", scope.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scope_has_a_wire_name_of_its_own_that_reads_back() {
        for scope in Scope::ALL {
            assert_eq!(Scope::parse(scope.as_str()), Some(*scope));
        }
        let names: BTreeSet<_> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
        assert_eq!(names.len(), Scope::ALL.len());
        assert_eq!(Scope::parse("runs:*"), None);
    }

    #[test]
    fn no_scope_implies_another() {
        for held in Scope::ALL {
            let caller = Caller {
                tenant: "t".into(),
                key_id: "k".into(),
                scopes: BTreeSet::from([*held]),
            };
            for asked in Scope::ALL {
                assert_eq!(authorise(&caller, *asked).is_ok(), held == asked);
            }
        }
    }
}
