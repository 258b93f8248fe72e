//! The share of traffic that a version was granted, and whether a transition would exceed it.
//!
//! Traffic that one version gives up goes to another version, which is an unjudged promotion of
//! that version: a gate that allowed 5 % of a channel did not allow 100 % of it after the other
//! version is paused.

use semver::Version;

use super::{ALL, Lifecycle};
use crate::rules::Channel;
use crate::rules::traffic::ChannelEntry;
use crate::rules::transition::ShareExceeded;

/// How the versions of an agent share a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelTraffic {
    pub channel: Channel,
    /// The percentage that each active version takes, newest first.
    pub shares: Vec<(Version, u8)>,
}

impl Lifecycle {
    /// Who serves on each channel that a version was promoted to.
    pub fn traffic(&self) -> Vec<ChannelTraffic> {
        let of = |(channel, entries): (&Channel, &Vec<ChannelEntry>)| {
            let split = self.split(channel);
            let active = entries.iter().rev().filter_map(|entry| {
                let taken = split?.taken_by(&entry.version);
                let counts = taken > 0 || split?.current.version == entry.version;
                counts.then(|| (entry.version.clone(), taken))
            });
            ChannelTraffic {
                channel: channel.clone(),
                shares: active.collect(),
            }
        };
        self.channels.iter().map(of).collect()
    }

    /// Records that a version was put on a channel with no other serving version, which grants it
    /// all the traffic.
    pub(super) fn settle(&mut self, version: &Version, channel: &Channel) {
        let alone = self.is_alone(version, channel).then_some(ALL);
        for entry in self.channels.entry(channel.clone()).or_default() {
            if entry.version == *version {
                entry.alone = alone.filter(|_| entry.share > 0);
            }
        }
    }

    /// Whether this version is the only one that serves on a channel.
    pub(super) fn is_alone(&self, version: &Version, channel: &Channel) -> bool {
        let entries = self.channels.get(channel).map(Vec::as_slice);
        !entries
            .unwrap_or_default()
            .iter()
            .any(|entry| entry.version != *version && self.is_active(&entry.version))
    }

    /// A version that takes more of a channel's traffic than `before` and more than it was granted.
    /// Any other version is reported before `moved`, because the caller already expects a change of
    /// `moved`.
    pub(super) fn raised(&self, before: &Self, moved: &Version) -> Option<ShareExceeded> {
        let taken = |lifecycle: &Self, channel: &Channel, version: &Version| {
            lifecycle
                .split(channel)
                .map_or(0, |split| split.taken_by(version))
        };
        let raised: Vec<ShareExceeded> = self
            .channels
            .iter()
            .flat_map(|(channel, entries)| entries.iter().map(move |entry| (channel, entry)))
            .filter_map(|(channel, entry)| {
                let share = taken(self, channel, &entry.version);
                let had = taken(before, channel, &entry.version);
                (share > entry.given().max(had)).then(|| ShareExceeded {
                    version: entry.version.clone(),
                    channel: channel.clone(),
                    share,
                    given: entry.given(),
                })
            })
            .collect();
        raised
            .iter()
            .find(|raised| raised.version != *moved)
            .or(raised.first())
            .cloned()
    }
}
