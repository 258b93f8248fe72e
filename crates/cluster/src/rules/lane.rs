//! Lanes: queues of a pool's tasks with equal requirements. Owner and worker compute the name of a lane from
//! the requirements, so that they need not exchange them.

use std::fmt;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use touchstone_agents::rules::ModelIdentity;
use touchstone_agents::rules::worker_labels::{WorkerLabel, WorkerLabels};
use touchstone_kit::hex::hex;
use touchstone_kit::json::canonical_text;

use crate::rules::access::pools::Pool;

/// Separates these digests from all others.
const RECIPE: &str = "touchstone:lane:v1";
/// Hexadecimal digits of a lane's name.
const DIGITS: usize = 32;

/// A lane of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane {
    pool: Pool,
    /// `h` and 32 hexadecimal digits.
    name: String,
    is_optional: bool,
}

impl Lane {
    /// The lane of a pool's tasks that need this model, and this model for simulated users. `None`
    /// if a model has no endpoint of its own: another process cannot know whether it has the same
    /// one.
    pub fn of(pool: &Pool, model: &ModelIdentity, user: Option<&ModelIdentity>) -> Option<Self> {
        Self::with(pool, model, user, &[], false)
    }

    /// The same for tasks that also need a worker with these labels, which are sorted, and that are
    /// `large`, so that it fetches them in parts. If they need neither, the name is the one of
    /// earlier versions, whose workers know no others.
    pub fn with(
        pool: &Pool,
        model: &ModelIdentity,
        user: Option<&ModelIdentity>,
        labels: &[WorkerLabel],
        large: bool,
    ) -> Option<Self> {
        let user = match user {
            None => Value::Null,
            Some(user) => described(user)?,
        };
        let mut document = json!({"recipe": RECIPE, "model": described(model)?, "user": user});
        if let Some(members) = document.as_object_mut() {
            if !labels.is_empty() {
                members.insert("labels".to_owned(), json!(labels));
            }
            if large {
                members.insert("large".to_owned(), json!(true));
            }
        }
        let digest = hex(&Sha256::digest(canonical_text(&document).as_bytes()));
        Some(Self {
            pool: pool.clone(),
            name: format!("h{}", digest.get(..DIGITS)?),
            is_optional: !labels.is_empty() || large,
        })
    }

    pub const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Whether its tasks are large or need labels. There may be many such lanes, most of them without
    /// tasks, so workers pull only from those that have some.
    pub const fn is_optional(&self) -> bool {
        self.is_optional
    }

    /// The name of the lane within its pool.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// All sets of these labels: what tasks may require that a worker with them can execute. There are
/// 256 of 8 labels.
pub fn subsets(labels: &WorkerLabels) -> Vec<Vec<WorkerLabel>> {
    let mut sets: Vec<Vec<WorkerLabel>> = vec![Vec::new()];
    for label in labels.as_slice() {
        let with_it = sets.iter().map(|set| {
            let mut set = set.clone();
            set.push(label.clone());
            set
        });
        let with_it: Vec<_> = with_it.collect();
        sets.extend(with_it);
    }
    sets
}

fn described(identity: &ModelIdentity) -> Option<Value> {
    let endpoint = identity.endpoint.as_ref()?;
    Some(json!({"model": identity.model, "endpoint": endpoint}))
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.pool, self.name)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

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

    pub fn lane(pool: &Pool, model: &str) -> Lane {
        Lane::of(pool, &identity(model, Some("d1")), None).unwrap()
    }

    #[test]
    fn tasks_with_different_models_are_in_different_lanes() {
        let (one, other) = (identity("a", Some("d1")), identity("b", Some("d1")));
        let moved = identity("a", Some("d2"));
        let pool = Pool::shared();
        let lanes = [
            Lane::of(&pool, &one, None),
            Lane::of(&pool, &other, None),
            Lane::of(&pool, &moved, None),
            Lane::of(&pool, &one, Some(&other)),
            Lane::of(&Pool::parse("acme").unwrap(), &one, None),
        ];
        for (index, lane) in lanes.iter().enumerate() {
            assert!(lane.is_some());
            assert!(!lanes[..index].contains(lane));
        }
        assert_eq!(Lane::of(&pool, &one, None), lanes[0]);
    }

    fn labels(names: &[&str]) -> WorkerLabels {
        match names {
            [] => WorkerLabels::default(),
            _ => WorkerLabels::parse(&names.join(",")).unwrap(),
        }
    }

    #[test]
    fn sets_of_labels_and_large_tasks_have_lanes_that_earlier_workers_do_not_know() {
        let (model, pool) = (identity("a", Some("d1")), Pool::shared());
        let with = |names: &[&str], large| {
            let labels = labels(names);
            Lane::with(&pool, &model, None, labels.as_slice(), large).unwrap()
        };
        let of = |names| with(names, false);
        let plain = of(&[]);
        assert!(
            !plain.is_optional() && of(&["gpu"]).is_optional() && with(&[], true).is_optional()
        );
        assert_eq!(Some(&plain), Lane::of(&pool, &model, None).as_ref());
        assert_eq!(plain.name(), "h3457e8543f81c6ff83cf2546ebb4aab7");
        let sets: [&[&str]; 4] = [&[], &["gpu"], &["eu"], &["eu", "gpu"]];
        let all = [false, true].map(|large| sets.map(|it| with(it, large)));
        let lanes: BTreeSet<Lane> = all.into_iter().flatten().collect();
        assert_eq!(lanes.len(), 8);
        assert_eq!(of(&["gpu", "eu"]), of(&["eu", "gpu"]));
    }

    #[test]
    fn a_worker_serves_all_sets_of_its_labels() {
        let sets = subsets(&labels(&["a", "b", "c"]));
        let names: Vec<String> = sets
            .iter()
            .map(|set| set.iter().map(WorkerLabel::as_str).collect())
            .collect();
        assert_eq!(names, ["", "a", "b", "ab", "c", "ac", "bc", "abc"]);
        assert_eq!(subsets(&WorkerLabels::default()), [[]]);
    }

    #[test]
    fn a_model_without_an_endpoint_has_no_lane() {
        let pool = Pool::shared();
        assert_eq!(Lane::of(&pool, &identity("a", None), None), None);
        let known = identity("a", Some("d1"));
        let user = identity("b", None);
        assert_eq!(Lane::of(&pool, &known, Some(&user)), None);
    }
}
