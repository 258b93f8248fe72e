//! Where a command prints: results on stdout, everything else on stderr.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::cli::exit::Failure;
use crate::render::colors::Colors;
use crate::render::table::Style;
use crate::render::words::{harmless, harmless_json};
use touchstone_kit::error::ErrorCode;

/// Below this many columns a table would be unreadable.
const NARROWEST_TABLE: u16 = 72;

/// The two output streams and their capabilities.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    json: bool,
    colors: Colors,
    notes_colors: Colors,
    interactive: bool,
}

impl Terminal {
    /// Detects the process's own streams. Colour needs a terminal or `CLICOLOR_FORCE`, and neither
    /// `--no-color` nor `NO_COLOR`.
    pub fn new(json: bool, no_color: bool) -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let refused = no_color || json || is_set("NO_COLOR");
        let forced = is_set("CLICOLOR_FORCE");
        let interactive = io::stdout().is_terminal();
        Self {
            json,
            colors: Colors::new(!refused && (interactive || forced)),
            notes_colors: Colors::new(!refused && (io::stderr().is_terminal() || forced)),
            interactive,
        }
    }

    /// Whether results are printed as JSON.
    pub const fn json(&self) -> bool {
        self.json
    }

    /// Colours of stdout.
    pub const fn colors(&self) -> Colors {
        self.colors
    }

    /// Colours of stderr, for notes.
    pub const fn notes_colors(&self) -> Colors {
        self.notes_colors
    }

    /// Whether stdout is a terminal, so that tables and colours make sense.
    pub const fn interactive(&self) -> bool {
        self.interactive && !self.json
    }

    /// Whether to draw tables: for terminals, not for pipes.
    pub fn tables(&self) -> bool {
        self.is_for_people()
            && self
                .width()
                .is_none_or(|columns| columns >= NARROWEST_TABLE)
    }

    fn is_for_people(&self) -> bool {
        !self.json && (self.interactive || self.colors.is_on())
    }

    /// How to render results.
    pub fn style(&self) -> Style {
        Style {
            colors: self.colors,
            table: self.tables(),
            width: self.width(),
            wraps: self.is_for_people() && self.width() != Some(0),
            ..Style::default()
        }
    }

    /// Columns of the terminal, for tables.
    pub fn width(&self) -> Option<u16> {
        let told = std::env::var("COLUMNS")
            .ok()
            .and_then(|columns| columns.parse().ok());
        // A terminal without a known size reports 0.
        let seen = self
            .interactive
            .then(|| comfy_table::Table::new().width())
            .flatten()
            .filter(|columns| *columns > 0);
        seen.or(told)
    }

    /// Whether to draw progress on stderr.
    pub fn bars(&self) -> bool {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        !self.json && !dumb && io::stderr().is_terminal()
    }

    /// Prints a line of the result.
    pub fn print(&self, text: &str) {
        write_out(&harmless(text, self.colors.is_on()));
    }

    /// Writes bytes unchanged, except text that goes to a terminal.
    pub fn octets(&self, bytes: &[u8]) {
        let text = self.interactive.then(|| std::str::from_utf8(bytes).ok());
        let shown = text.flatten().map(|text| harmless(text, false));
        let mut out = io::stdout().lock();
        let _ = out.write_all(shown.as_deref().map_or(bytes, str::as_bytes));
        let _ = out.flush();
    }

    fn json_text(text: &str) {
        write_out(&harmless_json(text));
    }

    /// Whether stdout is a terminal, so that binary data must not be written to it.
    pub fn is_watched(&self) -> bool {
        self.interactive
    }

    /// Prints a long result while it is made: JSON under `--json`, else text.
    pub const fn printer(&self) -> Printer {
        self.printer_of(self.json)
    }

    /// Prints a long JSON document, also without `--json`.
    pub const fn json_printer(&self) -> Printer {
        self.printer_of(true)
    }

    const fn printer_of(&self, json: bool) -> Printer {
        Printer {
            json,
            coloured: self.colors.is_on(),
            rest: Vec::new(),
            is_at_line_start: true,
        }
    }

    /// Prints a document, while it is serialized.
    pub fn document(&self, document: &impl Serialize) {
        let mut out = self.json_printer();
        let written = serde_json::to_writer_pretty(&mut out, document);
        let printed = written.map_err(io::Error::from);
        match printed.and_then(|()| out.finish()) {
            // A closed pipe, as with `head`, is not a failure of the command.
            Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => {
                self.note(&format!("could not write the result as JSON: {cause}"));
            }
            _ => {}
        }
    }

    /// Prints a document on one line.
    pub fn line(&self, document: &impl Serialize) {
        match serde_json::to_string(document) {
            Ok(text) => Self::json_text(&text),
            Err(cause) => self.note(&format!("could not write the result as JSON: {cause}")),
        }
    }

    /// Prints a line on stderr that is not part of the result.
    pub fn note(&self, text: &str) {
        let text = harmless(text, self.notes_colors.is_on());
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// Prints an error: a document on stdout under `--json`, else two lines on stderr.
    pub fn failure(&self, failure: &Failure) {
        if self.json {
            self.document(&failure_document(failure));
            return;
        }
        self.note(&format!("error: {}", failure.message));
        if let Some(remedy) = &failure.remedy {
            self.note(&format!("  try: {remedy}"));
        }
    }
}

/// Prints a result in parts.
#[derive(Debug)]
pub struct Printer {
    json: bool,
    coloured: bool,
    /// What is not printed yet.
    rest: Vec<u8>,
    is_at_line_start: bool,
}

impl Printer {
    /// Bytes that are printed together.
    const PART: usize = 64 * 1024;

    /// Whether the result is a JSON document.
    pub const fn is_json(&self) -> bool {
        self.json
    }

    /// Prints the rest, and the end of its line.
    ///
    /// # Errors
    /// Stdout cannot be written, such as a closed pipe.
    pub fn finish(mut self) -> io::Result<()> {
        if self
            .rest
            .last()
            .map_or(self.is_at_line_start, |last| *last == b'\n')
        {
            return self.print(self.rest.len());
        }
        self.rest.push(b'\n');
        self.print(self.rest.len())
    }

    fn print(&mut self, length: usize) -> io::Result<()> {
        let part: Vec<u8> = self.rest.drain(..length).collect();
        let Some(last) = part.last() else {
            return Ok(());
        };
        self.is_at_line_start = *last == b'\n';
        let mut out = io::stdout().lock();
        out.write_all(self.shown(&String::from_utf8_lossy(&part)).as_bytes())?;
        out.flush()
    }

    fn shown<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.json {
            true => harmless_json(text),
            false => harmless(text, self.coloured),
        }
    }
}

impl Write for Printer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        // Whole lines, so that no character and no colour is split. A long line is not searched again.
        if self.rest.len() >= Self::PART && bytes.contains(&b'\n') {
            let end = self.rest.iter().rposition(|byte| *byte == b'\n');
            self.print(end.map_or(0, |at| at + 1))?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_out(text: &str) {
    // A closed pipe, as with `head`, is not a failure of the command.
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    if !text.ends_with('\n') {
        let _ = out.write_all(b"\n");
    }
    let _ = out.flush();
}

fn failure_document(failure: &Failure) -> Value {
    let mut error = Map::new();
    error.insert("code".to_owned(), json!(failure.code));
    error.insert("message".to_owned(), json!(failure.message));
    if let Some(remedy) = &failure.remedy {
        error.insert("remedy".to_owned(), json!(remedy));
    }
    if !failure.details.is_empty() {
        error.insert("details".to_owned(), Value::Object(failure.details.clone()));
    }
    if let Some(code) = ErrorCode::of(&failure.code) {
        error.insert("docs".to_owned(), json!(code.page()));
    }
    json!({"ok": false, "error": error})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_document_has_escapes_for_characters_that_act_also_without_the_flag() {
        let text = "{\"task\": \"a\u{202e}b\u{2028}c\u{9b}d\"}";
        let terminal = Terminal::new(false, true);
        let shown = terminal.json_printer().shown(text).into_owned();
        assert_eq!(shown, r#"{"task": "a\u202eb\u2028c\u009bd"}"#);
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(read(&shown), read(text));
        // In a text they are spaces.
        assert!(terminal.printer().shown(text).contains("a b c d"));
    }
}
