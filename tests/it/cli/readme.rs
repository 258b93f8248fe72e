//! The commands in the documentation must work.

use std::path::Path;

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use tokio_util::sync::CancellationToken;
use touchstone::cli::Cli;
use touchstone::config::Config;
use touchstone::demo::standin;

use super::home::{Done, Home};

fn document(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The first fenced block of a language after a heading.
fn block<'a>(text: &'a str, heading: &str, language: &str) -> &'a str {
    let (_, section) = text.split_once(heading).unwrap();
    let (_, block) = section.split_once(&format!("```{language}\n")).unwrap();
    block.split_once("```").unwrap().0
}

#[test]
fn an_own_agent_is_evaluated_by_the_commands_of_the_readme() {
    let readme = document("README.md");
    let (_, section) = readme.split_once("## Evaluate your own agent").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let blocks = section.split("```sh\n").skip(1);
    let commands: Vec<&str> = blocks
        .flat_map(|block| block.split("```").next().unwrap().lines())
        .collect();
    let home = Home::empty();
    std::fs::remove_file(home.path("touchstone.toml")).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let shutdown = CancellationToken::new();
    let model = runtime.block_on(standin::serve(shutdown.clone())).unwrap();
    assert!(commands.len() >= 7);
    for command in commands {
        let mut words: Vec<&str> = command.split_whitespace().collect();
        assert_eq!(words.remove(0), "touchstone");
        // The reader's model is not available; the stand-in is, and it does not know this agent's
        // labels.
        let mut judged = false;
        for at in 1..words.len() {
            match words[at - 1] {
                "--model-url" => words[at] = model.as_str(),
                "--model" => (words[at], judged) = (standin::LARGE, true),
                _ => {}
            }
        }
        let done = home.run(&words);
        let expected = i32::from(judged);
        assert_eq!(
            done.code, expected,
            "{command}\n{}{}",
            done.stdout, done.stderr
        );
        if judged {
            let mark = match command.contains('@') {
                true => "signed ✓",
                false => "UNSIGNED",
            };
            assert!(
                done.stdout.contains(mark) && done.stdout.contains("4 failed"),
                "{}",
                done.stdout
            );
        }
    }
    shutdown.cancel();
}

#[test]
fn every_setting_is_documented_and_every_documented_one_exists() {
    let text = document("docs/configuration.md");
    let example = block(&text, "## Every setting", "toml");
    let home = Home::empty();
    let file = home.path("documented.toml");
    std::fs::write(&file, example).unwrap();
    let config = Config::load(Some(&file)).unwrap();
    // `Debug` names every field of every section; deeper indentation belongs to the values.
    let shown = format!("{config:#?}");
    let fields = shown
        .lines()
        .filter(|line| line.len() - line.trim_start().len() <= 12)
        .filter_map(|line| line.trim().split_once(": "))
        .map(|(field, _)| field);
    for field in fields {
        let documented = example.lines().any(|line| {
            let line = line.trim_start_matches("# ");
            let section = [
                format!("[{field}]"),
                format!("[[{field}]]"),
                format!("[packs.{field}]"),
                format!("[[packs.{field}]]"),
                format!("[[tools.{field}]]"),
                format!("[[oasis.{field}]]"),
                format!("[ratings.{field}]"),
                format!("[console.{field}]"),
                format!("[[cluster.{field}]]"),
                format!("[[ratings.reach.{field}]]"),
                format!("[[{field}."),
            ];
            line.starts_with(&format!("{field} = ")) || section.iter().any(|s| line.starts_with(s))
        });
        assert!(documented, "`{field}` is not documented");
    }
    // The defaults shown in the example are the real defaults.
    let defaults = Config::default();
    let compared = |config: &Config| {
        format!(
            "{:?}{:?}{:?}{:?}{:?}{:?}",
            config.listen,
            config.limits,
            config.worker,
            config.quotas,
            config.retention,
            config.metrics
        )
    };
    assert_eq!(compared(&config), compared(&defaults));
}

#[test]
fn the_other_commands_of_the_documents_exist() {
    for (file, language) in [
        ("README.md", "sh"),
        ("docs/evaluate-your-agent.md", "sh"),
        ("docs/statistics.md", "sh"),
    ] {
        let text = document(file);
        for block in text.split(&format!("```{language}\n")).skip(1) {
            let block = block.split("```").next().unwrap();
            for line in block.lines() {
                let line = line.split('#').next().unwrap();
                let Some((_, command)) = line.split_once("touchstone ") else {
                    continue;
                };
                let command = command
                    .trim_end()
                    .trim_end_matches([')', '&'])
                    .replace("RUN", "run_1")
                    .replace("SUITE@VERSION", "vendor.acme.evals.triage@1.0.0")
                    .replace("KEY", "tsk_1_2");
                let mut words: Vec<&str> = command.split_whitespace().collect();
                // Only parsing is tested: a help request needs a complete command line up to that
                // point.
                words.push("--help");
                let done = Done::of(Home::empty().touchstone().args(&words));
                assert_eq!(done.code, 0, "{file}: {line}\n{}", done.stderr);
            }
        }
    }
}

/// Splits a command line into words, respecting quotes.
pub fn words_of(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for character in line.chars() {
        match quote {
            Some(open) if character == open => quote = None,
            None if matches!(character, '"' | '\'') => quote = Some(character),
            None if character.is_whitespace() => words.push(std::mem::take(&mut word)),
            _ => word.push(character),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn the_commands_of_the_guides_parse_as_printed() {
    let mut commands = 0;
    for file in [
        "ratings",
        "agent-commands",
        "backup",
        "badges",
        "cassettes",
        "configuration",
        "deployments",
        "oasis",
        "operations",
        "runs-that-wait",
        "statistics",
        "storage",
        "webhooks",
    ] {
        let text = document(&format!("docs/{file}.md"));
        for block in text.split("```sh\n").skip(1) {
            let block = block.split("```").next().unwrap().replace("\\\n", " ");
            for line in block.lines() {
                let line = line.split(" #").next().unwrap();
                let Some((before, command)) = line.split_once("touchstone ") else {
                    continue;
                };
                // Redirections are left to the shell.
                let command = command.split(" > ").next().unwrap().trim_end();
                let command = match before.ends_with("$(") {
                    true => command.trim_end_matches(')'),
                    false => command,
                };
                let suite = "vendor.acme.evals.triage@1.0.0";
                let command = command
                    .replace("SUITE@VERSION", suite)
                    .replace(" SUITE ", &format!(" {suite} "));
                let words = words_of(&format!("touchstone {command}"));
                if let Err(refused) = Cli::command().try_get_matches_from(words) {
                    panic!("docs/{file}.md: {line}\n{refused}");
                }
                commands += 1;
            }
        }
    }
    assert!(commands > 50, "{commands}");
}

/// A command within a sentence may omit required arguments; the arguments it shows must exist.
#[test]
fn commands_and_options_in_sentences_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec!["README.md".to_owned()];
    for folder in ["docs", "docs/errors", "docs/errors/ratings"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                files.push(format!("{folder}/{name}"));
            }
        }
    }
    let mut commands = 0;
    for file in files {
        let text = document(&file);
        let sentences: Vec<&str> = text.split("```").step_by(2).collect();
        for span in sentences.concat().split('`').skip(1).step_by(2) {
            if !span.starts_with("touchstone ") {
                continue;
            }
            let outcome = Cli::command().try_get_matches_from(words_of(span));
            if let Err(refused) = outcome
                && matches!(
                    refused.kind(),
                    ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand
                )
            {
                panic!("{file}: {span}\n{refused}");
            }
            commands += 1;
        }
    }
    assert!(commands > 30, "{commands}");
}

#[test]
fn ci_examples_are_valid_yaml_with_existing_commands() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ci");
    let mut commands = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|it| it != "yml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let _: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        for line in text.lines() {
            let line = line
                .trim()
                .trim_start_matches("- ")
                .trim_start_matches("run: ");
            let line = match line.split_once("$(touchstone ") {
                Some((_, command)) => {
                    format!("touchstone {}", command.split(')').next().unwrap())
                }
                None => line.to_owned(),
            };
            if !line.starts_with("touchstone ") {
                continue;
            }
            // Redirections and pipes are left to the shell.
            let line = line.split(['>', '|']).next().unwrap();
            // A variable represents one valid word.
            let line = line.replace("\"$SUITE\"", "vendor.acme.evals.triage@1.0.0");
            let line = line
                .replace("$VERSION", "1.0.0")
                .replace("\"$MODEL_URL\"", "http://127.0.0.1:1/v1");
            let line = line
                .replace("\"$RUN\"", "run_1")
                .replace("\"$BASE_RUN\"", "run_1")
                .replace("\"$HEAD_RUN\"", "run_2")
                .replace('"', "");
            let parsed = Cli::command().try_get_matches_from(line.split_whitespace());
            assert!(
                parsed.is_ok(),
                "{}: {line}: {}",
                path.display(),
                parsed.unwrap_err()
            );
            commands += 1;
        }
    }
    assert!(commands >= 26, "{commands}");
}
