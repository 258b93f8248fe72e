//! A browser lays out pages and measures them: with the longest possible names, they fit a desktop
//! and a phone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::program;
use crate::cli::home::Home;
use crate::cli::ratings::rating::{assert_good, with_evidence_about};
use crate::ratings::api::{Site, badges::certified};
use crate::store::Engine;

const CHROMIUM: &str = "TOUCHSTONE_TEST_CHROMIUM";
/// Debian's path.
const USUAL: &str = "/usr/bin/chromium";
/// Widths of a desktop, a laptop, a tablet and a phone, in pixels.
const WIDTHS: [u32; 4] = [1920, 1280, 768, 390];
/// Maximum length of a name, in characters.
const LONGEST_NAME: usize = 200;

/// Shows each page at each width, and reports the width of its content.
const SCRIPT: &str = r#"<!doctype html>
<meta charset="utf-8">
<body>
<script>
for (let page = 0; page < PAGES; page++) for (const width of WIDTHS) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width: ${width}px; height: 900px; border: 0`;
  frame.src = `${page}.html`;
  frame.onload = () => {
    const root = frame.contentDocument.documentElement;
    const wide = [...root.querySelectorAll("*")]
      .filter(it => it.getBoundingClientRect().right > width + 1)
      .map(it => it.tagName + "." + (it.getAttribute("class") || ""));
    const line = document.createElement("pre");
    const measured = {page, width, content: root.scrollWidth, wide: wide.slice(0, 9)};
    line.textContent = "MEASURED " + JSON.stringify(measured);
    document.body.append(line);
  };
  document.body.append(frame);
}
</script>
</body>
"#;

/// Width of a page on a screen.
#[derive(Debug, Deserialize)]
struct Measured {
    page: usize,
    width: u32,
    content: u32,
    /// Elements wider than the screen.
    wide: Vec<String>,
}

/// The browser, or `None` after printing that nothing is measured.
fn chromium() -> Option<PathBuf> {
    program("the measuring of pages", CHROMIUM, USUAL)
}

fn measured(chromium: &Path, pages: &[String]) -> Vec<Measured> {
    let folder = tempfile::tempdir().unwrap();
    for (place, page) in pages.iter().enumerate() {
        std::fs::write(folder.path().join(format!("{place}.html")), page).unwrap();
    }
    let script = SCRIPT
        .replace("PAGES", &pages.len().to_string())
        .replace("WIDTHS", &json!(WIDTHS).to_string());
    let shown = folder.path().join("shown.html");
    std::fs::write(&shown, script).unwrap();
    let output = assert_cmd::Command::new(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--allow-file-access-from-files",
            "--dump-dom",
        ])
        .arg(format!(
            "--user-data-dir={}",
            folder.path().join("profile").display()
        ))
        .arg(format!("file://{}", shown.display()))
        .timeout(Duration::from_secs(120))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.split("<pre>MEASURED ").skip(1);
    let measured: Vec<Measured> = lines
        .map(|it| serde_json::from_str(it.split("</pre>").next().unwrap()).unwrap())
        .collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        measured.len(),
        pages.len() * WIDTHS.len(),
        "{text}\n{errors}"
    );
    measured
}

fn assert_fit(chromium: &Path, pages: &[String]) {
    for it in measured(chromium, pages) {
        assert!(it.content <= it.width, "{it:?}");
    }
}

#[test]
fn the_page_check_detects_a_page_that_is_too_wide() {
    let Some(chromium) = chromium() else {
        return;
    };
    let page = "<!doctype html><body><p class=\"x\" style=\"width: 500px\">x</p></body>";
    for it in measured(&chromium, &[page.to_owned()]) {
        let fits = it.width >= 500;
        assert_eq!((it.page, it.content <= it.width), (0, fits), "{it:?}");
        assert_eq!(it.wide.contains(&"P.x".to_owned()), !fits, "{it:?}");
    }
}

#[test]
fn reports_fit_desktop_and_phone_screens() {
    let Some(chromium) = chromium() else {
        return;
    };
    let name = "m".repeat(LONGEST_NAME);
    let home = with_evidence_about(&name, 36);
    assert_good(&home.run(&["rating", "enroll", &"w".repeat(LONGEST_NAME)]));
    let description = "d".repeat(LONGEST_NAME);
    assert_good(&home.run(&[
        "rating",
        "enroll",
        &name,
        "--update",
        "--description",
        &description,
    ]));
    // The second one has a history.
    for _ in 0..2 {
        assert_good(&home.run(&["rating", "assess", &name]));
    }
    assert_good(&home.run(&["rating", "report", &name, "--output", "agent.html"]));
    assert_good(&home.run(&["rating", "report", "--summary", "--output", "all.html"]));
    let pages = ["agent.html", "all.html"].map(|file| {
        let page = std::fs::read_to_string(home.path(file)).unwrap();
        assert!(page.contains(&name), "{page}");
        page
    });
    assert_fit(&chromium, &pages);
}

#[test]
fn a_report_of_a_run_fits_desktop_and_phone_screens() {
    let Some(chromium) = chromium() else {
        return;
    };
    let home = Home::empty();
    assert_good(&home.run(&["pack", "init", "agent", "--name", "vendor.acme.agent"]));
    let long = "m".repeat(LONGEST_NAME);
    // Every answer is one long word.
    let program = format!(
        "import json, sys\n\
         for line in sys.stdin:\n    \
             question = json.loads(line)\n    \
             answer = {{'id': question['id'], 'output': {{'label': '{long}'}}}}\n    \
             print(json.dumps(answer), flush=True)\n"
    );
    std::fs::write(home.path("agent.py"), program).unwrap();
    let done = home.run(&[
        "--json",
        "eval",
        "agent",
        "--agent-command",
        "python3 agent.py",
    ]);
    let run = home.run_of(&done.document());
    assert_good(&home.run(&["run", "report", &run, "--html", "plain.html"]));
    let command = [
        "run",
        "report",
        &run,
        "--html",
        "all.html",
        "--with-content",
    ];
    assert_good(&home.run(&command));
    let pages =
        ["plain.html", "all.html"].map(|file| std::fs::read_to_string(home.path(file)).unwrap());
    assert!(pages[1].contains(&long), "{}", pages[1]);
    assert_fit(&chromium, &pages);
}

#[tokio::test]
async fn the_badge_page_fits_desktop_and_phone_screens() {
    let Some(chromium) = chromium() else {
        return;
    };
    let site = Site::on(Engine::Sqlite).await.unwrap();
    let name = "m".repeat(LONGEST_NAME);
    let path = format!("organizations/{}", site.ours.id);
    let body = json!({"name": "w".repeat(LONGEST_NAME)});
    let renamed = site.send(Method::PATCH, &path, Some(&body)).await;
    assert_eq!(renamed.status, StatusCode::OK, "{renamed:?}");
    let badge = certified(&site, &name).await;
    let path = format!("/api/v1/badges/{badge}/verify");
    let call = site.host.request(Method::GET, &path).anonymous();
    let page = call.header("accept", "text/html").send().await.text();
    assert!(page.contains(&name), "{page}");
    assert_fit(&chromium, &[page]);
}
