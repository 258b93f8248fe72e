//! `touchstone rating badge ASSESSMENT`: export the badge of a rating.

use std::path::{Path, PathBuf};

use axum::http::Method;
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::cli as rating;
use crate::cli::API;
use crate::render::view::AssessmentView;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::client::transport::Call;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::retry::retry_until_answered;
use touchstone_host::render::words::plain;

#[derive(Debug, Args)]
#[group(skip)]
pub struct Arguments {
    /// Assessment id; or an agent's name or id, for its latest rating
    #[arg(value_name = "ASSESSMENT", required = true)]
    of: Option<String>,
    /// Format; separate several with commas [default: by file extension; Markdown on stdout]
    #[arg(long, value_name = "FORMAT", value_delimiter = ',')]
    format: Vec<Format>,
    /// Output file, or `-` for stdout; with several formats, a folder or a file name without
    /// extension [default: stdout for one format; files named after the assessment for several]
    #[arg(
        long,
        short,
        value_name = "FILE",
        default_value = "-",
        hide_default_value = true
    )]
    output: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Svg,
    Png,
    Json,
    Md,
    Credential,
}

impl Format {
    /// Path suffix below the badge's URL.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Svg => ".svg",
            Self::Png => ".png",
            Self::Json => ".json",
            Self::Md => ".md",
            Self::Credential => "/credential",
        }
    }

    const fn extension(self) -> &'static str {
        match self {
            Self::Credential => ".credential.json",
            other => other.suffix(),
        }
    }
}

impl Arguments {
    fn is_stdout(&self) -> bool {
        self.output == Path::new("-")
    }

    fn format(&self) -> Result<Format, Failure> {
        if let Some(format) = self.format.first() {
            return Ok(*format);
        }
        let extension = self.output.extension().and_then(|it| it.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("svg") => Ok(Format::Svg),
            Some("png") => Ok(Format::Png),
            Some("json") => Ok(Format::Json),
            Some("md") => Ok(Format::Md),
            None if self.is_stdout() => Ok(Format::Md),
            _ => Err(Failure::usage(format!(
                "cannot determine the badge format from the file name {}",
                self.output.display()
            ))
            .or_try("use the extension .svg, .png, .json or .md, or add --format")),
        }
    }
}

pub async fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    if arguments.format.len() > 1 {
        return export_several(context, arguments).await;
    }
    let format = arguments.format()?;
    let terminal = context.terminal();
    if format == Format::Png && arguments.is_stdout() && (terminal.is_watched() || terminal.json())
    {
        return Err(
            Failure::usage("cannot print a picture to a terminal").or_try("--output badge.png")
        );
    }
    let session = context.read().await?;
    let named = arguments.of.as_deref().unwrap_or_default();
    let exported = export(session.client(), named, &[format]).await;
    let ExportedBadge { badge, files, .. } = exported?;
    let bytes = files.into_iter().next().unwrap_or_default();
    if arguments.is_stdout() {
        terminal.octets(&bytes);
        if !bytes.ends_with(b"\n") && format != Format::Png {
            terminal.octets(b"\n");
        }
        return Ok(Exit::Good);
    }
    let file = &arguments.output;
    rating::write(file, &bytes)?;
    if terminal.json() {
        terminal.document(&json!({"ok": true, "badge_id": badge, "output": file}));
    } else {
        terminal.note(&format!("written to {}", file.display()));
    }
    Ok(Exit::Good)
}

/// Writes a badge in several formats, one file each.
async fn export_several(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let named = arguments.of.as_deref().unwrap_or_default();
    let exported = export(session.client(), named, &arguments.format).await?;
    let output = &arguments.output;
    let stem = if arguments.is_stdout() {
        PathBuf::from(&exported.assessment)
    } else if output.is_dir() || output.as_os_str().as_encoded_bytes().ends_with(b"/") {
        touchstone_host::cli::files::folder(output)?.join(&exported.assessment)
    } else {
        output.clone()
    };
    let terminal = context.terminal();
    let mut files = Vec::new();
    for (format, bytes) in arguments.format.iter().zip(&exported.files) {
        // A dot in the stem is part of the name: an agent may be called `v1.2`.
        let mut file = stem.clone().into_os_string();
        file.push(format.extension());
        let file = PathBuf::from(file);
        rating::write(&file, bytes)?;
        if !terminal.json() {
            terminal.note(&format!("written to {}", file.display()));
        }
        files.push(file);
    }
    if terminal.json() {
        terminal.document(&json!({"ok": true, "badge_id": exported.badge, "outputs": files}));
    }
    Ok(Exit::Good)
}

/// A badge in the requested formats.
struct ExportedBadge {
    assessment: String,
    badge: String,
    files: Vec<Vec<u8>>,
}

async fn export(
    client: &Client,
    named: &str,
    formats: &[Format],
) -> Result<ExportedBadge, Failure> {
    let assessed: AssessmentView = rating::assessment(client, named).await?;
    let state = assessed.badge_state.as_deref().unwrap_or("none");
    let none = || {
        let failure = match state {
            "withheld" => Failure::new(
                Exit::Negative,
                "REVIEW_REQUIRED",
                "the badge is withheld until a person reviews the assessment",
            )
            .or_try("run touchstone rating review with the key of a principal who did not request the assessment"),
            _ => Failure::new(
                Exit::Negative,
                "NOT_FOUND",
                match &assessed.not_certified {
                    Some(why) => {
                        format!(
                            "assessment {} has no badge: {}",
                            plain(&assessed.id),
                            plain(why)
                        )
                    }
                    None => format!("assessment {} has no badge", plain(&assessed.id)),
                },
            )
            .or_try("choose an assessment that rated both axes"),
        };
        failure.with("badge_state", state)
    };
    let badge = assessed.badge_id.clone().ok_or_else(none)?;
    if matches!(state, "withheld" | "rejected") {
        return Err(none());
    }
    let mut exported = Vec::new();
    for format in formats {
        // By the id of the assessment, the scores in JSON are numbers, as in the specification.
        let path = format!("{API}/badges/{}{}", assessed.id, format.suffix());
        exported.push(retry_until_answered(|| client.octets(Call::new(Method::GET, &path))).await?);
    }
    Ok(ExportedBadge {
        assessment: assessed.id,
        badge,
        files: exported,
    })
}
