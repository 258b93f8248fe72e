//! Who makes pictures of badges.

use crate::domain::aaaf::badge::{Badge, Inspection, Mark, Scale};

/// A picture that could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the badge cannot be painted: {0}")]
pub struct Unpainted(pub String);

/// Makes pictures of badges, without the credential that is put into them. Takes time of the thread it is called on.
pub trait Painter: Send + Sync {
    /// The badge as SVG.
    fn svg(&self, badge: &Badge, mark: Mark) -> String;
    /// The badge as PNG.
    ///
    /// # Errors
    /// [`Unpainted`].
    fn png(&self, badge: &Badge, mark: Mark, scale: Scale) -> Result<Vec<u8>, Unpainted>;
    /// The badge as Markdown.
    fn markdown(&self, badge: &Badge, mark: Mark) -> String;
    /// What a person is told who verifies a badge, as an HTML page.
    ///
    /// # Errors
    /// [`Unpainted`].
    fn page(&self, inspection: &Inspection) -> Result<String, Unpainted>;
}
