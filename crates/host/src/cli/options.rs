use std::path::PathBuf;

use clap::Args;
use secrecy::SecretString;
use url::Url;

/// Parses an http or https URL.
///
/// # Errors
/// A message with an example URL.
pub fn address(text: &str) -> Result<Url, String> {
    Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"))
        .ok_or_else(|| "must be an http or https URL, such as http://127.0.0.1:7800".to_owned())
}

/// A message of the API with options of the command line instead of members of the request. In
/// `options`, a longer name precedes its own start.
pub fn with_options(message: &str, options: &[(&str, &str)]) -> String {
    options
        .iter()
        .fold(message.to_owned(), |text, (member, option)| {
            text.replace(&format!("`{member}`"), option)
                .replace(member, option)
        })
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Options for every command")]
pub struct Global {
    /// Print JSON to stdout, including errors
    #[arg(long, global = true)]
    pub json: bool,

    /// URL of a host to use instead of the data folder
    #[arg(long, global = true, value_name = "URL", env = "TOUCHSTONE_SERVER", value_parser = address)]
    pub server: Option<Url>,

    /// API key for the host of --server
    #[arg(
        long,
        global = true,
        value_name = "KEY",
        env = "TOUCHSTONE_KEY",
        hide_env_values = true
    )]
    pub key: Option<SecretString>,

    /// Data folder with the embedded database [default: .touchstone] [env: TOUCHSTONE_DATA]
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// PostgreSQL URL, instead of the embedded database [env: TOUCHSTONE_DATABASE_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub database_url: Option<SecretString>,

    /// Configuration file [default: touchstone.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE", env = "TOUCHSTONE_CONFIG")]
    pub config: Option<PathBuf>,

    /// Disable colours, like NO_COLOR
    #[arg(long, global = true)]
    pub no_color: bool,
}
