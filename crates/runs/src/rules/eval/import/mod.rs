//! Converts task files of other tools to suites.
//!
//! Each converter takes what a suite and its scoring document can hold and reports everything else
//! as a [`Loss`]; nothing is dropped silently. The result is a valid suite, which `suite_rules`
//! accepts.

mod datasets;
mod draft;
mod lines;
pub mod pack;
mod parquet;
mod promptfoo;
mod recognize;
mod rows;
mod scoring;
mod source;
mod table;
mod tags;
mod traces;

pub use self::datasets::Columns;
pub use self::datasets::inspect_log::{self, InspectLog};
use self::datasets::{deepeval, inspect, openai_evals, records};
use self::draft::Draft;
pub use self::draft::{Identity, Imported, Loss, slug};
pub use self::promptfoo::{PROVIDERS, ProviderDraft, ProviderEndpoint};
pub use self::recognize::{Recognition, Recognized, recognize};
use self::rows::Rows;
pub use self::source::{Files, NoFiles, Source};
use touchstone_openwop::suite::MatchStrategy;

/// The format of a source document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A promptfoo configuration, YAML or JSON.
    Promptfoo,
    /// Samples of an OpenAI eval, or a registry file that names them.
    OpenaiEvals,
    /// A dataset of Inspect: JSON, JSON lines or CSV with a column `target`.
    Inspect,
    /// A log of Inspect, as JSON or as an archive.
    InspectLog,
    /// Goldens of DeepEval.
    Deepeval,
    /// Items of a Langfuse dataset.
    Langfuse,
    /// Records of a Braintrust dataset.
    Braintrust,
    /// OpenTelemetry spans in OTLP JSON.
    Otel,
    /// JSON, JSON lines, CSV or Parquet with columns for input and expected answer.
    Table,
    /// Rows of `suite export --format jsonl`.
    Lines,
}

impl Format {
    pub const ALL: [Self; 10] = [
        Self::Promptfoo,
        Self::OpenaiEvals,
        Self::Inspect,
        Self::InspectLog,
        Self::Deepeval,
        Self::Langfuse,
        Self::Braintrust,
        Self::Otel,
        Self::Table,
        Self::Lines,
    ];

    /// The name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Promptfoo => "promptfoo",
            Self::OpenaiEvals => "openai-evals",
            Self::Inspect => "inspect",
            Self::InspectLog => "inspect-log",
            Self::Deepeval => "deepeval",
            Self::Langfuse => "langfuse",
            Self::Braintrust => "braintrust",
            Self::Otel => "otel",
            Self::Table => "table",
            Self::Lines => "touchstone",
        }
    }

    /// The format with this name. Notations of tables are names of the table format.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "csv" | "json" | "jsonl" | "parquet" => Some(Self::Table),
            _ => Self::ALL.into_iter().find(|format| format.as_str() == name),
        }
    }
}

/// Why a document could not be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The document does not have the format.
    #[error("not a valid {format} file: {reason}")]
    Format {
        format: &'static str,
        reason: String,
    },
    /// Nothing in the document can become a task.
    #[error("no task of the document can be imported")]
    NoTasks(Vec<Loss>),
    /// The result is not a valid suite with the given names.
    #[error("{0}")]
    NoSuite(String),
}

/// Choices of the user.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    pub format: Format,
    /// How to compare answers where the document does not define it.
    pub strategy: MatchStrategy,
    pub columns: &'a Columns,
    pub identity: &'a Identity,
}

/// Converts a document.
///
/// # Errors
/// [`Fault`].
pub fn convert(source: &Source<'_>, options: &Options<'_>) -> Result<Imported, Fault> {
    let mut draft = Draft::new(options.strategy);
    fill(source, options, &mut draft).map_err(|reason| Fault::Format {
        format: options.format.as_str(),
        reason,
    })?;
    draft.finish(options.identity)
}

fn fill(source: &Source<'_>, options: &Options<'_>, draft: &mut Draft) -> Result<(), String> {
    let columns = options.columns;
    match options.format {
        Format::Promptfoo => return promptfoo::convert(source, draft),
        Format::InspectLog => return inspect_log::convert(source.bytes, columns, draft),
        Format::Otel => return traces::convert(source.bytes, draft),
        Format::OpenaiEvals => {
            if let Ok(document) = source::mapping(source.bytes)
                && openai_evals::is_registry(&document)
            {
                return openai_evals::convert_registry(source, columns, draft);
            }
        }
        _ => {}
    }
    let rows = Rows::read(source.bytes)?;
    if let Some(reason) = unknown_column(&rows, columns) {
        return Err(reason);
    }
    match options.format {
        Format::OpenaiEvals => {
            require(&rows, &openai_evals::SHAPE, columns)?;
            openai_evals::convert(rows, columns, draft);
        }
        Format::Inspect => {
            require(&rows, &inspect::SHAPE, columns)?;
            inspect::convert(rows, columns, draft);
        }
        Format::Deepeval => deepeval::convert(rows, columns, draft),
        Format::Langfuse => {
            require(&rows, &records::LANGFUSE, columns)?;
            records::convert(rows, &records::LANGFUSE, columns, draft);
        }
        Format::Lines => lines::convert(rows, draft),
        Format::Table if columns.is_empty() && lines::is_export(&rows) => {
            lines::convert(rows, draft);
        }
        Format::Braintrust => {
            require(&rows, &records::BRAINTRUST, columns)?;
            records::convert(rows, &records::BRAINTRUST, columns, draft);
        }
        _ => {
            require(&rows, &records::TABLE, columns)?;
            records::convert_table(rows, columns, draft);
        }
    }
    Ok(())
}

/// Why a column that the user names cannot be used.
fn unknown_column(rows: &Rows, columns: &Columns) -> Option<String> {
    let (flag, name) = columns.named().find(|(_, name)| !has_path(rows, name))?;
    Some(format!(
        "{flag} names the column `{}`, but its columns are {}",
        draft::short(name),
        rows.named_columns()
    ))
}

/// Whether the first part of a column's path exists.
fn has_path(rows: &Rows, name: &str) -> bool {
    rows.has(name)
        || name
            .split_once('.')
            .is_some_and(|(first, _)| rows.has(first))
}

/// A table needs its columns; without them, every row would be reported alone.
fn require(rows: &Rows, shape: &datasets::Shape, columns: &Columns) -> Result<(), String> {
    let (input, expected) = records::chosen(rows, shape, columns);
    let lacking = match (input, expected) {
        (None, _) => Some(("--input", shape.input)),
        (_, None) => Some(("--expected", shape.expected)),
        _ => None,
    };
    match lacking {
        Some((flag, usual)) => Err(format!(
            "it has no column {}; its columns are {}. Name a column with {flag}",
            usual
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(" or "),
            rows.named_columns()
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
