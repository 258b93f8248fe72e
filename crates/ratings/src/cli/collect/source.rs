//! Events of a file: lines are streamed, however many there are; a document is read whole, up to a
//! maximum size.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::rules::evidence::places;
use touchstone_host::cli::exit::Failure;
use touchstone_host::render::words::plain;

/// Maximum size of a document in bytes.
const MAX_DOCUMENT: u64 = 256 << 20;
/// Maximum size of a line in bytes.
const MAX_LINE: u64 = 1 << 20;

pub type Reader = BufReader<Box<dyn Read + Send>>;

/// An event, or the error in its place.
#[derive(Debug, PartialEq)]
pub struct SourceEvent {
    /// The file, if there are several.
    pub file: Option<Arc<str>>,
    /// The line on which the event begins, from 1.
    pub line: usize,
    /// Size of the event in bytes.
    pub octets: usize,
    pub event: Result<Value, String>,
}

pub struct Source {
    name: PathBuf,
    form: Form,
}

enum Form {
    /// Events derived from other files while those are read.
    Derived(Box<dyn Iterator<Item = Result<SourceEvent, Failure>> + Send>),
    Lines(Lines),
    /// A JSON array, or a document with `events`.
    Document {
        text: String,
        places: std::vec::IntoIter<(usize, Range<usize>)>,
    },
}

impl Source {
    /// Opens a file; `-` is stdin.
    ///
    /// # Errors
    /// The file cannot be read, or contains no events.
    pub fn open(file: &Path) -> Result<Self, Failure> {
        let Start {
            reader,
            first,
            line,
        } = Start::of(file)?;
        let name = file.to_owned();
        let is_lines = serde_json::from_slice::<Value>(&first)
            .is_ok_and(|it| it.is_object() && it.get("events").is_none());
        let form = match first.trim_ascii_start().first() {
            None => return Err(unusable(file, "has no events")),
            Some(b'{') if is_lines => Form::Lines(Lines {
                name: name.clone(),
                reader,
                first: Some(first),
                line,
            }),
            Some(b'{' | b'[') => document(file, reader, &first, line)?,
            Some(_) => {
                return Err(unusable(
                    file,
                    &format!("line {line}: expected events as a JSON array or as JSON Lines"),
                ));
            }
        };
        Ok(Self { name, form })
    }

    /// A source of events derived from other files while those are read.
    pub fn of(
        name: PathBuf,
        made: impl Iterator<Item = Result<SourceEvent, Failure>> + Send + 'static,
    ) -> Self {
        let form = Form::Derived(Box::new(made));
        Self { name, form }
    }

    /// The number of events, if it is known without reading them all.
    pub fn len(&self) -> Option<u64> {
        match &self.form {
            Form::Lines(_) => lines_of(&self.name),
            Form::Document { places, .. } => Some(places.len() as u64),
            Form::Derived(_) => None,
        }
    }

    /// The next event; `None` after the last.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub fn next(&mut self) -> Result<Option<SourceEvent>, Failure> {
        match &mut self.form {
            Form::Derived(made) => made.next().transpose(),
            Form::Lines(lines) => lines.next(),
            Form::Document { text, places } => Ok(places.next().map(|(line, range)| {
                let raw = text.get(range).unwrap_or_default();
                SourceEvent {
                    file: None,
                    line,
                    octets: raw.len(),
                    event: serde_json::from_str(raw).map_err(|fault| no_json(&fault)),
                }
            })),
        }
    }
}

/// An open file and its first non-blank line.
pub struct Start {
    pub reader: Reader,
    /// The line, or its beginning if it is too long; empty if the file has none.
    pub first: Vec<u8>,
    /// Line number, from 1.
    pub line: usize,
}

impl Start {
    /// Opens a file; `-` is stdin.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of(file: &Path) -> Result<Self, Failure> {
        let input: Box<dyn Read + Send> = if file == Path::new("-") {
            Box::new(std::io::stdin())
        } else {
            Box::new(File::open(file).map_err(|cause| unreadable(file, &cause))?)
        };
        let mut reader: Reader = BufReader::new(input);
        let (first, line) = first_line(&mut reader).map_err(|cause| unreadable(file, &cause))?;
        Ok(Self {
            reader,
            first,
            line,
        })
    }
}

/// JSON Lines of limited length; blank lines are skipped.
pub struct Lines {
    name: PathBuf,
    reader: Reader,
    /// The line that was read to detect the format.
    first: Option<Vec<u8>>,
    /// Number of lines read.
    line: usize,
}

impl Lines {
    /// The lines of a file that was just opened.
    pub fn of(file: &Path, start: Start) -> Self {
        Self {
            name: file.to_owned(),
            reader: start.reader,
            first: Some(start.first),
            line: start.line,
        }
    }

    /// The next line as JSON; `None` after the last.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub fn next(&mut self) -> Result<Option<SourceEvent>, Failure> {
        loop {
            let octets = match self.first.take() {
                Some(first) => first,
                None => {
                    let read = read_start(&mut self.reader);
                    let octets = read.map_err(|cause| unreadable(&self.name, &cause))?;
                    if octets.is_empty() {
                        return Ok(None);
                    }
                    self.line += 1;
                    octets
                }
            };
            let is_too_long = octets.len() as u64 > MAX_LINE;
            if is_too_long && octets.last() != Some(&b'\n') {
                let skipped = self.reader.skip_until(b'\n');
                skipped.map_err(|cause| unreadable(&self.name, &cause))?;
            }
            if octets.trim_ascii().is_empty() {
                continue;
            }
            let event = match is_too_long {
                true => Err(format!("larger than {MAX_LINE} bytes")),
                false => serde_json::from_slice(&octets).map_err(|fault| no_json(&fault)),
            };
            return Ok(Some(SourceEvent {
                file: None,
                line: self.line,
                octets: octets.len(),
                event,
            }));
        }
    }
}

fn first_line(reader: &mut Reader) -> std::io::Result<(Vec<u8>, usize)> {
    let mut line = 0;
    loop {
        let octets = read_start(reader)?;
        if octets.is_empty() {
            return Ok((octets, line));
        }
        line += 1;
        if !octets.trim_ascii().is_empty() {
            return Ok((octets, line));
        }
    }
}

/// Reads a line, or one byte more than the limit if it is too long.
fn read_start(reader: &mut Reader) -> std::io::Result<Vec<u8>> {
    let mut octets = Vec::new();
    reader.take(MAX_LINE + 1).read_until(b'\n', &mut octets)?;
    Ok(octets)
}

/// Reads the rest of a document whose first bytes, in `line` lines, have been read already.
fn document(file: &Path, reader: Reader, first: &[u8], line: usize) -> Result<Form, Failure> {
    // Restore leading blank lines, so that errors have the right line number.
    let mut octets = vec![b'\n'; line.saturating_sub(1)];
    octets.extend_from_slice(first);
    reader
        .take(MAX_DOCUMENT + 1)
        .read_to_end(&mut octets)
        .map_err(|cause| unreadable(file, &cause))?;
    if octets.len() as u64 > MAX_DOCUMENT {
        let most = format!("is larger than {MAX_DOCUMENT} bytes");
        return Err(unusable(file, &most)
            .or_try("write one event per line: JSON Lines files have no size limit"));
    }
    let text = String::from_utf8(octets)
        .map_err(|fault| unusable(file, &format!("is not UTF-8: {fault}")))?;
    let places = places(&text).map_err(|fault| unusable(file, &fault.to_string()))?;
    Ok(Form::Document {
        text,
        places: places.into_iter(),
    })
}

/// Counts the lines of a file without keeping them.
fn lines_of(file: &Path) -> Option<u64> {
    let mut reader = BufReader::with_capacity(1 << 16, File::open(file).ok()?);
    let mut lines = 0;
    loop {
        let octets = reader.fill_buf().ok()?;
        let many = octets.len();
        if many == 0 {
            return Some(lines);
        }
        lines += octets.iter().filter(|octet| **octet == b'\n').count() as u64;
        reader.consume(many);
    }
}

fn no_json(fault: &serde_json::Error) -> String {
    format!("not JSON: {fault}")
}

pub fn unreadable(file: &Path, cause: &std::io::Error) -> Failure {
    unusable(file, &format!("cannot be read: {cause}"))
}

pub fn unusable(file: &Path, fault: &str) -> Failure {
    let message = plain(&format!("{}: {fault}", file.display()));
    Failure::bad_input("INVALID_REQUEST", message)
        .or_try("see docs/ratings.md for what an event looks like")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use touchstone_host::cli::exit::Exit;

    fn all(text: &[u8]) -> Result<Vec<SourceEvent>, Failure> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut source = Source::open(file.path())?;
        let mut all = Vec::new();
        while let Some(located) = source.next()? {
            all.push(located);
        }
        Ok(all)
    }

    #[rstest]
    #[case::lines(b"{\"a\": 1}\n\n{\"a\": 2}\n", &[1, 3])]
    #[case::blank_lines_first(b"\n \n{\"a\": 1}\n{\"a\": 2}", &[3, 4])]
    #[case::array(b"\n[\n{\"a\": 1},\n\n{\"a\":\n 2}]", &[3, 5])]
    #[case::document(b"{\"b\": [1],\n\"events\": [{\"a\": 1},\n{\"a\": 2}]}", &[2, 3])]
    #[case::document_in_a_line(b"{\"events\": [{\"a\": 1}, {\"a\": 2}]}", &[1, 1])]
    fn every_form_gives_the_same_events_with_their_lines(
        #[case] text: &[u8],
        #[case] lines: &[usize],
    ) {
        let found = all(text).unwrap();
        let events: Vec<_> = found.iter().map(|it| it.event.clone().unwrap()).collect();
        assert_eq!(events, [json!({"a": 1}), json!({"a": 2})]);
        let found_lines: Vec<usize> = found.iter().map(|it| it.line).collect();
        assert_eq!(found_lines, lines);
    }

    #[test]
    fn an_event_may_span_several_lines() {
        let found = all(b"\n{\n\"a\": 1\n}\n").unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].line, &found[0].event), (2, &Ok(json!({"a": 1}))));
    }

    #[test]
    fn an_invalid_line_does_not_hide_later_events() {
        let long = format!(
            "{{\"a\": 1}}\n{{no\n\"{}\"\n{{\"a\": 2}}\n",
            "x".repeat(1 << 20)
        );
        let found = all(long.as_bytes()).unwrap();
        let found_lines: Vec<(usize, bool)> =
            found.iter().map(|it| (it.line, it.event.is_ok())).collect();
        assert_eq!(found_lines, [(1, true), (2, false), (3, false), (4, true)]);
    }

    #[rstest]
    #[case::nothing(b"", "no events")]
    #[case::words(b"\nhello", "line 2: expected events")]
    #[case::cut_off(b"[{\"a\": 1},\n{", "line 2")]
    fn input_without_events_is_rejected(#[case] text: &[u8], #[case] expected: &str) {
        let failure = all(text).unwrap_err();
        assert!(failure.message.contains(expected), "{failure}");
        assert_eq!(failure.exit, Exit::BadInput);
    }
}
