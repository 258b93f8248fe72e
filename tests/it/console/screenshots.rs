//! Pictures of the console in the README and the documents, of the data that `touchstone demo`
//! leaves. `cargo test -p touchstone --test it console::screenshots -- --ignored` makes them again.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::browser::{Browser, with_browser};
use crate::cli::home::{Done, touchstone};

const WIDTH: u32 = 1280;
const AGENT: &str = "vendor.touchstone-demo.support-triage.default";
const SUITE: &str = "vendor.touchstone-demo.evals.support-triage";

/// The data folder of an ended demo.
struct Demo {
    data: PathBuf,
    /// The eval runs of 1.0.0, which passed, and of 1.1.0, which did not.
    passed: String,
    failed: String,
    _folder: tempfile::TempDir,
}

impl Demo {
    fn keep() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = touchstone();
        command
            .args(["demo", "--keep"])
            .env("TMPDIR", folder.path());
        let done = Done::of(&mut command);
        assert_eq!(done.code, 0, "{}", done.stderr);
        let kept = std::fs::read_dir(folder.path()).unwrap();
        let mut kept = kept.map(|it| it.unwrap().path()).filter(|it| it.is_dir());
        let mut demo = Self {
            data: kept.next().expect("the demo keeps its data"),
            passed: String::new(),
            failed: String::new(),
            _folder: folder,
        };
        let listed = demo.run(&["run", "list", "--json"]).document();
        let run = |verdict: &str| {
            let runs = listed["runs"].as_array().unwrap().iter();
            let mut found = runs.filter(|it| it["result"]["verdict"] == verdict);
            let found: &Value = found.next().expect("the demo has a run of each verdict");
            found["runId"].as_str().unwrap().to_owned()
        };
        (demo.passed, demo.failed) = (run("pass"), run("fail"));
        demo
    }

    fn run(&self, arguments: &[&str]) -> Done {
        let mut command = touchstone();
        command.arg("--data").arg(&self.data).args(arguments);
        let done = Done::of(&mut command);
        assert_eq!(done.code, 0, "{arguments:?}: {}", done.stderr);
        done
    }

    /// Brings 1.0.0 into service, and 1.1.0 to the last step before it.
    fn deploy(&self) {
        let tag = ["run", "tag", &self.passed, "nightly", "release-candidate"];
        self.run(&tag);
        self.run(&["run", "tag", &self.failed, "nightly"]);
        for version in ["1.0.0", "1.1.0"] {
            let subject = format!("{AGENT}@{version}");
            for _ in 0..2 {
                self.run(&["deploy", "promote", &subject]);
            }
        }
        let subject = format!("{AGENT}@1.0.0");
        let promote = ["deploy", "promote", &subject, "--channel", "stable"];
        self.run(&[&promote[..], &["--eval-run", &self.passed]].concat());
    }
}

/// A host of the data; ends when dropped.
struct Server(Child);

impl Server {
    fn start(data: &Path) -> (Self, SocketAddr) {
        let mut command = Command::new(touchstone().get_program());
        command
            .arg("--data")
            .arg(data)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on http://");
        let address = address.unwrap_or_else(|| panic!("{line:?}"));
        (Self(child), address.parse().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

async fn save(browser: &Browser, name: &str, path: &str, height: u32) {
    browser.open(path).await;
    let picture = browser.picture(WIDTH, height).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/images");
    let picture = STANDARD.decode(picture).unwrap();
    std::fs::write(folder.join(format!("console-{name}.png")), picture).unwrap();
}

#[tokio::test]
#[ignore = "writes into docs/images"]
async fn pictures_of_the_documents() {
    let demo = Demo::keep();
    demo.deploy();
    let create = [
        "key",
        "create",
        "--tenant",
        "default",
        "--scope",
        "all",
        "--principal",
        "dana",
    ];
    let key = demo.run(&create).stdout;
    let (_server, address) = Server::start(&demo.data);
    let (passed, failed) = (&demo.passed, &demo.failed);
    with_browser(address, async |browser| {
        browser.prefer("light").await;
        browser.resize(WIDTH).await;
        browser.sign_in(key.trim()).await;
        for (name, path, height) in [
            ("run", format!("/console/runs/{failed}"), 740),
            ("runs", format!("/console/runs?suiteId={SUITE}"), 480),
            (
                "task",
                format!("/console/runs/{failed}/tasks/german-labels"),
                800,
            ),
            (
                "compare",
                format!("/console/compare?runs={passed},{failed}"),
                740,
            ),
            ("history", format!("/console/history?suiteId={SUITE}"), 860),
            (
                "gate",
                format!("/console/deployments/{AGENT}/promote?version=1.1.0&channel=stable"),
                740,
            ),
        ] {
            save(browser, name, &path, height).await;
        }
    })
    .await;
}
