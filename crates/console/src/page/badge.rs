//! States as badges.

/// A state: a sign and a word, and the class of its colour.
#[derive(Clone, Debug)]
pub struct Badge {
    pub class: &'static str,
    pub sign: &'static str,
    pub text: String,
}

impl Badge {
    pub fn good(text: impl Into<String>) -> Self {
        Self::of("good", "✓", text)
    }

    pub fn bad(text: impl Into<String>) -> Self {
        Self::of("bad", "✗", text)
    }

    pub fn warn(text: impl Into<String>) -> Self {
        Self::of("warn", "!", text)
    }

    pub fn info(text: impl Into<String>) -> Self {
        Self::of("info", "…", text)
    }

    /// Without a colour.
    pub fn plain(sign: &'static str, text: impl Into<String>) -> Self {
        Self::of("", sign, text)
    }

    pub fn of(class: &'static str, sign: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { class, sign, text }
    }
}
