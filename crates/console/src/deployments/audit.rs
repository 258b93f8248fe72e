//! The audit log, and the verification of its chain.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use crate::api::ConsoleApi;
use crate::deployments::words::{Badge, outcome, reason};
use crate::page::answer::html;
use crate::page::choice::{Choice, choices};
use crate::page::chrome::{Chrome, Section};
use crate::page::period::{Period, limits};
use crate::page::text::Time;
use crate::page::visit::Visit;
use touchstone_host::audit::{Anomaly, Outcome};
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::Query;
use touchstone_host::render::words::plain;
use touchstone_host::service::audit::AuditVerifyResult;
use touchstone_host::service::audit::search::{AuditFilter, FoundEntry, MAX_READ};

/// Entries of a page.
const ENTRIES: usize = 100;
/// Breaks that the page names.
const ANOMALIES: usize = 20;

const OUTCOMES: [(&str, &str); 5] = [
    ("", "Any"),
    ("done", "Done"),
    ("denied", "Denied"),
    ("refused", "Refused"),
    ("pending", "Waiting"),
];
const OUTCOMES_BY_NAME: [(&str, Outcome); 4] = [
    ("done", Outcome::Done),
    ("denied", Outcome::Denied),
    ("refused", Outcome::Refused),
    ("pending", Outcome::Pending),
];

#[derive(Template)]
#[template(path = "deployments/audit.html")]
struct Page {
    chrome: Chrome,
    principal: String,
    action: String,
    resource: String,
    outcomes: Vec<Choice>,
    period: Period,
    has_filter: bool,
    rows: Vec<Row>,
    is_cut: bool,
    unreadable: usize,
    read: String,
    next: Option<String>,
    first: Option<String>,
}

struct Row {
    sequence: u64,
    at: Time,
    principal: String,
    action: String,
    is_override: bool,
    resource: String,
    outcome: Badge,
    reasons: Vec<String>,
    run: String,
    hash: String,
    is_intact: bool,
}

impl Row {
    fn of(found: &FoundEntry) -> Self {
        let entry = &found.entry;
        Self {
            sequence: entry.sequence,
            at: entry.at.into(),
            principal: plain(&entry.principal),
            action: plain(&entry.action),
            is_override: entry.action.ends_with(":override"),
            resource: plain(&entry.resource),
            outcome: outcome(entry.outcome),
            reasons: entry.reasons.iter().map(|it| reason(it)).collect(),
            run: entry
                .run_id
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
            hash: plain(&found.hash),
            is_intact: found.is_intact,
        }
    }
}

/// `GET /console/audit?principal=&action=&resource=&outcome=&since=&until=&before=`.
pub async fn page(State(api): State<Arc<ConsoleApi>>, visit: Visit, query: Query) -> Answer {
    let query = query.filled();
    let text = |name: &str| query.get(name).map(|it| it.trim().to_owned());
    let [since, until] = limits(&query)?;
    let outcome = query.get("outcome").unwrap_or_default();
    let filter = AuditFilter {
        outcome: OUTCOMES_BY_NAME
            .iter()
            .find(|(name, _)| *name == outcome)
            .map(|(_, found)| *found),
        since,
        until,
        principal: text("principal"),
        action: text("action"),
        resource: text("resource"),
    };
    let before = query.whole("before", 0, u64::MAX)?;
    let admits = |entry: &_| filter.admits(entry);
    let audit = &api.health.audit;
    let found = audit
        .search(visit.tenant(), before, ENTRIES, admits)
        .await?;
    let kept = query.without(&["before", "done"]);
    let address = |before: Option<u64>| {
        let before = before.map(|it| format!("before={it}"));
        let kept = (!kept.is_empty()).then(|| kept.clone());
        let parts: Vec<String> = kept.into_iter().chain(before).collect();
        match parts.is_empty() {
            true => "/console/audit".to_owned(),
            false => format!("/console/audit?{}", parts.join("&")),
        }
    };
    html(&Page {
        chrome: visit.chrome(Section::Audit),
        outcomes: choices(&OUTCOMES, outcome),
        period: Period::of(&query),
        has_filter: filter != AuditFilter::default(),
        principal: filter.principal.unwrap_or_default(),
        action: filter.action.unwrap_or_default(),
        resource: filter.resource.unwrap_or_default(),
        rows: found.entries.iter().map(Row::of).collect(),
        is_cut: found.is_cut,
        unreadable: found.unreadable,
        read: crate::page::text::count(MAX_READ),
        next: found.next.map(|next| address(Some(next))),
        first: before.map(|_| address(None)),
    })
}

#[derive(Template)]
#[template(path = "deployments/verify.html")]
struct Verified {
    chrome: Chrome,
    holds: bool,
    from: u64,
    to: u64,
    signed: Signed,
    checkpoints: usize,
    last: Option<LastCheckpoint>,
    breaks: Vec<Break>,
    more: usize,
}

/// Whether signed checkpoints match.
#[derive(PartialEq, Eq)]
enum Signed {
    None,
    Match,
    Differ,
}

struct LastCheckpoint {
    sequence: u64,
    at: Time,
    root: String,
}

struct Break {
    sequence: u64,
    expected: String,
    actual: String,
}

impl Break {
    fn of(anomaly: &Anomaly) -> Self {
        Self {
            sequence: anomaly.at_seq,
            expected: plain(&anomaly.expected_prev_hash),
            actual: plain(&anomaly.actual_prev_hash),
        }
    }
}

impl Verified {
    fn of(chrome: Chrome, found: &AuditVerifyResult) -> Self {
        let last = found.checkpoints.last();
        Self {
            chrome,
            holds: found.chain_valid,
            from: found.from_seq.max(1),
            to: found.to_seq,
            signed: match found.checkpoints_valid {
                None => Signed::None,
                Some(true) => Signed::Match,
                Some(false) => Signed::Differ,
            },
            checkpoints: found.checkpoints.len(),
            last: last.map(|it| LastCheckpoint {
                sequence: it.at_sequence,
                at: it.at.into(),
                root: plain(&it.merkle_root),
            }),
            breaks: found
                .anomalies
                .iter()
                .take(ANOMALIES)
                .map(Break::of)
                .collect(),
            more: found.anomalies.len().saturating_sub(ANOMALIES),
        }
    }
}

/// `GET /console/audit/verify`: reads the whole chain, so no page does it on its own.
pub async fn verify(State(api): State<Arc<ConsoleApi>>, visit: Visit) -> Answer {
    let found = api.health.audit.verify(visit.tenant(), None, None).await?;
    html(&Verified::of(visit.chrome(Section::Audit), &found))
}
