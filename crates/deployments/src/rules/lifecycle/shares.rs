//! The share of traffic that a version was granted, and whether a transition would exceed it.
//!
//! Traffic that one version gives up goes to another version, which is an unjudged promotion of
//! that version: a gate that allowed 5 % of a channel did not allow 100 % of it after the other
//! version is paused.

use semver::Version;

use super::{ALL, Lifecycle};
use crate::rules::Channel;
use crate::rules::transition::Raised;

impl Lifecycle {
    /// Records that a version was put on a channel with no other serving version, which grants it
    /// all the traffic.
    pub(super) fn settle(&mut self, version: &Version, channel: &Channel) {
        let alone = self.is_alone(version, channel).then_some(ALL);
        for seat in self.channels.entry(channel.clone()).or_default() {
            if seat.version == *version {
                seat.alone = alone.filter(|_| seat.share > 0);
            }
        }
    }

    /// Whether this version is the only one that serves on a channel.
    pub(super) fn is_alone(&self, version: &Version, channel: &Channel) -> bool {
        let seats = self.channels.get(channel).map(Vec::as_slice);
        !seats
            .unwrap_or_default()
            .iter()
            .any(|seat| seat.version != *version && self.is_active(&seat.version))
    }

    /// A version that takes more of a channel's traffic than `before` and more than it was granted.
    /// Any other version is reported before `moved`, because the caller already expects a change of
    /// `moved`.
    pub(super) fn raised(&self, before: &Self, moved: &Version) -> Option<Raised> {
        let taken = |lifecycle: &Self, channel: &Channel, version: &Version| {
            lifecycle
                .split(channel)
                .map_or(0, |split| split.taken_by(version))
        };
        let raised: Vec<Raised> = self
            .channels
            .iter()
            .flat_map(|(channel, seats)| seats.iter().map(move |seat| (channel, seat)))
            .filter_map(|(channel, seat)| {
                let share = taken(self, channel, &seat.version);
                let had = taken(before, channel, &seat.version);
                (share > seat.given().max(had)).then(|| Raised {
                    version: seat.version.clone(),
                    channel: channel.clone(),
                    share,
                    given: seat.given(),
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
