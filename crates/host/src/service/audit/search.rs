//! Searching the audit log, newest entry first. The table has no index on the members of an entry,
//! so a search reads a limited number of entries and says how far it came.

use jiff::Timestamp;

use crate::audit::{Entry, Link, Outcome};
use crate::service::audit::Audit;
use crate::service::fault::internal;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::TenantId;

const PAGE: u32 = 500;
/// Maximum number of entries that one search reads.
pub const MAX_READ: usize = 10_000;

/// Conditions on an entry; an absent one is always met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// The exact principal.
    pub principal: Option<String>,
    /// The action, or its part before the colon, such as `deployment`.
    pub action: Option<String>,
    /// A part of the resource.
    pub resource: Option<String>,
    pub outcome: Option<Outcome>,
    /// The earliest time.
    pub since: Option<Timestamp>,
    /// The time before which the entries were made.
    pub until: Option<Timestamp>,
}

impl AuditFilter {
    pub fn admits(&self, entry: &Entry) -> bool {
        let principal = self.principal.as_ref();
        let resource = self.resource.as_ref();
        let action = self.action.as_deref().is_none_or(|wanted| {
            let rest = entry.action.strip_prefix(wanted);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        });
        principal.is_none_or(|it| entry.principal == *it)
            && resource.is_none_or(|it| entry.resource.contains(it.as_str()))
            && self.outcome.is_none_or(|it| entry.outcome == it)
            && self.since.is_none_or(|it| entry.at >= it)
            && self.until.is_none_or(|it| entry.at < it)
            && action
    }
}

/// An entry that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundEntry {
    pub entry: Entry,
    pub hash: String,
    /// Whether the hash matches the entry.
    pub is_intact: bool,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditSearch {
    /// Newest first.
    pub entries: Vec<FoundEntry>,
    /// Where the next search continues (`before`); `None` at the start of the log.
    pub next: Option<u64>,
    /// Whether the search stopped because it had read enough, not because it had found enough.
    pub is_cut: bool,
    /// Entries that cannot be read; verifying the chain names them.
    pub unreadable: usize,
}

impl Audit {
    /// Up to `limit` entries with a sequence below `before` that `admits` admits, newest first.
    ///
    /// # Errors
    /// An internal error.
    pub async fn search(
        &self,
        tenant: &TenantId,
        before: Option<u64>,
        limit: usize,
        admits: impl Fn(&Entry) -> bool + Send + Sync,
    ) -> Result<AuditSearch, Problem> {
        let mut found = AuditSearch {
            entries: Vec::new(),
            next: None,
            is_cut: false,
            unreadable: 0,
        };
        let (mut before, mut read) = (before.unwrap_or(u64::MAX), 0);
        loop {
            let page = self.store.newest_audit_entries(tenant, before, PAGE).await;
            let page = page.map_err(|cause| internal(&cause))?;
            let is_last = page.len() < PAGE as usize;
            for link in &page {
                if found.entries.len() == limit {
                    found.next = Some(before);
                    return Ok(found);
                }
                before = link.sequence;
                match found_entry(link) {
                    Some(it) if admits(&it.entry) => found.entries.push(it),
                    Some(_) => {}
                    None => found.unreadable += 1,
                }
            }
            read += page.len();
            if is_last {
                return Ok(found);
            }
            if read >= MAX_READ {
                found.next = Some(before);
                found.is_cut = found.entries.len() < limit;
                return Ok(found);
            }
        }
    }
}

fn found_entry(link: &Link) -> Option<FoundEntry> {
    Some(FoundEntry {
        entry: serde_json::from_str(&link.body).ok()?,
        hash: link.hash.clone(),
        is_intact: link.is_intact(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case("", "", "", true)]
    #[case("ann", "", "", true)]
    #[case("an", "", "", false)]
    #[case("", "deployment", "", true)]
    #[case("", "deployment:promote", "", true)]
    #[case("", "deploy", "", false)]
    #[case("", "deployment:", "", false)]
    #[case("", "", "b@1", true)]
    #[case("", "", "b@2", false)]
    #[case("ann", "deployment", "c@", false)]
    fn a_filter_admits_entries_that_meet_all_its_conditions(
        #[case] principal: &str,
        #[case] action: &str,
        #[case] resource: &str,
        #[case] expected: bool,
    ) {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let filter = AuditFilter {
            principal: given(principal),
            action: given(action),
            resource: given(resource),
            ..AuditFilter::default()
        };
        assert_eq!(filter.admits(&entry()), expected);
    }

    fn entry() -> Entry {
        let entry = json!({"sequence": 1, "tenant": "acme", "at": "2026-11-28T08:00:00Z", "principal": "ann",
            "action": "deployment:promote", "resource": "a.b@1.0.0", "outcome": "done"});
        serde_json::from_value(entry).unwrap()
    }

    #[rstest]
    #[case(
        Some(Outcome::Done),
        "2026-11-28T08:00:00Z",
        "2026-11-28T08:00:01Z",
        true
    )]
    #[case(None, "2026-11-28T08:00:00Z", "2026-11-28T08:00:00Z", false)]
    #[case(None, "2026-11-28T08:00:01Z", "2026-11-28T09:00:00Z", false)]
    #[case(
        Some(Outcome::Denied),
        "2026-11-28T00:00:00Z",
        "2026-11-29T00:00:00Z",
        false
    )]
    fn a_filter_by_time_and_outcome_has_an_exclusive_end(
        #[case] outcome: Option<Outcome>,
        #[case] since: Timestamp,
        #[case] until: Timestamp,
        #[case] expected: bool,
    ) {
        let filter = AuditFilter {
            outcome,
            since: Some(since),
            until: Some(until),
            ..AuditFilter::default()
        };
        assert_eq!(filter.admits(&entry()), expected);
    }
}
