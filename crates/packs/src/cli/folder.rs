//! A pack's folder on disk, read into or written from a map of files.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::rules::archive::{MAX_COMPRESSED, MAX_ENTRIES, MAX_UNPACKED};
use crate::rules::build::Files;
use touchstone_host::cli::exit::Failure;

/// Reads a folder as the files of a pack.
///
/// Skips hidden files, and top-level archives with their companion files, which `build` and `sign`
/// wrote there. Refuses symbolic links, because archives have none, and private keys, because they
/// must not be published.
///
/// # Errors
/// A file cannot be read, or is not allowed in a pack.
pub fn read(folder: &Path) -> Result<Files, Failure> {
    if !folder.is_dir() {
        return Err(unreadable(folder, "not a folder"));
    }
    let mut files = Files::new();
    let mut bytes = 0_u64;
    let mut todo = vec![folder.to_owned()];
    while let Some(next) = todo.pop() {
        let entries = fs::read_dir(&next).map_err(|cause| unreadable(&next, cause))?;
        for entry in entries {
            let path = entry.map_err(|cause| unreadable(&next, cause))?.path();
            let name = name_in(folder, &path)?;
            let kind = fs::symlink_metadata(&path).map_err(|cause| unreadable(&path, cause))?;
            if name
                .rsplit('/')
                .next()
                .is_some_and(|last| last.starts_with('.'))
            {
                continue;
            }
            if kind.is_symlink() {
                return Err(unreadable(&path, "packs must not contain symbolic links"));
            }
            if kind.is_dir() {
                todo.push(path);
                continue;
            }
            bytes = bytes.saturating_add(kind.len());
            if bytes > MAX_UNPACKED || files.len() >= MAX_ENTRIES {
                return Err(unreadable(folder, "larger than the size limit of packs"));
            }
            files.insert(
                name,
                fs::read(&path).map_err(|cause| unreadable(&path, cause))?,
            );
        }
    }
    leave_out_results(&mut files);
    match files.iter().find(|(_, bytes)| is_private_key(bytes)) {
        Some((name, _)) => Err(Failure::bad_input(
            "private_key_in_pack",
            format!("{name} is a private key and would be published with the pack"),
        )
        .or_try("move it out of the folder")),
        None => Ok(files),
    }
}

fn name_in(folder: &Path, path: &Path) -> Result<String, Failure> {
    let relative = path.strip_prefix(folder).unwrap_or(path);
    let mut segments = Vec::new();
    for segment in relative.components() {
        let text = segment.as_os_str().to_str();
        segments.push(text.ok_or_else(|| unreadable(path, "the file name is not Unicode"))?);
    }
    Ok(segments.join("/"))
}

fn leave_out_results(files: &mut Files) {
    let archives: Vec<String> = files
        .keys()
        .filter_map(|name| name.strip_suffix(".tgz").filter(|stem| !stem.contains('/')))
        .map(str::to_owned)
        .collect();
    for stem in archives {
        for extension in ["tgz", "sig", "json"] {
            files.remove(&format!("{stem}.{extension}"));
        }
    }
}

fn is_private_key(bytes: &[u8]) -> bool {
    const MARK: &[u8] = b"PRIVATE KEY-----";
    bytes.starts_with(b"-----BEGIN") && bytes.windows(MARK.len()).any(|window| window == MARK)
}

/// Writes files into a new or empty folder.
///
/// # Errors
/// The folder is not empty, or cannot be written.
pub fn write_new(folder: &Path, files: &Files) -> Result<(), Failure> {
    if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure::bad_input(
            "folder_not_empty",
            format!("{} is not empty", folder.display()),
        )
        .or_try("choose a folder that does not exist yet"));
    }
    for (name, bytes) in files {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|cause| unwritable(parent, &cause))?;
        }
        fs::write(&path, bytes).map_err(|cause| unwritable(&path, &cause))?;
    }
    Ok(())
}

/// Writes a key pair; only the owner may read the private key. Neither file may exist.
///
/// # Errors
/// One of the files already exists, in which case neither is written; or a file cannot be written.
pub fn write_key(path: &Path, pem: &str, public_path: &Path, public: &str) -> Result<(), Failure> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    let mut file = options
        .open(public_path)
        .map_err(|cause| unwritable(public_path, &cause))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let written = options
        .open(path)
        .and_then(|mut file| file.write_all(pem.as_bytes()))
        .map_err(|cause| unwritable(path, &cause))
        .and_then(|()| {
            file.write_all(public.as_bytes())
                .map_err(|cause| unwritable(public_path, &cause))
        });
    if written.is_err() {
        // A public key without its private key is useless; an error of the removal is not worth
        // reporting.
        let _ = fs::remove_file(public_path);
    }
    written
}

pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    fs::write(path, bytes).map_err(|cause| unwritable(path, &cause))
}

/// Reads an archive. One that is larger than any valid pack is cut off at the limit, so that the
/// pack rules refuse it.
///
/// # Errors
/// The archive cannot be read.
pub fn read_archive(path: &Path) -> Result<Vec<u8>, Failure> {
    use io::Read as _;
    let mut bytes = Vec::new();
    fs::File::open(path)
        .and_then(|file| file.take(MAX_COMPRESSED as u64 + 1).read_to_end(&mut bytes))
        .map_err(|cause| unreadable(path, cause))?;
    Ok(bytes)
}

/// The file next to the archive with this extension.
pub fn companion(archive: &Path, extension: &str) -> PathBuf {
    archive.with_extension(extension)
}

/// The failure for an unreadable file named on the command line.
pub fn unreadable(path: &Path, cause: impl std::fmt::Display) -> Failure {
    Failure::bad_input(
        "unreadable",
        format!("could not read {}: {cause}", path.display()),
    )
    .or_try("name a file or folder that exists and that this user can read")
}

fn unwritable(path: &Path, cause: &io::Error) -> Failure {
    let failure = Failure::bad_input(
        "unwritable",
        format!("could not write {}: {cause}", path.display()),
    );
    match (cause.kind(), path.parent()) {
        (io::ErrorKind::AlreadyExists, _) => {
            failure.or_try("choose another file; keys are never overwritten")
        }
        (io::ErrorKind::NotFound, Some(folder)) => {
            failure.or_try(format!("mkdir -p {}", folder.display()))
        }
        _ => failure,
    }
}
