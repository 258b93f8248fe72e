//! Pools: groups of tenants whose tasks share queues.
//!
//! Permissions of NATS are given by stream, and each pool has a stream of its own. So NATS itself
//! keeps a worker from the tasks of other pools.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use touchstone_kit::ids::TenantId;

use crate::rules::subjects::is_token;

/// The pool of all tenants that no other pool names.
const SHARED: &str = "shared";
/// How the names of all streams with queues begin.
const STREAM: &str = "TS1_Q_";

/// The name of a pool: one token of a subject.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pool(String);

impl Pool {
    /// The pool of all tenants that no other pool names.
    pub fn shared() -> Self {
        Self(SHARED.to_owned())
    }

    /// `None` if the name is not a token.
    pub fn parse(name: &str) -> Option<Self> {
        is_token(name).then(|| Self(name.to_owned()))
    }

    /// The stream of its queues.
    pub fn stream(&self) -> String {
        format!("{STREAM}{}", self.0)
    }

    /// The pool whose queues are in a stream; `None` for other streams.
    pub fn of_stream(stream: &str) -> Option<Self> {
        Self::parse(stream.strip_prefix(STREAM)?)
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A pool in the configuration of a host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolEntry {
    pub name: String,
    /// The tenants whose tasks are in its queues.
    pub tenants: Vec<TenantId>,
}

/// The pools of a host.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "Vec<PoolEntry>")]
pub struct Pools(BTreeMap<TenantId, Pool>);

impl Pools {
    /// # Errors
    /// What is wrong with the entries.
    pub fn new(entries: &[PoolEntry]) -> Result<Self, String> {
        let mut names = Vec::new();
        let mut by_tenant = BTreeMap::new();
        for PoolEntry { name, tenants } in entries {
            let pool = Pool::parse(name).ok_or_else(|| {
                format!(
                    "has the name `{name}`, which must have 1 to 48 letters, digits, `-` and `_`"
                )
            })?;
            if pool == Pool::shared() {
                let problem = format!(
                    "must not name `{name}`, the pool of all tenants that no other pool names"
                );
                return Err(problem);
            }
            if names.contains(&pool) {
                return Err(format!("names the pool `{name}` twice"));
            }
            if tenants.is_empty() {
                return Err(format!("must name tenants of the pool `{name}`"));
            }
            for tenant in tenants {
                if let Some(other) = by_tenant.insert(tenant.clone(), pool.clone()) {
                    let problem =
                        format!("names the tenant `{tenant}` in the pools `{other}` and `{name}`");
                    return Err(problem);
                }
            }
            names.push(pool);
        }
        Ok(Self(by_tenant))
    }

    /// The pool of a tenant.
    pub fn of(&self, tenant: &TenantId) -> Pool {
        self.0.get(tenant).cloned().unwrap_or_else(Pool::shared)
    }

    /// All pools, sorted by name.
    pub fn all(&self) -> Vec<Pool> {
        let mut pools: Vec<Pool> = self.0.values().cloned().collect();
        pools.push(Pool::shared());
        pools.sort();
        pools.dedup();
        pools
    }
}

impl TryFrom<Vec<PoolEntry>> for Pools {
    type Error = String;

    fn try_from(entries: Vec<PoolEntry>) -> Result<Self, String> {
        Self::new(&entries).map_err(|problem| format!("`[[cluster.pools]]` {problem}"))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn entry(name: &str, tenants: &[&str]) -> PoolEntry {
        PoolEntry {
            name: name.to_owned(),
            tenants: tenants.iter().map(|it| TenantId::from(*it)).collect(),
        }
    }

    #[test]
    fn tenants_without_a_pool_of_their_own_share_one() {
        let pools = Pools::new(&[entry("acme", &["acme", "acme-eu"]), entry("b", &["b"])]).unwrap();
        let of = |tenant: &str| pools.of(&TenantId::from(tenant)).to_string();
        assert_eq!(of("acme-eu"), "acme");
        assert_eq!(of("b"), "b");
        assert_eq!(of("other"), "shared");
        let all: Vec<String> = pools.all().iter().map(Pool::to_string).collect();
        assert_eq!(all, ["acme", "b", "shared"]);
        assert_eq!(Pools::default().all(), [Pool::shared()]);
    }

    #[rstest]
    #[case(&[entry("a.b", &["a"])], "has the name `a.b`")]
    #[case(&[entry("*", &["a"])], "has the name `*`")]
    #[case(&[entry("shared", &["a"])], "must not name `shared`")]
    #[case(&[entry("a", &["a"]), entry("a", &["b"])], "the pool `a` twice")]
    #[case(&[entry("a", &[])], "must name tenants of the pool `a`")]
    #[case(&[entry("a", &["t"]), entry("b", &["t"])], "the tenant `t` in the pools `a` and `b`")]
    fn ambiguous_pools_are_refused(#[case] entries: &[PoolEntry], #[case] expected: &str) {
        let problem = Pools::new(entries).unwrap_err();
        assert!(problem.contains(expected), "{problem}");
    }
}
