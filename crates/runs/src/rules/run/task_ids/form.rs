//! Ids of tasks in the record of a run: a list, or many of them as one compressed text.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io::{Read as _, Write as _};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use super::{Ids, SEPARATOR, TaskIds, TaskIdsBuilder};
use touchstone_kit::ids::TaskId;

/// Number of ids from which they are compressed.
pub const COMPRESSED_FROM: usize = 10_000;

/// Maximum size of the text of all ids, in bytes.
const MOST_BYTES: usize = 256 << 20;
/// Maximum size of the text as a multiple of the compressed one. Ids differ, so they stay far below it.
const MOST_EXPANSION: usize = 250;

#[derive(Serialize, Deserialize)]
struct Compressed<'a> {
    count: usize,
    /// Size of the text.
    bytes: usize,
    /// The text of all ids, compressed with deflate, in Base64.
    #[serde(borrow)]
    deflated: Cow<'a, str>,
}

/// The ids in use by the digests of their compressed form, so that the copies of a record, and all
/// runs over the same tasks, share them.
static SHARED: LazyLock<Mutex<HashMap<[u8; 32], Weak<Ids>>>> = LazyLock::new(Mutex::default);

fn shared(deflated: &str) -> Option<Arc<Ids>> {
    let known = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    known.get(&digest(deflated))?.upgrade()
}

fn share(deflated: &str, ids: &Arc<Ids>) {
    let mut known = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|_, ids| ids.strong_count() > 0);
    known.insert(digest(deflated), Arc::downgrade(ids));
}

fn digest(deflated: &str) -> [u8; 32] {
    Sha256::digest(deflated).into()
}

impl Compressed<'_> {
    fn of(ids: &TaskIds) -> std::io::Result<Self> {
        let text = ids.ids.text.as_bytes();
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text)?;
        Ok(Self {
            count: ids.len(),
            bytes: text.len(),
            deflated: STANDARD.encode(encoder.finish()?).into(),
        })
    }

    /// The ids; `None` if the text is damaged.
    fn ids(&self) -> Option<Arc<Ids>> {
        if let Some(ids) = shared(&self.deflated) {
            return Some(ids);
        }
        let ids = Arc::new(self.read()?);
        share(&self.deflated, &ids);
        Some(ids)
    }

    fn read(&self) -> Option<Ids> {
        let deflated = STANDARD.decode(&*self.deflated).ok()?;
        let most = deflated
            .len()
            .saturating_mul(MOST_EXPANSION)
            .min(MOST_BYTES);
        (self.bytes <= most).then_some(())?;
        // Without a reallocation, which would take more than the ids.
        let mut text = String::with_capacity(self.bytes);
        let inflated = DeflateDecoder::new(deflated.as_slice());
        let mut limited = inflated.take(self.bytes as u64 + 1);
        limited.read_to_string(&mut text).ok()?;
        let is_whole = text.len() == self.bytes
            && text.matches(SEPARATOR).count() == self.count
            && (text.is_empty() || text.ends_with(SEPARATOR));
        is_whole.then_some(())?;
        let mut ends = Vec::with_capacity(self.count);
        for (end, _) in text.match_indices(SEPARATOR) {
            ends.push(u32::try_from(end).ok()?);
        }
        Some(Ids {
            text,
            ends,
            ..Ids::default()
        })
    }
}

impl Serialize for TaskIds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !self.is_compressible || self.len() < COMPRESSED_FROM {
            return serializer.collect_seq(self.texts());
        }
        let compressed = Compressed::of(self).map_err(S::Error::custom)?;
        share(&compressed.deflated, &self.ids);
        compressed.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TaskIds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Form)
    }
}

struct Form;

impl<'de> Visitor<'de> for Form {
    type Value = TaskIds;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of task ids, or their compressed form")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<TaskIds, A::Error> {
        let mut builder = TaskIdsBuilder::default();
        while let Some(id) = list.next_element::<TaskId>()? {
            builder.push(id.as_str());
        }
        Ok(builder.finish())
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<TaskIds, A::Error> {
        let members = serde::de::value::MapAccessDeserializer::new(members);
        let compressed = Compressed::deserialize(members)?;
        let ids = compressed.ids();
        let ids = ids.ok_or_else(|| A::Error::custom("the compressed ids of tasks are damaged"))?;
        Ok(TaskIds {
            ids,
            is_compressible: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn many() -> TaskIds {
        let ids = (0..COMPRESSED_FROM).map(|n| TaskId::from(format!("task-{n}")));
        ids.collect()
    }

    #[test]
    fn few_ids_and_those_that_older_versions_read_are_a_list() {
        let few: TaskIds = ["b", "a"].into_iter().collect();
        assert_eq!(json!(few.compressible()), json!(["b", "a"]));
        assert!(json!(many()).is_array());
        let read: TaskIds = serde_json::from_value(json!(["b", "a"])).unwrap();
        assert_eq!(read, ["b", "a"].into_iter().collect());
    }

    #[test]
    fn many_ids_are_compressed_and_read_back() {
        let ids = many().compressible();
        let text = serde_json::to_string(&ids).unwrap();
        assert!(text.len() < 5 * COMPRESSED_FROM, "{}", text.len());
        let read: TaskIds = serde_json::from_str(&text).unwrap();
        assert_eq!(read, ids);
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        // As in a process without other copies.
        let compressed: Compressed = serde_json::from_str(&text).unwrap();
        let read = compressed.read().unwrap();
        assert_eq!(
            (read.text, read.ends),
            (ids.ids.text.clone(), ids.ids.ends.clone())
        );
    }

    #[test]
    fn copies_of_a_record_share_their_ids() {
        let ids: TaskIds = many().iter().rev().collect();
        let text = serde_json::to_string(&ids.clone().compressible()).unwrap();
        let read: TaskIds = serde_json::from_str(&text).unwrap();
        assert!(Arc::ptr_eq(&read.ids, &ids.ids));
    }

    #[test]
    fn damaged_ids_are_refused() {
        let written = json!(many().compressible());
        let with = |name: &str, value: Value| {
            let mut damaged = written.clone();
            damaged[name] = value;
            serde_json::from_value::<TaskIds>(damaged)
        };
        let text = written["deflated"].as_str().unwrap();
        let cut = &text[..text.len() / 8 * 4];
        for damaged in [
            with("deflated", json!(cut)),
            with("deflated", json!("?")),
            with("deflated", json!(STANDARD.encode("no deflate"))),
        ] {
            let cause = damaged.unwrap_err().to_string();
            assert!(
                cause.contains("the compressed ids of tasks are damaged"),
                "{cause}"
            );
        }
        let document = written.to_string();
        let whole: Compressed = serde_json::from_str(&document).unwrap();
        for (count, bytes) in [(1, 0), (0, 1), (0, usize::MAX / 2)] {
            let damaged = Compressed {
                count: whole.count + count,
                bytes: whole.bytes + bytes,
                deflated: whole.deflated.clone(),
            };
            assert!(damaged.read().is_none());
        }
    }
}
