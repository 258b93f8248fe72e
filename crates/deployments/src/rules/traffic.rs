//! How versions share the traffic of a channel (RFC 0082 §B).
//!
//! A channel keeps every version that was promoted to it, newest last. The newest active one takes
//! its share; the rest goes to the active version before it. Pause, resume and rollback therefore
//! need no bookkeeping: the preceding version is always known.

use semver::Version;
use serde::{Deserialize, Serialize};

/// The whole traffic of a channel.
pub(super) const ALL: u8 = 100;

/// No version takes the traffic of this channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no version is active on this channel")]
pub struct NoActiveDeployment;

/// The place of a version on a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChannelEntry {
    pub(super) version: Version,
    /// Its percentage of the traffic while it is the newest active version, 0..=100.
    pub(super) share: u8,
    /// A larger granted percentage: the version was put on the channel while no other version
    /// served there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) alone: Option<u8>,
}

impl ChannelEntry {
    pub(super) fn new(version: Version, share: u8) -> Self {
        Self {
            version,
            share,
            alone: None,
        }
    }

    pub(super) fn version(&self) -> &Version {
        &self.version
    }

    /// The largest percentage of traffic that it was granted.
    pub(super) fn given(&self) -> u8 {
        self.alone.unwrap_or_default().max(self.share)
    }
}

/// The one or two versions that share a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split<'a> {
    pub(super) current: &'a ChannelEntry,
    /// The active version before it, even if no traffic remains for it.
    pub(super) before: Option<&'a Version>,
}

impl<'a> Split<'a> {
    /// The split between the entries, given which versions are active.
    pub(super) fn of(
        entries: &'a [ChannelEntry],
        is_active: impl Fn(&Version) -> bool,
    ) -> Option<Self> {
        let mut active = entries
            .iter()
            .rev()
            .filter(|entry| is_active(&entry.version));
        let current = active.next()?;
        Some(Self {
            current,
            before: active.next().map(|entry| &entry.version),
        })
    }

    /// The share of a version; `None` if the version is not on the channel.
    pub(super) fn share_of(&self, version: &Version) -> Option<u8> {
        if self.current.version == *version {
            return Some(self.current.share);
        }
        let left = ALL.saturating_sub(self.current.share);
        (left > 0 && self.before == Some(version)).then_some(left)
    }

    /// The percentage of traffic that a version takes. A version that is alone takes everything,
    /// whatever its share, unless its share is 0.
    pub(super) fn taken_by(&self, version: &Version) -> u8 {
        let all_alone = self.before.is_none() && self.current.share > 0;
        match self.share_of(version) {
            Some(_) if all_alone => ALL,
            share => share.unwrap_or_default(),
        }
    }

    /// The version that takes this draw, 0..100.
    ///
    /// # Errors
    /// The only active version has a share of 0.
    pub(super) fn pick(&self, draw: u8) -> Result<&'a Version, NoActiveDeployment> {
        match self.before {
            Some(before) if draw >= self.current.share => Ok(before),
            // Without a second version, any share above 0 means all traffic.
            None if self.current.share == 0 => Err(NoActiveDeployment),
            _ => Ok(&self.current.version),
        }
    }
}
