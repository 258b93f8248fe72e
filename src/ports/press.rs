//! Who prints OASIS reports.

use serde_json::Value;

use crate::domain::oasis::report::Report;

/// A form a document can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For programs.
    Json,
    /// For programs and people.
    Yaml,
    /// For repositories and tickets.
    Markdown,
    /// For browsers and paper, in one file.
    Html,
}

impl Form {
    /// Every form.
    pub const ALL: [Self; 4] = [Self::Json, Self::Yaml, Self::Markdown, Self::Html];

    /// The form of this name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "yaml" => Some(Self::Yaml),
            "markdown" => Some(Self::Markdown),
            "html" => Some(Self::Html),
            _ => None,
        }
    }

    /// Its media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Markdown => "text/markdown; charset=utf-8",
            Self::Html => "text/html; charset=utf-8",
        }
    }
}

/// A document that was printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// In which form.
    pub form: Form,
    /// The whole file.
    pub octets: Vec<u8>,
}

/// A document that could not be printed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the document cannot be printed: {0}")]
pub struct Unprinted(pub String);

/// Prints reports.
pub trait Press: Send + Sync {
    /// A report.
    ///
    /// # Errors
    /// [`Unprinted`].
    fn report(&self, report: &Report, form: Form) -> Result<Printed, Unprinted>;

    /// A document as JSON or YAML, whichever other form is asked for as JSON.
    ///
    /// # Errors
    /// [`Unprinted`].
    fn document(&self, document: &Value, form: Form) -> Result<Printed, Unprinted>;
}
