//! Who takes the traffic of a channel (RFC 0082 §B).
//!
//! A channel remembers every version that was promoted on it, newest last. Of those that are active the newest is the
//! channel's own and takes its share; what is left goes to the active one before it. So a pause, a resume or a rollback
//! needs no bookkeeping: the one before is always there.

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
pub(super) struct Seat {
    /// The version.
    pub(super) version: Version,
    /// What it takes of the traffic while it is the newest active one, 0..=100.
    pub(super) share: u8,
    /// What it may take, where that is more: it was let onto the channel while nobody else served there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) alone: Option<u8>,
}

impl Seat {
    /// A place with this share.
    pub(super) fn new(version: Version, share: u8) -> Self {
        Self {
            version,
            share,
            alone: None,
        }
    }

    /// Whose place it is.
    pub(super) fn version(&self) -> &Version {
        &self.version
    }

    /// The most that it was let take of the traffic.
    pub(super) fn given(&self) -> u8 {
        self.alone.unwrap_or_default().max(self.share)
    }
}

/// The one or two versions that share a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split<'a> {
    pub(super) current: &'a Seat,
    /// The active version before it, whether or not anything is left for it.
    pub(super) before: Option<&'a Version>,
}

impl<'a> Split<'a> {
    /// How the seats share, given which versions are active.
    pub(super) fn of(seats: &'a [Seat], is_active: impl Fn(&Version) -> bool) -> Option<Self> {
        let mut active = seats.iter().rev().filter(|seat| is_active(&seat.version));
        let current = active.next()?;
        Some(Self {
            current,
            before: active.next().map(|seat| &seat.version),
        })
    }

    /// The share of a version, if it is on the channel at all.
    pub(super) fn share_of(&self, version: &Version) -> Option<u8> {
        if self.current.version == *version {
            return Some(self.current.share);
        }
        let left = ALL.saturating_sub(self.current.share);
        (left > 0 && self.before == Some(version)).then_some(left)
    }

    /// How much of the traffic goes to a version: to one that is alone, all of it, whatever its share, unless that is none.
    pub(super) fn taken_by(&self, version: &Version) -> u8 {
        let all_alone = self.before.is_none() && self.current.share > 0;
        match self.share_of(version) {
            Some(_) if all_alone => ALL,
            share => share.unwrap_or_default(),
        }
    }

    /// Who takes this draw, 0..100.
    ///
    /// # Errors
    /// Nobody: the only version there is takes nothing.
    pub(super) fn pick(&self, draw: u8) -> Result<&'a Version, NoActiveDeployment> {
        match self.before {
            Some(before) if draw >= self.current.share => Ok(before),
            // With nobody to take the rest, a share is all; but none is none.
            None if self.current.share == 0 => Err(NoActiveDeployment),
            _ => Ok(&self.current.version),
        }
    }
}
