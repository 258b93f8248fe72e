//! Responses and lists in temporary files, so that their size does not matter. Small ones stay in memory.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek as _, Write as _};
use std::marker::PhantomData;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use axum::http::Method;
use futures_util::StreamExt as _;
use serde::de::{self, DeserializeOwned, SeqAccess, Visitor};
use serde::ser::{Error as _, SerializeSeq as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tempfile::{SpooledData, SpooledTempFile, spooled_tempfile};

use crate::cli::output::{MAX_DRAFT_IN_MEMORY, draft_not_written};
use touchstone_host::cli::client::{Call, Client};
use touchstone_host::cli::exit::Failure;

/// Maximum size of a response in bytes.
const MAX_RESPONSE: u64 = 16 << 30;

/// A response that can be parsed several times.
pub struct SavedResponse(SpooledTempFile);

impl SavedResponse {
    /// Sends `GET` and saves the response.
    ///
    /// # Errors
    /// The host's error response, or no temporary file can be written.
    pub async fn get(client: &Client, path: &str) -> Result<Self, Failure> {
        let mut pieces = client.pieces(Call::new(Method::GET, path)).await?;
        let mut file = spooled_tempfile(MAX_DRAFT_IN_MEMORY);
        let mut length = 0;
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            length += piece.len() as u64;
            if length > MAX_RESPONSE {
                return Err(Failure::not_done(
                    "answer_too_large",
                    "the response is too large",
                ));
            }
            let written = file.write_all(&piece);
            written.map_err(|cause| draft_not_written(&cause))?;
        }
        Ok(Self(file))
    }

    /// Parses the response.
    ///
    /// # Errors
    /// It is another document, or a temporary file cannot be used.
    pub fn parse<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        let rewound = self.0.rewind();
        rewound.map_err(|cause| draft_not_written(&cause))?;
        serde_json::from_reader(BufReader::new(&mut self.0)).map_err(|fault| {
            // The parser has its own errors, so that of a list's file arrives as a text.
            match fault.is_io() || fault.to_string().starts_with(NOT_SAVED) {
                true => draft_not_written(&fault.into()),
                false => Failure::unexpected(&fault),
            }
        })
    }
}

/// A list of a document, which is saved while the document is parsed, and read again item by item.
pub struct SavedList<T> {
    lines: Arc<Lines>,
    item: PhantomData<fn() -> T>,
}

enum Lines {
    InMemory(Vec<u8>),
    OnDisk(File),
}

/// The items of a list.
pub struct Items<T>(serde_json::StreamDeserializer<'static, serde_json::de::IoRead<Reader>, T>);

type Reader = BufReader<LinesFrom>;

struct LinesFrom {
    lines: Arc<Lines>,
    at: u64,
}

impl Read for LinesFrom {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &*self.lines {
            Lines::InMemory(bytes) => {
                let from = usize::try_from(self.at).unwrap_or(usize::MAX);
                bytes.get(from..).unwrap_or_default().read(buffer)?
            }
            Lines::OnDisk(file) => file.read_at(buffer, self.at)?,
        };
        self.at += read as u64;
        Ok(read)
    }
}

impl<T: DeserializeOwned> Iterator for Items<T> {
    type Item = io::Result<T>;

    fn next(&mut self) -> Option<io::Result<T>> {
        Some(self.0.next()?.map_err(io::Error::from))
    }
}

impl<T: DeserializeOwned> SavedList<T> {
    pub fn items(&self) -> Items<T> {
        let lines = self.lines.clone();
        let reader = BufReader::new(LinesFrom { lines, at: 0 });
        Items(serde_json::Deserializer::from_reader(reader).into_iter())
    }
}

impl<T> Clone for SavedList<T> {
    fn clone(&self) -> Self {
        Self {
            lines: self.lines.clone(),
            item: PhantomData,
        }
    }
}

impl<T> fmt::Debug for SavedList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SavedList")
    }
}

impl<'de, T: Serialize + Deserialize<'de>> Deserialize<'de> for SavedList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Save(PhantomData))
    }
}

/// The beginning of the parser's error if the file of a list cannot be written.
const NOT_SAVED: &str = "a list could not be saved";

fn not_saved<E: de::Error>(cause: impl fmt::Display) -> E {
    E::custom(format_args!("{NOT_SAVED}: {cause}"))
}

struct Save<T>(PhantomData<T>);

impl<'de, T: Serialize + Deserialize<'de>> Visitor<'de> for Save<T> {
    type Value = SavedList<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<SavedList<T>, A::Error> {
        let mut file = BufWriter::new(spooled_tempfile(MAX_DRAFT_IN_MEMORY));
        while let Some(item) = items.next_element::<T>()? {
            let written = serde_json::to_writer(&mut file, &item).map_err(io::Error::from);
            let ended = written.and_then(|()| file.write_all(b"\n"));
            ended.map_err(not_saved)?;
        }
        let file = file.into_inner().map_err(not_saved)?;
        let lines = match file.into_inner() {
            SpooledData::InMemory(bytes) => Lines::InMemory(bytes.into_inner()),
            SpooledData::OnDisk(file) => Lines::OnDisk(file),
        };
        Ok(SavedList {
            lines: Arc::new(lines),
            item: PhantomData,
        })
    }
}

impl<T: Serialize + DeserializeOwned> Serialize for SavedList<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for item in self.items() {
            list.serialize_element(&item.map_err(S::Error::custom)?)?;
        }
        list.end()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::rules::eval::comparison::{ExcludedTask, RunComparison, TaskChange, changed_sample};

    #[rstest]
    #[case::in_memory(10)]
    #[case::on_disk(50_000)]
    fn a_saved_list_is_read_as_it_was_parsed(#[case] changes: usize) {
        let mut whole = changed_sample();
        let first = whole.changes[0].clone();
        whole.changes = vec![first; changes];
        let text = serde_json::to_string_pretty(&whole).unwrap();
        let saved: RunComparison<SavedList<TaskChange>, SavedList<ExcludedTask>> =
            serde_json::from_reader(text.as_bytes()).unwrap();
        let is_on_disk = matches!(*saved.changes.lines, Lines::OnDisk(_));
        assert_eq!(is_on_disk, changes > 10);
        for _ in 0..2 {
            let read: io::Result<Vec<TaskChange>> = saved.changes.items().collect();
            assert!(read.unwrap() == whole.changes);
        }
        assert!(serde_json::to_string_pretty(&saved).unwrap() == text);
        let empty: SavedList<TaskChange> = serde_json::from_str("[]").unwrap();
        assert_eq!(empty.items().count(), 0);
    }
}
