//! Compares versions with the installed packs: tests, staging and approvals apply to a pack's
//! content, not to its version number.

use semver::Version;

use super::Lifecycle;

impl Lifecycle {
    /// The deployments adjusted to the installed packs. A version that was reinstalled with another
    /// pack becomes a draft, whatever its earlier state, and open approval requests about it become
    /// obsolete. A version that was reinstalled with the same pack, or that is not installed, keeps
    /// its state.
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
