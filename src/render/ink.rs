//! Colour, or none.

use clap::builder::styling::{AnsiColor, Style};

/// Colours text, or leaves it as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ink(bool);

impl Ink {
    /// No colour at all.
    pub const NONE: Self = Self(false);

    /// With colour, if `on`.
    pub const fn new(on: bool) -> Self {
        Self(on)
    }

    /// Whether there is colour.
    pub const fn is_on(self) -> bool {
        self.0
    }

    /// Something good.
    pub fn good(self, text: &str) -> String {
        self.paint(Style::new().fg_color(Some(AnsiColor::Green.into())), text)
    }

    /// Something bad.
    pub fn bad(self, text: &str) -> String {
        self.paint(Style::new().fg_color(Some(AnsiColor::Red.into())), text)
    }

    /// Something to be careful with.
    pub fn doubtful(self, text: &str) -> String {
        self.paint(Style::new().fg_color(Some(AnsiColor::Yellow.into())), text)
    }

    /// A heading.
    pub fn strong(self, text: &str) -> String {
        self.paint(Style::new().bold(), text)
    }

    /// Something beside the point.
    pub fn faint(self, text: &str) -> String {
        self.paint(Style::new().dimmed(), text)
    }

    /// Something to type.
    pub fn command(self, text: &str) -> String {
        self.paint(Style::new().fg_color(Some(AnsiColor::Cyan.into())), text)
    }

    fn paint(self, style: Style, text: &str) -> String {
        if self.0 {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}
