//! A real browser, driven through WebDriver.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use fantoccini::actions::{InputSource as _, KeyAction, KeyActions};
use fantoccini::elements::Element;
use fantoccini::key::Key;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use url::{ParseError, Url};

use crate::client::program;

/// Browsers that run at the same time: each takes a core and a few hundred megabytes.
static PLACES: Semaphore = Semaphore::const_new(2);
/// The driver of this process, while a browser uses it.
static DRIVER: Mutex<Weak<Driver>> = Mutex::new(Weak::new());
pub const TOO_LONG: Duration = Duration::from_secs(60);

/// The program that drives browsers.
struct Driver {
    process: Child,
    port: u16,
}

impl Driver {
    fn shared(program: &PathBuf) -> Arc<Self> {
        let mut shared = DRIVER.lock().unwrap();
        if let Some(driver) = shared.upgrade() {
            return driver;
        }
        let driver = Arc::new(Self::start(program));
        *shared = Arc::downgrade(&driver);
        driver
    }

    /// Starts the driver on a free port, which it prints.
    fn start(program: &PathBuf) -> Self {
        let mut process = Command::new(program)
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = loop {
            let line = lines.next().expect("the driver ends at once").unwrap();
            if let Some((_, rest)) = line.split_once("started successfully on port ") {
                break rest.trim_end_matches('.').parse().unwrap();
            }
        };
        // Whatever else it prints must not block it.
        std::thread::spawn(move || lines.count());
        Self { process, port }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _status = self.process.wait();
    }
}

/// A command of the Chrome DevTools protocol.
#[derive(Debug)]
struct DevTools {
    name: &'static str,
    parameters: Value,
}

impl WebDriverCompatibleCommand for DevTools {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        let session = session.unwrap_or_default();
        base.join(&format!("session/{session}/goog/cdp/execute"))
    }

    fn method_and_body(&self, _: &Url) -> (axum::http::Method, Option<String>) {
        let body = json!({"cmd": self.name, "params": self.parameters});
        (axum::http::Method::POST, Some(body.to_string()))
    }
}

/// What the browser has logged since the last time: refused scripts, failed requests, faults.
#[derive(Debug)]
struct Log;

impl WebDriverCompatibleCommand for Log {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/se/log", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &Url) -> (axum::http::Method, Option<String>) {
        let body = json!({"type": "browser"});
        (axum::http::Method::POST, Some(body.to_string()))
    }
}

/// A window of a browser that shows a host.
pub struct Browser {
    pub client: Client,
    /// `http://127.0.0.1:PORT`.
    pub base: String,
}

/// Runs a test in a browser, and closes the browser even if the test fails. Without a browser, it
/// prints so, which is an error in CI.
pub async fn with_browser(host: SocketAddr, test: impl AsyncFnOnce(&Browser)) {
    let what = "the test in a browser";
    let chromium = program(what, "TOUCHSTONE_TEST_CHROMIUM", "/usr/bin/chromium");
    let driver = program(
        what,
        "TOUCHSTONE_TEST_CHROMEDRIVER",
        "/usr/bin/chromedriver",
    );
    let (Some(chromium), Some(driver)) = (chromium, driver) else {
        return;
    };
    let _place = PLACES.acquire().await.unwrap();
    let driver = Driver::shared(&driver);
    let profile = tempfile::tempdir().unwrap();
    let profile_flag = format!("--user-data-dir={}", profile.path().display());
    let flags = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
        "--window-size=1280,900",
        &profile_flag,
    ];
    let capabilities = json!({
        "goog:chromeOptions": {"args": flags, "binary": chromium},
        "goog:loggingPrefs": {"browser": "ALL"},
        "timeouts": {"script": 180_000},
    });
    let Value::Object(capabilities) = capabilities else {
        unreachable!()
    };
    let address = format!("http://127.0.0.1:{}", driver.port);
    let mut builder = ClientBuilder::new(hyper_util::client::legacy::connect::HttpConnector::new());
    let client = builder.capabilities(capabilities).connect(&address).await;
    let browser = Browser {
        client: client.unwrap(),
        base: format!("http://{host}"),
    };
    let done = AssertUnwindSafe(test(&browser)).catch_unwind().await;
    browser.client.close().await.unwrap();
    if let Err(panic) = done {
        std::panic::resume_unwind(panic);
    }
}

impl Browser {
    /// Opens a page of the console.
    pub async fn open(&self, path: &str) {
        let address = format!("{}{path}", self.base);
        self.client.goto(&address).await.unwrap();
    }

    /// The path and the query of the page.
    pub async fn place(&self) -> String {
        let url = self.client.current_url().await.unwrap();
        match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        }
    }

    /// Waits until the page has this path.
    pub async fn arrive(&self, path: &str) {
        let arrived = async {
            while self.place().await != path {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(TOO_LONG, arrived).await.is_err() {
            panic!("at {} and not at {path}", self.place().await);
        }
    }

    /// The element of a CSS selector, once it exists.
    pub async fn find(&self, selector: &str) -> Element {
        let found = self.client.wait().at_most(TOO_LONG);
        let found = found.for_element(Locator::Css(selector)).await;
        found.unwrap_or_else(|fault| panic!("no {selector}: {fault}"))
    }

    pub async fn click(&self, selector: &str) {
        self.find(selector).await.click().await.unwrap();
    }

    /// Activates a control by the keyboard. The driver takes everything in a closed `details` for
    /// hidden, also where the style sheet shows it.
    pub async fn activate(&self, selector: &str) {
        let focus = format!("document.querySelector(\"{selector}\").focus()");
        self.client.execute(&focus, Vec::new()).await.unwrap();
        let value = char::from(Key::Enter);
        let keys = KeyActions::new("keyboard".to_owned())
            .then(KeyAction::Down { value })
            .then(KeyAction::Up { value });
        self.client.perform_actions(keys).await.unwrap();
    }

    /// The text of an element. A page that is replaced meanwhile is asked again.
    pub async fn text(&self, selector: &str) -> String {
        let began = Instant::now();
        loop {
            match self.find(selector).await.text().await {
                Ok(text) => return text,
                Err(fault) => assert!(began.elapsed() < TOO_LONG, "{selector}: {fault}"),
            }
        }
    }

    /// Presses keys where the focus is.
    pub async fn press(&self, keys: &str) {
        let focused = self.client.active_element().await.unwrap();
        focused.send_keys(keys).await.unwrap();
    }

    /// The value of a JavaScript expression. A page that is just being replaced evaluates none.
    pub async fn value(&self, expression: &str) -> Value {
        let script = format!("return {expression};");
        let began = Instant::now();
        loop {
            match self.client.execute(&script, Vec::new()).await {
                Ok(value) => return value,
                Err(fault) => assert!(began.elapsed() < TOO_LONG, "{expression}: {fault}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a JavaScript expression has this value.
    pub async fn until(&self, expression: &str, expected: &str) {
        let began = Instant::now();
        loop {
            let found = self.value(expression).await;
            if found == expected {
                return;
            }
            let waits = began.elapsed() < TOO_LONG;
            assert!(waits, "{expression} is {found} and not {expected}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub async fn sign_in(&self, key: &str) {
        self.open("/console/sign-in").await;
        self.find("#key").await.send_keys(key).await.unwrap();
        self.click("button.primary").await;
        self.arrive("/console").await;
    }

    async fn dev_tools(&self, name: &'static str, parameters: Value) -> Value {
        let command = DevTools { name, parameters };
        self.client.issue_cmd(command).await.unwrap()
    }

    /// The warnings and errors of the log.
    pub async fn faults(&self) -> Vec<Value> {
        let entries = self.client.issue_cmd(Log).await.unwrap();
        let entries = entries.as_array().unwrap().iter().cloned();
        let is_fault = |it: &Value| it["level"] == "WARNING" || it["level"] == "SEVERE";
        entries.filter(is_fault).collect()
    }

    /// Width of the window, in CSS pixels.
    pub async fn resize(&self, width: u32) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.dev_tools("Emulation.setDeviceMetricsOverride", size)
            .await;
    }

    /// The colours that the person prefers: `light` or `dark`.
    pub async fn prefer(&self, theme: &str) {
        let features = json!([
            {"name": "prefers-color-scheme", "value": theme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]);
        self.dev_tools("Emulation.setEmulatedMedia", json!({"features": features}))
            .await;
    }

    /// A picture of the top of the page, as PNG in base64.
    pub async fn picture(&self, width: u32, height: u32) -> String {
        let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": 1});
        let parameters = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let picture = self.dev_tools("Page.captureScreenshot", parameters).await;
        picture["data"].as_str().unwrap().to_owned()
    }
}
