//! `touchstone run tag`: add tags to a run, or remove them.

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cli::output::print_result;
use crate::cli::run::run_id;
use crate::rules::run::request::MAX_TAG_CHARS;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::render::words::plain;

#[derive(Debug, Args)]
pub struct Tag {
    /// Run: its id or a unique start of it, `latest` or `latest-passed`
    #[arg(value_name = "RUN", value_parser = run_id)]
    pub(super) run: String,
    /// Tags, up to 256 characters each
    #[arg(value_name = "TAG", required = true, value_parser = tag)]
    tags: Vec<String>,
    /// Remove the tags instead of adding them
    #[arg(long)]
    remove: bool,
}

/// Parses the tag of a run.
///
/// # Errors
/// A message with the permitted length.
pub fn tag(text: &str) -> Result<String, String> {
    let is_valid = (1..=MAX_TAG_CHARS).contains(&text.chars().count());
    let message = || format!("a tag has 1 to {MAX_TAG_CHARS} characters");
    is_valid.then(|| text.to_owned()).ok_or_else(message)
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Tagged {
    run_id: String,
    tags: Vec<String>,
}

pub async fn run(context: &Context<'_>, arguments: &Tag) -> Result<Exit, Failure> {
    let change = if arguments.remove { "remove" } else { "add" };
    let session = context.read().await?;
    let path = format!("/v1/host/touchstone/runs/{}:tag", arguments.run);
    let body = json!({change: arguments.tags});
    let tagged: Tagged = session.client().post(&path, &body).await?;
    print_result(context.terminal(), &tagged, || {
        let tags = match tagged.tags.as_slice() {
            [] => "no tags".to_owned(),
            tags => plain(&tags.join(", ")),
        };
        format!("{}  {tags}", tagged.run_id)
    });
    Ok(Exit::Good)
}
