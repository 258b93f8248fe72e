//! The file with the keys that encrypt secrets at rest.
//!
//! The file holds one private key. During a rotation it holds several: the first encrypts, all
//! decrypt. Every process checks the file for changes before it uses a key, so a rotation needs no
//! restart of processes that share the file.

use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crate::ports::host_keys::HostKeys;
use crate::ports::ids::Ids as _;
use crate::ports::signing_key::NoSigningKey;
use crate::system::SystemIds;
use crate::system::private_files;
use crate::system::signing_key::create;
use touchstone_kit::keys::SecretKey;
use touchstone_kit::sealing::HostKeyRing;

const BEGIN: &str = "-----BEGIN";
/// A larger file is not a key file.
const MAX_BYTES: u64 = 64 * 1024;

/// Identifies the version of the file that was read.
type Version = (Option<SystemTime>, u64, u64);

#[derive(Debug)]
pub struct HostKeyFile {
    path: PathBuf,
    creates: bool,
    read: Mutex<Option<(Version, Arc<HostKeyRing>)>>,
}

impl HostKeyFile {
    /// The operator's file. It is read at once, so that a fault is reported when the host starts.
    ///
    /// # Errors
    /// The file cannot be read or holds no private key.
    pub fn given(path: &Path) -> Result<Self, NoSigningKey> {
        let file = Self::at(path.to_owned(), false);
        file.ring()?;
        private_files::warn_if_open(path, "run chmod 600 on the key file");
        Ok(file)
    }

    /// A file of the host's own, created with a new key on first use.
    pub fn own(path: PathBuf) -> Self {
        private_files::restrict(&path);
        Self::at(path, true)
    }

    /// A file that is never created: a database whose key may be missing is not given a new one.
    pub fn existing(path: PathBuf) -> Self {
        Self::at(path, false)
    }

    fn at(path: PathBuf, creates: bool) -> Self {
        Self {
            path,
            creates,
            read: Mutex::new(None),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Excludes other rotations until the returned file is dropped: of two new keys, one would be
    /// lost.
    ///
    /// # Errors
    /// Another process rotates the key, or the lock file next to the key file cannot be created.
    pub fn lock(&self) -> Result<File, NoSigningKey> {
        let mut path = self.path.clone().into_os_string();
        path.push(".lock");
        let mut options = File::options();
        options.create(true).truncate(false).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path);
        let file = file.map_err(|cause| self.unusable(&cause.to_string()))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(_) => Err(self.unusable("another process is rotating this key")),
        }
    }

    /// Puts a new key before the current one, which continues to decrypt. After an interrupted
    /// rotation, the key that it created is used again.
    ///
    /// # Errors
    /// The file cannot be read or replaced.
    pub fn begin_rotation(&self) -> Result<(), NoSigningKey> {
        self.ring()?;
        let keys = self.load()?;
        if keys.len() > 1 {
            return Ok(());
        }
        let fresh = SecretKey::from_random(SystemIds.secret());
        let keys: Vec<SecretKey> = [fresh].into_iter().chain(keys).collect();
        self.replace(&keys)
    }

    /// Removes the keys that no longer encrypt.
    ///
    /// # Errors
    /// The file cannot be read or replaced.
    pub fn finish_rotation(&self) -> Result<(), NoSigningKey> {
        let mut keys = self.load()?;
        keys.truncate(1);
        self.replace(&keys)
    }

    /// Replaces the file atomically: a process that is killed leaves the old file in place.
    fn replace(&self, keys: &[SecretKey]) -> Result<(), NoSigningKey> {
        let text: String = keys.iter().map(SecretKey::to_pem).collect();
        let folder = self.path.parent().filter(|it| *it != Path::new(""));
        let folder = folder.unwrap_or(Path::new("."));
        let write = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(&self.path).map_err(|fault| fault.error)?;
            File::open(folder)?.sync_all()
        };
        write().map_err(|cause| self.unusable(&cause.to_string()))
    }

    /// The number of keys in the file; more than one during a rotation.
    ///
    /// # Errors
    /// The file cannot be read or holds no private key.
    pub fn count(&self) -> Result<usize, NoSigningKey> {
        Ok(self.load()?.len())
    }

    fn unusable(&self, cause: &str) -> NoSigningKey {
        NoSigningKey::Unusable(format!("{}: {cause}", self.path.display()))
    }

    fn created(&self, missing: io::Error) -> Result<Metadata, NoSigningKey> {
        let created = match self.creates && missing.kind() == io::ErrorKind::NotFound {
            true => create(&self.path).and_then(|()| std::fs::metadata(&self.path)),
            false => Err(missing),
        };
        created.map_err(|cause| self.unusable(&cause.to_string()))
    }

    fn load(&self) -> Result<Vec<SecretKey>, NoSigningKey> {
        let text = std::fs::read_to_string(&self.path);
        let text = text.map_err(|cause| self.unusable(&cause.to_string()))?;
        let blocks = text.split_inclusive(BEGIN).collect::<Vec<_>>();
        let mut keys = Vec::new();
        // Each piece but the last ends with the header of the next block.
        for block in blocks.iter().skip(1) {
            let block = block.strip_suffix(BEGIN).unwrap_or(block);
            let key = SecretKey::from_pem(&format!("{BEGIN}{block}"));
            keys.push(key.map_err(|fault| self.unusable(&fault.to_string()))?);
        }
        match keys.is_empty() {
            true => Err(self.unusable("the file has no private key in PEM")),
            false => Ok(keys),
        }
    }
}

impl HostKeys for HostKeyFile {
    fn ring(&self) -> Result<Arc<HostKeyRing>, NoSigningKey> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match (std::fs::metadata(&self.path), &*read) {
            (Ok(found), _) => found,
            // A deleted file is not recreated: its keys are still known, and a new key would
            // decrypt nothing.
            (Err(_), Some((_, ring))) => return Ok(ring.clone()),
            (Err(cause), None) => self.created(cause)?,
        };
        let version = version(&found);
        if let Some((known, ring)) = &*read
            && *known == version
        {
            return Ok(ring.clone());
        }
        if found.len() > MAX_BYTES {
            return Err(self.unusable("the file is too large for a key file"));
        }
        let secrets: Vec<[u8; 32]> = self.load()?.iter().map(SecretKey::to_octets).collect();
        let ring = HostKeyRing::of(&secrets).ok_or_else(|| self.unusable("no usable key"))?;
        let ring = Arc::new(ring);
        *read = Some((version, ring.clone()));
        Ok(ring)
    }
}

fn version(found: &Metadata) -> Version {
    #[cfg(unix)]
    let identity = std::os::unix::fs::MetadataExt::ino(found);
    #[cfg(not(unix))]
    let identity = 0;
    (found.modified().ok(), found.len(), identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotation_keeps_the_old_key_usable_until_it_is_finished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets.pem");
        let (host, other) = (
            HostKeyFile::own(path.clone()),
            HostKeyFile::own(path.clone()),
        );
        let sealed = host.ring().unwrap().seal([1; 12], "a", b"secret").unwrap();
        let old = host.ring().unwrap().id().to_owned();
        let lock = host.lock().unwrap();
        assert!(other.lock().is_err(), "one rotation at a time");
        drop(lock);
        other.lock().unwrap();
        host.begin_rotation().unwrap();
        let new = host.ring().unwrap().id().to_owned();
        assert_ne!(new, old);
        // A rotation that is started again after an interruption uses the same new key.
        host.begin_rotation().unwrap();
        assert_eq!(other.ring().unwrap().id(), new);
        assert_eq!(other.ring().unwrap().open("a", &sealed).unwrap(), b"secret");
        host.finish_rotation().unwrap();
        for keys in [&host, &other] {
            assert_eq!(keys.ring().unwrap().id(), new);
            assert!(keys.ring().unwrap().open("a", &sealed).is_err());
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn a_deleted_key_file_is_not_replaced_by_a_new_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets.pem");
        let keys = HostKeyFile::own(path.clone());
        let before = keys.ring().unwrap().id().to_owned();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(keys.ring().unwrap().id(), before);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_without_a_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets.pem");
        assert!(HostKeyFile::given(&path).is_err());
        for text in [
            "",
            "no key",
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        ] {
            std::fs::write(&path, text).unwrap();
            assert!(HostKeyFile::given(&path).is_err(), "{text:?}");
        }
    }
}
