//! What a version was let take of the traffic, and whether a transition would give it more.
//!
//! What one version gives up goes to another one, and that is a promotion of the other one that nobody judged: whoever let
//! a version take 5 % of a channel did not let it take all of it once the version beside it is paused.

use semver::Version;

use super::{ALL, Lifecycle};
use crate::domain::deployment::channel::Channel;
use crate::domain::deployment::transition::Raised;

impl Lifecycle {
    /// Remembers that a version was let onto a channel where nobody else serves, which is to take all of it.
    pub(super) fn settle(&mut self, version: &Version, channel: &Channel) {
        let alone = self.is_alone(version, channel).then_some(ALL);
        for seat in self.channels.entry(channel.clone()).or_default() {
            if seat.version == *version {
                seat.alone = alone.filter(|_| seat.share > 0);
            }
        }
    }

    /// Whether no version but this one serves on a channel.
    pub(super) fn is_alone(&self, version: &Version, channel: &Channel) -> bool {
        let seats = self.channels.get(channel).map(Vec::as_slice);
        !seats
            .unwrap_or_default()
            .iter()
            .any(|seat| seat.version != *version && self.is_active(&seat.version))
    }

    /// A version that has more of the traffic of a channel than it had `before`, and more than it was let take. Of several
    /// the one that moved is named last: it is what somebody thought of.
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
