//! `touchstone badge ASSESSMENT`: the badge of a rating, in one of its forms.

use std::path::{Path, PathBuf};

use axum::http::Method;
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::cli::client::{Call, Client};
use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::cli::patience::persistently;
use crate::cli::rating::{self, API};
use crate::render::plain;
use crate::render::rating::view::Assessed;

/// Which badge, and how.
#[derive(Debug, Args)]
#[group(skip)]
pub struct Arguments {
    /// The assessment, by id; or an agent, by name or id, for its last rating
    #[arg(value_name = "ASSESSMENT", required = true)]
    of: Option<String>,
    /// Its form [default: by the name of the file, and Markdown on stdout]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Form>,
    /// Where to write it; `-` for stdout
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Svg,
    Png,
    Json,
    Md,
    Credential,
}

impl Form {
    /// Where it is, below the badge.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Svg => ".svg",
            Self::Png => ".png",
            Self::Json => ".json",
            Self::Md => ".md",
            Self::Credential => "/credential",
        }
    }
}

impl Arguments {
    fn is_stdout(&self) -> bool {
        self.output == Path::new("-")
    }

    fn form(&self) -> Result<Form, Failure> {
        if let Some(form) = self.format {
            return Ok(form);
        }
        let extension = self.output.extension().and_then(|it| it.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("svg") => Ok(Form::Svg),
            Some("png") => Ok(Form::Png),
            Some("json") => Ok(Form::Json),
            Some("md") => Ok(Form::Md),
            None if self.is_stdout() => Ok(Form::Md),
            _ => Err(Failure::usage(format!(
                "the name {} does not tell the form of the badge",
                self.output.display()
            ))
            .or_try("end it in .svg, .png, .json or .md, or add --format")),
        }
    }
}

/// Runs the command.
pub async fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    let form = arguments.form()?;
    let terminal = context.terminal();
    if form == Form::Png && arguments.is_stdout() && (terminal.is_watched() || terminal.json()) {
        return Err(Failure::usage("a picture is nothing to read").or_try("--output badge.png"));
    }
    let session = context.look().await?;
    let named = arguments.of.as_deref().unwrap_or_default();
    let taken = take(session.client(), named, form).await;
    let (badge, octets) = taken.map_err(|failure| rating::told(context, failure))?;
    if arguments.is_stdout() {
        terminal.octets(&octets);
        if !octets.ends_with(b"\n") && form != Form::Png {
            terminal.octets(b"\n");
        }
        return Ok(Exit::Good);
    }
    let file = &arguments.output;
    std::fs::write(file, octets).map_err(|cause| {
        let text = format!("{} cannot be written: {cause}", file.display());
        rating::told(context, Failure::not_done("file_not_written", text))
    })?;
    if terminal.json() {
        terminal.document(&json!({"ok": true, "badge_id": badge, "output": file}));
    } else {
        terminal.note(&format!("written to {}", file.display()));
    }
    Ok(Exit::Good)
}

/// The badge's id, and the badge.
async fn take(client: &Client, named: &str, form: Form) -> Result<(String, Vec<u8>), Failure> {
    let assessed: Assessed = rating::assessment(client, named).await?;
    let state = assessed.badge_state.as_deref().unwrap_or("none");
    let none = || {
        let failure = match state {
            "withheld" => Failure::new(
                Exit::Negative,
                "REVIEW_REQUIRED",
                "the badge is withheld until a person has decided about the assessment",
            )
            .or_try("touchstone rating review, with the key of a principal who did not ask for the assessment"),
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
            .or_try("an assessment that rated both axes"),
        };
        failure.with("badge_state", state)
    };
    let badge = assessed.badge_id.clone().ok_or_else(none)?;
    if matches!(state, "withheld" | "rejected") {
        return Err(none());
    }
    let path = format!("{API}/badges/{badge}{}", form.suffix());
    let octets = persistently(|| client.octets(Call::new(Method::GET, &path))).await?;
    Ok((badge, octets))
}
