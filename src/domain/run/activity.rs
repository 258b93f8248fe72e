//! What an effect outside of this host is called (OpenWOP idempotency, layer 2; RFC 0150 §B).
//!
//! The name is of the effect a run intends, not of the attempt that carries it: a call that is tried again, and a task that
//! is done anew after a crash, come to the same name, by which whoever is called can recognise the repetition. Nothing that
//! counts attempts is part of it. A fork is another run and so intends other effects.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use crate::domain::ids::{RunId, TenantId};

/// Tells these names apart from any other digest, and from those of another recipe.
const RECIPE: &str = "openwop:activity:v2";

/// One effect of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity<'a> {
    /// Whose run.
    pub tenant: &'a TenantId,
    /// The run.
    pub run: &'a RunId,
    /// The node, or the task, that intends it.
    pub node: &'a str,
    /// How many the node has intended before.
    pub ordinal: u32,
    /// What kind of effect on whom.
    pub provider_key: &'a str,
}

impl Activity<'_> {
    /// Its name: 43 characters, safe in a header.
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
        // None of them can hold a NUL, so no two activities read the same.
        URL_SAFE_NO_PAD.encode(Sha256::digest(parts.join("\0")))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_name_is_the_recipes_and_every_part_counts() {
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
