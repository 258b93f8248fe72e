use clap::builder::styling::{AnsiColor, Style};

/// Adds colour to text, or leaves it unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Colors(bool);

impl Colors {
    /// With colour, if `on`.
    pub const fn new(on: bool) -> Self {
        Self(on)
    }

    pub const fn is_on(self) -> bool {
        self.0
    }

    pub fn good(self, text: &str) -> String {
        self.paint(Style::new().fg_color(Some(AnsiColor::Green.into())), text)
    }

    pub fn bad(self, text: &str) -> String {
        self.paint(Style::new().fg_color(Some(AnsiColor::Red.into())), text)
    }

    /// For warnings and uncertain results.
    pub fn doubtful(self, text: &str) -> String {
        self.paint(Style::new().fg_color(Some(AnsiColor::Yellow.into())), text)
    }

    /// For headings.
    pub fn strong(self, text: &str) -> String {
        self.paint(Style::new().bold(), text)
    }

    /// For secondary text.
    pub fn faint(self, text: &str) -> String {
        self.paint(Style::new().dimmed(), text)
    }

    /// For commands to type.
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
