//! Rollback: replaces a version with the one before it.
//!
//! A rollback checks no gate, so it puts nothing into service and nothing on a channel. It removes
//! a version, and on each of its channels the preceding version that still serves takes over.

use semver::Version;

use super::Lifecycle;
use crate::rules::Channel;
use crate::rules::traffic::ChannelEntry;
use crate::rules::transition::{TransitionError, TransitionRequest};
use touchstone_kit::ids::AgentId;
use touchstone_openwop::deployment::DeploymentState;
use touchstone_openwop::events::{DeploymentRolledBack, Event};

impl Lifecycle {
    pub(super) fn roll_back(
        &mut self,
        agent: &AgentId,
        asked: &TransitionRequest,
    ) -> Result<Vec<Event>, TransitionError> {
        let version = &asked.version;
        let prior = self.prior(asked)?;
        self.leave(version);
        let entry = self.entry(version);
        entry.state = DeploymentState::RolledBack;
        entry.rollback_pointer = Some(prior.clone());
        Ok(vec![Event::DeploymentRolledBack(DeploymentRolledBack {
            agent_id: agent.clone(),
            from_version: version.to_string(),
            to_version: prior.to_string(),
            rollback_pointer: prior.to_string(),
            reason: asked.reason.clone(),
        })])
    }

    /// The version to roll back to: the preceding one on the named channel, or on all channels of
    /// the version. A version on no channel rolls back to the version that was active before it.
    fn prior(&self, asked: &TransitionRequest) -> Result<Version, TransitionError> {
        let version = &asked.version;
        if let Some(channel) = &asked.channel
            && !self.channels_of(version).contains(channel)
        {
            return Err(self.not_on(version, channel));
        }
        let mut named = None;
        let mut priors: Vec<Version> = Vec::new();
        for channel in self.channels_of(version) {
            // The version leaves all its channels, so each of them needs a version that takes over.
            let entries = self.channels.get(&channel).map(Vec::as_slice);
            let order = entries
                .unwrap_or_default()
                .iter()
                .map(ChannelEntry::version);
            let prior = self.before(version, order, Some(&channel))?;
            if asked.channel.as_ref() == Some(&channel) {
                named = Some(prior.clone());
            }
            priors.push(prior);
        }
        if let Some(named) = named {
            return Ok(named);
        }
        priors.sort_unstable();
        priors.dedup();
        match priors.as_slice() {
            [] => self.before(version, self.activations.iter(), None),
            [one] => Ok(one.clone()),
            _ => Err(TransitionError::ManyPriors {
                version: version.clone(),
            }),
        }
    }

    /// The nearest version before `version` that serves.
    fn before<'a>(
        &self,
        version: &Version,
        order: impl DoubleEndedIterator<Item = &'a Version>,
        channel: Option<&Channel>,
    ) -> Result<Version, TransitionError> {
        let before: Vec<&Version> = order
            .rev()
            .skip_while(|other| *other != version)
            .skip(1)
            .collect();
        let in_state = |wanted| {
            before
                .iter()
                .find(|other| self.state(other) == wanted)
                .map(|other| (*other).clone())
        };
        if let Some(prior) = in_state(DeploymentState::Active) {
            return Ok(prior);
        }
        let (version, channel) = (version.clone(), channel.cloned());
        Err(match in_state(DeploymentState::Paused) {
            // The prior version was paused on purpose; it must pass its gate before it returns to
            // service.
            Some(prior) => TransitionError::PausedPrior {
                version,
                prior,
                channel,
            },
            None => TransitionError::NoPrior { version, channel },
        })
    }
}
