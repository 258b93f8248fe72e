//! Lanes: queues of tasks with equal requirements. Owner and worker compute the name of a lane from
//! the requirements, so that they need not exchange them.

use std::fmt;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use touchstone_agents::rules::ModelIdentity;
use touchstone_kit::hex::hex;
use touchstone_kit::json::canonical_text;

/// Separates these digests from all others.
const RECIPE: &str = "touchstone:lane:v1";
/// Hexadecimal digits of a lane's name.
const DIGITS: usize = 32;

/// The name of a lane: `h` and 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane(String);

impl Lane {
    /// The lane of tasks that need this model, and this model for simulated users. `None` if a
    /// model has no endpoint of its own: another process cannot know whether it has the same one.
    pub fn of(model: &ModelIdentity, user: Option<&ModelIdentity>) -> Option<Self> {
        let user = match user {
            None => Value::Null,
            Some(user) => described(user)?,
        };
        let document = json!({"recipe": RECIPE, "model": described(model)?, "user": user});
        let digest = hex(&Sha256::digest(canonical_text(&document).as_bytes()));
        Some(Self(format!("h{}", digest.get(..DIGITS)?)))
    }
}

fn described(identity: &ModelIdentity) -> Option<Value> {
    let endpoint = identity.endpoint.as_ref()?;
    Some(json!({"model": identity.model, "endpoint": endpoint}))
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use touchstone_agents::rules::{EndpointPin, ModelPin};

    use super::*;

    fn identity(model: &str, endpoint: Option<&str>) -> ModelIdentity {
        ModelIdentity {
            model: ModelPin {
                provider: "openai".to_owned(),
                model: model.to_owned(),
            },
            endpoint: endpoint.map(|digest| EndpointPin {
                url: None,
                digest: digest.to_owned(),
            }),
        }
    }

    #[test]
    fn tasks_with_different_models_are_in_different_lanes() {
        let (one, other) = (identity("a", Some("d1")), identity("b", Some("d1")));
        let moved = identity("a", Some("d2"));
        let lanes = [
            Lane::of(&one, None),
            Lane::of(&other, None),
            Lane::of(&moved, None),
            Lane::of(&one, Some(&other)),
        ];
        for (index, lane) in lanes.iter().enumerate() {
            assert!(lane.is_some());
            assert!(!lanes[..index].contains(lane));
        }
        assert_eq!(Lane::of(&one, None), Lane::of(&one.clone(), None));
    }

    #[test]
    fn a_model_without_an_endpoint_has_no_lane() {
        assert_eq!(Lane::of(&identity("a", None), None), None);
        let known = identity("a", Some("d1"));
        assert_eq!(Lane::of(&known, Some(&identity("b", None))), None);
    }
}
