//! `NKeys`: Ed25519 keys that identify NATS users.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use nkeys::{KeyPair, KeyPairType};
use touchstone_host::system::private_files;

/// How the seed of a user begins.
const USER_SEED: &str = "SU";

/// Why a key cannot be used. The texts contain nothing of the file.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the key file {path} could not be read: {cause}", path = .0.display(), cause = .1)]
    Unreadable(PathBuf, std::io::Error),
    #[error("the key file {} has no seed of a NATS user, a line that begins with `SU`", .0.display())]
    NoSeed(PathBuf),
    #[error("the key file {} exists", .0.display())]
    Exists(PathBuf),
    #[error("the key file {path} could not be written: {cause}", path = .0.display(), cause = .1)]
    Unwritable(PathBuf, std::io::Error),
    #[error("a key could not be created: {0}")]
    Uncreated(nkeys::error::Error),
}

/// The seed in a file.
///
/// # Errors
/// The file cannot be read, or has no seed of a user.
pub fn read(file: &Path) -> Result<String, KeyError> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|cause| KeyError::Unreadable(file.to_owned(), cause))?;
    private_files::warn_if_open(file, "run chmod 600 on the key file");
    let mut seeds = text.lines().map(str::trim);
    let seed = seeds.find(|line| line.starts_with(USER_SEED));
    let is_of_user = |seed: &&str| {
        KeyPair::from_seed(seed).is_ok_and(|key| key.key_pair_type() == KeyPairType::User)
    };
    let seed = seed.filter(is_of_user);
    let seed = seed.ok_or_else(|| KeyError::NoSeed(file.to_owned()))?;
    Ok(seed.to_owned())
}

/// The public key of the seed in a file.
///
/// # Errors
/// As [`read`].
pub fn public(file: &Path) -> Result<String, KeyError> {
    let key = KeyPair::from_seed(&read(file)?);
    let key = key.map_err(|_| KeyError::NoSeed(file.to_owned()))?;
    Ok(key.public_key())
}

/// Creates a key of a user, writes its seed to a new file that only this user may read, and
/// returns the public key.
///
/// # Errors
/// The file exists or cannot be written.
pub fn create(file: &Path) -> Result<String, KeyError> {
    let key = KeyPair::new_user();
    let seed = key.seed().map_err(KeyError::Uncreated)?;
    let created = private_files::create_new(file);
    let mut created = created.map_err(|cause| match cause.kind() {
        std::io::ErrorKind::AlreadyExists => KeyError::Exists(file.to_owned()),
        _ => KeyError::Unwritable(file.to_owned(), cause),
    })?;
    let written = writeln!(created, "{seed}").and_then(|()| created.sync_all());
    written.map_err(|cause| KeyError::Unwritable(file.to_owned(), cause))?;
    Ok(key.public_key())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_created_key_is_read_and_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("w1.nk");
        let public = create(&file).unwrap();
        assert!(!private_files::is_open_to_others(&file));
        let seed = read(&file).unwrap();
        assert_eq!(KeyPair::from_seed(&seed).unwrap().public_key(), public);
        assert!(matches!(create(&file), Err(KeyError::Exists(_))));
        assert_eq!(read(&file).unwrap(), seed);
    }

    #[test]
    fn a_file_without_a_seed_of_a_user_is_refused_without_quoting_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let account = KeyPair::new_account().seed().unwrap();
        for text in ["", "SUsecret", &account] {
            std::fs::write(&file, text).unwrap();
            let fault = read(&file).unwrap_err().to_string();
            assert!(fault.contains("has no seed"), "{fault}");
            assert!(!fault.contains("SUsecret"), "{fault}");
        }
        let missing = read(&folder.path().join("none")).unwrap_err();
        assert!(matches!(missing, KeyError::Unreadable(..)));
    }
}
