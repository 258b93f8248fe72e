//! SVG as text, with everything that comes from outside escaped on its way in.

use std::fmt::Write as _;

use super::font::{Weight, width};

/// Fonts of whoever shows it, if the bundled one is not there.
const FAMILY: &str = "Inter, 'Helvetica Neue', Arial, 'Noto Sans', sans-serif";

/// Where a text is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    End,
}

/// How a text is set.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub size: f32,
    pub weight: Weight,
    pub fill: &'static str,
    pub anchor: Anchor,
    /// Space between letters.
    pub spacing: f32,
}

impl Style {
    pub const fn new(size: f32, weight: Weight, fill: &'static str) -> Self {
        Self {
            size,
            weight,
            fill,
            anchor: Anchor::Start,
            spacing: 0.0,
        }
    }

    pub const fn to_the_right(mut self) -> Self {
        self.anchor = Anchor::End;
        self
    }

    pub const fn spaced(mut self, spacing: f32) -> Self {
        self.spacing = spacing;
        self
    }
}

/// A picture being drawn.
pub struct Picture(String);

impl Picture {
    /// An empty one that says in words what it shows.
    pub fn new(width: u16, height: u16, title: &str) -> Self {
        let mut picture = Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"t\"><title id=\"t\">"
        ));
        picture.escape(title);
        picture.0.push_str("</title>");
        picture
    }

    /// A rectangle with rounded corners.
    pub fn rectangle(&mut self, [x, y, w, h]: [f32; 4], radius: f32, paint: &str) {
        let _ = write!(
            self.0,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" rx=\"{radius}\" {paint}/>"
        );
    }

    /// An outline; `data` is that of a path.
    pub fn path(&mut self, data: &str, fill: &'static str) {
        let _ = write!(self.0, "<path d=\"{data}\" fill=\"{fill}\"/>");
    }

    /// What is drawn until [`Picture::end_clip`] shows within the rectangle only.
    pub fn begin_clip(&mut self, name: &'static str, [x, y, w, h]: [f32; 4]) {
        let _ = write!(
            self.0,
            "<clipPath id=\"{name}\"><rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"/></clipPath>\
             <g clip-path=\"url(#{name})\">"
        );
    }

    /// Ends it.
    pub fn end_clip(&mut self) {
        self.0.push_str("</g>");
    }

    /// A line of text. It takes as much room as it was measured to, whatever font shows it.
    pub fn text(&mut self, x: f32, y: f32, style: Style, text: &str) {
        let letters = u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
        let length = width(text, style.weight, style.size)
            + style.spacing * f32::from(letters.saturating_sub(1));
        let anchor = match style.anchor {
            Anchor::Start => "",
            Anchor::End => " text-anchor=\"end\"",
        };
        let _ = write!(
            self.0,
            "<text x=\"{x}\" y=\"{y}\" font-family=\"{FAMILY}\" font-size=\"{}\" font-weight=\"{}\" fill=\"{}\"{anchor}",
            style.size,
            style.weight.css(),
            style.fill,
        );
        // With one letter there is nothing to be spaced.
        if letters > 1 {
            let _ = write!(
                self.0,
                " textLength=\"{length:.2}\" lengthAdjust=\"{}\"",
                if style.spacing > 0.0 {
                    "spacing"
                } else {
                    "spacingAndGlyphs"
                },
            );
        }
        self.0.push('>');
        self.escape(text);
        self.0.push_str("</text>");
    }

    /// The picture.
    pub fn finish(mut self) -> String {
        self.0.push_str("</svg>");
        self.0
    }

    fn escape(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c => self.0.push(c),
            }
        }
    }
}
