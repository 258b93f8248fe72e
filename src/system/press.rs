//! Renders OASIS reports locally.

use serde_json::Value;

use crate::domain::oasis::report::{Form, Report};
use crate::ports::press::{Press, Printed, Unprinted};
use crate::render::oasis;

/// Renders with the templates built into this program.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnPress;

impl Press for OwnPress {
    fn report(&self, report: &Report, form: Form) -> Result<Printed, Unprinted> {
        let text = oasis::write(report, form).map_err(|cause| Unprinted(cause.to_string()))?;
        let octets = text.into_bytes();
        Ok(Printed { form, octets })
    }

    fn document(&self, document: &Value, form: Form) -> Result<Printed, Unprinted> {
        let (form, text) = match form {
            Form::Yaml => (
                form,
                serde_saphyr::to_string(document).map_err(|cause| Unprinted(cause.to_string()))?,
            ),
            _ => (Form::Json, document.to_string()),
        };
        let octets = text.into_bytes();
        Ok(Printed { form, octets })
    }
}
