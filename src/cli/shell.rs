//! `touchstone completions` and `touchstone man`: what packages install beside the program.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory, ValueEnum};
use clap_complete::Shell;

use crate::cli::Cli;
use touchstone_host::cli::exit::{Exit, Failure};

/// Print the script that completes commands in a shell
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  touchstone completions bash\n  touchstone completions zsh\n  touchstone completions fish"
)]
pub struct Completions {
    /// The shell that reads the script
    #[arg(value_name = "SHELL")]
    shell: ShellName,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ShellName {
    Bash,
    Fish,
    Zsh,
}

impl From<ShellName> for Shell {
    fn from(name: ShellName) -> Self {
        match name {
            ShellName::Bash => Self::Bash,
            ShellName::Fish => Self::Fish,
            ShellName::Zsh => Self::Zsh,
        }
    }
}

/// Write the manual pages of all commands
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  touchstone man --out ./man1")]
pub struct Man {
    /// Folder for the pages; it is created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// # Errors
/// The script cannot be written to the standard output.
pub fn completions(arguments: &Completions) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(
        Shell::from(arguments.shell),
        &mut Cli::command(),
        "touchstone",
        &mut script,
    );
    match std::io::stdout().write_all(&script) {
        Ok(()) => Ok(Exit::Good),
        // A reader such as `head` has enough.
        Err(cause) if cause.kind() == std::io::ErrorKind::BrokenPipe => Ok(Exit::Good),
        Err(cause) => Err(Failure::not_done(
            "output_failed",
            format!("could not write the script: {cause}"),
        )),
    }
}

/// # Errors
/// A page cannot be written.
pub fn man(arguments: &Man) -> Result<Exit, Failure> {
    let out = &arguments.out;
    let failed = |path: &Path, cause: &std::io::Error| {
        Failure::bad_input(
            "output_failed",
            format!("could not write {}: {cause}", path.display()),
        )
        .or_try("name a folder that you may write to with --out")
    };
    std::fs::create_dir_all(out).map_err(|cause| failed(out, &cause))?;
    let pages = pages(Cli::command()).map_err(|cause| failed(out, &cause))?;
    for (name, page) in pages {
        let path = out.join(format!("{name}.1"));
        std::fs::write(&path, page).map_err(|cause| failed(&path, &cause))?;
    }
    Ok(Exit::Good)
}

/// The pages of a command and all commands below it, with their names: `touchstone-run-show`.
fn pages(root: Command) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    // The names of the commands below are complete only in a built command.
    let mut root = root.disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    let mut waiting = vec![root];
    while let Some(mut command) = waiting.pop() {
        waiting.extend(
            command
                .get_subcommands()
                .filter(|it| !it.is_hide_set())
                .cloned(),
        );
        let name = command
            .get_display_name()
            .unwrap_or_else(|| command.get_name())
            .to_owned();
        let usage = command.render_usage().to_string();
        let mut page = Vec::new();
        // The date stays empty, so that the same program writes the same pages.
        let page_of = clap_mangen::Man::new(command).date("").manual("Touchstone");
        page_of.render(&mut page)?;
        pages.push((name, with_usage(&String::from_utf8_lossy(&page), &usage)));
    }
    pages.sort();
    Ok(pages)
}

/// The page with the usage of the help as its synopsis: that of `clap_mangen` lists every option
/// without its value.
fn with_usage(page: &str, usage: &str) -> Vec<u8> {
    let parts = page
        .split_once(".SH SYNOPSIS\n")
        .and_then(|(before, rest)| {
            let (_, after) = rest.split_once("\n.SH ")?;
            Some((before, after))
        });
    let Some((before, after)) = parts else {
        return page.as_bytes().to_vec();
    };
    let usage = usage.trim_start_matches("Usage:").lines();
    let lines: Vec<String> = usage
        .map(|line| line.trim().replace('\\', "\\\\").replace('-', "\\-"))
        .collect();
    let synopsis = lines.join("\n.br\n");
    format!("{before}.SH SYNOPSIS\n{synopsis}\n.SH {after}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_its_examples() {
        let pages = pages(Cli::command()).unwrap();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in ["touchstone", "touchstone-eval", "touchstone-run-show"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        for (name, page) in &pages {
            let page = String::from_utf8(page.clone()).unwrap();
            assert!(page.contains("Examples:"), "{name}");
        }
        let page = |wanted: &str| {
            let found = pages.iter().find(|(name, _)| name == wanted).unwrap();
            String::from_utf8(found.1.clone()).unwrap()
        };
        let page = page("touchstone-run-show");
        let synopsis = ".SH SYNOPSIS\ntouchstone run show [OPTIONS] <RUN>\n.SH DESCRIPTION\n";
        assert!(page.contains(synopsis), "{page}");
    }
}
