//! Who prints OASIS reports.

use serde_json::Value;

use crate::domain::oasis::report::{Form, Report};

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
