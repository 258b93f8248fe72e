//! `--record` and `--replay`: a cassette for one command (docs/cassettes.md).

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use touchstone_agents::model::cassette::{Cassette, Error, Recording, Replay};
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure, with_causes};
use touchstone_host::config::{AttestSettings, DataSettings};
use touchstone_host::ports::signing_key::SigningKey as _;
use touchstone_host::system::signing_key::{ATTEST_FILE, KeyFile};
use touchstone_kit::keys::SecretKey;

#[derive(Clone, Debug, Default, Args)]
pub struct CassetteOptions {
    /// New file to record all model exchanges in, for --replay
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    record: Option<PathBuf>,

    /// Answer model calls from a file that --record wrote. The run is marked as a replay; gates
    /// refuse it by default
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model_url", "judge_url"])]
    replay: Option<PathBuf>,
}

/// The key that this host signs with, if it has one. With `makes`, creates one in the data folder
/// if there is none.
fn attest_key(context: &Context<'_>, makes: bool) -> Result<Option<Arc<SecretKey>>, Failure> {
    let attest: AttestSettings = context.settings()?;
    let host: DataSettings = context.settings()?;
    let file = match (&attest.key_file, &host.database_url) {
        (Some(file), _) => KeyFile::given(file),
        (None, None) if makes || host.data.join(ATTEST_FILE).exists() => {
            Ok(KeyFile::own(&host.data, ATTEST_FILE))
        }
        (None, _) => return Ok(None),
    };
    file.and_then(|file| file.key())
        .map(Some)
        .map_err(|cause| Failure::bad_input("configuration", with_causes(&cause)))
}

impl CassetteOptions {
    /// Opens the cassette, if one is given.
    ///
    /// # Errors
    /// The cassette cannot be used, or the host is remote.
    pub fn open(&self, context: &Context<'_>) -> Result<Option<Cassette>, Failure> {
        if (self.record.is_some() || self.replay.is_some()) && !context.is_embedded() {
            return Err(Failure::usage(
                "--record and --replay work only with the embedded host: a remote host calls its models itself",
            )
            .or_try("omit --server"));
        }
        let refused = |fault: Error| {
            let remedy = match &fault {
                Error::File { source, .. }
                    if source.kind() == std::io::ErrorKind::AlreadyExists =>
                {
                    "choose another file, or remove this one first"
                }
                Error::File { .. } => "check the file name and folder",
                Error::Unsound { .. } => {
                    "use the unmodified recording, or record it again with --record"
                }
            };
            Failure::bad_input("cassette_unusable", fault.to_string()).or_try(remedy)
        };
        Ok(match (&self.record, &self.replay) {
            (Some(file), _) => Some(Cassette::Recording(Arc::new(
                Recording::create(file).map_err(refused)?,
            ))),
            (None, Some(file)) => {
                let own = attest_key(context, false)?.map(|key| key.public());
                let replay = Replay::open(file, own.as_ref()).map_err(refused)?;
                if replay.masked() > 0 {
                    context.terminal().note(&format!(
                        "note: {} answers were masked when recorded; results that depend on them may differ",
                        replay.masked()
                    ));
                }
                Some(Cassette::Replay(Arc::new(replay)))
            }
            (None, None) => None,
        })
    }

    /// The exit code, given the state of the cassette. Stdout keeps a single result document.
    pub fn finish(&self, context: &Context<'_>, cassette: &Cassette, exit: Exit) -> Exit {
        let say = |text: &str| context.terminal().note(text);
        if let Cassette::Recording(recording) = cassette {
            match attest_key(context, true) {
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
                    say("  try: free disk space, remove the file and record again");
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
                    "error: the cassette has no exchange for the model calls of these tasks: {tasks}"
                ));
                say("  try: use the recorded suite, agent, model and options, or record again");
                Exit::NotDone
            }
        }
    }
}
