//! Putting the version before in the place of one.
//!
//! A rollback asks no gate, so it brings nothing into service and nothing onto a channel: it takes a version away, and what
//! was let onto each of its channels before it, and still serves, has the channel again.

use semver::Version;

use super::Lifecycle;
use crate::domain::deployment::channel::Channel;
use crate::domain::deployment::traffic::Seat;
use crate::domain::deployment::transition::{Move, Refused};
use crate::domain::ids::AgentId;
use crate::protocol::openwop::deployment::DeploymentState;
use crate::protocol::openwop::events::{DeploymentRolledBack, Event};

impl Lifecycle {
    pub(super) fn roll_back(
        &mut self,
        agent: &AgentId,
        asked: &Move,
    ) -> Result<Vec<Event>, Refused> {
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

    /// The version to go back to: the one before on the channel that is named, or on all of the version's channels. One on
    /// no channel goes back to what was active before it.
    fn prior(&self, asked: &Move) -> Result<Version, Refused> {
        let version = &asked.version;
        if let Some(channel) = &asked.channel
            && !self.channels_of(version).contains(channel)
        {
            return Err(self.not_on(version, channel));
        }
        let mut named = None;
        let mut priors: Vec<Version> = Vec::new();
        for channel in self.channels_of(version) {
            // The version leaves all of its channels, so each of them needs one that takes over.
            let seats = self.channels.get(&channel).map(Vec::as_slice);
            let order = seats.unwrap_or_default().iter().map(Seat::version);
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
            _ => Err(Refused::ManyPriors {
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
    ) -> Result<Version, Refused> {
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
            // Somebody took it out of service, and its gate has a say before it comes back.
            Some(prior) => Refused::PausedPrior {
                version,
                prior,
                channel,
            },
            None => Refused::NoPrior { version, channel },
        })
    }
}
