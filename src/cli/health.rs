//! `touchstone health`: ask a host whether it is ready, for health checks without another program.

use clap::Args;
use serde_json::Value;
use url::Url;

use crate::cli::embedded;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::client::remote::Remote;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};

const EXAMPLES: &str = "\
Without --server, asks the host that listens on the configured address (`listen`). Needs no key.

Exit codes: 0 the host is ready, 1 it is not ready or does not answer, 2 bad input.

Examples:
  touchstone health
  touchstone health --server http://127.0.0.1:7800";

/// Ask a running host whether it is ready
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {}

pub async fn run(context: &Context<'_>, _: Arguments) -> Result<Exit, Failure> {
    let url = match context.server() {
        Some(url) => url.clone(),
        None => local(&embedded::config(context.global())?.listen)?,
    };
    let client = Client::new(Remote::new(&url, None)?);
    let answer: Value = client.get("/readyz").await.map_err(|failure| Failure {
        exit: Exit::Negative,
        ..failure
    })?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&answer);
    } else {
        terminal.print("ready");
    }
    Ok(Exit::Good)
}

/// Where a host that listens on this address is reached from the same machine.
fn local(listen: &str) -> Result<Url, Failure> {
    let reachable = match listen.rsplit_once(':') {
        Some(("0.0.0.0" | "", port)) => format!("127.0.0.1:{port}"),
        Some(("[::]", port)) => format!("[::1]:{port}"),
        _ => listen.to_owned(),
    };
    Url::parse(&format!("http://{reachable}")).map_err(|cause| {
        Failure::usage(format!("`listen` is not an address: `{listen}`: {cause}"))
            .or_try("use an address with a port, such as 127.0.0.1:7800")
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("127.0.0.1:7800", "http://127.0.0.1:7800/")]
    #[case("0.0.0.0:7800", "http://127.0.0.1:7800/")]
    #[case("[::]:80", "http://[::1]/")]
    #[case("evals.internal:7800", "http://evals.internal:7800/")]
    fn an_address_of_all_interfaces_is_asked_on_the_loopback_one(
        #[case] listen: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(local(listen).unwrap().as_str(), expected);
    }
}
