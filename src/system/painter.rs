//! Renders badge images locally.

use crate::domain::aaaf::badge::{Badge, Inspection, Mark, Scale};
use crate::ports::{Painter, Unpainted};
use crate::render::badge;

/// Renders with the font and the renderer built into this program.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnPainter;

impl Painter for OwnPainter {
    fn svg(&self, badge: &Badge, mark: Mark) -> String {
        badge::svg(badge, mark)
    }

    fn png(&self, badge: &Badge, mark: Mark, scale: Scale) -> Result<Vec<u8>, Unpainted> {
        badge::png(badge, mark, scale).map_err(|cause| Unpainted(cause.to_string()))
    }

    fn markdown(&self, badge: &Badge, mark: Mark) -> String {
        badge::markdown(badge, mark)
    }

    fn page(&self, inspection: &Inspection) -> Result<String, Unpainted> {
        badge::page(inspection).map_err(|cause| Unpainted(cause.to_string()))
    }
}
