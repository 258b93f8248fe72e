//! The channels of a version, and its share of their traffic.

use std::fmt;

use semver::Version;
use serde::{Deserialize, Serialize};

use super::{ALL, Lifecycle};
use crate::rules::Channel;
use touchstone_openwop::deployment::DeploymentState;

/// A version's current or planned share of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// The channel; `None` for a version in service on no channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    /// Its share of the traffic there, 0..=100.
    pub canary_percent: u8,
    /// Whether it takes all traffic whatever its share, because no other version serves there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
}

impl Placement {
    /// A placement with this share; 100 if `None`.
    pub fn new(channel: Option<Channel>, share: Option<u8>) -> Self {
        Self {
            channel,
            canary_percent: share.unwrap_or(ALL),
            alone: false,
        }
    }

    /// The percentage of traffic that it takes, 0..=100.
    fn taken(&self) -> u8 {
        if self.alone { ALL } else { self.canary_percent }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.canary_percent;
        match &self.channel {
            Some(channel) if self.alone => write!(
                f,
                "on channel {channel} with {percent} % of its traffic, which is all of it while \
                no other version serves there"
            ),
            Some(channel) => write!(f, "on channel {channel} with {percent} % of its traffic"),
            None => write!(f, "on no channel, with a share of {percent} %"),
        }
    }
}

impl Lifecycle {
    /// The placements that a version was given: its channels, each with its share, whatever other
    /// versions serve there. A version in service on no channel has a share too.
    pub fn placements(&self, version: &Version) -> Vec<Placement> {
        let own = self.channels.iter().filter_map(|(channel, entries)| {
            let entry = entries.iter().find(|entry| entry.version == *version)?;
            Some(self.placement(version, Some(channel.clone()), Some(entry.share)))
        });
        let placements: Vec<Placement> = own.collect();
        if placements.is_empty() && self.state(version) == DeploymentState::Active {
            let share = self.deployed(version).and_then(|deployed| deployed.share);
            return vec![Placement::new(None, share)];
        }
        placements
    }

    /// The traffic that a version takes with the current split.
    pub fn served(&self, version: &Version) -> Vec<Placement> {
        self.shares(version)
            .map(|(channel, share)| self.placement(version, Some(channel.clone()), Some(share)))
            .collect()
    }

    /// The placement that a version has, or would have with this share of a channel, whatever other
    /// versions serve there now.
    pub fn placement(
        &self,
        version: &Version,
        channel: Option<Channel>,
        share: Option<u8>,
    ) -> Placement {
        let place = Placement::new(channel, share);
        let partly = (1..ALL).contains(&place.canary_percent);
        let alone = |channel| self.is_alone(version, channel);
        Placement {
            alone: partly && place.channel.as_ref().is_some_and(alone),
            ..place
        }
    }

    /// Whether a version was given more of a channel's traffic than it had `before`.
    pub fn raises(&self, before: &Self, version: &Version) -> bool {
        let had = before.placements(version);
        self.placements(version).iter().any(|now| {
            let before = had.iter().find(|then| then.channel == now.channel);
            before.is_none_or(|then| {
                then.canary_percent < now.canary_percent || then.taken() < now.taken()
            })
        })
    }
}
