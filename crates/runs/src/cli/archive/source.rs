//! The archive that an argument names: a file, or a run in the configured archive.

use std::fs::File;
use std::io::{BufReader, Seek as _};
use std::path::Path;

use futures_util::StreamExt as _;

use crate::rules::archive::reader::ArchiveFault;
use crate::rules::archive::{MAX_FILE, SUFFIX};
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::objects::settings::ArchiveSettings;
use touchstone_host::objects::{Entry, ObjectError, ObjectStorage};

/// An archive to read.
pub struct Source {
    /// The file or the object, for people.
    pub name: String,
    file: File,
}

impl Source {
    /// Opens the file, or copies the object to a temporary one.
    pub async fn open(context: &Context<'_>, named: &str) -> Result<Self, Failure> {
        let path = Path::new(named);
        // A run id has neither dots nor slashes.
        if path.exists() || named.contains(['/', '.', '\\']) {
            return Self::of_file(path);
        }
        let objects = configured(context)?;
        let entry = find(&objects, named).await?;
        let mut file = tempfile::tempfile().map_err(|cause| {
            Failure::not_done(
                "no_temporary_folder",
                format!("could not create a temporary file: {cause}"),
            )
            .or_try("set TMPDIR to a folder that this user can write to")
        })?;
        let copied = objects.copy_to(&entry.name, MAX_FILE, &mut file).await;
        copied.map_err(|cause| unavailable(&objects, &cause))?;
        Ok(Self {
            name: format!("{}/{}", objects.shown(), entry.name),
            file,
        })
    }

    fn of_file(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let unreadable = |cause: String| {
            Failure::bad_input("unreadable", format!("could not read {name}: {cause}"))
        };
        let file = File::open(path).map_err(|cause| unreadable(cause.to_string()))?;
        let found = file
            .metadata()
            .map_err(|cause| unreadable(cause.to_string()))?;
        if found.is_dir() {
            return Err(unreadable("it is a folder".to_owned()).or_try("name a file in it"));
        }
        if found.len() > MAX_FILE {
            return Err(unreadable(format!("larger than {MAX_FILE} bytes")));
        }
        Ok(Self { name, file })
    }

    /// The bytes from the start.
    pub fn reader(&mut self) -> Result<BufReader<&File>, Failure> {
        self.file.rewind().map_err(|cause| {
            let text = format!("could not read {}: {cause}", self.name);
            Failure::bad_input("unreadable", text).or_try("copy it to a file first")
        })?;
        Ok(BufReader::new(&self.file))
    }

    /// The failure of a command that cannot use the archive.
    pub fn refused(&self, fault: &ArchiveFault) -> Failure {
        let text = format!("{}: {fault}", self.name);
        match fault {
            ArchiveFault::NotAnArchive => Failure::bad_input("not_an_archive", text).or_try(
                format!("name a file NAME{SUFFIX}, or get it from the archive again"),
            ),
            ArchiveFault::Version(_) => Failure::bad_input("archive_version", text)
                .or_try("read it with the version of touchstone that wrote it, or a later one"),
            ArchiveFault::Unreadable(_) => Failure::bad_input("unreadable", text),
            _ => Failure::bad_input("archive_invalid", text)
                .or_try("get the file from the archive again, or an earlier version of the object"),
        }
    }
}

/// The configured archive.
pub fn configured(context: &Context<'_>) -> Result<ObjectStorage, Failure> {
    let settings: ArchiveSettings = context.settings()?;
    let environment = |name: &str| std::env::var(name).ok();
    let opened = ObjectStorage::open(&settings, &environment);
    let opened = opened.map_err(|fault| {
        Failure::bad_input("configuration", fault)
            .or_try("correct the setting; docs/configuration.md lists them all")
    })?;
    opened.ok_or_else(|| {
        Failure::bad_input("no_archive", "the configuration has no archive")
            .or_try("set archive.url, or name a file")
    })
}

pub fn unavailable(objects: &ObjectStorage, cause: &ObjectError) -> Failure {
    let text = format!("could not read the archive {}: {cause}", objects.shown());
    let exit = match cause {
        ObjectError::TooLarge(_) => Exit::BadInput,
        _ => Exit::NotDone,
    };
    Failure::new(exit, "archive_unavailable", text)
        .or_try("check the settings in [archive] and the access key; touchstone doctor tests them")
}

async fn find(objects: &ObjectStorage, run: &str) -> Result<Entry, Failure> {
    let name = format!("{run}{SUFFIX}");
    let everything: [&str; 0] = [];
    let mut entries = objects
        .list(&everything)
        .map_err(|cause| unavailable(objects, &cause))?;
    while let Some(entry) = entries.next().await {
        let entry = entry.map_err(|cause| unavailable(objects, &cause))?;
        if entry.name.rsplit('/').next() == Some(name.as_str()) {
            return Ok(entry);
        }
    }
    Err(Failure::bad_input(
        "run_not_archived",
        format!("run {run} is not in the archive {}", objects.shown()),
    )
    .or_try("touchstone archive list shows the archived runs; a file is named with its folder or its ending"))
}
