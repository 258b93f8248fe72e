//! A local command that answers questions, one JSON document per line.
//!
//! One process serves all questions: it reads them from its standard input and writes answers to
//! its standard output in any order. It is started with the first question, and again after it has
//! ended.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::sync::oneshot;

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The command ended, or could not be started.
    Exited,
    /// The command wrote a line that is not an answer to a question, so no answer can be assigned
    /// to a question any more.
    Malformed,
    /// The question could not be written as JSON.
    Unwritable,
}

/// An answer of the command.
pub trait LineAnswer: Send + Sized + 'static {
    /// Parses a line; `None` if it is not an answer.
    fn parse(line: &[u8]) -> Option<Self>;
    /// The id of the question.
    fn id(&self) -> u64;
}

/// Limits of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineLimits {
    /// Maximum bytes of a line.
    pub longest_line: u64,
    /// Maximum address space of each of its processes, in bytes.
    pub memory: Option<u64>,
}

type Answered<A> = Result<A, Unanswered>;

/// A command with its running process, if there is one.
pub struct LineCommand<A> {
    command: String,
    limits: LineLimits,
    process: Mutex<Option<Arc<Process<A>>>>,
    /// Number of questions, whose ids count from 0.
    asked: Arc<AtomicU64>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<A: LineAnswer> LineCommand<A> {
    /// The shell runs the command line.
    pub fn new(command: impl Into<String>, limits: LineLimits) -> Self {
        Self {
            command: command.into(),
            limits,
            process: Mutex::new(None),
            asked: Arc::new(AtomicU64::new(0)),
        }
    }

    /// The command line.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Asks a question, which `question` writes with its id. Dropping the future gives it up.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn ask(
        &self,
        question: impl FnOnce(u64) -> serde_json::Result<Vec<u8>>,
    ) -> Answered<A> {
        let id = self.asked.fetch_add(1, Ordering::Relaxed);
        let mut line = question(id).map_err(|_| Unanswered::Unwritable)?;
        line.push(b'\n');
        let process = self.process().map_err(|_| Unanswered::Exited)?;
        let (sender, receiver) = oneshot::channel();
        let asked = process.ask(id, line, sender);
        // A question whose caller was dropped is forgotten; its answer may still arrive.
        let _pending = PendingQuestion(&process, id);
        if !asked {
            return Err(Unanswered::Exited);
        }
        receiver.await.unwrap_or(Err(Unanswered::Exited))
    }

    /// Ends the running process. The next question starts a new one.
    pub fn stop(&self) {
        if let Some(process) = locked(&self.process).take() {
            process.end(Signal::KILL);
        }
    }

    /// The running process; starts one if needed.
    fn process(&self) -> std::io::Result<Arc<Process<A>>> {
        let mut held = locked(&self.process);
        match held.as_ref().filter(|process| !process.has_ended()) {
            Some(running) => Ok(Arc::clone(running)),
            None => {
                let started = Arc::new(Process::start(
                    &self.command,
                    self.limits,
                    Arc::clone(&self.asked),
                )?);
                *held = Some(Arc::clone(&started));
                Ok(started)
            }
        }
    }
}

struct PendingQuestion<'a, A>(&'a Process<A>, u64);

impl<A> Drop for PendingQuestion<'_, A> {
    fn drop(&mut self) {
        if let Some(waiting) = &mut *locked(&self.0.waiting) {
            waiting.remove(&self.1);
        }
    }
}

/// Callers waiting for answers, by question id; `None` once no more answers will come.
type Waiting<A> = Mutex<Option<HashMap<u64, oneshot::Sender<Answered<A>>>>>;

struct Process<A> {
    /// Lines for the writer thread, so that a command that does not read blocks no caller.
    lines: mpsc::Sender<Vec<u8>>,
    waiting: Arc<Waiting<A>>,
    group: Pid,
}

/// The shell command that runs a command line. A memory limit that cannot be set ends it.
fn shell(command: &str, limits: LineLimits) -> Command {
    let mut shell = Command::new("sh");
    match limits.memory {
        None => shell.args(["-c", command]),
        Some(bytes) => {
            let kibibytes = (bytes / 1024).to_string();
            let limited = "ulimit -v \"$1\" || exit 126; exec sh -c \"$2\"";
            shell.args(["-c", limited, "sh", &kibibytes, command])
        }
    };
    shell
}

impl<A: LineAnswer> Process<A> {
    fn start(command: &str, limits: LineLimits, asked: Arc<AtomicU64>) -> std::io::Result<Self> {
        let mut child = shell(command, limits)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            // Its own process group, so that every process that the shell starts ends with it.
            .process_group(0)
            .spawn()?;
        let group = Pid::from_child(&child);
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(std::io::Error::other("no pipes"));
        };
        let (lines, queue) = mpsc::channel();
        let waiting: Arc<Waiting<A>> = Arc::new(Mutex::new(Some(HashMap::new())));
        std::thread::Builder::new()
            .name("command-in".to_owned())
            .spawn(move || write(stdin, &queue))?;
        let callers = Arc::clone(&waiting);
        let longest = limits.longest_line;
        std::thread::Builder::new()
            .name("command-out".to_owned())
            .spawn(move || read(child, group, stdout, longest, &callers, &asked))?;
        Ok(Self {
            lines,
            waiting,
            group,
        })
    }

    /// Whether the question could be sent.
    fn ask(&self, id: u64, line: Vec<u8>, sender: oneshot::Sender<Answered<A>>) -> bool {
        let mut waiting = locked(&self.waiting);
        let Some(waiting) = waiting.as_mut() else {
            return false;
        };
        waiting.insert(id, sender);
        self.lines.send(line).is_ok()
    }
}

impl<A> Process<A> {
    fn has_ended(&self) -> bool {
        locked(&self.waiting).is_none()
    }

    fn end(&self, signal: Signal) {
        // While the lock is held, the group still exists: the process is reaped only after the last
        // answer.
        let waiting = locked(&self.waiting);
        if waiting.is_some() {
            let _ = kill_process_group(self.group, signal);
        }
    }
}

impl<A> Drop for Process<A> {
    fn drop(&mut self) {
        self.end(Signal::TERM);
    }
}

fn write(mut stdin: ChildStdin, queue: &mpsc::Receiver<Vec<u8>>) {
    for line in queue {
        // The end of the answers gives the reason why the process ended.
        if stdin.write_all(&line).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

fn read<A: LineAnswer>(
    mut child: Child,
    group: Pid,
    stdout: ChildStdout,
    longest: u64,
    waiting: &Waiting<A>,
    asked: &AtomicU64,
) {
    let mut reader = BufReader::new(stdout);
    let mut line = Vec::new();
    let last = loop {
        line.clear();
        let read = (&mut reader).take(longest).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) {
            break Unanswered::Exited;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let Some(answer) = A::parse(&line) else {
            // The answer cannot be assigned to a question.
            break Unanswered::Malformed;
        };
        let questions = asked.load(Ordering::Relaxed);
        if answer.id() >= questions {
            // Its question would wait until the timeout.
            tracing::error!(
                "the command answered with the id {}, but the questions have the ids 0 to {}; copy \
                 the id of the question",
                answer.id(),
                questions.saturating_sub(1)
            );
            break Unanswered::Malformed;
        }
        let asker = locked(waiting)
            .as_mut()
            .and_then(|waiting| waiting.remove(&answer.id()));
        if let Some(asker) = asker {
            // The caller may have been dropped in the meantime.
            let _ = asker.send(Ok(answer));
        }
    };
    let left = {
        let mut waiting = locked(waiting);
        let _ = kill_process_group(group, Signal::KILL);
        waiting.take()
    };
    for asker in left.into_iter().flatten() {
        let _ = asker.1.send(Err(last));
    }
    let _ = child.wait();
}
