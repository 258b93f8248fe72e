//! The request for a transition, and the reasons to refuse it. The caller checks authorization.

use semver::Version;
use serde::Serialize;

use super::state::InvalidTransition;
use touchstone_kit::ids::RunId;
use touchstone_openwop::channel::Channel;
use touchstone_openwop::deployment::{DeploymentState, TransitionKind};

/// A requested transition of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransitionRequest {
    pub version: Version,
    pub transition: TransitionKind,
    /// The target state that the caller expects of a promotion.
    pub to_state: Option<DeploymentState>,
    pub channel: Option<Channel>,
    /// The share of traffic, 0..=100.
    pub share: Option<u8>,
    /// The eval run that a promotion uses as evidence.
    pub evidence: Option<RunId>,
    /// The approval gate that granted it.
    pub approval_gate: Option<String>,
    /// The integrity of the pack installed under this version.
    pub pack_integrity: Option<String>,
    /// A short label.
    pub reason: Option<String>,
}

/// Why a well-formed transition is not possible. The deployments are unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransitionError {
    /// The state machine has no such transition.
    #[error(transparent)]
    InvalidTransition(#[from] InvalidTransition),
    /// A field that this transition would ignore.
    #[error("`{field}` does not apply to {transition}{whither}; leave it out", whither = .to.map(|to| format!(" to {to}")).unwrap_or_default())]
    Meaningless {
        field: &'static str,
        transition: TransitionKind,
        /// The target state of a promotion.
        to: Option<DeploymentState>,
    },
    /// A field that this transition requires.
    #[error("`{field}` is required for {transition}")]
    Missing {
        field: &'static str,
        transition: TransitionKind,
    },
    #[error("version {version} is not on channel {channel}")]
    NotOnChannel { version: Version, channel: Channel },
    /// No version was there before it and still serves.
    #[error("there is no earlier active version to replace {version}{place}; pause or deprecate {version} instead", place = on(.channel.as_ref()))]
    NoPrior {
        version: Version,
        /// The channel that would be left without a version, if a channel is concerned.
        channel: Option<Channel>,
    },
    /// The preceding version is paused on purpose.
    #[error("cannot roll back to version {prior}, which {version} replaced{place}, because it is paused; promote {prior} first, or pause {version}", place = on(.channel.as_ref()))]
    PausedPrior {
        version: Version,
        /// The preceding version.
        prior: Version,
        /// The channel, if a channel is concerned.
        channel: Option<Channel>,
    },
    /// The traffic it gives up would go to another version beyond the share granted to that
    /// version.
    #[error(transparent)]
    RaisesAnother(ShareExceeded),
    /// It replaced different versions on different channels.
    #[error(
        "version {version} replaced different versions on its channels; set `channel` to the one \
         to roll back"
    )]
    ManyPriors { version: Version },
}

/// A version that would get more of a channel's traffic than it was granted there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error(
    "this transition would raise version {version} to {share} % of the traffic of channel \
    {channel}, above its approved share of {given} %; raise that share first (`adjust-canary`), or \
    pause version {version}"
)]
#[serde(rename_all = "camelCase")]
pub struct ShareExceeded {
    pub version: Version,
    pub channel: Channel,
    /// The share it would get, 0..=100.
    #[serde(rename = "canaryPercent")]
    pub share: u8,
    /// The largest share that it was granted.
    #[serde(rename = "givenPercent")]
    pub given: u8,
}

fn on(channel: Option<&Channel>) -> String {
    channel
        .map(|channel| format!(" on channel {channel}"))
        .unwrap_or_default()
}

impl TransitionError {
    /// The request field at fault.
    pub fn field(&self) -> &'static str {
        match self {
            Self::InvalidTransition(InvalidTransition::NotTo { .. }) => "toState",
            Self::InvalidTransition(_) | Self::NoPrior { .. } | Self::PausedPrior { .. } => {
                "transition"
            }
            Self::Meaningless { field, .. } | Self::Missing { field, .. } => field,
            Self::RaisesAnother(_) => "version",
            Self::NotOnChannel { .. } | Self::ManyPriors { .. } => "channel",
        }
    }
}

/// Refuses fields without effect, so that the caller does not assume an effect.
pub(super) fn refuse_ignored_fields(
    asked: &TransitionRequest,
    to: DeploymentState,
) -> Result<(), TransitionError> {
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
        Some((field, ..)) => Err(TransitionError::Meaningless {
            field,
            transition: asked.transition,
            to: promote.then_some(to),
        }),
        None => Ok(()),
    }
}
