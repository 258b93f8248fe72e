//! SVG as text, with all external text escaped.

use std::fmt::Write as _;

use crate::render::badge::font::{Weight, width};

/// Fallback fonts of the viewer.
const FAMILY: &str = "Inter, 'Helvetica Neue', Arial, 'Noto Sans', sans-serif";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    End,
}

#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub size: f32,
    pub weight: Weight,
    pub fill: &'static str,
    pub anchor: Anchor,
    /// Letter spacing.
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

pub struct Picture(String);

impl Picture {
    /// An empty picture with a title for screen readers.
    pub fn new(width: u16, height: u16, title: &str) -> Self {
        let mut picture = Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"t\"><title id=\"t\">"
        ));
        picture.escape(title);
        picture.0.push_str("</title>");
        picture
    }

    pub fn rectangle(&mut self, [x, y, w, h]: [f32; 4], radius: f32, paint: &str) {
        let _ = write!(
            self.0,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" rx=\"{radius}\" {paint}/>"
        );
    }

    /// A filled path; `data` is the path's `d` attribute.
    pub fn path(&mut self, data: &str, fill: &'static str) {
        let _ = write!(self.0, "<path d=\"{data}\" fill=\"{fill}\"/>");
    }

    /// Clips everything drawn until [`Picture::end_clip`] to the rectangle.
    pub fn begin_clip(&mut self, name: &'static str, [x, y, w, h]: [f32; 4]) {
        let _ = write!(
            self.0,
            "<clipPath id=\"{name}\"><rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"/></clipPath>\
             <g clip-path=\"url(#{name})\">"
        );
    }

    pub fn end_clip(&mut self) {
        self.0.push_str("</g>");
    }

    /// A line of text. Its width is fixed to the measured one, whatever font the viewer uses.
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
        // One letter has no spacing to adjust.
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
