//! Rendering of OASIS reports.

use serde_json::Value;

use crate::domain::oasis::report::{Form, Report};

/// A rendered document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    pub form: Form,
    /// The whole file.
    pub octets: Vec<u8>,
}

/// A document could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("could not render the document: {0}")]
pub struct Unprinted(pub String);

/// Renders reports.
pub trait Press: Send + Sync {
    /// A report.
    ///
    /// # Errors
    /// [`Unprinted`].
    fn report(&self, report: &Report, form: Form) -> Result<Printed, Unprinted>;

    /// A document as YAML if asked for, else as JSON.
    ///
    /// # Errors
    /// [`Unprinted`].
    fn document(&self, document: &Value, form: Form) -> Result<Printed, Unprinted>;
}
