//! What a version holds: it is its pack that was tested, staged and approved, not its number.

use semver::Version;

use super::Lifecycle;

impl Lifecycle {
    /// The deployments given the packs that are installed. A version that was removed and came back with another pack is
    /// another one: it is a draft, whatever the one before was. One that came back with the same pack is where it was, and
    /// so is one that is not installed. Whoever was asked about the one before is asked in vain: a consent is to a pack.
    #[must_use]
    pub fn as_installed<'a>(&self, integrity: impl Fn(&Version) -> Option<&'a str>) -> Self {
        let mut after = self.clone();
        let replaced = self.versions.iter().filter(|(version, deployed)| {
            deployed
                .pack_integrity
                .as_deref()
                .zip(integrity(version))
                .is_some_and(|(moved, installed)| moved != installed)
        });
        for (version, _) in replaced {
            after.leave(version);
            after.versions.remove(version);
        }
        after
    }
}
