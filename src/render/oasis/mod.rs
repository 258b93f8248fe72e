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

use crate::domain::oasis::report::{Form, Report};

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
pub fn write(report: &Report, form: Form) -> Result<String, NotWritten> {
    match form {
        Form::Json => Ok(serde_json::to_string_pretty(report)? + "\n"),
        Form::Yaml => Ok(serde_saphyr::to_string(report)?),
        Form::Markdown => Ok(markdown::write(&legible::legible(report)?)),
        Form::Html => Ok(html::write(&legible::legible(report)?)?),
    }
}

#[cfg(test)]
mod tests;
