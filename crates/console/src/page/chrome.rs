//! The frame of a page: sections, who is signed in, what was done.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::page::assets::Links;
use crate::routes::Kind;
use touchstone_host::access::Scope;

/// A section of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Runs,
    Compare,
    History,
    Judges,
    Review,
    Deployments,
    Approvals,
    Audit,
    Ratings,
    Cards,
    Oasis,
    Packs,
    Keys,
    Webhooks,
    Sessions,
    Host,
    Cluster,
}

/// The name of a group, and its sections with their names and addresses.
type Group = (
    &'static str,
    &'static [(Section, &'static str, &'static str)],
);

/// Groups of sections, as the navigation shows them.
const NAVIGATION: &[Group] = &[
    (
        "Evaluate",
        &[
            (Section::Runs, "Runs", "/console/runs"),
            (Section::Compare, "Compare", "/console/compare"),
            (Section::History, "History", "/console/history"),
            (Section::Judges, "Judges", "/console/judges"),
            (Section::Review, "Human review", "/console/review"),
        ],
    ),
    (
        "Release",
        &[
            (Section::Deployments, "Deployments", "/console/deployments"),
            (Section::Approvals, "Approvals", "/console/approvals"),
            (Section::Audit, "Audit log", "/console/audit"),
        ],
    ),
    (
        "Rate",
        &[
            (Section::Ratings, "Ratings", "/console/ratings"),
            (Section::Cards, "Agent cards", "/console/cards"),
            (Section::Oasis, "OASIS", "/console/oasis"),
        ],
    ),
    (
        "Operate",
        &[
            (Section::Packs, "Packs and suites", "/console/packs"),
            (Section::Keys, "API keys", "/console/keys"),
            (Section::Webhooks, "Webhooks", "/console/webhooks"),
            (Section::Sessions, "Sessions", "/console/sessions"),
            (Section::Host, "Host", "/console/host"),
            (Section::Cluster, "Cluster", "/console/cluster"),
        ],
    ),
];

pub struct NavGroup {
    pub name: &'static str,
    pub items: Vec<NavItem>,
}

pub struct NavItem {
    pub name: &'static str,
    pub href: &'static str,
    pub is_current: bool,
}

pub struct Chrome {
    pub links: &'static Links,
    pub principal: String,
    pub tenant: String,
    /// `light`, `dark` or `auto`.
    pub theme: &'static str,
    /// The token of forms.
    pub csrf: String,
    /// The address of the page, to come back to.
    pub place: String,
    pub navigation: Vec<NavGroup>,
    /// The result of the last form.
    pub done: &'static str,
}

/// The sections whose pages the person may open.
pub fn navigation(current: Option<Section>, may: impl Fn(Scope) -> bool) -> Vec<NavGroup> {
    let is_open = |href: &str| SCOPES.get(href).is_none_or(|scope| may(*scope));
    let group = |(name, items): &Group| {
        let items = items.iter().filter(|(_, _, href)| is_open(href));
        let items = items.map(|(section, name, href)| NavItem {
            name,
            href,
            is_current: Some(*section) == current,
        });
        NavGroup {
            name,
            items: items.collect(),
        }
    };
    let groups = NAVIGATION.iter().map(group);
    groups.filter(|group| !group.items.is_empty()).collect()
}

/// The scopes that pages need, by their paths.
static SCOPES: LazyLock<BTreeMap<&'static str, Scope>> = LazyLock::new(|| {
    let pages = crate::operations().into_iter();
    let pages = pages.filter(|route| route.kind == Kind::Page);
    pages
        .filter_map(|route| Some((route.path, route.scope?)))
        .collect()
});

/// The result of a form, as its page says afterwards; addresses carry the short name.
pub const DONE: &[(&str, &str)] = &[
    ("cancelled", "The run is being cancelled."),
    (
        "paused",
        "The run pauses once its running tasks have finished.",
    ),
    ("resumed", "The run continues."),
    (
        "retried",
        "This is the new run. It repeats the unjudged tasks.",
    ),
    ("forked", "This is the fork of the other run."),
    ("tagged", "The tags were changed."),
    ("annotated", "The note was saved."),
    ("pack-removed", "The pack was removed."),
    ("suite-removed", "The suite was removed."),
    ("key-revoked", "The key was revoked."),
    ("webhook-registered", "The webhook was registered."),
    ("webhook-rotated", "The webhook has the new secret."),
    ("webhook-removed", "The webhook was removed."),
    ("session-ended", "The session was ended."),
    ("sessions-ended", "Your other sessions were ended."),
    ("assessment-ordered", "The assessment was requested."),
    ("assessment-reviewed", "The review was recorded."),
    ("appeal-filed", "The appeal was filed."),
    ("appeal-resolved", "The appeal was decided."),
    ("card-scored", "The card was scored."),
    ("card-watched", "The card is watched."),
    ("card-unwatched", "The card is no longer watched."),
    ("version-promoted", "The version was promoted by one step."),
    ("version-paused", "The version was paused."),
    ("version-deprecated", "The version was deprecated."),
    (
        "version-rolled-back",
        "The version was rolled back. The previous version serves again.",
    ),
    ("gate-set", "The gate policy was set."),
    ("gate-removed", "The gate policy was removed."),
    ("suite-imported", "The suite was imported."),
    ("delivery-sent", "The endpoint accepted the event."),
    (
        "delivery-failed",
        "The event was sent again, but the endpoint did not accept it.",
    ),
    ("notice-created", "The webhook was registered."),
    ("notice-enabled", "The webhook was enabled again."),
    ("notice-removed", "The webhook was removed."),
    (
        "notice-redelivered",
        "The notice is queued and will be sent again.",
    ),
    ("appeal-reviewed", "You review the appeal now."),
    ("share-changed", "The share of the traffic was changed."),
    (
        "approval-asked",
        "The approval was requested. Promote the version again once it is approved.",
    ),
    ("answered", "Your answer was recorded."),
    ("rejected", "Your rejection was recorded."),
    ("overridden", "Your override was recorded and marked."),
    ("voided", "The run is void. Gates do not count its scores."),
    (
        "review-created",
        "The review was created. People can label its answers.",
    ),
    ("labelled", "Your label was saved."),
    ("skipped", "The answer is left to others."),
    ("review-closed", "The review was closed."),
    ("calibrating", "The calibration of the judge has started."),
    ("oasis-reviewed", "Your decision was recorded."),
];

pub fn done(name: Option<&str>) -> &'static str {
    let known = DONE.iter().find(|(short, _)| Some(*short) == name);
    known.map_or("", |(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(groups: &[NavGroup]) -> Vec<&'static str> {
        let items = groups.iter().flat_map(|group| &group.items);
        items.map(|item| item.name).collect()
    }

    #[test]
    fn sections_that_a_person_may_not_open_are_left_out() {
        let all = navigation(Some(Section::Runs), |_| true);
        let sections = NAVIGATION.iter().map(|(_, items)| items.len());
        assert_eq!(names(&all).len(), sections.sum::<usize>());
        let reader = navigation(None, |scope| scope == Scope::RunsRead);
        let reader = names(&reader);
        assert!(reader.contains(&"Runs") && reader.contains(&"Sessions"));
        assert!(!reader.contains(&"Audit log") && !reader.contains(&"Deployments"));
        let none = navigation(None, |_| false);
        assert!(none.iter().all(|group| !group.items.is_empty()));
    }
}
