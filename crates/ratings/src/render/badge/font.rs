//! The bundled font, Inter (SIL Open Font License 1.1, `font/OFL.txt`): its characters and their
//! widths.

use std::sync::LazyLock;

use ttf_parser::Face;
use unicode_normalization::UnicodeNormalization as _;

pub const MEDIUM: &[u8] = include_bytes!("font/Inter-Medium.otf");
pub const BOLD: &[u8] = include_bytes!("font/Inter-Bold.otf");

static MEDIUM_FACE: LazyLock<Face<'static>> = LazyLock::new(|| parsed(MEDIUM));
static BOLD_FACE: LazyLock<Face<'static>> = LazyLock::new(|| parsed(BOLD));

#[expect(
    clippy::expect_used,
    reason = "the fonts are compiled into the binary, and tests measure texts in both"
)]
fn parsed(font: &'static [u8]) -> Face<'static> {
    Face::parse(font, 0).expect("a bundled font is valid")
}

/// Replaces characters that the font lacks.
const BOX: char = '□';
const ELLIPSIS: char = '…';

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    Medium,
    Bold,
}

impl Weight {
    /// The CSS font weight.
    pub const fn css(self) -> u16 {
        match self {
            Self::Medium => 500,
            Self::Bold => 700,
        }
    }

    fn face(self) -> &'static Face<'static> {
        match self {
            Self::Medium => &MEDIUM_FACE,
            Self::Bold => &BOLD_FACE,
        }
    }
}

/// Which characters can be displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glyphs {
    /// All: the viewer may have other fonts.
    Any,
    /// Those of the bundled font.
    Bundled,
}

/// Prepares text for display on one line: composes characters, and removes invisible ones, changes
/// of text direction and characters that XML forbids.
pub fn presentable(text: &str, glyphs: Glyphs) -> String {
    text.nfc()
        .filter(|c| !is_invisible(*c))
        .map(|c| match c {
            c if c.is_whitespace() => ' ',
            c if c.is_control() || is_noncharacter(c) => BOX,
            c if glyphs == Glyphs::Bundled && !has_glyph(c) => BOX,
            c => c,
        })
        .collect()
}

/// Whether none of the text's characters can be displayed.
pub fn is_all_boxes(text: &str) -> bool {
    text.contains(BOX) && text.chars().all(|c| c == BOX || c == ' ')
}

fn has_glyph(c: char) -> bool {
    let in_face = |weight: Weight| weight.face().glyph_index(c).is_some();
    in_face(Weight::Medium) && in_face(Weight::Bold)
}

/// Direction marks, joiners, variation selectors and tags.
const fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

const fn is_noncharacter(c: char) -> bool {
    matches!(c, '\u{fdd0}'..='\u{fdef}') || (c as u32) & 0xfffe == 0xfffe
}

/// Width of a text in units of `size`. A character that the font lacks counts as wide as it is
/// high.
pub fn width(text: &str, weight: Weight, size: f32) -> f32 {
    text.chars().map(|c| advance(c, weight)).sum::<f32>() * size
}

fn advance(c: char, weight: Weight) -> f32 {
    let face = weight.face();
    let advance = face
        .glyph_index(c)
        .and_then(|glyph| face.glyph_hor_advance(glyph));
    advance.map_or(1.0, |advance| {
        f32::from(advance) / f32::from(face.units_per_em())
    })
}

/// Where to shorten text that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    End,
    /// In the middle, so that both ends remain.
    Middle,
}

/// Shortens a text to the width `room`.
pub fn fitted(text: &str, weight: Weight, size: f32, room: f32, cut: Cut) -> String {
    if width(text, weight, size) <= room {
        return text.to_owned();
    }
    let room = room - width("…", weight, size);
    let (head_room, tail_room) = match cut {
        Cut::End => (room, 0.0),
        Cut::Middle => (room * 0.6, room * 0.4),
    };
    let head = fitting_prefix(text.chars(), weight, size, head_room);
    let mut tail: Vec<char> = fitting_prefix(text.chars().rev(), weight, size, tail_room);
    tail.reverse();
    let mut short: String = head.into_iter().collect();
    short.truncate(short.trim_end().len());
    short.push(ELLIPSIS);
    short.extend(tail);
    short
}

fn fitting_prefix(
    text: impl Iterator<Item = char>,
    weight: Weight,
    size: f32,
    room: f32,
) -> Vec<char> {
    let mut used = 0.0;
    text.take_while(|c| {
        used += advance(*c, weight) * size;
        used <= room
    })
    .collect()
}
