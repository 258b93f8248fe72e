//! The deployments of one agent, and how a transition changes them (RFC 0082 §C, §E).
//!
//! A version without any transition is a draft and has no entry; being installed is enough.

mod content;
mod placement;
mod rollback;
mod shares;

use std::collections::BTreeMap;

use semver::Version;
use serde::{Deserialize, Serialize};

pub use self::placement::Placement;
pub use self::shares::ChannelTraffic;
use super::state::next;
use super::traffic::{ALL, ChannelEntry, NoActiveDeployment, Split};
use super::transition::{ShareExceeded, TransitionError, TransitionRequest, refuse_ignored_fields};
use touchstone_kit::ids::{AgentId, RunId};
use touchstone_openwop::channel::Channel;
use touchstone_openwop::deployment::{AgentDeployment, DeploymentState, TransitionKind};
use touchstone_openwop::events::{
    DeploymentCanaryAdjusted, DeploymentPromoted, DeploymentStateChanged, Event,
};

/// A version with at least one transition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deployed {
    pub state: DeploymentState,
    /// Its share while it is on no channel, 0..=100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    share: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rollback_pointer: Option<Version>,
    /// The eval run that its last promotion used as evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_run_id: Option<RunId>,
    /// The gate of its last approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approval_gate_id: Option<String>,
    /// The integrity of its pack at the last transition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pack_integrity: Option<String>,
}

/// The deployments of one agent in one tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    versions: BTreeMap<Version, Deployed>,
    /// For each channel, the versions promoted to it, newest last. Versions in a final state are
    /// removed.
    channels: BTreeMap<Channel, Vec<ChannelEntry>>,
    /// Versions that have been active, ordered by their last activation.
    activations: Vec<Version>,
    /// Open approval requests, by the digest of the [`Subject`](super::Subject).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    consents: BTreeMap<String, PendingApproval>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PendingApproval {
    version: Version,
    /// The run that asks for the approval.
    gate: RunId,
}

impl Lifecycle {
    pub fn state(&self, version: &Version) -> DeploymentState {
        self.versions
            .get(version)
            .map_or(DeploymentState::Draft, |deployed| deployed.state)
    }

    /// Whether a version has had any transition.
    pub fn knows(&self, version: &Version) -> bool {
        self.versions.contains_key(version)
    }

    pub fn deployed(&self, version: &Version) -> Option<&Deployed> {
        self.versions.get(version)
    }

    /// Whether a version takes traffic or may take it again.
    pub fn is_in_service(&self, version: &Version) -> bool {
        matches!(
            self.state(version),
            DeploymentState::Active | DeploymentState::Paused
        )
    }

    /// Whether this run is the evidence of the last promotion of a version in service.
    pub fn rests_on(&self, run: &RunId) -> bool {
        self.versions.iter().any(|(version, deployed)| {
            deployed.eval_run_id.as_ref() == Some(run) && self.is_in_service(version)
        })
    }

    /// The channels that a version was promoted to.
    pub fn channels_of(&self, version: &Version) -> Vec<Channel> {
        self.channels
            .iter()
            .filter(|(_, entries)| entries.iter().any(|entry| entry.version == *version))
            .map(|(channel, _)| channel.clone())
            .collect()
    }

    /// The run that asks for approval of the subject with this digest.
    pub fn gate_of(&self, digest: &str) -> Option<&RunId> {
        self.consents.get(digest).map(|consent| &consent.gate)
    }

    /// Every open approval request: the version, and the run that asks.
    pub fn gates(&self) -> impl Iterator<Item = (&Version, &RunId)> {
        let consents = self.consents.values();
        consents.map(|consent| (&consent.version, &consent.gate))
    }

    /// The runs that ask for approval of a version.
    pub fn gates_about(&self, version: &Version) -> impl Iterator<Item = &RunId> {
        self.consents
            .values()
            .filter(move |consent| consent.version == *version)
            .map(|consent| &consent.gate)
    }

    /// The approval runs that become obsolete once the deployments are as in `after`.
    pub fn obsolete_gates<'a>(&'a self, after: &'a Self) -> impl Iterator<Item = &'a RunId> {
        self.consents
            .iter()
            .filter(|(digest, _)| !after.consents.contains_key(*digest))
            .map(|(_, consent)| &consent.gate)
    }

    /// Records that `gate` asks for approval of a promotion of `version`. The request lasts until
    /// it is refused or the version has a transition: an approval is valid for one promotion.
    pub fn ask(&mut self, digest: String, version: Version, gate: RunId) {
        self.consents
            .insert(digest, PendingApproval { version, gate });
    }

    /// Removes an approval request, so that it can be made again.
    pub fn withdraw(&mut self, digest: &str) {
        self.consents.remove(digest);
    }

    /// The agent's deployment records, for every version that is installed or had a transition.
    pub fn records<'a>(
        &'a self,
        agent: &AgentId,
        installed: impl IntoIterator<Item = &'a Version>,
    ) -> Vec<AgentDeployment> {
        let mut versions: Vec<&Version> =
            installed.into_iter().chain(self.versions.keys()).collect();
        versions.sort_unstable();
        versions.dedup();
        versions
            .into_iter()
            .map(|version| self.record(agent, version))
            .collect()
    }

    pub fn record(&self, agent: &AgentId, version: &Version) -> AgentDeployment {
        let deployed = self.versions.get(version);
        let state = self.state(version);
        let shares: Vec<(&Channel, u8)> = self.shares(version).collect();
        let canary_percent = match state {
            // If the shares differ between channels, the smallest is shown, so that no channel has
            // less than the shown share.
            DeploymentState::Active => shares
                .iter()
                .map(|(_, share)| *share)
                .min()
                .or_else(|| deployed.and_then(|deployed| deployed.share)),
            _ => None,
        };
        AgentDeployment {
            agent_id: agent.clone(),
            version: version.to_string(),
            state,
            canary_percent,
            rollback_pointer: deployed
                .and_then(|deployed| deployed.rollback_pointer.as_ref())
                .map(Version::to_string),
            channels: shares
                .iter()
                .map(|(channel, _)| channel.to_string())
                .collect(),
            eval_run_id: deployed.and_then(|deployed| deployed.eval_run_id.clone()),
            approval_gate_id: deployed.and_then(|deployed| deployed.approval_gate_id.clone()),
        }
    }

    /// The version that a run is pinned to, given its draw (0..100).
    ///
    /// # Errors
    /// No version is active on the channel.
    pub fn resolve(&self, channel: &Channel, draw: u8) -> Result<&Version, NoActiveDeployment> {
        if channel.is_latest() {
            return self
                .versions
                .keys()
                .rev()
                .find(|version| self.is_active(version))
                .ok_or(NoActiveDeployment);
        }
        self.split(channel)
            .ok_or(NoActiveDeployment)
            .and_then(|split| split.pick(draw))
    }

    /// The deployments after the transition `asked`, and its events.
    ///
    /// # Errors
    /// [`TransitionError`]; `self` never changes.
    pub fn apply(
        &self,
        agent: &AgentId,
        asked: &TransitionRequest,
    ) -> Result<(Self, Vec<Event>), TransitionError> {
        let from = self.state(&asked.version);
        let to = next(from, asked.transition, asked.to_state)?;
        refuse_ignored_fields(asked, to)?;
        let mut after = self.clone();
        let events = match asked.transition {
            TransitionKind::Promote => after.promote(agent, asked, from, to),
            TransitionKind::Pause => vec![after.change(agent, &asked.version, to)],
            TransitionKind::Deprecate => {
                after.leave(&asked.version);
                vec![after.change(agent, &asked.version, to)]
            }
            TransitionKind::Rollback => after.roll_back(agent, asked)?,
            TransitionKind::AdjustCanary => vec![after.adjust(agent, asked)?],
        };
        if let Some(raised) = after.raised(self, &asked.version) {
            return Err(TransitionError::RaisesAnother(raised));
        }
        let entry = after.entry(&asked.version);
        if asked.approval_gate.is_some() {
            entry.approval_gate_id.clone_from(&asked.approval_gate);
        }
        if asked.evidence.is_some() {
            entry.eval_run_id.clone_from(&asked.evidence);
        }
        if asked.pack_integrity.is_some() {
            entry.pack_integrity.clone_from(&asked.pack_integrity);
        }
        // An approval request about a version ends when the version changes.
        let moved = |version: &Version| {
            *version == asked.version || after.state(version) != self.state(version)
        };
        let standing = after
            .consents
            .iter()
            .filter(|(_, consent)| !moved(&consent.version));
        after.consents = standing
            .map(|(digest, consent)| (digest.clone(), consent.clone()))
            .collect();
        Ok((after, events))
    }

    fn promote(
        &mut self,
        agent: &AgentId,
        asked: &TransitionRequest,
        from: DeploymentState,
        to: DeploymentState,
    ) -> Vec<Event> {
        let version = &asked.version;
        if from == DeploymentState::Paused {
            let changed = self.change(agent, version, to);
            self.activate(asked);
            return vec![changed];
        }
        self.entry(version).state = to;
        let before = asked
            .channel
            .as_ref()
            .and_then(|channel| self.split(channel))
            .map(|split| split.current.version.to_string());
        let into_service = to == DeploymentState::Active;
        if into_service {
            self.activate(asked);
        }
        vec![Event::DeploymentPromoted(DeploymentPromoted {
            agent_id: agent.clone(),
            to_version: version.to_string(),
            to_state: to,
            from_version: before,
            channel: asked.channel.as_ref().map(Channel::to_string),
            canary_percent: into_service.then(|| asked.share.unwrap_or(ALL)),
            eval_run_id: asked.evidence.clone(),
            approval_gate_id: asked.approval_gate.clone(),
        })]
    }

    /// Puts the version on the named channel with the named share. A version that returns to its
    /// earlier channels keeps its place and share there, unless another share is named.
    fn activate(&mut self, asked: &TransitionRequest) {
        let version = &asked.version;
        if asked.channel.is_some() || !self.activations.contains(version) {
            self.activations.retain(|other| other != version);
            self.activations.push(version.clone());
        }
        match (&asked.channel, asked.share) {
            (Some(channel), share) => {
                let entries = self.channels.entry(channel.clone()).or_default();
                entries.retain(|entry| entry.version != *version);
                entries.push(ChannelEntry::new(version.clone(), share.unwrap_or(ALL)));
            }
            (None, Some(share)) => {
                self.entry(version).share = Some(share);
                for entry in self.channels.values_mut().flatten() {
                    if entry.version == *version {
                        entry.share = share;
                    }
                }
            }
            (None, None) => {}
        }
        for channel in self.channels_of(version) {
            self.settle(version, &channel);
        }
    }

    fn adjust(
        &mut self,
        agent: &AgentId,
        asked: &TransitionRequest,
    ) -> Result<Event, TransitionError> {
        let version = &asked.version;
        let Some(share) = asked.share else {
            return Err(TransitionError::Missing {
                field: "canaryPercent",
                transition: asked.transition,
            });
        };
        let from = self.record(agent, version).canary_percent.unwrap_or(ALL);
        let concerned: Vec<Channel> = self
            .channels_of(version)
            .into_iter()
            .filter(|channel| asked.channel.as_ref().is_none_or(|named| named == channel))
            .collect();
        if let Some(channel) = &asked.channel
            && concerned.is_empty()
        {
            return Err(self.not_on(version, channel));
        }
        for channel in &concerned {
            let Some(split) = self.split(channel) else {
                continue;
            };
            let current = split.current.version.clone();
            let ours = current == *version;
            // The two versions on a channel share all its traffic: what one gains, the other loses.
            let of_current = if ours {
                share
            } else if split.before == Some(version) {
                let left = ALL.saturating_sub(share);
                if left > split.current.share {
                    return Err(TransitionError::RaisesAnother(ShareExceeded {
                        version: current,
                        channel: channel.clone(),
                        share: left,
                        given: split.current.share,
                    }));
                }
                left
            } else {
                continue;
            };
            for entry in self.channels.entry(channel.clone()).or_default() {
                if entry.version == current {
                    entry.share = of_current;
                } else if entry.version == *version && share > entry.given() {
                    // The explicit share exceeds what would remain.
                    entry.share = share;
                }
            }
            if ours {
                self.settle(version, channel);
            }
        }
        if concerned.is_empty() {
            self.entry(version).share = Some(share);
        }
        Ok(Event::DeploymentCanaryAdjusted(DeploymentCanaryAdjusted {
            agent_id: agent.clone(),
            version: version.to_string(),
            from_percent: from,
            to_percent: share,
        }))
    }

    /// Sets a version's state and records the event.
    fn change(&mut self, agent: &AgentId, version: &Version, to: DeploymentState) -> Event {
        let from = self.state(version);
        self.entry(version).state = to;
        Event::DeploymentStateChanged(DeploymentStateChanged {
            agent_id: agent.clone(),
            version: version.to_string(),
            from_state: from,
            to_state: to,
        })
    }

    /// Permanently removes a version from its channels; returns them.
    fn leave(&mut self, version: &Version) -> Vec<Channel> {
        let left = self.channels_of(version);
        for entries in self.channels.values_mut() {
            entries.retain(|entry| entry.version != *version);
        }
        self.activations.retain(|other| other != version);
        left
    }

    fn entry(&mut self, version: &Version) -> &mut Deployed {
        self.versions
            .entry(version.clone())
            .or_insert_with(|| Deployed {
                state: DeploymentState::Draft,
                share: None,
                rollback_pointer: None,
                eval_run_id: None,
                approval_gate_id: None,
                pack_integrity: None,
            })
    }

    fn not_on(&self, version: &Version, channel: &Channel) -> TransitionError {
        TransitionError::NotOnChannel {
            version: version.clone(),
            channel: channel.clone(),
        }
    }

    fn is_active(&self, version: &Version) -> bool {
        self.state(version) == DeploymentState::Active
    }

    fn split(&self, channel: &Channel) -> Option<Split<'_>> {
        let entries = self.channels.get(channel)?;
        Split::of(entries, |version| self.is_active(version))
    }

    /// The channels whose traffic a version takes, with its share.
    fn shares<'a>(&'a self, version: &'a Version) -> impl Iterator<Item = (&'a Channel, u8)> {
        self.channels.keys().filter_map(move |channel| {
            let share = self.split(channel)?.share_of(version)?;
            Some((channel, share))
        })
    }
}

#[cfg(test)]
mod tests;
