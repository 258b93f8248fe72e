//! The forms a report can have.

/// A form a document can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For programs.
    Json,
    /// For programs and people.
    Yaml,
    /// For repositories and tickets.
    Markdown,
    /// For browsers and paper, in one file.
    Html,
}

impl Form {
    /// Every form.
    pub const ALL: [Self; 4] = [Self::Json, Self::Yaml, Self::Markdown, Self::Html];

    /// The form of this name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "yaml" => Some(Self::Yaml),
            "markdown" => Some(Self::Markdown),
            "html" => Some(Self::Html),
            _ => None,
        }
    }

    /// Its media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Markdown => "text/markdown; charset=utf-8",
            Self::Html => "text/html; charset=utf-8",
        }
    }
}
