//! What is asked of a version, and why it may be refused. Whether it is allowed is asked elsewhere.

use semver::Version;
use serde::Serialize;

use super::channel::Channel;
use super::state::Illegal;
use crate::domain::ids::RunId;
use crate::protocol::openwop::deployment::{DeploymentState, TransitionKind};

/// What is asked of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The version.
    pub version: Version,
    /// What is to be done.
    pub transition: TransitionKind,
    /// Where the caller thinks a promotion leads.
    pub to_state: Option<DeploymentState>,
    /// The channel it is about.
    pub channel: Option<Channel>,
    /// The share of traffic, 0..=100.
    pub share: Option<u8>,
    /// The eval run a promotion rests on.
    pub evidence: Option<RunId>,
    /// The approval gate that granted it.
    pub approval_gate: Option<String>,
    /// The pack that is installed under the version.
    pub pack_integrity: Option<String>,
    /// A short label.
    pub reason: Option<String>,
}

/// Why a well-formed transition is not possible. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The state machine has no such transition.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// A field that this transition would ignore.
    #[error("`{field}` has no meaning for {transition}{whither}; leave it out", whither = .to.map(|to| format!(" to {to}")).unwrap_or_default())]
    Meaningless {
        /// The field.
        field: &'static str,
        /// The transition.
        transition: TransitionKind,
        /// Where a promotion leads.
        to: Option<DeploymentState>,
    },
    /// A field that this transition cannot do without.
    #[error("`{field}` is required for {transition}")]
    Missing {
        /// The field.
        field: &'static str,
        /// The transition.
        transition: TransitionKind,
    },
    /// The version is not on the channel.
    #[error("version {version} is not on channel {channel}")]
    NotOnChannel {
        /// The version.
        version: Version,
        /// The channel.
        channel: Channel,
    },
    /// Nothing serves where it does that was there before it.
    #[error("there is no version before {version}{place} to go back to; pause or deprecate it instead", place = on(.channel.as_ref()))]
    NoPrior {
        /// The version.
        version: Version,
        /// The channel that would be left without one, if it is about a channel.
        channel: Option<Channel>,
    },
    /// What was there before it was taken out of service on purpose.
    #[error("version {prior}, which {version} replaced{place}, is paused; promote {prior} back into service first, or pause {version}", place = on(.channel.as_ref()))]
    PausedPrior {
        /// The version.
        version: Version,
        /// The one before it.
        prior: Version,
        /// The channel, if it is about a channel.
        channel: Option<Channel>,
    },
    /// What it gives up would go to another version, whose share is a question of its own.
    #[error(transparent)]
    RaisesAnother(Raised),
    /// It replaced different versions on different channels.
    #[error(
        "version {version} replaced different versions on its channels; name the `channel` to go back on"
    )]
    ManyPriors {
        /// The version.
        version: Version,
    },
}

/// A version that would get more of the traffic of a channel than it was let take there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error(
    "this would give version {version} {share} % of the traffic of channel {channel}, where it was given {given} %; raise its share first (`adjust-canary`), which its gate judges, or pause it first"
)]
#[serde(rename_all = "camelCase")]
pub struct Raised {
    /// The version.
    pub version: Version,
    /// The channel.
    pub channel: Channel,
    /// What it would get, 0..=100.
    #[serde(rename = "canaryPercent")]
    pub share: u8,
    /// The most it was let take.
    #[serde(rename = "givenPercent")]
    pub given: u8,
}

fn on(channel: Option<&Channel>) -> String {
    channel
        .map(|channel| format!(" on channel {channel}"))
        .unwrap_or_default()
}

impl Refused {
    /// The field of the request it is about.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Illegal(Illegal::NotTo { .. }) => "toState",
            Self::Illegal(_) | Self::NoPrior { .. } | Self::PausedPrior { .. } => "transition",
            Self::Meaningless { field, .. } | Self::Missing { field, .. } => field,
            Self::RaisesAnother(_) => "version",
            Self::NotOnChannel { .. } | Self::ManyPriors { .. } => "channel",
        }
    }
}

/// A field without effect would leave the caller with a wrong idea of what happened.
pub(super) fn refuse_what_would_be_ignored(
    asked: &Move,
    to: DeploymentState,
) -> Result<(), Refused> {
    let promote = asked.transition == TransitionKind::Promote;
    let into_service = promote && to == DeploymentState::Active;
    let adjust = asked.transition == TransitionKind::AdjustCanary;
    let rollback = asked.transition == TransitionKind::Rollback;
    let meaning = [
        (
            "channel",
            asked.channel.is_some(),
            into_service || adjust || rollback,
        ),
        (
            "canaryPercent",
            asked.share.is_some(),
            into_service || adjust,
        ),
        ("evalRunId", asked.evidence.is_some(), promote || adjust),
    ];
    match meaning
        .into_iter()
        .find(|(_, given, meant)| *given && !*meant)
    {
        Some((field, ..)) => Err(Refused::Meaningless {
            field,
            transition: asked.transition,
            to: promote.then_some(to),
        }),
        None => Ok(()),
    }
}
