//! Rendering of badges.

use crate::domain::aaaf::badge::{Badge, Inspection, Mark, Scale};

/// A badge could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("could not render the badge: {0}")]
pub struct Unpainted(pub String);

/// Renders badges, without the credential that is embedded in them. CPU-bound: runs on the calling
/// thread.
pub trait Painter: Send + Sync {
    fn svg(&self, badge: &Badge, mark: Mark) -> String;
    /// The badge as PNG.
    ///
    /// # Errors
    /// [`Unpainted`].
    fn png(&self, badge: &Badge, mark: Mark, scale: Scale) -> Result<Vec<u8>, Unpainted>;
    fn markdown(&self, badge: &Badge, mark: Mark) -> String;
    /// The verification result of a badge, as an HTML page.
    ///
    /// # Errors
    /// [`Unpainted`].
    fn page(&self, inspection: &Inspection) -> Result<String, Unpainted>;
}
