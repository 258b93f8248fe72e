//! The frame of a page: sections, who is signed in, what was done.

use crate::page::assets::Links;

/// A section of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Runs,
    Compare,
    History,
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
    /// What the last form did.
    pub done: &'static str,
}

pub fn navigation(current: Section) -> Vec<NavGroup> {
    let group = |(name, items): &Group| {
        let items = items.iter().map(|(section, name, href)| NavItem {
            name,
            href,
            is_current: *section == current,
        });
        NavGroup {
            name,
            items: items.collect(),
        }
    };
    NAVIGATION.iter().map(group).collect()
}

/// What a form did, as its page says afterwards; addresses carry the short name.
pub const DONE: &[(&str, &str)] = &[
    ("cancelled", "The run is being cancelled."),
    ("paused", "The run pauses once its running tasks end."),
    ("resumed", "The run continues."),
    ("retried", "This is the new run that repeats the other one."),
    ("tagged", "The tags are changed."),
    ("annotated", "The note is saved."),
    ("pack-removed", "The pack is removed."),
    ("suite-removed", "The suite is removed."),
    ("key-revoked", "The key is revoked."),
    ("webhook-registered", "The webhook is registered."),
    ("webhook-rotated", "The webhook has the new secret."),
    ("webhook-removed", "The webhook is removed."),
    ("session-ended", "The session has ended."),
    ("sessions-ended", "Your other sessions have ended."),
    ("assessment-ordered", "The assessment is requested."),
    ("assessment-reviewed", "The review is recorded."),
    ("appeal-filed", "The appeal is filed."),
    ("appeal-resolved", "The appeal is decided."),
    ("card-scored", "The card is scored."),
    ("card-watched", "The card is watched."),
    ("card-unwatched", "The card is no longer watched."),
    ("version-promoted", "The version is promoted."),
    ("version-paused", "The version is paused."),
    ("version-deprecated", "The version is deprecated."),
    (
        "version-rolled-back",
        "The version is rolled back, and the version before it serves again.",
    ),
    ("share-changed", "The share of the traffic is changed."),
    (
        "approval-asked",
        "The approval is requested. Promote the version again once it is given.",
    ),
    ("answered", "Your answer is recorded."),
    ("rejected", "Your rejection is recorded."),
    ("overridden", "Your override is recorded and marked."),
    (
        "review-created",
        "The review is created. People can label its answers.",
    ),
    ("labelled", "Your label is saved."),
    ("skipped", "The answer is left to others."),
    ("review-closed", "The review is closed."),
    ("calibrating", "The calibration of the judge has started."),
    ("oasis-reviewed", "Your decision is recorded."),
    ("voided", "The run is void: its scores count for no gate."),
];

pub fn done(name: Option<&str>) -> &'static str {
    let known = DONE.iter().find(|(short, _)| Some(*short) == name);
    known.map_or("", |(_, text)| text)
}
