//! `--record` and `--replay`: a cassette for one command (docs/cassettes.md).

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::context::Context;
use super::exit::{Exit, Failure, with_causes};
use crate::agent::model::cassette::{Cassette, Error, Recording, Replay};
use crate::config::Config;
use crate::domain::pack::keys::SecretKey;
use crate::ports::SigningKey as _;
use crate::system::signing_key::{ATTEST_FILE, KeyFile};

/// A cassette between the host and its models.
#[derive(Clone, Debug, Default, Args)]
pub struct Tape {
    /// Keep every exchange with a model in this new file, for --replay
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    record: Option<PathBuf>,

    /// Answer from a file that --record made instead of asking models. The run is marked as a replay, and gates refuse it
    /// by default
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model_url", "judge_url"])]
    replay: Option<PathBuf>,
}

/// The key that this host signs with, if it has one. `makes` one in the data folder where there is none yet.
fn attest_key(config: &Config, makes: bool) -> Result<Option<Arc<SecretKey>>, Failure> {
    let file = match (&config.attest.key_file, &config.database_url) {
        (Some(file), _) => KeyFile::given(file),
        (None, None) if makes || config.data.join(ATTEST_FILE).exists() => {
            Ok(KeyFile::own(&config.data, ATTEST_FILE))
        }
        (None, _) => return Ok(None),
    };
    file.and_then(|file| file.key())
        .map(Some)
        .map_err(|cause| Failure::bad_input("configuration", with_causes(&cause)))
}

impl Tape {
    /// Opens the cassette, if there is one.
    ///
    /// # Errors
    /// It cannot be used, or the host is elsewhere.
    pub fn open(&self, context: &Context<'_>) -> Result<Option<Cassette>, Failure> {
        if (self.record.is_some() || self.replay.is_some()) && !context.is_embedded() {
            return Err(Failure::usage(
                "--record and --replay only work embedded: what a host asks its models is its operator's business",
            )
            .or_try("leave out --server"));
        }
        let refused = |fault: Error| {
            let remedy = match &fault {
                Error::File { source, .. }
                    if source.kind() == std::io::ErrorKind::AlreadyExists =>
                {
                    "name another file, or remove this one first"
                }
                Error::File { .. } => "check the file's name and folder",
                Error::Unsound { .. } => {
                    "use the file as it was recorded, or record it again with --record"
                }
            };
            Failure::bad_input("cassette_unusable", fault.to_string()).or_try(remedy)
        };
        Ok(match (&self.record, &self.replay) {
            (Some(file), _) => Some(Cassette::Recording(Arc::new(
                Recording::create(file).map_err(refused)?,
            ))),
            (None, Some(file)) => {
                let own = attest_key(&context.config()?, false)?.map(|key| key.public());
                let replay = Replay::open(file, own.as_ref()).map_err(refused)?;
                if replay.masked() > 0 {
                    context.terminal().note(&format!(
                        "note: {} answers were masked when they were recorded; what depends on them may come out otherwise",
                        replay.masked()
                    ));
                }
                Some(Cassette::Replay(Arc::new(replay)))
            }
            (None, None) => None,
        })
    }

    /// What the command comes to, given what is on the cassette. The result stays the one document on stdout.
    pub fn finish(&self, context: &Context<'_>, cassette: &Cassette, exit: Exit) -> Exit {
        let say = |text: &str| context.terminal().note(text);
        if let Cassette::Recording(recording) = cassette {
            let key = context
                .config()
                .and_then(|config| attest_key(&config, true));
            match key {
                Ok(key) => recording.finish(key.as_deref()),
                Err(failure) => {
                    say(&format!(
                        "note: the cassette is not signed: {}",
                        failure.message
                    ));
                    recording.finish(None);
                }
            }
        }
        match cassette {
            Cassette::Recording(recording) => match (recording.failure(), &self.record) {
                (Some(cause), _) => {
                    say(&format!("error: the cassette is incomplete: {cause}"));
                    say("  try: remove the file, and record anew where there is room");
                    Exit::NotDone
                }
                (None, Some(file)) => {
                    say(&format!("recorded in {}", file.display()));
                    exit
                }
                (None, None) => exit,
            },
            Cassette::Replay(replay) => {
                let missing = replay.missing();
                if missing.is_empty() {
                    return exit;
                }
                let tasks = missing.join(", ");
                say(&format!(
                    "error: the cassette has no exchange for what these tasks asked: {tasks}"
                ));
                say("  try: record it anew; suite, agent, model and options must be the same");
                Exit::NotDone
            }
        }
    }
}
