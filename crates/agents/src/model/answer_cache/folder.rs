//! The cache on disk: one file per answer, below a folder that only its owner can read.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Larger answers are not kept.
const MAX_ANSWER_BYTES: u64 = 1 << 20;
/// Size of all answers above which the oldest are removed.
const MAX_BYTES: u64 = 256 << 20;
const MAX_FILES: usize = 50_000;
/// Bytes written by this process between two checks of the size.
const CHECK_AFTER_BYTES: u64 = 16 << 20;

/// A folder of answers. Several processes may use it at the same time.
#[derive(Debug)]
pub struct AnswerFolder {
    path: PathBuf,
    max_bytes: u64,
    max_files: usize,
    /// Bytes written since the last check of the size.
    written: AtomicU64,
    /// Number of the next temporary file.
    next: AtomicU64,
}

impl AnswerFolder {
    pub fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            max_bytes: MAX_BYTES,
            max_files: MAX_FILES,
            // The first answer checks what earlier commands have left.
            written: AtomicU64::new(CHECK_AFTER_BYTES),
            next: AtomicU64::new(0),
        }
    }

    /// The folder in the user's cache (XDG base directories); `None` without a home.
    pub fn of_user(environment: &dyn Fn(&str) -> Option<OsString>) -> Option<Self> {
        let absolute = |name: &str| {
            let path = environment(name).map(PathBuf::from);
            path.filter(|path| path.is_absolute())
        };
        let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        cache.map(|cache| Self::at(&cache.join("touchstone").join("answers")))
    }

    fn file(&self, name: &str) -> PathBuf {
        let (group, rest) = name.split_at_checked(2).unwrap_or(("", name));
        self.path.join(group).join(rest)
    }

    /// The document of this name, if there is one.
    #[expect(
        clippy::disallowed_methods,
        reason = "compared only with the times that the file system sets"
    )]
    pub(super) fn read(&self, name: &str) -> Option<Vec<u8>> {
        let file = File::open(self.file(name)).ok()?;
        let mut document = Vec::new();
        (&file)
            .take(MAX_ANSWER_BYTES + 1)
            .read_to_end(&mut document)
            .ok()?;
        if document.len() as u64 > MAX_ANSWER_BYTES {
            return None;
        }
        // The oldest are removed first, so a used answer must not look old.
        let _ = file.set_modified(SystemTime::now());
        Some(document)
    }

    /// Keeps a document. Others never see a part of it.
    ///
    /// # Errors
    /// It is too large, or cannot be written.
    pub(super) fn write(&self, name: &str, document: &[u8]) -> io::Result<()> {
        let size = document.len() as u64;
        if size > MAX_ANSWER_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if self.written.fetch_add(size, Ordering::Relaxed) >= CHECK_AFTER_BYTES {
            self.written.store(size, Ordering::Relaxed);
            self.remove_oldest();
        }
        let file = self.file(name);
        let group = file.parent().unwrap_or(&self.path);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(group)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let part = group.join(format!(".{}-{number}", std::process::id()));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&part)
            .and_then(|mut part| part.write_all(document))
            .and_then(|()| fs::rename(&part, &file));
        if written.is_err() {
            let _ = fs::remove_file(&part);
        }
        written
    }

    /// Removes a document, if there is one.
    pub(super) fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.file(name));
    }

    /// Removes the oldest files until a quarter of the permitted size is free, if there is too
    /// much.
    fn remove_oldest(&self) {
        let mut files = self.files();
        let mut bytes: u64 = files.iter().map(|(_, size, _)| size).sum();
        let mut left = files.len();
        if bytes <= self.max_bytes && left <= self.max_files {
            return;
        }
        files.sort();
        for (_, size, path) in files {
            if bytes <= self.max_bytes / 4 * 3 && left <= self.max_files / 4 * 3 {
                return;
            }
            // Another process may have removed it.
            let _ = fs::remove_file(path);
            bytes -= size;
            left -= 1;
        }
    }

    /// Every file: when it was last used, its size and its path.
    fn files(&self) -> Vec<(SystemTime, u64, PathBuf)> {
        let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
        entries(&self.path)
            .flat_map(|group| entries(&group.path()).collect::<Vec<_>>())
            .filter_map(|entry| {
                let facts = entry.metadata().ok().filter(fs::Metadata::is_file)?;
                Some((facts.modified().ok()?, facts.len(), entry.path()))
            })
            .collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use super::*;

    /// A path that does not exist.
    pub fn temporary() -> PathBuf {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("touchstone-answers-{}-{number}", std::process::id());
        std::env::temp_dir().join(name)
    }

    #[test]
    fn a_kept_document_is_found_and_private() {
        let path = temporary();
        let folder = AnswerFolder::at(&path);
        assert_eq!(folder.read("abcd"), None);
        folder.write("abcd", b"{}").unwrap();
        assert_eq!(folder.read("abcd").as_deref(), Some(&b"{}"[..]));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path.join("ab/cd")), 0o600);
        assert_eq!(mode(&path.join("ab")), 0o700);
        assert_eq!(mode(&path), 0o700);
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn the_oldest_are_removed_once_there_is_too_much() {
        let path = temporary();
        let folder = AnswerFolder {
            max_bytes: 400,
            ..AnswerFolder::at(&path)
        };
        let names = ["aaaa", "bbbb", "cccc", "dddd", "eeee"];
        for (age, name) in (0..).zip(names) {
            folder.write(name, &[b' '; 100]).unwrap();
            let file = File::open(folder.file(name)).unwrap();
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 + age);
            file.set_modified(at).unwrap();
        }
        // A used answer is not old.
        folder.read("aaaa").unwrap();
        folder.remove_oldest();
        let left: Vec<&str> = names
            .into_iter()
            .filter(|name| folder.read(name).is_some())
            .collect();
        assert_eq!(left, ["aaaa", "dddd", "eeee"]);
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn large_documents_are_not_kept() {
        let path = temporary();
        let folder = AnswerFolder::at(&path);
        let large = vec![b' '; 2 << 20];
        folder.write("abcd", &large).unwrap_err();
        assert!(!path.exists());
    }

    #[test]
    fn the_users_cache_is_absolute() {
        let folder = |cache: &str, home: &str| {
            let environment = |name: &str| match name {
                "XDG_CACHE_HOME" => Some(cache.into()),
                _ => Some(home.into()),
            };
            let found = AnswerFolder::of_user(&environment);
            found.map(|found| found.path.to_string_lossy().into_owned())
        };
        let expected = |path: &str| Some(path.to_owned());
        assert_eq!(folder("/c", "/h"), expected("/c/touchstone/answers"));
        assert_eq!(
            folder("relative", "/h"),
            expected("/h/.cache/touchstone/answers")
        );
        assert_eq!(folder("", ""), None);
    }
}
