//! The output formats of a report.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For programs.
    Json,
    /// For programs and people.
    Yaml,
    /// For repositories and tickets.
    Markdown,
    /// For browsers and printing, in one file.
    Html,
}

impl Form {
    pub const ALL: [Self; 4] = [Self::Json, Self::Yaml, Self::Markdown, Self::Html];

    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "yaml" => Some(Self::Yaml),
            "markdown" => Some(Self::Markdown),
            "html" => Some(Self::Html),
            _ => None,
        }
    }

    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Markdown => "text/markdown; charset=utf-8",
            Self::Html => "text/html; charset=utf-8",
        }
    }
}
