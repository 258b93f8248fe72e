//! Rendering the picture to pixels with `resvg` and only the bundled font.

use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::{Database, Source};
use resvg::usvg::{Options, Tree};

use crate::render::badge::font;
use crate::render::badge::{HEIGHT, WIDTH};
use crate::rules::badge::Scale;

/// A picture that could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("could not render the badge: {0}")]
pub struct RasterizeError(String);

static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    for face in [font::MEDIUM, font::BOLD] {
        fonts.load_font_source(Source::Binary(Arc::new(face)));
    }
    Arc::new(fonts)
});

pub fn rasterize(svg: &str, scale: Scale) -> Result<Vec<u8>, RasterizeError> {
    let options = Options {
        fontdb: Arc::clone(&FONTS),
        ..Options::default()
    };
    let tree = Tree::from_str(svg, &options).map_err(|fault| RasterizeError(fault.to_string()))?;
    let factor: u16 = match scale {
        Scale::One => 1,
        Scale::Two => 2,
    };
    let (width, height) = (u32::from(WIDTH * factor), u32::from(HEIGHT * factor));
    let mut pixels = Pixmap::new(width, height)
        .ok_or_else(|| RasterizeError("the picture has no size".to_owned()))?;
    let factor = f32::from(factor);
    resvg::render(
        &tree,
        Transform::from_scale(factor, factor),
        &mut pixels.as_mut(),
    );
    pixels
        .encode_png()
        .map_err(|fault| RasterizeError(fault.to_string()))
}
