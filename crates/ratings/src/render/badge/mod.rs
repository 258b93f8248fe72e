//! The representations of a badge: SVG, PNG and Markdown.
//!
//! The picture has 300 by 150 pixels. It is self-contained and has no active content: no scripts,
//! links or references.

pub mod font;
pub mod layout;
pub mod markdown;
pub mod page;
pub mod picture;
pub mod png;
#[cfg(test)]
mod tests;

use crate::credential::baking;
use crate::rules::Tier;
use crate::rules::badge::Badge;

pub use crate::render::badge::markdown::markdown;
pub use crate::render::badge::page::{missing_page, page};
pub use crate::render::badge::png::RasterizeError;
pub use crate::rules::badge::{Mark, Scale};

use crate::render::badge::font::Glyphs;
use crate::render::badge::layout::LongUrl;

pub const WIDTH: u16 = 300;
pub const HEIGHT: u16 = 150;

pub fn svg(badge: &Badge, mark: Mark) -> String {
    layout::draw(badge, mark, Glyphs::Any, LongUrl::Smaller)
}

/// The badge as PNG. Characters that the bundled font lacks are drawn as boxes; an agent whose name
/// has none of the font's characters is shown by the beginning of its id. The full id is below.
///
/// # Errors
/// The picture could not be rendered.
pub fn png(badge: &Badge, mark: Mark, scale: Scale) -> Result<Vec<u8>, RasterizeError> {
    let drawn = layout::draw(badge, mark, Glyphs::Bundled, LongUrl::Smaller);
    png::rasterize(&drawn, scale)
}

/// Whether a file is the picture of a badge with this credential, with any mark. Pictures depend
/// only on the badge, so any change to a picture is detected.
pub fn is_picture_of(file: &[u8], badge: &Badge, credential: &str) -> bool {
    let mut ways = LongUrl::ALL.into_iter();
    ways.any(|long_url| matches_picture(file, badge, credential, long_url))
}

fn matches_picture(file: &[u8], badge: &Badge, credential: &str, long_url: LongUrl) -> bool {
    if baking::png::is_png(file) {
        let scales = Mark::ALL
            .into_iter()
            .flat_map(|mark| Scale::ALL.map(|scale| (mark, scale)));
        return scales.into_iter().any(|(mark, scale)| {
            let drawn = layout::draw(badge, mark, Glyphs::Bundled, long_url);
            let painted = png::rasterize(&drawn, scale).ok();
            let baked = painted.and_then(|it| baking::png::bake(&it, credential).ok());
            baked.is_some_and(|it| it == file)
        });
    }
    Mark::ALL.into_iter().any(|mark| {
        let drawn = layout::draw(badge, mark, Glyphs::Any, long_url);
        let baked = baking::svg::bake(&drawn, credential);
        baked.is_ok_and(|it| it.as_bytes() == file)
    })
}

/// The colours of a tier and of text on it.
const fn colours(tier: Tier) -> (&'static str, &'static str) {
    const DARK: &str = "#111111";
    match tier.rank() {
        0 => ("#9E9E9E", DARK),
        1 => ("#4CAF50", DARK),
        2 => ("#2196F3", DARK),
        3 => ("#9C27B0", "#FFFFFF"),
        _ => ("#FFD700", DARK),
    }
}
