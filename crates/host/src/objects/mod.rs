//! Objects in a folder or in an S3-compatible bucket.

mod connector;
pub mod error;
pub mod settings;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use jiff::Timestamp;
use object_store::aws::AmazonS3Builder;
use object_store::buffered::BufWriter;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutPayload,
    RetryConfig,
};
use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use self::connector::Guarded;
pub use self::error::ObjectError;
use self::settings::{AccessKey, Bucket, Location};
use crate::net::{AddressScope, Client, Policy};

/// Longest wait for the next part of an answer, and for a part to be written.
const PATIENCE: Duration = Duration::from_secs(60);
/// Size of the parts in which a large object is written, in bytes.
const PART: usize = 8 << 20;
/// The object that is written to test whether objects can be written.
const PROBE: &str = "touchstone-probe";

/// Objects below one place.
#[derive(Clone)]
pub struct ObjectStorage {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// The folder that must exist: a folder that is not mounted must not be created.
    folder: Option<PathBuf>,
    /// The place, for people.
    shown: String,
}

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name below the place.
    pub name: String,
    pub bytes: u64,
    pub modified: Timestamp,
}

/// Size and digest of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub bytes: u64,
    /// SHA-256.
    pub digest: [u8; 32],
}

impl ObjectStorage {
    /// Objects in a folder.
    ///
    /// # Errors
    /// The path is not usable.
    pub fn folder(folder: PathBuf) -> Result<Self, ObjectError> {
        Ok(Self {
            prefix: Path::from_absolute_path(&folder).map_err(|_| ObjectError::NoFolder)?,
            // Runs are deleted once their archive is written, so it must be on the disk by then.
            store: Arc::new(LocalFileSystem::new().with_fsync(true)),
            shown: folder.display().to_string(),
            folder: Some(folder),
        })
    }

    /// Objects in a bucket.
    ///
    /// # Errors
    /// The HTTP client or the settings are not usable.
    pub fn bucket(bucket: &Bucket, key: &AccessKey) -> Result<Self, ObjectError> {
        // Like every address that the operator names, that of a service may be private.
        let reach = match bucket.endpoint {
            Some(_) => AddressScope::Private,
            None => AddressScope::Public,
        };
        let client = Client::new(Policy::storage(reach, PATIENCE))?;
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&bucket.name)
            .with_region(&bucket.region)
            .with_access_key_id(key.id.expose_secret())
            .with_secret_access_key(key.secret.expose_secret())
            .with_http_connector(Guarded(Arc::new(client)))
            .with_retry(RetryConfig {
                max_retries: 3,
                retry_timeout: PATIENCE,
                ..RetryConfig::default()
            });
        if let Some(token) = &key.session_token {
            builder = builder.with_token(token.expose_secret());
        }
        if let Some(endpoint) = &bucket.endpoint {
            builder = builder
                .with_endpoint(endpoint.as_str().trim_end_matches('/'))
                .with_allow_http(endpoint.scheme() == "http");
        }
        let shown = format!("s3://{}/{}", bucket.name, bucket.prefix);
        Ok(Self {
            store: Arc::new(builder.build()?),
            prefix: Path::parse(&bucket.prefix).map_err(|_| ObjectError::Unusable)?,
            folder: None,
            shown: shown.trim_end_matches('/').to_owned(),
        })
    }

    /// Objects at this location. Reads the access key of a bucket from the environment.
    ///
    /// # Errors
    /// The field and its rule.
    pub fn open(
        settings: &settings::ArchiveSettings,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, String> {
        let opened = match settings.location()? {
            None => return Ok(None),
            Some(Location::Folder(folder)) => Self::folder(folder),
            Some(Location::Bucket(bucket)) => {
                Self::bucket(&bucket, &settings.access_key(environment)?)
            }
        };
        let opened = opened.map_err(|cause| format!("`archive.url` is not usable: {cause}"));
        opened.map(Some)
    }

    /// The place, for people: a folder or `s3://bucket/prefix`.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Begins to write an object. It exists once [`Upload::finish`] has succeeded, and replaces an
    /// earlier one.
    ///
    /// # Errors
    /// [`ObjectError::NoFolder`].
    pub fn write<S: AsRef<str>>(
        &self,
        name: &[S],
        content_type: &'static str,
    ) -> Result<Upload, ObjectError> {
        self.check_folder()?;
        let path = self.path(name);
        let writer = BufWriter::with_capacity(self.store.clone(), path, PART);
        Ok(Upload {
            writer: match self.folder {
                // A file has no attributes.
                Some(_) => writer,
                None => writer.with_attributes(Attributes::from_iter([(
                    Attribute::ContentType,
                    content_type,
                )])),
            }
            .with_max_concurrency(1),
            digest: Sha256::new(),
            bytes: 0,
        })
    }

    /// Reads an object to compare it with what was written.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub async fn stored<S: AsRef<str>>(&self, name: &[S]) -> Result<Stored, ObjectError> {
        let mut digest = Sha256::new();
        let found = within(self.store.get(&self.path(name))).await?;
        let bytes = copy(found, u64::MAX, |part| {
            digest.update(part);
            Ok(())
        })
        .await?;
        Ok(Stored {
            bytes,
            digest: digest.finalize().into(),
        })
    }

    /// Copies an object of at most `most` bytes, by its name in a list.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub async fn copy_to(
        &self,
        name: &str,
        most: u64,
        to: &mut impl Write,
    ) -> Result<u64, ObjectError> {
        // The name in a list is encoded already.
        let path = Path::parse(format!("{}/{name}", self.prefix));
        let path = path.map_err(|_| ObjectError::NotFound)?;
        let found = within(self.store.get(&path)).await?;
        copy(found, most, |part| to.write_all(part)).await
    }

    /// The objects below these segments, in any order.
    ///
    /// # Errors
    /// [`ObjectError::NoFolder`].
    pub fn list<S: AsRef<str>>(
        &self,
        below: &[S],
    ) -> Result<BoxStream<'_, Result<Entry, ObjectError>>, ObjectError> {
        self.check_folder()?;
        let found = self.store.list(Some(&self.path(below)));
        Ok(found.map(|entry| Ok(self.entry(&entry?))).boxed())
    }

    /// Whether objects can be written, read and deleted.
    ///
    /// # Errors
    /// The first operation that failed.
    pub async fn check(&self) -> Result<(), ObjectError> {
        self.check_folder()?;
        let path = self.path(&[PROBE]);
        let payload = PutPayload::from_static(b"touchstone\n");
        within(self.store.put(&path, payload)).await?;
        within(self.store.head(&path)).await?;
        // A bucket that keeps its objects refuses this.
        let _ = within(self.store.delete(&path)).await;
        Ok(())
    }

    fn check_folder(&self) -> Result<(), ObjectError> {
        match &self.folder {
            Some(folder) if !folder.is_dir() => Err(ObjectError::NoFolder),
            _ => Ok(()),
        }
    }

    fn path<S: AsRef<str>>(&self, name: &[S]) -> Path {
        let segments = name.iter().map(AsRef::as_ref);
        let mut path = self.prefix.clone();
        for segment in segments {
            path = path.join(segment);
        }
        path
    }

    fn entry(&self, meta: &ObjectMeta) -> Entry {
        let below: Vec<String> = match meta.location.prefix_match(&self.prefix) {
            Some(parts) => parts.map(|part| part.as_ref().to_owned()).collect(),
            None => vec![meta.location.to_string()],
        };
        Entry {
            name: below.join("/"),
            bytes: meta.size,
            modified: Timestamp::from_microsecond(meta.last_modified.timestamp_micros())
                .unwrap_or(Timestamp::UNIX_EPOCH),
        }
    }
}

/// An object that is being written.
pub struct Upload {
    writer: BufWriter,
    digest: Sha256,
    bytes: u64,
}

impl Upload {
    /// Adds bytes.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub async fn add(&mut self, bytes: Vec<u8>) -> Result<(), ObjectError> {
        self.digest.update(&bytes);
        self.bytes += bytes.len() as u64;
        within(self.writer.put(bytes.into())).await
    }

    /// Makes the object exist.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub async fn finish(mut self) -> Result<Stored, ObjectError> {
        let finished = timeout(PATIENCE, self.writer.shutdown()).await;
        finished
            .map_err(|_| ObjectError::Timeout)?
            .map_err(of_writer)?;
        Ok(Stored {
            bytes: self.bytes,
            digest: self.digest.finalize().into(),
        })
    }

    /// Discards what was written.
    pub async fn abort(mut self) {
        // The service discards parts of uploads that are never completed by its own rules.
        let _ = within(self.writer.abort()).await;
    }
}

/// The library wraps its own errors.
fn of_writer(cause: std::io::Error) -> ObjectError {
    match cause.downcast::<object_store::Error>() {
        Ok(cause) => cause.into(),
        Err(cause) => (&cause).into(),
    }
}

async fn within<T>(
    operation: impl Future<Output = object_store::Result<T>>,
) -> Result<T, ObjectError> {
    // The library tries again for as long as its own limit, after the first attempt.
    match timeout(PATIENCE * 2, operation).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(ObjectError::Timeout),
    }
}

async fn copy(
    found: GetResult,
    most: u64,
    mut to: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<u64, ObjectError> {
    if found.meta.size > most {
        return Err(ObjectError::TooLarge(most));
    }
    let mut parts = found.into_stream();
    let mut bytes: u64 = 0;
    loop {
        let part = timeout(PATIENCE, parts.next()).await;
        let Some(part) = part.map_err(|_| ObjectError::Timeout)? else {
            return Ok(bytes);
        };
        let part = part?;
        bytes = bytes.saturating_add(part.len() as u64);
        if bytes > most {
            return Err(ObjectError::TooLarge(most));
        }
        to(&part).map_err(|cause| ObjectError::from(&cause))?;
    }
}

#[cfg(test)]
mod tests;
