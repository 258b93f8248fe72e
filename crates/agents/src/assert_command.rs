//! A local command that decides assertions, one JSON document per line (docs/assert-commands.md).
//!
//! The command line comes from the command line of Touchstone or from the operator's configuration,
//! never from a request or a pack.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::line_process::{LineAnswer, LineCommand, LineLimits, Unanswered};
use crate::ports::assertions::{AssertionAnswer, AssertionQuestion};
use touchstone_kit::integrity;
use touchstone_kit::redaction::mask;

/// Maximum bytes of an answer.
const LONGEST_ANSWER: u64 = 1 << 20;
/// Maximum bytes of a reason; the rest is dropped.
const MAX_REASON: usize = 2_000;
/// Maximum questions in flight.
const MAX_CONCURRENCY: usize = 8;
/// How often a question is asked if the command ends without an answer.
const ATTEMPTS: u32 = 3;

/// The label of a task whose question got no answer in time.
pub const TIMEOUT: &str = "assertion_timeout";
/// The label of a task whose question made the command end, or that could not be started.
pub const EXITED: &str = "assertion_exited";
/// The label of a task whose question was answered by something else than an answer.
pub const MALFORMED: &str = "assertion_malformed";
/// The label of a task whose question the command could not decide.
pub const FAILED: &str = "assertion_failed";

/// `[assertions]`: the command that decides assertions of the type `command`, and its limits.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AssertionSettings {
    /// The shell runs it. Without one, suites with such assertions are refused.
    pub command: Option<String>,
    /// Maximum time for one answer, in seconds.
    pub timeout_s: f64,
    /// Maximum address space of each process of the command, in MiB; 0: no limit.
    pub memory_mib: u64,
}

impl Default for AssertionSettings {
    fn default() -> Self {
        Self {
            command: None,
            timeout_s: 60.0,
            memory_mib: 4096,
        }
    }
}

impl AssertionSettings {
    /// Checks the limits.
    ///
    /// # Errors
    /// The member that cannot be used, and what it must be.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        if self
            .command
            .as_deref()
            .is_some_and(|it| it.trim().is_empty())
        {
            return Err(("command", "must not be empty; leave it out"));
        }
        if !(0.001..=3600.0).contains(&self.timeout_s) {
            return Err(("timeout_s", "must be between 0.001 and 3600 seconds"));
        }
        if self.memory_mib > 1 << 30 {
            return Err(("memory_mib", "must be at most 1073741824; 0 is no limit"));
        }
        Ok(())
    }

    /// The command, if one is set.
    pub fn program(&self) -> Option<Arc<AssertCommand>> {
        let command = self.command.as_ref()?;
        Some(Arc::new(AssertCommand::new(command, self)))
    }
}

/// A command that decides assertions.
pub struct AssertCommand {
    command: LineCommand<Answer>,
    digest: String,
    timeout: Duration,
    permits: Semaphore,
}

impl AssertCommand {
    /// The shell runs the command line. It may contain secrets, so runs record its digest.
    pub fn new(command: &str, settings: &AssertionSettings) -> Self {
        let limits = LineLimits {
            longest_line: LONGEST_ANSWER,
            memory: (settings.memory_mib > 0).then_some(settings.memory_mib << 20),
        };
        Self {
            command: LineCommand::new(command, limits),
            digest: integrity::of(command.as_bytes()),
            timeout: Duration::from_secs_f64(settings.timeout_s),
            permits: Semaphore::new(MAX_CONCURRENCY),
        }
    }

    /// Asks about one assertion. Dropping the future gives it up.
    ///
    /// # Errors
    /// Why there is no answer, as a label.
    pub async fn assess(
        &self,
        question: &AssertionQuestion<'_>,
    ) -> Result<AssertionAnswer, String> {
        let _permit = self.permits.acquire().await;
        let answer = self.ask(question).await;
        answer.and_then(Answer::read).map_err(str::to_owned)
    }

    /// `sha256-<base64>` of the command line.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    async fn ask(&self, question: &AssertionQuestion<'_>) -> Result<Answer, &'static str> {
        let mut attempt = 1;
        loop {
            let asked = self
                .command
                .ask(|id| serde_json::to_vec(&Question { id, question }));
            let Ok(answer) = tokio::time::timeout(self.timeout, asked).await else {
                // It may never answer again. Other pending questions are asked again.
                self.command.stop();
                return Err(TIMEOUT);
            };
            match answer {
                Ok(answer) => return Ok(answer),
                Err(_) if attempt < ATTEMPTS => attempt += 1,
                Err(Unanswered::Malformed) => return Err(MALFORMED),
                Err(Unanswered::Exited | Unanswered::Unwritable) => return Err(EXITED),
            }
        }
    }
}

#[derive(Serialize)]
struct Question<'a> {
    id: u64,
    #[serde(flatten)]
    question: &'a AssertionQuestion<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    id: u64,
    #[serde(default)]
    pass: Option<bool>,
    #[serde(default)]
    score: Option<f64>,
    #[serde(default)]
    reason: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

/// The id and the decision in a line of the command; `None` if the line is not an answer.
pub fn read_line(line: &[u8]) -> Option<(u64, Result<AssertionAnswer, &'static str>)> {
    let answer = Answer::parse(line)?;
    Some((answer.id, answer.read()))
}

impl LineAnswer for Answer {
    fn parse(line: &[u8]) -> Option<Self> {
        // serde would also accept a list of the members in order.
        let is_object = line.trim_ascii_start().starts_with(b"{");
        is_object.then(|| serde_json::from_slice(line).ok())?
    }

    fn id(&self) -> u64 {
        self.id
    }
}

impl Answer {
    /// The answer, if it is one.
    fn read(self) -> Result<AssertionAnswer, &'static str> {
        // The error's text may be anything, so it is not passed on.
        if self.error.is_some() {
            return Err(FAILED);
        }
        let pass = self.pass.ok_or(MALFORMED)?;
        let score = self.score.unwrap_or(if pass { 1.0 } else { 0.0 });
        if !(0.0..=1.0).contains(&score) {
            return Err(MALFORMED);
        }
        let reason = self.reason.as_ref().and_then(Value::as_str);
        let mut reason = mask(reason.unwrap_or_default().trim()).into_owned();
        reason.truncate(reason.floor_char_boundary(MAX_REASON));
        Ok(AssertionAnswer {
            pass,
            score,
            reason,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::ports::assertions::AskedToolCall;

    fn asked<'a>(name: &'a str, nothing: &'a Value) -> AssertionQuestion<'a> {
        AssertionQuestion {
            name,
            config: None,
            task: "t",
            input: nothing,
            output: nothing,
            expected: Value::Null,
            tool_calls: Vec::new(),
            latency_ms: Some(5),
            cost_usd: None,
            tokens: 0,
        }
    }

    fn command(line: &str, timeout_s: f64, memory_mib: u64) -> AssertCommand {
        let settings = AssertionSettings {
            command: None,
            timeout_s,
            memory_mib,
        };
        AssertCommand::new(line, &settings)
    }

    /// Answers every question with these members.
    fn answering(members: &str) -> String {
        format!(
            r#"while read -r line; do id=${{line#*:}}; echo "{{\"id\":${{id%%,*}},{members}}}"; done"#
        )
    }

    #[rstest]
    #[case::pass(r#"\"pass\":true"#, Ok((true, 1.0, "")))]
    #[case::fail(r#"\"pass\":false,\"reason\":\"too long\""#, Ok((false, 0.0, "too long")))]
    #[case::graded(r#"\"pass\":true,\"score\":0.5"#, Ok((true, 0.5, "")))]
    #[case::beyond(r#"\"pass\":true,\"score\":1.5"#, Err(MALFORMED))]
    #[case::negative(r#"\"pass\":true,\"score\":-1"#, Err(MALFORMED))]
    #[case::no_decision(r#"\"score\":0.5"#, Err(MALFORMED))]
    #[case::text(r#"\"pass\":\"yes\""#, Err(MALFORMED))]
    #[case::unknown_member(r#"\"pass\":true,\"passed\":true"#, Err(MALFORMED))]
    #[case::error(r#"\"error\":\"no such check\""#, Err(FAILED))]
    #[tokio::test]
    async fn an_answer_is_a_decision_with_score_and_reason(
        #[case] members: &str,
        #[case] expected: Result<(bool, f64, &str), &str>,
    ) {
        let command = command(&answering(members), 60.0, 0);
        let found = command.assess(&asked("short", &Value::Null)).await;
        let found = found
            .as_ref()
            .map(|it| (it.pass, it.score, it.reason.as_str()));
        assert_eq!(found.map_err(String::as_str), expected);
    }

    #[tokio::test]
    async fn the_question_has_the_answer_and_its_measurements() {
        // Repeats the question as the reason.
        let line = r#"python3 -u -c '
import json, sys
for line in sys.stdin:
    question = json.loads(line)
    print(json.dumps({"id": question.pop("id"), "pass": True, "reason": json.dumps(question, sort_keys=True)}))
'"#;
        let (input, output) = (json!("hello"), json!({"a": [1]}));
        let config = json!({"most": 3});
        let question = AssertionQuestion {
            config: Some(&config),
            input: &input,
            output: &output,
            tool_calls: vec![AskedToolCall {
                tool: "crm:find",
                arguments: Some(&config),
            }],
            cost_usd: Some(0.5),
            ..asked("short", &Value::Null)
        };
        let answer = command(line, 60.0, 4096).assess(&question).await.unwrap();
        let reason: Value = serde_json::from_str(&answer.reason).unwrap();
        assert_eq!(
            reason,
            json!({"name": "short", "config": {"most": 3}, "task": "t", "input": "hello",
                "output": {"a": [1]}, "expected": null, "latencyMs": 5, "costUsd": 0.5, "tokens": 0,
                "toolCalls": [{"tool": "crm:find", "arguments": {"most": 3}}]})
        );
    }

    #[rstest]
    #[case::ends("exit 0", EXITED)]
    #[case::not_found("/no/such/program", EXITED)]
    #[case::other_output("echo hello; cat", MALFORMED)]
    #[case::list("echo '[0, true]'; cat", MALFORMED)]
    #[case::too_long("head -c 2000000 /dev/zero | tr '\\0' x; cat", MALFORMED)]
    #[tokio::test]
    async fn a_command_that_does_not_answer_leaves_the_task_unjudged(
        #[case] line: &str,
        #[case] label: &str,
    ) {
        let found = command(line, 60.0, 0)
            .assess(&asked("x", &Value::Null))
            .await;
        assert_eq!(found.unwrap_err(), label);
    }

    #[tokio::test]
    async fn a_question_ends_in_time_and_the_next_one_gets_a_new_process() {
        // The first process never answers.
        let folder = std::env::temp_dir().join(format!("touchstone-assert-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let line = format!(
            "cd {}; if mkdir started; then sleep 60; fi; {}",
            folder.display(),
            answering(r#"\"pass\":true"#)
        );
        let mut command = command(&line, 1.0, 0);
        let nothing = Value::Null;
        // On a busy machine, a process may be stopped before it has begun.
        while !folder.join("started").exists() {
            let first = command.assess(&asked("x", &nothing)).await;
            assert_eq!(first.unwrap_err(), TIMEOUT);
        }
        command.timeout = Duration::from_secs(60);
        let second = command.assess(&asked("x", &nothing)).await;
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(second.unwrap().pass);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_command_that_needs_too_much_memory_ends() {
        let line = r#"python3 -c '
import sys
sys.stdin.readline()
block = bytearray(1 << 30)
print("{\"id\": 0, \"pass\": true}", flush=True)
sys.stdin.readline()
'"#;
        let nothing = Value::Null;
        let limited = command(line, 60.0, 512).assess(&asked("x", &nothing)).await;
        assert_eq!(limited.unwrap_err(), EXITED);
        let roomy = command(line, 60.0, 4096)
            .assess(&asked("x", &nothing))
            .await;
        assert!(roomy.unwrap().pass);
    }

    #[test]
    fn credentials_in_a_reason_are_masked_and_long_reasons_cut() {
        let answer = |reason: String| Answer {
            id: 0,
            pass: Some(true),
            score: None,
            reason: Some(Value::from(reason)),
            error: None,
        };
        let key = answer("the key is sk-canary1234567890".to_owned());
        assert!(!key.read().unwrap().reason.contains("canary"));
        let long = answer("é".repeat(2_000)).read().unwrap().reason;
        assert_eq!(long.len(), MAX_REASON);
    }

    #[rstest]
    #[case(AssertionSettings { timeout_s: 0.0, ..AssertionSettings::default() }, "timeout_s")]
    #[case(AssertionSettings { timeout_s: f64::NAN, ..AssertionSettings::default() }, "timeout_s")]
    #[case(AssertionSettings { command: Some(" ".to_owned()), ..AssertionSettings::default() }, "command")]
    #[case(AssertionSettings { memory_mib: u64::MAX, ..AssertionSettings::default() }, "memory_mib")]
    fn settings_that_cannot_be_used_are_named(
        #[case] settings: AssertionSettings,
        #[case] field: &str,
    ) {
        assert_eq!(settings.check().unwrap_err().0, field);
        AssertionSettings::default().check().unwrap();
    }

    proptest! {
        #[test]
        fn a_line_of_any_bytes_is_a_decision_within_bounds_a_label_or_nothing(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            score in "-?[0-9]{1,3}(\\.[0-9]{1,3})?(e-?[0-9]{1,3})?",
            reason in "(?s)[^\"\\\\]{0,3000}",
        ) {
            let answer = format!(r#"{{"id":0,"pass":true,"score":{score},"reason":"{reason}"}}"#);
            for line in [bytes, answer.into_bytes()] {
                match read_line(&line) {
                    Some((_, Ok(answer))) => {
                        prop_assert!((0.0..=1.0).contains(&answer.score));
                        prop_assert!(answer.reason.len() <= MAX_REASON);
                    }
                    Some((_, Err(label))) => prop_assert!(label == MALFORMED || label == FAILED),
                    None => {}
                }
            }
        }
    }
}
