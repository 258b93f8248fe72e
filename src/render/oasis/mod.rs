//! The report of an OASIS evaluation in the forms people and programs read: JSON, YAML, Markdown, and one page of HTML that
//! needs nothing beside itself.
//!
//! Agents, providers and authors of profiles write most of what a report says. In Markdown and HTML none of it acts: characters
//! that do are taken out before ([`legible`]), everything else is escaped where it is written.

mod html;
mod legible;
mod markdown;
mod particulars;
mod words;

use crate::domain::oasis::report::Report;

/// Form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For programs.
    Json,
    /// For programs and people.
    Yaml,
    /// For terminals, issues, repositories.
    Markdown,
    /// For people.
    Html,
}

impl Format {
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

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
pub enum NotWritten {
    /// It has no JSON form.
    #[error("the report cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It has no YAML form.
    #[error("the report cannot be written as YAML: {0}")]
    Yaml(#[from] serde_saphyr::ser::Error),
    /// A template failed.
    #[error("the page cannot be made: {0}")]
    Page(#[from] askama::Error),
}

/// Writes a report.
///
/// # Errors
/// A serializer or a template failed.
pub fn write(report: &Report, format: Format) -> Result<String, NotWritten> {
    match format {
        Format::Json => Ok(serde_json::to_string_pretty(report)? + "\n"),
        Format::Yaml => Ok(serde_saphyr::to_string(report)?),
        Format::Markdown => Ok(markdown::write(&legible::legible(report)?)),
        Format::Html => Ok(html::write(&legible::legible(report)?)?),
    }
}

#[cfg(test)]
mod tests;
