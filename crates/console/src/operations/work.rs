//! Tenants, the queue and leases on the page of the host.

use jiff::Timestamp;

use crate::api::ConsoleApi;
use crate::page::text::{Time, count};
use crate::page::visit::Visit;
use touchstone_host::render::words::{duration, plain};
use touchstone_kit::error::Problem;
use touchstone_runs::ports::queue::{LeasedRun, QueueOverview, TenantWork};

/// The work of the person's tenant, or of all for an operator.
pub struct HostWork {
    pub is_whole: bool,
    pub counts: [(&'static str, String, &'static str); 4],
    pub leases: Vec<Lease>,
    pub tenants: Vec<Tenant>,
}

pub struct Lease {
    pub run: String,
    /// `None` for a run of another tenant.
    pub href: Option<String>,
    pub tenant: String,
    pub holder: String,
    pub until: Time,
}

pub struct Tenant {
    pub name: String,
    pub keys: String,
    pub runs: String,
    pub open: String,
}

fn number(value: u64) -> String {
    count(usize::try_from(value).unwrap_or(usize::MAX))
}

/// How long the oldest run has waited for a worker.
fn age(oldest: Option<Timestamp>, now: Timestamp) -> String {
    let waited = oldest.map(|it| now.duration_since(it).as_millis());
    let waited = waited.map(|it| u64::try_from(it).unwrap_or_default());
    waited.map_or_else(|| "–".to_owned(), duration)
}

fn counts(queue: &QueueOverview, now: Timestamp) -> [(&'static str, String, &'static str); 4] {
    [
        ("Running", number(queue.running), "runs"),
        ("Waiting", number(queue.waiting), "runs"),
        ("Paused", number(queue.paused), "runs"),
        ("Longest wait for a worker", age(queue.oldest, now), ""),
    ]
}

impl Lease {
    fn of(leased: &LeasedRun, visit: &Visit, now: Timestamp) -> Self {
        let is_own = leased.tenant == *visit.tenant();
        let until = now.checked_add(leased.remaining).unwrap_or(now);
        Self {
            run: leased.run.to_string(),
            href: is_own.then(|| format!("/console/runs/{}", leased.run)),
            tenant: plain(leased.tenant.as_str()),
            holder: plain(&leased.holder),
            until: until.into(),
        }
    }
}

pub async fn work(api: &ConsoleApi, visit: &Visit) -> Result<HostWork, Problem> {
    let found = api.runs.runs.work(&visit.caller).await?;
    let now = api.host.clock.now();
    let tenant = |it: &TenantWork| Tenant {
        name: plain(it.tenant.as_str()),
        keys: number(it.keys),
        runs: number(it.runs),
        open: number(it.open),
    };
    Ok(HostWork {
        is_whole: visit.caller.is_operator(),
        counts: counts(&found.queue, now),
        leases: found
            .leases
            .iter()
            .map(|it| Lease::of(it, visit, now))
            .collect(),
        tenants: found.tenants.iter().map(tenant).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_is_a_duration() {
        let now = Timestamp::UNIX_EPOCH;
        let before = now - jiff::SignedDuration::from_secs(90);
        assert_eq!(age(None, now), "–");
        assert_eq!(age(Some(before), now), duration(90_000));
        // Clocks of replicas differ a little.
        assert_eq!(age(Some(now), before), duration(0));
    }
}
