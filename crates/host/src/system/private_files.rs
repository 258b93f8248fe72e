//! Files that only their owner may read: databases and keys, in folders of any origin.

use std::path::Path;

/// Creates the database file for its owner only, if it does not exist, and removes other users'
/// permissions from existing files. SQLite gives its log and its shared memory the permissions of
/// the database.
pub fn create_private(database: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let created = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(database);
        // Any other fault of the path is reported when the database is opened.
        drop(created);
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let mut path = database.as_os_str().to_owned();
            path.push(suffix);
            restrict(Path::new(&path));
        }
    }
    #[cfg(not(unix))]
    let _ = database;
}

/// Creates a file for its owner only.
///
/// # Errors
/// The file exists, or it cannot be created.
pub fn create_new(file: &Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)
}

/// Removes other users' permissions from a file of this host; does nothing if the file does not
/// exist.
pub fn restrict(file: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        if !file.is_file() || !is_open_to_others(file) {
            return;
        }
        match std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)) {
            Ok(()) => tracing::warn!(
                file = %file.display(),
                "other users could read this file; its permissions are now 0600"
            ),
            Err(cause) => tracing::warn!(
                file = %file.display(), %cause,
                "other users can read this file, and its permissions could not be changed; run \
                chmod 600 as its owner"
            ),
        }
    }
    #[cfg(not(unix))]
    let _ = file;
}

/// Warns if other users can read a file or a folder that the operator configured.
pub fn warn_if_open(path: &Path, remedy: &'static str) {
    if is_open_to_others(path) {
        tracing::warn!(path = %path.display(), remedy, "other users can read this");
    }
}

/// Whether other users can read a file or a folder.
pub fn is_open_to_others(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    #[test]
    fn new_and_existing_database_files_are_private_to_their_owner() {
        use std::os::unix::fs::PermissionsExt as _;

        use super::create_private;

        let mode =
            |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;

        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("test.db");
        create_private(&database);
        assert_eq!(mode(&database), 0o600);
        let log = folder.path().join("test.db-wal");
        for file in [&database, &log] {
            std::fs::write(file, "").unwrap();
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        create_private(&database);
        assert_eq!((mode(&database), mode(&log)), (0o600, 0o600));
    }
}
