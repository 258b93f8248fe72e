//! The subject of an OASIS run: agent, suite, profile and models, as pinned by the run.

use crate::rules::adapter::Identity;
use crate::rules::evaluated::{Answerer, Evaluated, IdentitySource};
use crate::rules::request::OasisSpec;
use touchstone_runs::rules::run::record::EvalSpec;

/// The answerer for the agent of a run.
pub fn answerer(spec: &EvalSpec) -> Answerer {
    if spec.execution.replayed_from.is_some() {
        return Answerer::Cassette;
    }
    Answerer::of_provider(&spec.model.provider)
}

/// The subject of a run; `None` if the run is not an OASIS evaluation.
pub fn evaluated(
    spec: &EvalSpec,
    identity_source: IdentitySource,
    declared: Option<Identity>,
    clock_tolerance_s: Option<f64>,
) -> Option<Evaluated> {
    let oasis = OasisSpec::of(spec)?;
    Some(Evaluated {
        answered_by: answerer(spec),
        model_provider: spec.model.provider.clone(),
        model: spec.model.model.clone(),
        endpoint: spec.execution.endpoint.clone(),
        replayed_from: spec.execution.replayed_from.clone(),
        agent_id: spec.agent_id.to_string(),
        agent_version: spec.agent_version.clone(),
        agent_pack: spec.pack_integrity.clone(),
        suite: spec.suite_id.clone(),
        suite_version: spec.suite_version.clone(),
        suite_digest: spec.suite_digest.clone(),
        profile: oasis.request.profile,
        profile_version: oasis.request.profile_version,
        profile_pack: oasis.profile_pack,
        identity_source,
        declared,
        declared_configuration: None,
        clock_tolerance_s,
        lab_framework: None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(execution: &Value) -> EvalSpec {
        serde_json::from_value(json!({
            "suiteId": "s", "suiteVersion": "1.0.0", "suiteDigest": "sha256-s", "suiteSigned": true, "suiteTaskCount": 1,
            "agentId": "vendor.acme.clerk.default", "agentVersion": "1.2.0", "packIntegrity": "sha256-a",
            "modelClass": "general", "model": {"provider": "openai", "model": "m"}, "modes": ["golden"], "tasks": ["a"],
            "concurrency": 1, "execution": execution,
            "oasis": {"profile": "p", "profileVersion": "0.1.0", "tier": 1, "provider": "lab", "evaluator": "QA",
                "profilePack": "sha256-p"},
        }))
        .unwrap()
    }

    #[test]
    fn the_answerer_is_read_from_the_pinned_execution() {
        let endpoint = json!({"url": "https://models.example/v1", "digest": "sha256-e"});
        let of = |execution: Value| {
            let found = evaluated(&spec(&execution), IdentitySource::Pack, None, None);
            serde_json::to_value(found.unwrap()).unwrap()
        };
        let found = of(json!({"endpoint": endpoint}));
        assert_eq!(found["endpoint"], endpoint);
        assert_eq!(found["answered_by"], "model");
        let replayed = of(json!({"replayedFrom": "sha256-c"}));
        assert_eq!(replayed["replayed_from"], "sha256-c");
        assert_eq!(replayed["answered_by"], "cassette");
        // Runs of earlier versions pin names only.
        assert_eq!(of(json!({})).get("endpoint"), None);
    }
}
