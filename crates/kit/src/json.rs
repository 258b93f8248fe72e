//! Strict JSON: documents that two parsers could read differently are rejected.
//!
//! Used for everything that is signed, judged or sent by an untrusted party: pack manifests,
//! suites, schemas, request bodies. Rejected are a byte order mark, invalid UTF-8, duplicate
//! members, lone surrogates, numbers outside the range of a double, more than [`MAX_DEPTH`] levels,
//! more values than the memory limit allows, and trailing data. Errors give the position and never
//! quote the text, which may be a secret.

use std::cell::Cell;
use std::fmt;

use serde::Serialize;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Maximum nesting depth of arrays and objects in a document.
pub const MAX_DEPTH: usize = 64;

/// Maximum memory for a document in bytes, estimated during reading: a few bytes of text can expand
/// to hundreds. A suite of 100,000 small tasks takes two thirds of the limit.
const MAX_MEMORY: usize = 512 * 1024 * 1024;
/// Maximum memory in bytes for a document that a model wrote.
const MAX_WRITTEN_MEMORY: usize = 48 * 1024 * 1024;
/// Memory for a value in bytes, including its share of spare capacity.
const VALUE_OCTETS: usize = 64;
/// Memory for a non-empty object in bytes.
const OBJECT_OCTETS: usize = 704;

/// A problem with a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    ByteOrderMark,
    NotUtf8,
    /// An object has the same member twice.
    DuplicateMember,
    /// The document is nested deeper than [`MAX_DEPTH`].
    TooDeep,
    /// The document exceeds the memory limit.
    TooManyValues,
    /// A number does not fit a finite double.
    NumberOutOfRange,
    /// An escape is a lone surrogate.
    LoneSurrogate,
    /// There is data after the document.
    TrailingData,
    /// The document ends too early.
    UnexpectedEnd,
    /// The document violates the grammar in another way.
    Syntax,
}

impl Fault {
    const fn text(self) -> &'static str {
        match self {
            Self::ByteOrderMark => "starts with a byte order mark",
            Self::NotUtf8 => "is not UTF-8",
            Self::DuplicateMember => "has the same member twice in one object",
            Self::TooDeep => "is nested deeper than 64 levels",
            Self::TooManyValues => "has too many values",
            Self::NumberOutOfRange => "has a number that is not finite",
            Self::LoneSurrogate => "has an escape that is not a Unicode character",
            Self::TrailingData => "has data after the end of the document",
            Self::UnexpectedEnd => "ends in the middle of the document",
            Self::Syntax => "is not JSON",
        }
    }
}

/// A rejection with its position; contains nothing of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} (line {line}, column {column})", fault.text())]
pub struct Error {
    pub fault: Fault,
    /// From 1.
    pub line: usize,
    /// Byte in the line, from 1.
    pub column: usize,
}

/// Parses a document strictly.
pub fn parse(bytes: &[u8]) -> Result<Value, Error> {
    parse_within(bytes, MAX_MEMORY, 0)
}

/// Parses a part of a document that is this many levels deep in it.
pub fn parse_part(bytes: &[u8], depth: usize) -> Result<Value, Error> {
    parse_within(bytes, MAX_MEMORY, depth)
}

/// Parses a document from an untrusted sender with a lower memory limit, because legitimate
/// documents are small.
pub fn parse_foreign(bytes: &[u8]) -> Result<Value, Error> {
    parse_within(bytes, MAX_WRITTEN_MEMORY, 0)
}

/// The approximate memory in bytes that a document takes once it is parsed. Only punctuation is
/// examined, so this is far cheaper than parsing, and the estimate matches the one made during
/// parsing.
pub fn weight(bytes: &[u8]) -> usize {
    let (mut weight, mut inside, mut escaped, mut opened) = (bytes.len(), false, false, false);
    for byte in bytes {
        if inside {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => inside = false,
                _ => {}
            }
            continue;
        }
        let octets = match byte {
            b' ' | b'\n' | b'\r' | b'\t' => continue,
            // An object allocates its node with its first member.
            b'"' if opened => OBJECT_OCTETS,
            b',' | b'[' | b'{' => VALUE_OCTETS,
            _ => 0,
        };
        inside = *byte == b'"';
        opened = *byte == b'{';
        weight = weight.saturating_add(octets);
    }
    weight
}

/// Parses text that a model wrote. The last of several duplicate members counts. Depth is limited
/// so that an event that contains the document can be read again, and memory is limited too.
pub fn parse_written(text: &str) -> Option<Value> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let room = Cell::new(MAX_WRITTEN_MEMORY);
    let top = Level {
        depth: 0,
        room: &room,
        repeats: true,
    };
    let value = top.deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    Some(value)
}

fn parse_within(bytes: &[u8], memory: usize, depth: usize) -> Result<Value, Error> {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err(Error {
            fault: Fault::ByteOrderMark,
            line: 1,
            column: 1,
        });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|b| **b != b'\n').count() + 1;
        Error {
            fault: Fault::NotUtf8,
            line,
            column,
        }
    })?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let room = Cell::new(memory);
    let top = Level {
        depth,
        room: &room,
        repeats: false,
    };
    let value = top
        .deserialize(&mut reader)
        .map_err(|error| locate(&error))?;
    reader.end().map_err(|error| Error {
        fault: Fault::TrailingData,
        ..locate(&error)
    })?;
    Ok(value)
}

/// Parses strictly into a wire type.
///
/// The outer error is for invalid JSON, the inner one for a mismatch with the type.
pub fn parse_as<T: serde::de::DeserializeOwned>(
    bytes: &[u8],
) -> Result<Result<T, serde_json::Error>, Error> {
    parse(bytes).map(serde_json::from_value)
}

/// Compact JSON with sorted keys: the form in which outputs are compared and documents are hashed.
///
/// Keys sort by code point, and integers keep every digit, unlike in RFC 8785.
pub fn canonical_text(value: &Value) -> String {
    // `serde_json::Map` is a sorted map unless the feature `preserve_order` is on; a test checks
    // this.
    value.to_string()
}

/// [`parse_as`] with the limits of [`parse_foreign`].
pub fn parse_foreign_as<T: serde::de::DeserializeOwned>(
    bytes: &[u8],
) -> Result<Result<T, serde_json::Error>, Error> {
    parse_foreign(bytes).map(serde_json::from_value)
}

/// One of this program's own types as JSON.
///
/// # Panics
/// If the type does not serialize: a map with keys that are neither strings, numbers nor unit
/// variants, or a `Serialize` implementation that fails. That is a fault of the type, not of its
/// content: numbers that are not finite become `null`.
#[expect(
    clippy::expect_used,
    reason = "this program's types have no maps with other keys, and their implementations of \
              `Serialize` do not fail"
)]
pub fn value_of<T: Serialize + ?Sized>(value: &T) -> Value {
    serde_json::to_value(value).expect("the type serializes to JSON")
}

/// The compact text of [`value_of`], with members in the order of the type's fields.
///
/// # Panics
/// As [`value_of`].
#[expect(clippy::expect_used, reason = "as in `value_of`")]
pub fn text_of<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("the type serializes to JSON")
}

/// [`text_of`], indented by two spaces.
///
/// # Panics
/// As [`value_of`].
#[expect(clippy::expect_used, reason = "as in `value_of`")]
pub fn indented_text_of<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string_pretty(value).expect("the type serializes to JSON")
}

const DUPLICATE: &str = "duplicate member";
const TOO_DEEP: &str = "too deep";
const TOO_MANY: &str = "too many values";
const NOT_FINITE: &str = "number is not finite";

fn locate(error: &serde_json::Error) -> Error {
    // serde_json distinguishes its errors only by their text.
    let words = error.to_string();
    let fault = if words.starts_with(DUPLICATE) {
        Fault::DuplicateMember
    } else if words.starts_with(TOO_DEEP) || words.starts_with("recursion limit") {
        Fault::TooDeep
    } else if words.starts_with(TOO_MANY) {
        Fault::TooManyValues
    } else if words.starts_with("number out of range") || words.starts_with(NOT_FINITE) {
        Fault::NumberOutOfRange
    } else if words.contains("surrogate") || words.starts_with("unexpected end of hex escape") {
        Fault::LoneSurrogate
    } else if error.is_eof() {
        Fault::UnexpectedEnd
    } else {
        Fault::Syntax
    };
    Error {
        fault,
        line: error.line(),
        column: error.column(),
    }
}

/// Reads one value at a known depth.
#[derive(Clone, Copy)]
struct Level<'a> {
    depth: usize,
    /// Remaining memory for the document, in bytes.
    room: &'a Cell<usize>,
    /// Whether duplicate members are allowed.
    repeats: bool,
}

impl<'de> DeserializeSeed<'de> for Level<'_> {
    type Value = Value;
    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl Level<'_> {
    fn down<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= MAX_DEPTH {
            return Err(E::custom(TOO_DEEP));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }

    fn take<E: serde::de::Error>(self, octets: usize) -> Result<(), E> {
        let left = self.room.get().checked_sub(octets);
        self.room.set(left.ok_or_else(|| E::custom(TOO_MANY))?);
        Ok(())
    }
}

impl<'de> Visitor<'de> for Level<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom(NOT_FINITE))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let below = self.down()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(below)? {
            self.take(VALUE_OCTETS)?;
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let below = self.down()?;
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            self.take(if members.is_empty() {
                OBJECT_OCTETS
            } else {
                VALUE_OCTETS
            })?;
            if !self.repeats && members.contains_key(&key) {
                return Err(A::Error::custom(DUPLICATE));
            }
            let value = map.next_value_seed(below)?;
            members.insert(key, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn nested(levels: usize) -> String {
        format!("{}0{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[rstest]
    #[case(b"\xef\xbb\xbf{}", Fault::ByteOrderMark)]
    #[case(b"{\"a\":\"\xc3\"}", Fault::NotUtf8)]
    #[case(br#"{"a":1,"a":2}"#, Fault::DuplicateMember)]
    #[case(br#"{"a":{"b":1,"\u0062":2}}"#, Fault::DuplicateMember)]
    #[case(br#""\ud800""#, Fault::LoneSurrogate)]
    #[case(br#""\ud800x""#, Fault::LoneSurrogate)]
    #[case(br#""\udc00\ud800""#, Fault::LoneSurrogate)]
    #[case(b"[1e999]", Fault::NumberOutOfRange)]
    #[case(b"[NaN]", Fault::Syntax)]
    #[case(b"[-Infinity]", Fault::Syntax)]
    #[case(b"{} {}", Fault::TrailingData)]
    #[case(b"{", Fault::UnexpectedEnd)]
    #[case(b"", Fault::UnexpectedEnd)]
    #[case(b"[01]", Fault::Syntax)]
    #[case(b"[1,]", Fault::Syntax)]
    #[case(b"\"a\nb\"", Fault::Syntax)]
    fn ambiguous_json_is_rejected(#[case] text: &[u8], #[case] fault: Fault) {
        assert_eq!(parse(text).unwrap_err().fault, fault);
    }

    #[test]
    fn depth_is_bounded_without_exhausting_the_stack() {
        assert!(parse(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert_eq!(
            parse(nested(MAX_DEPTH + 1).as_bytes()).unwrap_err().fault,
            Fault::TooDeep
        );
        assert_eq!(
            parse(nested(20_000).as_bytes()).unwrap_err().fault,
            Fault::TooDeep
        );
        let objects = r#"{"a":"#.repeat(20_000);
        assert_eq!(parse(objects.as_bytes()).unwrap_err().fault, Fault::TooDeep);
    }

    #[test]
    fn the_memory_of_parsed_values_is_limited() {
        let many = |item: &str, times: usize| format!("[{}0]", item.repeat(times));
        let memory = 1000 * OBJECT_OCTETS;
        for (item, octets) in [
            ("0,", VALUE_OCTETS),
            (r#"{"a":0},"#, OBJECT_OCTETS + VALUE_OCTETS),
            (r#"{"a":0,"b":0},"#, OBJECT_OCTETS + 2 * VALUE_OCTETS),
        ] {
            let most = memory / octets;
            assert!(parse_within(many(item, most - 1).as_bytes(), memory, 0).is_ok());
            let refused = parse_within(many(item, most + 1).as_bytes(), memory, 0).unwrap_err();
            assert_eq!(refused.fault, Fault::TooManyValues);
        }
        assert!(parse(many("0,", 100_000).as_bytes()).is_ok());
    }

    #[test]
    fn the_memory_of_a_document_is_estimated_without_parsing() {
        let many = |item: &str| format!("[{}0]", item.repeat(1000));
        for (item, octets) in [
            ("0,", VALUE_OCTETS),
            ("{},", 2 * VALUE_OCTETS),
            (r#"{ "a" : 0 },"#, 2 * VALUE_OCTETS + OBJECT_OCTETS),
            (r#"{"a":0,"b":0},"#, 3 * VALUE_OCTETS + OBJECT_OCTETS),
            (r#""{[,\",{","#, VALUE_OCTETS),
        ] {
            let text = many(item);
            let expected = text.len() + 1000 * octets + VALUE_OCTETS;
            assert_eq!(weight(text.as_bytes()), expected, "{item}");
        }
    }

    #[test]
    fn json_from_models_is_limited_in_depth_and_memory() {
        let repeated = parse_written(r#"{"a":1,"a":2}"#).unwrap();
        assert_eq!(repeated, serde_json::json!({"a": 2}));
        assert!(parse_written(&nested(MAX_DEPTH)).is_some());
        assert!(parse_written(&nested(MAX_DEPTH + 1)).is_none());
        assert!(parse_written(&format!("[{}0]", "{},".repeat(1_000_000))).is_none());
        assert!(parse_written("{} {}").is_none());
    }

    #[test]
    fn a_parse_error_has_a_position_and_no_content() {
        let error = parse(b"{\n  \"canary\": canary\n}").unwrap_err();
        assert_eq!((error.line, error.column), (2, 13));
        assert!(!error.to_string().contains("canary"));
    }

    #[test]
    fn canonical_json_sorts_keys_and_keeps_number_digits() {
        let value =
            parse(br#"{"b": [1, {"z": 1.5, "a": null}], "a": 18446744073709551615}"#).unwrap();
        assert_eq!(
            canonical_text(&value),
            r#"{"a":18446744073709551615,"b":[1,{"a":null,"z":1.5}]}"#
        );
    }

    #[test]
    fn a_member_named_like_serde_jsons_own_marker_is_a_member() {
        let value = parse(br#"{"$serde_json::private::RawValue": "[1]"}"#).unwrap();
        assert!(value.is_object());
    }
}
