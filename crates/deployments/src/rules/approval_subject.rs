//! What exactly approvers consent to when they approve a promotion (RFC 0051, RFC 0082 §E).

use semver::Version;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::lifecycle::Placement;
use touchstone_kit::hex::hex;
use touchstone_kit::ids::{AgentId, RunId};
use touchstone_runs::rules::workflow::gate::GatePolicy;

/// A promotion that needs approval. Approval of one promotion does not apply to another: other
/// content under the same version, another channel or share, other evidence, or changed terms each
/// need a new approval.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject<'a> {
    pub agent_id: &'a AgentId,
    pub version: &'a Version,
    /// The integrity of the version's pack.
    pub pack_integrity: &'a str,
    /// The channels that the version would serve, each with its share of the traffic.
    pub placements: Vec<&'a Placement>,
    /// The eval run used as evidence.
    pub eval_run_id: Option<&'a RunId>,
    /// The required approvals.
    pub terms: &'a GatePolicy,
}

impl Subject<'_> {
    /// A digest that is equal for equal subjects.
    ///
    /// # Errors
    /// The subject cannot be serialized as JSON; this does not happen.
    pub fn digest(&self) -> Result<String, serde_json::Error> {
        let canonical = serde_json_canonicalizer::to_vec(self)?;
        Ok(hex(&Sha256::digest(canonical)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_approval_of_one_promotion_does_not_apply_to_another() {
        let (agent, other_agent) = (AgentId::from("a.b"), AgentId::from("a.c"));
        let (version, other_version) = (Version::new(1, 0, 0), Version::new(1, 0, 1));
        let on = |share| Placement::new(Some("stable".parse().unwrap()), share);
        let (all, some) = (on(None), on(Some(1)));
        let (run, other_run) = (RunId::from("run_1"), RunId::from("run_2"));
        let terms = GatePolicy {
            required_role: Some("owner".to_owned()),
            ..GatePolicy::default()
        };
        let other_terms = GatePolicy {
            quorum: 2,
            ..terms.clone()
        };
        let asked = Subject {
            agent_id: &agent,
            version: &version,
            pack_integrity: "sha256-x",
            placements: vec![&some],
            eval_run_id: Some(&run),
            terms: &terms,
        };
        let same = asked.clone();
        assert_eq!(asked.digest().unwrap(), same.digest().unwrap());
        let others = [
            Subject {
                agent_id: &other_agent,
                ..asked.clone()
            },
            Subject {
                version: &other_version,
                ..asked.clone()
            },
            Subject {
                pack_integrity: "sha256-y",
                ..asked.clone()
            },
            Subject {
                placements: vec![&all],
                ..asked.clone()
            },
            Subject {
                placements: Vec::new(),
                ..asked.clone()
            },
            Subject {
                eval_run_id: Some(&other_run),
                ..asked.clone()
            },
            Subject {
                eval_run_id: None,
                ..asked.clone()
            },
            Subject {
                terms: &other_terms,
                ..asked.clone()
            },
        ];
        for other in others {
            assert_ne!(
                asked.digest().unwrap(),
                other.digest().unwrap(),
                "{other:?}"
            );
        }
    }
}
