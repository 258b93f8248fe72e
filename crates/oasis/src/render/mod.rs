//! The report of an OASIS evaluation as JSON, YAML, Markdown and a self-contained HTML page.
//!
//! Agents, providers and authors of profiles write most of a report's text. In Markdown and HTML it
//! is inert: [`legible`] removes control characters, and everything else is escaped on output.

pub mod html;
pub mod legible;
pub mod markdown;
pub mod particulars;
#[cfg(test)]
mod tests;
pub mod words;

use crate::rules::report::{Form, Report};

#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    #[error("could not write the report as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("could not write the report as YAML: {0}")]
    Yaml(#[from] serde_saphyr::ser::Error),
    #[error("could not render the page: {0}")]
    Page(#[from] askama::Error),
}

/// Renders a report.
///
/// # Errors
/// A serializer or a template failed.
pub fn write(report: &Report, form: Form) -> Result<String, RenderError> {
    match form {
        Form::Json => Ok(serde_json::to_string_pretty(report)? + "\n"),
        Form::Yaml => Ok(serde_saphyr::to_string(report)?),
        Form::Markdown => Ok(markdown::write(&legible::legible(report)?)),
        Form::Html => Ok(html::write(&legible::legible(report)?)?),
    }
}
