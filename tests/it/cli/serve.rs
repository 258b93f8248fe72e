//! The binary as a server.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rstest::rstest;
use serde_json::json;

use super::home::{Done, Home, right_answers, touchstone};

pub struct Server {
    child: Child,
    pub url: String,
}

impl Server {
    fn start(home: &Home) -> Self {
        Self::start_with(home, &[])
    }

    fn command(home: &Home, more: &[&str]) -> Command {
        let mut command = Command::new(home.touchstone().get_program());
        command
            .current_dir(home.path(""))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TOUCHSTONE_") {
                command.env_remove(name);
            }
        }
        command
    }

    pub fn start_with(home: &Home, more: &[&str]) -> Self {
        let mut child = Self::command(home, more).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let url = line
            .trim_end()
            .strip_prefix("listening on ")
            .unwrap_or_else(|| panic!("{line:?}"))
            .to_owned();
        Self { child, url }
    }

    fn terminate(mut self) -> i32 {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &pid])
                .status()
                .unwrap()
                .success()
        );
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[rstest]
#[case::both_majors("1.0")]
#[case::major_2("2.0")]
fn it_says_where_it_listens_serves_the_same_commands_and_ends_on_sigterm(#[case] version: &str) {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let models = std::fs::read_to_string(home.config()).unwrap();
    let settings = format!("[openwop]\npreferred_version = \"{version}\"\n{models}");
    std::fs::write(home.config(), settings).unwrap();
    let key = home.run(&["key", "create", "--tenant", "default"]).stdout;
    let server = Server::start(&home);
    assert!(
        server.url.starts_with("http://127.0.0.1:"),
        "{}",
        server.url
    );

    let remote = |arguments: &[&str], key: &str| {
        let start = ["--json", "--server", &server.url, "--key", key.trim_end()];
        Home::empty().run(&[&start[..], arguments].concat())
    };
    let suite = touchstone::demo::pack::SUITE;
    let agent = touchstone::demo::pack::AGENT;
    let done = remote(&["eval", suite, "--agent", agent], &key);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let report = done.document();
    assert_eq!(report["verdict"], "pass");
    let events = remote(&["run", "events", report["runId"].as_str().unwrap()], &key);
    assert_eq!(events.code, 0, "{}", events.stdout);
    let run = report["runId"].as_str().unwrap();
    for command in [
        &["run", "show", run] as &[&str],
        &["run", "fork", run, "--mode", "replay"],
        &["run", "diff", run, run],
        &["run", "bundle", run],
        &["run", "annotate", run, "--rating", "4"],
    ] {
        let done = remote(command, &key);
        assert_eq!(done.code, 0, "{command:?}: {}{}", done.stdout, done.stderr);
    }

    let stranger = remote(
        &["run", "show", report["runId"].as_str().unwrap()],
        "tsk_x_y",
    );
    assert_eq!(
        (stranger.code, stranger.document()["error"]["code"].as_str()),
        (2, Some("unauthenticated"))
    );

    // A key created while the server runs works at once, and sees nothing of another tenant.
    let other = home.run(&["key", "create", "--tenant", "other"]).stdout;
    let foreign = remote(&["run", "show", report["runId"].as_str().unwrap()], &other);
    assert_eq!(foreign.document()["error"]["code"], "not_found");

    // Health checks need no key, and distinguish an answer from silence by the exit code.
    let ready = Done::of(touchstone().args(["health", "--server", &server.url]));
    assert_eq!((ready.code, ready.stdout.as_str()), (0, "ready\n"));
    let url = server.url.clone();
    assert_eq!(server.terminate(), 0);
    let gone = Done::of(touchstone().args(["health", "--server", &url]));
    assert_eq!(gone.code, 1, "{}", gone.stderr);
    assert!(gone.stderr.contains("could not reach"), "{}", gone.stderr);
}

#[test]
fn it_warns_while_the_console_opens_without_a_key() {
    let warned = |home: &Home| {
        let mut command = Server::command(home, &[]);
        command.stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on "), "{line}");
        let mut server = Server {
            child,
            url: String::new(),
        };
        let notes = server.child.stderr.take().unwrap();
        assert_eq!(server.terminate(), 0);
        let lines = BufReader::new(notes).lines().map(Result::unwrap);
        let warnings = lines.filter(|line| line.contains("the console needs no key"));
        warnings.count()
    };
    let home = Home::with_pack();
    assert_eq!(warned(&home), 1);
    home.run(&["key", "create", "--tenant", "default"]);
    assert_eq!(warned(&home), 0);
}

#[test]
fn a_pack_is_checked_against_the_trusted_keys_of_the_target_host() {
    // A publisher without trusted keys, and two hosts, one of which knows the key.
    let publisher = Home::empty();
    for command in [
        "pack init triage --name vendor.acme.triage",
        "pack keygen --out acme.pem --key-id acme-1",
        "pack sign triage --key acme.pem --key-id acme-1 --out triage.tgz",
    ] {
        let words: Vec<&str> = command.split_whitespace().collect();
        assert_eq!(publisher.run(&words).code, 0, "{command}");
    }
    let public = std::fs::read_to_string(publisher.path("acme.pub")).unwrap();
    let (trusting, other) = (Home::empty(), Home::empty());
    let settings = std::fs::read_to_string(trusting.path("touchstone.toml")).unwrap();
    let trusted = format!(
        "[[packs.keys]]\nkey_id = \"acme-1\"\nnamespaces = [\"vendor.acme.*\"]\npublic_key = \"\"\"\n{public}\"\"\"\n{settings}"
    );
    std::fs::write(trusting.path("touchstone.toml"), trusted).unwrap();
    let install = |home: &Home, more: &[&str]| {
        let key = home.run(&["key", "create", "--tenant", "default"]).stdout;
        let server = Server::start(home);
        let start = [
            "--server",
            &server.url,
            "--key",
            key.trim_end(),
            "pack",
            "install",
            "triage.tgz",
        ];
        publisher.run(&[&start[..], more].concat())
    };
    let done = install(&trusting, &[]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(
        done.stdout.contains("whole archive, by acme-1"),
        "{}",
        done.stdout
    );
    let done = install(&other, &[]);
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert!(
        done.stderr.contains("refused by the host") && done.stderr.contains("operator"),
        "{}",
        done.stderr
    );
    // A trust level given on the command line is enforced before anything is sent.
    let done = install(&trusting, &["--trust", "verified"]);
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert!(!done.stderr.contains("by the host"), "{}", done.stderr);
}

#[test]
fn without_a_key_it_listens_on_loopback_only() {
    let home = Home::empty();
    let done = home.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(done.code, 2, "{}", done.stderr);
    assert!(done.stderr.contains("key create"), "{}", done.stderr);
    assert_eq!(done.stdout, "");
}

#[test]
fn an_address_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let done = Home::empty().run(&["serve", "--listen", &address]);
    assert_eq!(done.code, 3, "{}", done.stderr);
    assert!(done.stderr.contains(&address), "{}", done.stderr);
}

/// Their receivers would get deliveries of another form.
#[test]
fn it_does_not_switch_major_1_off_while_subscriptions_of_it_exist() {
    let home = Home::empty();
    let prefer = |version: &str| {
        let models =
            "[[models]]\nclass = \"*\"\nprovider = \"scripted\"\nfile = \"answers.json\"\n";
        let targets = "[webhooks]\nprivate_targets = [\"127.0.0.1\"]\n";
        let settings = format!("[openwop]\npreferred_version = \"{version}\"\n{targets}{models}");
        std::fs::write(home.config(), settings).unwrap();
    };
    prefer("1.0");
    let added = home.run(&["--json", "webhook", "add", "http://127.0.0.1:9999/h"]);
    assert_eq!(added.code, 0, "{}", added.stderr);
    prefer("2.0");
    let refused = home.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(
        refused
            .stderr
            .contains("subscriptions of OpenWOP v1 exist: 1"),
        "{}",
        refused.stderr
    );
    let id = added.document()["webhook"]["webhookId"]
        .as_str()
        .unwrap()
        .to_owned();
    let removed = home.run(&["webhook", "remove", &id]);
    assert_eq!(removed.code, 0, "{}", removed.stderr);
    let added = home.run(&["webhook", "add", "http://127.0.0.1:9999/h"]);
    assert_eq!(added.code, 0, "{}", added.stderr);
    assert_eq!(Server::start(&home).terminate(), 0);
}
