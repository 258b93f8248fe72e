//! A badge as people see it: SVG, PNG and Markdown.
//!
//! The picture is 300 by 150. Nothing in it is active or comes from elsewhere: no script, no link, no reference.

mod font;
mod layout;
mod markdown;
mod page;
mod picture;
mod png;

use crate::domain::aaaf::Tier;
use crate::domain::aaaf::badge::Badge;
use crate::domain::credential::baking;

pub use crate::domain::aaaf::badge::{Mark, Scale};
pub use markdown::markdown;
pub use page::page;
pub use png::Unpainted;

use font::Glyphs;
use layout::LongUrl;

/// Width of the picture.
pub const WIDTH: u16 = 300;
/// Height.
pub const HEIGHT: u16 = 150;

/// The badge as SVG.
pub fn svg(badge: &Badge, mark: Mark) -> String {
    layout::draw(badge, mark, Glyphs::Any, LongUrl::Smaller)
}

/// The badge as PNG. Characters the font at hand does not have show as boxes, so that nothing is silently missing; an agent
/// none of whose name can be shown goes by the begin of its id, and the whole id stands below.
///
/// # Errors
/// [`Unpainted`].
pub fn png(badge: &Badge, mark: Mark, scale: Scale) -> Result<Vec<u8>, Unpainted> {
    let drawn = layout::draw(badge, mark, Glyphs::Bundled, LongUrl::Smaller);
    png::paint(&drawn, scale)
}

/// Whether a file is the picture of a badge with this credential inside, whatever is marked across it. Pictures are drawn from
/// nothing but the badge, so a picture that was changed anywhere differs from all of them.
pub fn is_drawn_of(file: &[u8], badge: &Badge, credential: &str) -> bool {
    let mut ways = LongUrl::ALL.into_iter();
    ways.any(|long_url| is_drawn(file, badge, credential, long_url))
}

fn is_drawn(file: &[u8], badge: &Badge, credential: &str, long_url: LongUrl) -> bool {
    if baking::png::is_png(file) {
        let scales = Mark::ALL
            .into_iter()
            .flat_map(|mark| Scale::ALL.map(|scale| (mark, scale)));
        return scales.into_iter().any(|(mark, scale)| {
            let drawn = layout::draw(badge, mark, Glyphs::Bundled, long_url);
            let painted = png::paint(&drawn, scale).ok();
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

/// The colour of a tier, and of what is written on it.
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

#[cfg(test)]
mod tests;
