//! Names of effects outside this host (OpenWOP idempotency, layer 2; RFC 0150 §B).
//!
//! An activity id names the effect that a run intends, not one attempt at it. A retried call, and a
//! task that is repeated after a crash, get the same id, so the called system can recognize the
//! repetition. The id therefore depends on no counter of attempts. A fork is a different run, so
//! its effects have different ids.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use touchstone_kit::ids::{RunId, TenantId};

/// Domain separator; it changes whenever the derivation changes.
const RECIPE: &str = "openwop:activity:v2";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity<'a> {
    pub tenant: &'a TenantId,
    pub run: &'a RunId,
    /// The node or task that intends the effect.
    pub node: &'a str,
    /// Number of effects that the node intended before.
    pub ordinal: u32,
    /// The kind of effect, and the system it acts on.
    pub provider_key: &'a str,
}

impl Activity<'_> {
    /// The provider key of calls of a live tool.
    pub fn of_tool(tool: &str) -> String {
        format!("mcp:{tool}")
    }

    /// The activity id: 43 characters, safe in a header.
    pub fn id(&self) -> String {
        let ordinal = self.ordinal.to_string();
        let parts = [
            RECIPE,
            self.tenant.as_str(),
            self.run.as_str(),
            self.node,
            &ordinal,
            self.provider_key,
        ];
        // No part contains a NUL, so different activities never join to the same text.
        URL_SAFE_NO_PAD.encode(Sha256::digest(parts.join("\0")))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_activity_id_is_the_published_one_and_depends_on_every_part() {
        let (tenant, other_tenant) = (TenantId::from("tenant-a"), TenantId::from("tenant-b"));
        let (run, other_run) = (RunId::from("run-1"), RunId::from("run-2"));
        let first = Activity {
            tenant: &tenant,
            run: &run,
            node: "node-1",
            ordinal: 0,
            provider_key: "openai:chat:completions",
        };
        assert_eq!(first.id(), "0YNm5t4zV_-cSMHiZIlQXQSpWxnV0OeQoYJdaNmM5HE");
        let all = [
            first,
            Activity {
                tenant: &other_tenant,
                ..first
            },
            Activity {
                run: &other_run,
                ..first
            },
            Activity {
                node: "node-2",
                ..first
            },
            Activity {
                ordinal: 1,
                ..first
            },
            Activity {
                provider_key: "openai:embeddings",
                ..first
            },
        ];
        let names: BTreeSet<String> = all.iter().map(Activity::id).collect();
        assert_eq!(names.len(), all.len());
    }
}
