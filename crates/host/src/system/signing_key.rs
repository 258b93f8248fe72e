//! The host's keys in files, created on first use where the host may create them.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::ports::ids::Ids as _;
use crate::ports::signing_key::{NoSigningKey, SigningKey};
use crate::system::SystemIds;
use crate::system::private_files;
use touchstone_kit::keys::SecretKey;

/// File name in a data folder of the key that signs verdicts.
pub const ATTEST_FILE: &str = "attest.pem";
/// File name in a data folder of the key that encrypts secrets.
pub const SECRETS_FILE: &str = "secrets.pem";

/// No key is configured, and the host has no folder to keep one in.
#[derive(Clone, Copy, Debug)]
pub struct NoKey;

impl SigningKey for NoKey {
    fn key(&self) -> Result<Arc<SecretKey>, NoSigningKey> {
        Err(NoSigningKey::NotConfigured)
    }
}

#[derive(Debug)]
pub struct KeyFile {
    path: PathBuf,
    makes: bool,
    read: OnceLock<Arc<SecretKey>>,
}

impl KeyFile {
    /// The operator's key. It is read at once, so that a fault is reported when the host starts.
    ///
    /// # Errors
    /// The file cannot be read or holds no key.
    pub fn given(path: &Path) -> Result<Self, NoSigningKey> {
        let file = Self {
            path: path.to_owned(),
            makes: false,
            read: OnceLock::new(),
        };
        file.key()?;
        private_files::warn_if_open(path, "run chmod 600 on the key file");
        Ok(file)
    }

    /// The host's own key in its data folder, created on first use.
    pub fn own(folder: &Path, name: &str) -> Self {
        let path = folder.join(name);
        private_files::restrict(&path);
        Self {
            path,
            makes: true,
            read: OnceLock::new(),
        }
    }

    fn load(&self) -> Result<SecretKey, NoSigningKey> {
        let unusable =
            |cause: String| NoSigningKey::Unusable(format!("{}: {cause}", self.path.display()));
        let text = match std::fs::read_to_string(&self.path) {
            Err(cause) if self.makes && cause.kind() == io::ErrorKind::NotFound => {
                create(&self.path).map_err(|cause| unusable(cause.to_string()))?;
                std::fs::read_to_string(&self.path)
            }
            read => read,
        };
        let text = text.map_err(|cause| unusable(cause.to_string()))?;
        SecretKey::from_pem(&text).map_err(|fault| unusable(fault.to_string()))
    }
}

impl SigningKey for KeyFile {
    fn key(&self) -> Result<Arc<SecretKey>, NoSigningKey> {
        if let Some(key) = self.read.get() {
            return Ok(key.clone());
        }
        let key = Arc::new(self.load()?);
        Ok(self.read.get_or_init(|| key).clone())
    }
}

/// Creates a key file atomically, for its owner only. If several processes create it at once, one
/// succeeds.
pub(super) fn create(path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // Temporary files are readable by their owner only.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    let key = SecretKey::from_random(SystemIds.secret());
    file.write_all(key.to_pem().as_bytes())?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Err(taken) if taken.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map(drop).map_err(|fault| fault.error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signing_key_file_is_created_once_and_private_to_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let keys: Vec<_> = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        KeyFile::own(folder.path(), ATTEST_FILE)
                            .key()
                            .unwrap()
                            .public()
                    })
                })
                .collect();
            makers.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let file = std::fs::metadata(folder.path().join(ATTEST_FILE)).unwrap();
            assert_eq!(file.permissions().mode() & 0o777, 0o600);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_readable_key_file_is_made_private_at_startup() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(ATTEST_FILE);
        KeyFile::own(folder.path(), ATTEST_FILE).key().unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        KeyFile::own(folder.path(), ATTEST_FILE);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_configured_key_file_is_never_created() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        assert!(matches!(
            KeyFile::given(&path),
            Err(NoSigningKey::Unusable(_))
        ));
        assert!(!path.exists());
        std::fs::write(&path, "no key").unwrap();
        assert!(KeyFile::given(&path).is_err());
    }
}
