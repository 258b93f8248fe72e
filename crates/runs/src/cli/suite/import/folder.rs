//! Files that an imported document names, within limits.

use std::cell::Cell;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use touchstone_host::cli::exit::Failure;

use crate::rules::eval::import::Files;

/// Maximum number of files that one import reads.
const MAX_FILES: usize = 10_000;
/// Maximum size in bytes of all of them together.
const MAX_OCTETS: u64 = 256 << 20;

/// The folder of a document. Only files below `root` are read.
#[derive(Debug)]
pub struct Folder {
    base: PathBuf,
    root: PathBuf,
    files_left: Cell<usize>,
    octets_left: Cell<u64>,
}

impl Folder {
    /// The folder of `file`.
    ///
    /// # Errors
    /// A folder does not exist.
    pub fn of(file: &Path, root: Option<&Path>) -> Result<Self, Failure> {
        let base = match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let real = |folder: &Path| {
            folder.canonicalize().map_err(|cause| {
                let folder = folder.display();
                Failure::bad_input("unreadable", format!("could not read {folder}: {cause}"))
                    .or_try("name a folder that exists and that this user can read")
            })
        };
        let base = real(base)?;
        let root = match root {
            Some(root) => real(root)?,
            None => base.clone(),
        };
        Ok(Self {
            base,
            root,
            files_left: Cell::new(MAX_FILES),
            octets_left: Cell::new(MAX_OCTETS),
        })
    }

    fn is_inside(&self, path: &Path) -> bool {
        path.canonicalize()
            .is_ok_and(|path| path.starts_with(&self.root))
    }
}

impl Files for Folder {
    fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        let path = self.base.join(name);
        let Ok(real) = path.canonicalize() else {
            return Err("it does not exist".to_owned());
        };
        if !real.starts_with(&self.root) {
            return Err(
                "it is outside the folder of the document; --root allows a wider folder".to_owned(),
            );
        }
        if !real.is_file() {
            return Err("it is not a file".to_owned());
        }
        let files_left = self.files_left.get().checked_sub(1);
        self.files_left
            .set(files_left.ok_or_else(|| format!("more than {MAX_FILES} files were read"))?);
        let left = self.octets_left.get();
        let mut bytes = Vec::new();
        fs::File::open(&real)
            .and_then(|file| file.take(left.saturating_add(1)).read_to_end(&mut bytes))
            .map_err(|cause| cause.to_string())?;
        let left = left.checked_sub(bytes.len() as u64);
        self.octets_left
            .set(left.ok_or_else(|| format!("more than {MAX_OCTETS} bytes were read"))?);
        Ok(bytes)
    }

    fn matching(&self, pattern: &str) -> Result<Vec<String>, String> {
        let is_folder = self.base.join(pattern).is_dir();
        let pattern = match is_folder {
            true => format!(
                "{}/*.*",
                glob::Pattern::escape(pattern.trim_end_matches('/'))
            ),
            false => pattern.to_owned(),
        };
        let base = glob::Pattern::escape(&self.base.to_string_lossy());
        let whole = match Path::new(&pattern).is_absolute() {
            true => pattern,
            false => format!("{base}/{pattern}"),
        };
        let paths = glob::glob(&whole).map_err(|fault| fault.to_string())?;
        let mut names: Vec<String> = paths
            .filter_map(Result::ok)
            .filter(|path| path.is_file() && self.is_inside(path))
            .take(MAX_FILES)
            .map(|path| {
                let relative = path.strip_prefix(&self.base).unwrap_or(&path);
                relative.to_string_lossy().into_owned()
            })
            .collect();
        names.sort();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder `outer` with a file, and `outer/config` with three.
    fn tree() -> (PathBuf, PathBuf) {
        let outer =
            std::env::temp_dir().join(format!("touchstone-import-{}", uuid::Uuid::now_v7()));
        let inner = outer.join("config");
        fs::create_dir_all(inner.join("cases")).unwrap();
        fs::write(outer.join("secret.txt"), "outside").unwrap();
        for name in ["config.yaml", "cases/b.yaml", "cases/a.yaml"] {
            fs::write(inner.join(name), name).unwrap();
        }
        (outer, inner)
    }

    #[test]
    fn files_outside_the_folder_are_refused_unless_the_root_allows_them() {
        let (outer, inner) = tree();
        let file = inner.join("config.yaml");
        let folder = Folder::of(&file, None).unwrap();
        assert_eq!(folder.read("cases/a.yaml").unwrap(), b"cases/a.yaml");
        let refused = folder.read("../secret.txt").unwrap_err();
        assert!(refused.contains("--root"), "{refused}");
        assert!(folder.read("/etc/hostname").is_err());
        assert_eq!(folder.matching("../*.txt").unwrap(), Vec::<String>::new());
        let wide = Folder::of(&file, Some(&outer)).unwrap();
        assert_eq!(wide.read("../secret.txt").unwrap(), b"outside");
        fs::remove_dir_all(outer).unwrap();
    }

    #[test]
    fn patterns_and_folders_name_their_files_in_order() {
        let (outer, inner) = tree();
        let folder = Folder::of(&inner.join("config.yaml"), None).unwrap();
        let both = ["cases/a.yaml", "cases/b.yaml"];
        assert_eq!(folder.matching("cases/*.yaml").unwrap(), both);
        assert_eq!(folder.matching("cases/").unwrap(), both);
        assert_eq!(folder.matching("**/b.yaml").unwrap(), ["cases/b.yaml"]);
        fs::remove_dir_all(outer).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_the_outside_is_refused() {
        let (outer, inner) = tree();
        std::os::unix::fs::symlink(outer.join("secret.txt"), inner.join("link.txt")).unwrap();
        let folder = Folder::of(&inner.join("config.yaml"), None).unwrap();
        assert!(folder.read("link.txt").is_err());
        fs::remove_dir_all(outer).unwrap();
    }
}
