//! The host: health, work, storage, settings.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use crate::api::ConsoleApi;
use crate::operations::work::{self, HostWork};
use crate::page::answer::html;
use crate::page::badge::Badge;
use crate::page::chrome::{Chrome, Section};
use crate::page::text::{Time, count};
use crate::page::visit::Visit;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::render::words::{bytes, plain};
use touchstone_host::service::health::DatabaseHealth;
use touchstone_kit::error::Problem;
use touchstone_runs::rules::run::fold::RunStatus;
use touchstone_runs::rules::run::listing::{RunListing, RunQuery};

/// Most running runs of a page.
const RUNS: usize = 20;

#[derive(Template)]
#[template(path = "operations/host.html")]
struct Page {
    chrome: Chrome,
    version: &'static str,
    now: Time,
    health: Vec<(&'static str, Badge)>,
    /// `None` for people who may read no runs and do not operate the host.
    host: Option<HostWork>,
    /// `None` without `runs:read`.
    work: Option<Work>,
    /// `None` for people who do not operate the host.
    settings: Option<Vec<Group>>,
}

struct Work {
    running: Vec<Running>,
    usage: Vec<Usage>,
}

struct Running {
    href: String,
    subject: String,
    started: Time,
}

/// A quota and its use.
struct Usage {
    name: &'static str,
    used: String,
    quota: String,
    /// In thousandths of the quota; `None` without one.
    share: Option<u64>,
}

/// Settings of one section of the configuration.
struct Group {
    name: String,
    rows: Vec<(String, String)>,
}

/// `GET /console/host`.
pub async fn page(State(api): State<Arc<ConsoleApi>>, visit: Visit) -> Answer {
    // Settings and the machine reach beyond the tenant.
    let operates = visit.caller.is_operator();
    let mut health = health(&api).await;
    if operates {
        health.extend(machine(&api).await);
    }
    let reads = visit.may(Scope::RunsRead);
    let host = match reads || operates {
        true => Some(work::work(&api, &visit).await?),
        false => None,
    };
    let work = match reads {
        true => Some(work(&api, &visit).await?),
        false => None,
    };
    html(&Page {
        version: env!("CARGO_PKG_VERSION"),
        now: api.host.clock.now().into(),
        health,
        host,
        work,
        settings: operates.then(|| groups(&api)),
        chrome: visit.chrome(Section::Host),
    })
}

async fn health(api: &ConsoleApi) -> Vec<(&'static str, Badge)> {
    let writable = api.host.store.check_writable().await.is_ok();
    let database = match writable {
        true => Badge::good("Writable"),
        false => Badge::bad("Not writable"),
    };
    let requests = match api.host.shutdown.is_cancelled() {
        false => Badge::good("Accepted"),
        true => Badge::warn("Shutting down"),
    };
    vec![("Database", database), ("Requests", requests)]
}

/// The size of the database, the space on its disk, and its clock.
async fn machine(api: &ConsoleApi) -> Vec<(&'static str, Badge)> {
    let found = DatabaseHealth::of(&api.host.store, &*api.host.clock).await;
    let size = found.size.map(|size| {
        let text = format!("{}, {}", found.engine, bytes(size));
        ("Size of the database", Badge::good(text))
    });
    let disk = found.disk.map(|disk| {
        let text = format!("{} of {}", bytes(disk.free), bytes(disk.total));
        let state = match disk.is_low() {
            true => Badge::bad(text),
            false => Badge::good(text),
        };
        ("Free on the disk of the data folder", state)
    });
    let clock = found.clock_ahead.map(|ahead| {
        let seconds = ahead.as_secs().unsigned_abs();
        let state = match (found.clocks_agree(), ahead.is_negative()) {
            (true, _) => Badge::good("Same as the host's"),
            (false, false) => Badge::warn(format!("{seconds} s ahead of the host's")),
            (false, true) => Badge::warn(format!("{seconds} s behind the host's")),
        };
        ("Clock of the database", state)
    });
    [size, disk, clock].into_iter().flatten().collect()
}

async fn work(api: &ConsoleApi, visit: &Visit) -> Result<Work, Problem> {
    let tenant = visit.tenant();
    let asked = RunQuery {
        status: Some(RunStatus::Running),
        limit: RUNS,
        ..RunQuery::default()
    };
    let running = api.runs.runs.list(tenant, &asked).await?;
    let used = api.runs.storage.usage(tenant).await?;
    let quotas = api.runs.storage.quotas();
    let number = |value: u64| count(usize::try_from(value).unwrap_or(usize::MAX));
    let row = |name, used: u64, quota: u64, shown: &dyn Fn(u64) -> String| Usage {
        name,
        used: shown(used),
        quota: match quota {
            0 => "no limit".to_owned(),
            quota => shown(quota),
        },
        share: share(used, quota),
    };
    Ok(Work {
        running: running.runs.iter().map(Running::of).collect(),
        usage: vec![
            row("Packs", used.packs, quotas.max_packs, &number),
            row("Suites", used.suites, quotas.max_suites, &number),
            row("Runs", used.runs, quotas.max_runs, &number),
            row("Storage", used.bytes, quotas.max_bytes, &bytes),
        ],
    })
}

impl Running {
    fn of(run: &RunListing) -> Self {
        let suite = run.subject.suite.as_ref();
        let agent = run.subject.agent.as_ref();
        let named = suite.map(|it| format!("{}@{}", it.suite_id, it.version));
        let named = named.or_else(|| run.subject.workflow_id.clone());
        let agent = agent.map(|it| format!(" on {}@{}", it.agent_id, it.version));
        let subject = named.unwrap_or_else(|| run.run_id.to_string());
        Self {
            href: format!("/console/runs/{}", run.run_id),
            subject: plain(&format!("{subject}{}", agent.unwrap_or_default())),
            started: run.created_at.into(),
        }
    }
}

/// The used part of a quota, in thousandths.
fn share(used: u64, quota: u64) -> Option<u64> {
    (quota > 0).then(|| (u128::from(used) * 1000 / u128::from(quota)).min(1000) as u64)
}

/// The settings by section, in the order of the configuration.
fn groups(api: &ConsoleApi) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for setting in api.in_force.iter() {
        let (section, _) = setting.name.split_once(['.', '[']).unwrap_or_default();
        let section = match section {
            "" => "host",
            section => section,
        };
        let row = (plain(&setting.name), plain(&setting.value));
        match groups.iter_mut().find(|group| group.name == section) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group {
                name: section.to_owned(),
                rows: vec![row],
            }),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(1, 0, None)]
    #[case(1, 2, Some(500))]
    #[case(3, 2, Some(1000))]
    #[case(u64::MAX, u64::MAX, Some(1000))]
    fn a_share_stays_within_its_quota(
        #[case] used: u64,
        #[case] quota: u64,
        #[case] expected: Option<u64>,
    ) {
        assert_eq!(share(used, quota), expected);
    }
}
