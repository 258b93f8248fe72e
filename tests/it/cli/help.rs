//! Help texts, and usage errors that name the remedy.

use clap::CommandFactory;
use rstest::rstest;
use touchstone::cli::Cli;

use super::home::{Done, Home, touchstone};

fn walk(command: &clap::Command, path: &mut Vec<String>, visit: &mut impl FnMut(&[String])) {
    visit(path);
    for sub in command
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help")
    {
        path.push(sub.get_name().to_owned());
        walk(sub, path, visit);
        path.pop();
    }
}

#[test]
fn every_command_has_help_with_examples_that_parse() {
    let mut seen = 0;
    walk(&Cli::command(), &mut Vec::new(), &mut |path| {
        seen += 1;
        let done = Done::of(touchstone().args(path).arg("--help"));
        assert_eq!(done.code, 0);
        let (_, examples) = done
            .stdout
            .split_once("Examples:\n")
            .unwrap_or_else(|| panic!("no examples: {path:?}"));
        let pieces: Vec<&str> = examples.split("\\\n").map(str::trim_start).collect();
        let joined = pieces.join("");
        let commands: Vec<&str> = joined
            .lines()
            .filter(|line| line.trim_start().starts_with("touchstone "))
            .collect();
        assert!(!commands.is_empty(), "{path:?}");
        for line in commands {
            // Text after two blanks, a pipe or `&&` belongs to another command.
            let line = line
                .trim()
                .split("   ")
                .next()
                .unwrap()
                .split(" | ")
                .next()
                .unwrap()
                .split(" && ")
                .next()
                .unwrap();
            let words: Vec<String> = line
                .split_whitespace()
                .map(|word| word.trim_matches('\'').to_owned())
                .collect();
            let words: Vec<String> = if line.contains("'wrong model'") {
                words.into_iter().filter(|word| word != "model").collect()
            } else {
                words
            };
            if let Err(error) = Cli::command().try_get_matches_from(&words) {
                panic!("{line}\n{error}");
            }
        }
    });
    assert!(seen > 20, "{seen}");
}

#[test]
fn the_exit_codes_are_documented() {
    let help = Done::of(touchstone().arg("--help")).stdout;
    for code in [
        "0  good",
        "1  the verdict is negative",
        "2  bad input",
        "3  could not",
        "4  inconclusive",
    ] {
        assert!(help.contains(code), "{code}: {help}");
    }
}

#[test]
fn names_of_the_specification_and_earlier_names_are_hidden_aliases() {
    let cli = Cli::command();
    let rating = cli.find_subcommand("rating").unwrap();
    let options = |command: &clap::Command| -> Vec<String> {
        let arguments = command.get_arguments();
        arguments.map(|it| it.get_id().to_string()).collect()
    };
    for name in [
        "enroll",
        "collect",
        "assess",
        "stress-test",
        "report",
        "badge",
    ] {
        let alias = cli.find_subcommand(name).unwrap();
        let command = rating.find_subcommand(name).unwrap();
        assert!(alias.is_hide_set() && !command.is_hide_set(), "{name}");
        assert_eq!(options(alias), options(command), "{name}");
    }
    let attest = cli.find_subcommand("attest").unwrap();
    let verify = cli.find_subcommand("verify").unwrap();
    assert!(verify.is_hide_set());
    assert_eq!(
        options(verify),
        options(attest.find_subcommand("verify").unwrap())
    );
    let score = cli.find_subcommand("aaaf").unwrap();
    assert!(score.is_hide_set() && score.find_subcommand("score").is_some());
    assert!(rating.find_subcommand("score").is_some());
}

#[rstest]
#[case(&["pack"], "of a pack")]
#[case(&["rating", "badge"], "a rating badge")]
#[case(&["attest"], "verdict of a run")]
#[case(&["audit"], "of the audit log")]
#[case(&["oasis"], "OASIS verdict documents")]
fn each_verify_command_names_what_it_verifies(#[case] path: &[&str], #[case] kind: &str) {
    let mut command = &Cli::command();
    for name in path.iter().chain(&["verify"]) {
        command = command.find_subcommand(name).unwrap();
    }
    let about = command.get_about().unwrap().to_string();
    assert!(about.contains(kind), "{about}");
}

#[rstest]
#[case::unknown_command(&["evaluate"])]
#[case::missing_agent(&["eval", "vendor.acme.evals.triage@1.0.0"])]
#[case::run_id(&["run", "show", "../keys"])]
#[case::model_without_url(&["eval", "x@1.0.0", "--agent", "a", "--model", "m"])]
#[case::suite_without_version(&["eval", "vendor.acme.evals.triage", "--agent", "a"])]
#[case::pointer_without_slash(&["eval", "vendor.acme.evals.triage@1.0.0", "--agent", "a", "--ignore", "rationale"])]
#[case::negative_budget(&["eval", "vendor.acme.evals.triage@1.0.0", "--agent", "a", "--max-cost-usd", "-1"])]
#[case::host_without_scheme(&["--server", "127.0.0.1:7800", "suite", "list"])]
#[case::host_with_a_port_only(&["--server", "localhost:7800", "suite", "list"])]
#[case::model_by_ftp(&["eval", "vendor.acme.evals.triage@1.0.0", "--agent", "a", "--model-url", "ftp://x", "--model", "m"])]
#[case::unknown_scope(&["key", "create", "--tenant", "t", "--scope", "everything"])]
fn bad_usage_exits_2_in_words_and_in_json(#[case] arguments: &[&str]) {
    let home = Home::empty();
    let done = home.run(arguments);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (2, ""),
        "{}",
        done.stderr
    );
    assert!(done.stderr.starts_with("error: "), "{}", done.stderr);
    let done = home.run(&[&["--json"], arguments].concat());
    assert_eq!(done.code, 2);
    let document = done.document();
    assert_eq!(document["ok"], false);
    assert_eq!(document["error"]["code"], "usage");
    assert!(!document["error"]["message"].as_str().unwrap().is_empty());
}

#[test]
fn environment_variables_of_other_commands_are_ignored() {
    let home = Home::empty();
    let with = |arguments: &[&str]| {
        Done::of(
            home.touchstone()
                .env("TOUCHSTONE_SERVER", "http://127.0.0.1:9")
                .env("TOUCHSTONE_KEY", "tsk_1_2")
                .args(arguments),
        )
    };
    let nothing = Done::of(
        home.touchstone()
            .env("TOUCHSTONE_SERVER", "")
            .args(["suite", "list"]),
    );
    assert_eq!(nothing.code, 0, "{}", nothing.stderr);
    let done = with(&["pack", "init", "triage", "--name", "vendor.acme.triage"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(with(&["pack", "lint", "triage"]).code, 0);
    // Commands that act locally and not on the host are refused as well.
    for arguments in [&["serve"][..], &["key", "list"], &["demo"]] {
        let done = with(arguments);
        assert_eq!(done.code, 2, "{}", done.stderr);
        assert!(
            done.stderr.contains("unset TOUCHSTONE_SERVER"),
            "{}",
            done.stderr
        );
    }
}

#[rstest]
#[case::model_of_a_host(&["--server", "http://127.0.0.1:9", "eval", "vendor.acme.evals.x@1.0.0", "--agent", "a", "--model-url", "http://127.0.0.1:8/v1", "--model", "m"], 2, "--model-url")]
#[case::two_stores(&["--server", "http://127.0.0.1:9", "--data", "d", "run", "show", "run_1"], 2, "--data")]
#[case::keys_of_a_host(&["--server", "http://127.0.0.1:9", "key", "list"], 2, "keys")]
#[case::backup_of_a_host(&["--server", "http://127.0.0.1:9", "backup", "b.tar"], 2, "`touchstone backup`")]
#[case::backup_of_nothing(&["backup", "b.tar"], 2, "touchstone.db")]
#[case::backup_of_a_server(&["--database-url", "postgres://127.0.0.1:9/x", "backup", "b.tar"], 2, "PostgreSQL")]
#[case::restore_to_a_server(&["--database-url", "postgres://127.0.0.1:9/x", "restore", "b.tar"], 2, "data folder")]
#[case::restore_of_nothing(&["restore", "b.tar"], 2, "b.tar")]
#[case::restore_of_another_file(&["restore", "answers.json"], 2, "answers.json")]
#[case::take_over_of_nothing(&["restore", "--take-over"], 2, "no database")]
#[case::serving_another_host(&["serve", "--server", "http://127.0.0.1:9"], 2, "`touchstone serve`")]
#[case::serving_with_a_key(&["serve", "--key", "tsk_1_2"], 2, "--key does not apply")]
#[case::demo_of_a_host(&["demo", "--server", "http://127.0.0.1:9"], 2, "its own host")]
#[case::demo_somewhere(&["demo", "--data", "d"], 2, "--data does not apply")]
#[case::demo_configured(&["demo", "--config", "touchstone.toml"], 2, "--config does not apply")]
#[case::lint_at_a_host(&["--server", "http://127.0.0.1:9", "pack", "lint", "p"], 2, "`touchstone pack lint`")]
#[case::verify_at_a_host(&["pack", "verify", "p.tgz", "--server", "http://127.0.0.1:9"], 2, "only reads files")]
#[case::suite_lint_in_a_store(&["suite", "lint", "s.json", "--data", "d"], 2, "--data")]
#[case::key_for_nobody(&["--key", "tsk_1_2", "run", "show", "run_1"], 2, "--server")]
#[case::config_of_a_host(&["--server", "http://127.0.0.1:9", "--config", "touchstone.toml", "run", "show", "run_1"], 2, "--config")]
#[case::nobody_there(&["--server", "http://127.0.0.1:9", "run", "show", "run_1"], 3, "127.0.0.1:9")]
#[case::nobodys_database(&["--database-url", "mysql://x", "key", "list"], 2, "database_url")]
#[case::nobody_at_the_database(&["--database-url", "postgres://127.0.0.1:9/x", "key", "list"], 3, "database")]
#[case::folder_that_is_a_file(&["--data", "answers.json", "key", "list"], 3, "answers.json")]
#[case::nothing_installed(&["eval", "vendor.acme.evals.triage@1.0.0", "--agent", "a"], 2, "there is no suite")]
#[case::key_without_a_folder(&["pack", "keygen", "--out", "no/such/key.pem", "--key-id", "a"], 2, "no/such/key")]
#[case::no_toml(&["--config", "answers.json", "key", "list"], 2, "answers.json: TOML parse error at line 1")]
#[case::no_such_config(&["--config", "missing.toml", "key", "list"], 2, "missing.toml")]
fn unsupported_option_combinations_fail_with_a_remedy(
    #[case] arguments: &[&str],
    #[case] code: i32,
    #[case] names: &str,
) {
    let done = Home::empty().run(arguments);
    assert_eq!(done.code, code, "{}", done.stderr);
    let mut lines = done.stderr.lines();
    let (what, next) = (lines.next().unwrap(), lines.next());
    assert!(
        what.starts_with("error: ") && what.contains(names),
        "{}",
        done.stderr
    );
    assert!(
        next.is_some_and(|next| next.starts_with("  try: ")),
        "{}",
        done.stderr
    );
    assert_eq!(lines.next(), None);
}
