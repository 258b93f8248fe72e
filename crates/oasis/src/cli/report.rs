//! `touchstone oasis report`: write the report of an evaluation (OASIS.md section 10).

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use axum::http::Method;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::client::transport::Call;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_runs::cli::run::reference::resolve_all;

pub const EXAMPLES: &str = "\
The report contains the agent's inputs and answers. Needs read access to the run.
The HTML report is one file without scripts or external resources.

Exit codes: 0 written, 2 no such evaluation, or it has no verdict, 3 could not complete.

Examples:
  touchstone oasis report run_0199c0de
  touchstone oasis report run_0199c0de --output report.html
  touchstone oasis report run_0199c0de --format yaml --output -
  touchstone oasis report run_0199c0de --format verdict --output verdict.json";

#[derive(Debug, Args)]
pub struct Arguments {
    /// Run id
    #[arg(value_name = "RUN", value_parser = touchstone_runs::cli::run::run_id)]
    run: String,
    /// File to write; `-` for stdout
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Format [default: by file name; Markdown on stdout]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Form>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// HTML page
    Html,
    /// Markdown
    Md,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Only the verdict document, as JSON, for `oasis verify`
    Verdict,
}

impl Form {
    /// Name of the format in the API.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Md => "markdown",
            Self::Json => "json",
            Self::Yaml => "yaml",
            Self::Verdict => "verdict",
        }
    }

    /// The format for a file's extension.
    ///
    /// # Errors
    /// The extension is unknown.
    pub fn of(file: &Path) -> Result<Self, Failure> {
        let extension = file.extension().and_then(|it| it.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("html" | "htm") => Ok(Self::Html),
            Some("md" | "markdown") => Ok(Self::Md),
            Some("json") => Ok(Self::Json),
            Some("yaml" | "yml") => Ok(Self::Yaml),
            _ => Err(Failure::usage(format!(
                "cannot determine the report format from the file name {}",
                file.display()
            ))
            .or_try("use the extension .html, .md, .json or .yaml")),
        }
    }
}

impl Arguments {
    fn is_stdout(&self) -> bool {
        self.output == Path::new("-")
    }

    fn form(&self, json: bool) -> Result<Form, Failure> {
        match self.format {
            Some(form) => Ok(form),
            None if self.is_stdout() && json => Ok(Form::Json),
            None if self.is_stdout() => Ok(Form::Md),
            None => Form::of(&self.output),
        }
    }
}

pub async fn run(context: &Context<'_>, mut arguments: Arguments) -> Result<Exit, Failure> {
    let terminal = context.terminal();
    let form = arguments.form(terminal.json())?;
    if terminal.json() && arguments.is_stdout() && !matches!(form, Form::Json | Form::Verdict) {
        return Err(
            Failure::usage("--json prints JSON, but --format selects another format")
                .or_try("omit --json, or write to a file with --output"),
        );
    }
    resolve_all(context, vec![&mut arguments.run]).await?;
    let session = context.read().await?;
    let bytes = fetch(session.client(), &arguments.run, form)
        .await
        .map_err(|failure| advised(context, &arguments.run, failure))?;
    if arguments.is_stdout() {
        terminal.octets(&bytes);
        return Ok(Exit::Good);
    }
    write(&arguments.output, &bytes)?;
    if terminal.json() {
        let file = arguments.output.display().to_string();
        terminal.document(
            &json!({"ok": true, "runId": arguments.run, "format": form.as_str(), "file": file}),
        );
    } else {
        terminal.note(&format!("written to {}", arguments.output.display()));
    }
    Ok(Exit::Good)
}

/// The report of a run.
///
/// # Errors
/// The host's error response.
pub async fn fetch(client: &Client, run: &str, form: Form) -> Result<Vec<u8>, Failure> {
    let place = format!("/v1/host/touchstone/runs/{run}");
    let path = match form {
        Form::Verdict => format!("{place}/oasis-verdict"),
        form => format!("{place}/oasis-report?format={}", form.as_str()),
    };
    client.octets(Call::new(Method::GET, &path)).await
}

pub fn write(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(file, bytes).map_err(|cause| {
        Failure::not_done(
            "file_not_written",
            format!("could not write {}: {cause}", file.display()),
        )
        .or_try("choose another file")
    })
}

/// Adds a remedy to a missing report.
fn advised(context: &Context<'_>, run: &str, failure: Failure) -> Failure {
    let program = context.program();
    match &*failure.code {
        "oasis_run_not_terminal" => failure.or_try(format!("{program} run events {run} --follow")),
        "oasis_no_verdict" => {
            let items = failure
                .details
                .get("refusal")
                .and_then(|it| it.get("items"));
            let keys: Vec<&str> = items
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|it| it.get("key")?.as_str())
                .collect();
            match keys.as_slice() {
                [] => failure.or_try(format!("{program} run show {run}")),
                keys => {
                    let keys = touchstone_host::render::words::plain(&keys.join(", "));
                    failure.or_try(format!("fix {keys}, then run the evaluation again"))
                }
            }
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("a.html", Some(Form::Html))]
    #[case("a.HTM", Some(Form::Html))]
    #[case("a/b.md", Some(Form::Md))]
    #[case("a.json", Some(Form::Json))]
    #[case("a.yml", Some(Form::Yaml))]
    #[case("a.pdf", None)]
    #[case("html", None)]
    fn the_report_format_is_chosen_by_the_file_extension(
        #[case] file: &str,
        #[case] expected: Option<Form>,
    ) {
        assert_eq!(Form::of(Path::new(file)).ok(), expected);
    }
}
