//! Cassettes: recorded exchanges with models and live tools, which are replayed without either.
//!
//! Recording and replay are decorators of the ports; no other module knows of them. An exchange is
//! found by its request and its task, so neither the order of tasks nor the run's id matters. The
//! format is described in `docs/cassettes.md`.

pub mod chain;
pub mod format;
pub mod tools;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::model::cassette::chain::Chain;
use crate::model::cassette::format::{
    Endpoint, Exchange, Line, Outcome, RecordedToolOutcome, Signature, VERSION, key_of, request_of,
};
use crate::ports::model::{Model, ModelError, ModelInfo, ReplaySource, TIMEOUT};
use crate::rules::prices::ModelPrice;
use crate::rules::{ModelReply, ModelRequest, RetryPolicy};
use touchstone_kit::keys::{PublicKey, SecretKey};

/// The reason of a task whose exchange is not on the cassette.
pub const MISSING: &str = "cassette_missing";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read or created.
    #[error("the cassette {} could not be opened: {source}", file.display())]
    File {
        file: PathBuf,
        source: std::io::Error,
    },
    /// A line is invalid.
    #[error("the cassette {} is invalid at line {line}: {problem}", file.display())]
    Unsound {
        file: PathBuf,
        /// From 1.
        line: usize,
        problem: String,
    },
}

#[derive(Clone, Debug)]
pub enum Cassette {
    /// Records exchanges.
    Recording(Arc<Recording>),
    /// Replays exchanges.
    Replay(Arc<Replay>),
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub struct Recording {
    state: Mutex<Tape>,
}

#[derive(Debug)]
struct Tape {
    file: File,
    chain: Chain,
    requests: HashMap<(String, Option<String>), u32>,
    /// The last line is written: later exchanges belong to no run of this command.
    ended: bool,
    /// The first failure: from then on the cassette is incomplete.
    failed: Option<std::io::Error>,
}

impl Tape {
    /// How many times this task made the same request before.
    fn next(&mut self, key: &str, task: Option<&String>) -> u32 {
        let place = (key.to_owned(), task.cloned());
        let requests = self.requests.entry(place).or_default();
        let nth = *requests;
        *requests += 1;
        nth
    }

    fn write(&mut self, line: &Line) {
        if self.failed.is_some() || self.ended {
            return;
        }
        let written = serde_json::to_string(line)
            .map_err(std::io::Error::from)
            .and_then(|line| {
                let mut linked = self.chain.link(&line);
                linked.push('\n');
                self.file.write_all(linked.as_bytes())
            });
        self.failed = written.err();
    }
}

impl Recording {
    /// Creates a cassette. It contains model output, so only the file's owner can read it.
    ///
    /// # Errors
    /// The file exists, or cannot be created.
    pub fn create(file: &Path) -> Result<Self, Error> {
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(file)
            .map_err(|source| Error::File {
                file: file.to_owned(),
                source,
            })?;
        let mut tape = Tape {
            file: made,
            chain: Chain::default(),
            requests: HashMap::new(),
            ended: false,
            failed: None,
        };
        tape.write(&Line::Cassette {
            version: VERSION,
            made_by: concat!("touchstone/", env!("CARGO_PKG_VERSION")).to_owned(),
        });
        Ok(Self {
            state: Mutex::new(tape),
        })
    }

    /// Wraps a model to record its exchanges.
    pub fn listen(self: &Arc<Self>, role: &str, model: Arc<dyn Model>) -> Arc<dyn Model> {
        let info = model.info();
        let price = info.price.as_ref().map(ModelPrice::tokens);
        locked(&self.state).write(&Line::Model(Endpoint {
            role: role.to_owned(),
            provider: info.provider.clone(),
            model: info.model.clone(),
            input_price: price.map(|price| price.input),
            output_price: price.map(|price| price.output),
            max_concurrency: info.max_concurrency,
            max_attempts: info.retry.attempts,
        }));
        Arc::new(RecordedModel {
            model,
            recording: Arc::clone(self),
        })
    }

    /// Writes the last line, signed if there is a key. Without this line the cassette cannot be
    /// replayed.
    pub fn finish(&self, key: Option<&SecretKey>) {
        let mut tape = locked(&self.state);
        let signature = key.map(|key| Signature {
            public_key: key.public().to_base64(),
            value: tape.chain.sign(key),
        });
        tape.write(&Line::End { signature });
        tape.ended = true;
    }

    /// Why the cassette is incomplete, if it is.
    pub fn failure(&self) -> Option<String> {
        locked(&self.state).failed.as_ref().map(ToString::to_string)
    }

    fn keep(
        &self,
        info: &ModelInfo,
        request: &ModelRequest<'_>,
        answer: &Result<ModelReply, ModelError>,
    ) -> serde_json::Result<()> {
        let task = request.task.map(|task| task.id.as_str().to_owned());
        let request = request_of(info, request);
        self.keep_exchange(request, task, Outcome::of(answer)?, Line::Exchange)
    }

    /// Records an exchange whose outcome has no secrets; `masked` says whether any part of it was
    /// masked.
    fn keep_exchange<O>(
        &self,
        request: Value,
        task: Option<String>,
        (outcome, masked): (O, bool),
        line: impl FnOnce(Exchange<O>) -> Line,
    ) -> serde_json::Result<()> {
        let key = key_of(&request)?;
        let mut tape = locked(&self.state);
        let nth = tape.next(&key, task.as_ref());
        tape.write(&line(Exchange {
            key,
            task,
            nth,
            request,
            outcome,
            masked,
        }));
        Ok(())
    }
}

struct RecordedModel {
    model: Arc<dyn Model>,
    recording: Arc<Recording>,
}

impl RecordedModel {
    fn keep(&self, request: &ModelRequest<'_>, answer: &Result<ModelReply, ModelError>) {
        if let Err(fault) = self.recording.keep(self.info(), request, answer) {
            locked(&self.recording.state)
                .failed
                .get_or_insert_with(|| fault.into());
        }
    }
}

/// An exchange whose caller may be dropped before the answer, for example at its deadline.
struct PendingExchange<'a> {
    of: &'a RecordedModel,
    request: &'a ModelRequest<'a>,
    answered: bool,
}

impl Drop for PendingExchange<'_> {
    fn drop(&mut self) {
        if !self.answered {
            let given_up = ModelError::unavailable(TIMEOUT, true);
            self.of.keep(self.request, &Err(given_up));
        }
    }
}

#[async_trait]
impl Model for RecordedModel {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let mut pending = PendingExchange {
            of: self,
            request,
            answered: false,
        };
        let answer = self.model.complete(request).await;
        pending.answered = true;
        // The run uses the real outcome; only the cassette is masked.
        self.keep(request, &answer);
        answer
    }

    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    async fn adapter(&self) -> Option<Value> {
        self.model.adapter().await
    }
}

/// The outcomes of one request of a task, by the number of earlier identical requests.
type Answers<O> = BTreeMap<u32, O>;
/// Outcomes by the request's key and the task.
type Exchanges<O> = HashMap<(String, Option<String>), Answers<O>>;

/// Adds an exchange from a line.
fn learn<O>(known: &mut Exchanges<O>, exchange: Exchange<O>) -> Result<(), String> {
    if key_of(&exchange.request).ok().as_ref() != Some(&exchange.key) {
        return Err("the key does not match the request".to_owned());
    }
    let twice = known
        .entry((exchange.key, exchange.task))
        .or_default()
        .insert(exchange.nth, exchange.outcome);
    match twice {
        Some(_) => Err("the exchange is a duplicate of an earlier line".to_owned()),
        None => Ok(()),
    }
}

fn of_version(version: u32) -> String {
    format!("it has version {version}, but this program reads version {VERSION}; record it again")
}

/// The fault of a line without a link if it is the first line of an earlier version, which had no
/// links.
fn other_version(text: &str) -> Option<String> {
    match serde_json::from_str(text).ok()? {
        Line::Cassette { version, .. } if version != VERSION => Some(of_version(version)),
        _ => None,
    }
}

/// The source reference of the cassette with this chain.
fn source_of(
    chain: &Chain,
    signature: Option<Signature>,
    own: Option<&PublicKey>,
) -> Result<ReplaySource, String> {
    let mut source = ReplaySource {
        digest: chain.digest(),
        signed_by: None,
    };
    if let Some(signature) = signature {
        let key = STANDARD.decode(&signature.public_key).ok();
        let key = key.and_then(|bytes| PublicKey::from_octets(&bytes).ok());
        let key = key.ok_or("its public key is not an Ed25519 key")?;
        if !chain.is_signed_by(&key, &signature.value) {
            return Err("its signature does not match the recorded lines".to_owned());
        }
        // A person who edits a cassette can sign it with any other key.
        if own == Some(&key) {
            source.signed_by = Some(key.fingerprint());
        }
    }
    Ok(source)
}

/// A cassette that is replayed.
#[derive(Debug)]
pub struct Replay {
    source: ReplaySource,
    models: Vec<Endpoint>,
    exchanges: Exchanges<Outcome>,
    tools: Exchanges<RecordedToolOutcome>,
    masked: usize,
    requests: Mutex<HashMap<(String, Option<String>), u32>>,
    missing: Mutex<BTreeSet<String>>,
}

impl Replay {
    /// Reads a cassette. A signature counts only if it was made with `own`, the key of this host.
    ///
    /// # Errors
    /// The file cannot be read, a line is invalid or was changed after recording, or the recording
    /// was not finished.
    pub fn open(file: &Path, own: Option<&PublicKey>) -> Result<Self, Error> {
        let unreadable = |source| Error::File {
            file: file.to_owned(),
            source,
        };
        let mut replay = Self {
            source: ReplaySource {
                digest: String::new(),
                signed_by: None,
            },
            models: Vec::new(),
            exchanges: HashMap::new(),
            tools: HashMap::new(),
            masked: 0,
            requests: Mutex::default(),
            missing: Mutex::default(),
        };
        let mut chain = Chain::default();
        let mut ended = false;
        let mut lines = 0;
        let reader = BufReader::new(File::open(file).map_err(unreadable)?);
        let unsound = |line: usize, problem: String| Error::Unsound {
            file: file.to_owned(),
            line,
            problem,
        };
        for (number, text) in reader.lines().enumerate() {
            let text = text.map_err(unreadable)?;
            lines += 1;
            let of_line = |problem| unsound(number + 1, problem);
            if ended {
                return Err(of_line(
                    "it follows the `end` line of the recording".to_owned(),
                ));
            }
            let before = chain.clone();
            let line = chain
                .unlink(&text)
                .map_err(|problem| of_line(other_version(&text).unwrap_or(problem)))?;
            match replay.take(number, &line).map_err(of_line)? {
                None => {}
                Some(signature) => {
                    replay.source = source_of(&before, signature, own).map_err(of_line)?;
                    ended = true;
                }
            }
        }
        if lines == 0 {
            return Err(unsound(1, "it is empty".to_owned()));
        }
        if !ended {
            let problem = "the recording was not finished, or its end was removed; record it \
                again";
            return Err(unsound(lines, problem.to_owned()));
        }
        Ok(replay)
    }

    pub fn source(&self) -> &ReplaySource {
        &self.source
    }

    /// Adds a line. The last one may have a signature.
    fn take(&mut self, number: usize, text: &str) -> Result<Option<Option<Signature>>, String> {
        let line: Line = serde_json::from_str(text).map_err(|fault| fault.to_string())?;
        match line {
            Line::Cassette { version, .. } if number == 0 => {
                if version != VERSION {
                    return Err(of_version(version));
                }
            }
            Line::Cassette { .. } => return Err("a second cassette begins here".to_owned()),
            _ if number == 0 => return Err("the first line must name the version".to_owned()),
            Line::Model(model) => self.models.push(model),
            Line::Exchange(exchange) => {
                if exchange.outcome.answer().is_none() {
                    return Err("the kind of refusal is unknown".to_owned());
                }
                self.masked += usize::from(exchange.masked);
                learn(&mut self.exchanges, exchange)?;
            }
            Line::Tool(exchange) if exchange.task.is_none() => {
                return Err("a request to tools must name its task".to_owned());
            }
            Line::Tool(exchange) => {
                self.masked += usize::from(exchange.masked);
                learn(&mut self.tools, exchange)?;
            }
            Line::End { signature } => return Ok(Some(signature)),
        }
        Ok(None)
    }

    /// The models that were called, each with its role.
    pub fn models(self: &Arc<Self>) -> Vec<(String, Arc<dyn Model>)> {
        let model = |endpoint: &Endpoint| -> Arc<dyn Model> {
            Arc::new(ReplayedModel {
                info: ModelInfo {
                    provider: endpoint.provider.clone(),
                    model: endpoint.model.clone(),
                    price: endpoint
                        .input_price
                        .zip(endpoint.output_price)
                        .map(|(input, output)| ModelPrice::configured(input / 1e3, output / 1e3)),
                    max_concurrency: endpoint.max_concurrency.max(1),
                    timeout: REPLAY_TIMEOUT,
                    retry: RetryPolicy {
                        attempts: endpoint.max_attempts,
                        ..RetryPolicy::default()
                    },
                },
                replay: Arc::clone(self),
            })
        };
        self.models
            .iter()
            .map(|endpoint| (endpoint.role.clone(), model(endpoint)))
            .collect()
    }

    /// The tasks that made a request that is not on the cassette.
    pub fn missing(&self) -> Vec<String> {
        locked(&self.missing).iter().cloned().collect()
    }

    /// Number of answers that were masked when they were recorded.
    pub fn masked(&self) -> usize {
        self.masked
    }

    fn answer(
        &self,
        info: &ModelInfo,
        request: &ModelRequest<'_>,
    ) -> Option<Result<ModelReply, ModelError>> {
        let task = request.task.map(|task| task.id.as_str().to_owned());
        let place = (key_of(&request_of(info, request)).ok()?, task);
        let answers = self.exchanges.get(&place)?;
        let mut requests = locked(&self.requests);
        let nth = requests.entry(place).or_default();
        let outcome = answers.get(nth)?;
        *nth += 1;
        outcome.answer()
    }
}

/// A replay does not wait for an endpoint.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(60);

struct ReplayedModel {
    info: ModelInfo,
    replay: Arc<Replay>,
}

#[async_trait]
impl Model for ReplayedModel {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        self.replay.answer(&self.info, request).unwrap_or_else(|| {
            let task = request.task.map_or("?", |task| task.id.as_str());
            locked(&self.replay.missing).insert(task.to_owned());
            Err(ModelError::unavailable(MISSING, false))
        })
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }
}
