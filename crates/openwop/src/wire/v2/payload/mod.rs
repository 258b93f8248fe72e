//! Payloads of events under major 2. Most members keep their name and value; this module lists the
//! others. A member for which major 2 has no seat is renamed to `x-touchstone-…` if the payload admits
//! such names. Otherwise the event cannot be projected, because no member may be dropped.

use std::borrow::Cow;

use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use touchstone_kit::hex::{hex, hex_prefix};

use super::event::{LogContext, Unprojectable};
use super::names;
use super::subject::{self, Subject};
use crate::wire::id;
use object::{Members, Object, copy, number, text, write};
use shapes::{Others, Shape};

mod code;
mod interrupts;
pub(super) mod object;
pub(super) mod shapes;

pub use code::run_code;
pub(super) use interrupts::Interrupts;

/// Members with the id of a run, in payloads of any kind.
const RUN_IDS: &[&str] = &[
    "runId",
    "parentRunId",
    "childRunId",
    "sourceRunId",
    "baselineRunId",
    "evalRunId",
    "enqueuedRunId",
];

/// The longest key of an interrupt, in characters.
const LONGEST_KEY: usize = 256;

/// The facts that a payload depends on besides its own members.
pub(super) struct Context<'c> {
    pub log: LogContext<'c>,
    /// The run of the event, not bound.
    pub run: &'c str,
    pub interrupts: &'c Interrupts,
}

fn unseated(kind: &str, keys: Vec<String>) -> Unprojectable {
    Unprojectable::Members {
        kind: kind.to_owned(),
        keys,
    }
}

fn all_seated(kind: &str, without_seat: Vec<String>) -> Result<(), Unprojectable> {
    if without_seat.is_empty() {
        Ok(())
    } else {
        Err(unseated(kind, without_seat))
    }
}

impl Context<'_> {
    /// Appends the form of a payload, whose kind is the one of major 2.
    pub fn write(
        &self,
        kind: &str,
        payload: &RawValue,
        out: &mut Vec<u8>,
    ) -> Result<(), Unprojectable> {
        let members = Members::of(payload);
        let members = members.ok_or_else(|| unseated(kind, vec!["payload".to_owned()]))?;
        match kind {
            "approval.requested" | "clarification.requested" => {
                interrupts::requested(self, kind, &members, out)
            }
            "approval.received"
            | "approval.granted"
            | "approval.rejected"
            | "approval.overridden"
            | "clarification.resolved" => interrupts::decided(self, kind, &members, out),
            "interrupt.resolved" => interrupts::resolved(self, kind, &members, out),
            _ => self.write_members(kind, &members, out),
        }
    }

    fn write_members(
        &self,
        kind: &str,
        members: &Members<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Unprojectable> {
        let shape = shapes::of(kind);
        let mut object = Object::begin(out);
        let mut without_seat = Vec::new();
        for (key, value) in members.iter() {
            let Some(seat) = seat(shape, key) else {
                without_seat.push(key.to_owned());
                continue;
            };
            let out = object.key(&seat);
            if self.write_value(kind, key, value, out).is_some() {
                continue;
            }
            match shape {
                // In a kind that is not described here, a member with the name of an id may be
                // something else.
                None => copy(out, value),
                Some(_) => without_seat.push(key.to_owned()),
            }
        }
        if kind == "run.completed" && members.get("outputs").is_none() {
            Object::begin(object.key("outputs")).end();
        }
        object.end();
        all_seated(kind, without_seat)
    }

    /// Appends a value; `None` if it does not have the form of its seat. Then nothing is appended of
    /// a member that any kind may have.
    fn write_value(
        &self,
        kind: &str,
        key: &str,
        value: &RawValue,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let tenant = self.log.tenant;
        match (kind, key) {
            ("run.started", "workflowId") => write(out, &names::workflow(&text(value)?)),
            ("run.started" | "run.restored-from-snapshot", "engineVersion") => {
                write(out, &engine_version(value)?);
            }
            ("run.started", "owner") => self.write_owner(value, out)?,
            ("run.completed", "outputs") => self.write_outputs(value, out)?,
            (
                "run.failed" | "node.failed" | "node.suspend-failed" | "agent.tool-returned",
                "error",
            )
            | ("node.retried", "lastError") => write_error(value, out)?,
            ("run.cancelled", "cancelledBy")
            | ("run.paused", "pausedBy")
            | ("run.resumed", "resumedBy")
            | ("agent.tool-called" | "authorization.decided", "principal") => {
                write(out, &subject::id(tenant, &text(value)?));
            }
            // Major 2 counts attempts from 0 here, and from 1 elsewhere.
            ("node.started", "attempt") => write(out, &number(value)?.saturating_sub(1)),
            ("interrupt.requested" | "node.suspended", "key") => {
                write(out, &interrupt_key(&text(value)?));
            }
            ("eval.started", "fixtureRuns") => self.write_runs(value, out)?,
            // The log that a fork replays has the mark of the fork.
            ("replay.diverged" | "replay.diverged-at-refusal", "atSequence") => {
                write(out, &self.log.numbers().sequence(number(value)?));
            }
            ("replay.diverged", "divergencePoint") => {
                write(out, names::projected(&text(value)?)?);
            }
            (_, "interruptId") => self.write_interrupt_id(&text(value)?, out),
            (_, key) if RUN_IDS.contains(&key) => self.write_bound(&text(value)?, out),
            _ => copy(out, value),
        }
        Some(())
    }

    fn write_bound(&self, id: &str, out: &mut Vec<u8>) {
        write(out, &format_args!("{}/{id}", self.log.tenant));
    }

    fn write_interrupt_id(&self, stored: &str, out: &mut Vec<u8>) {
        self.write_bound(&interrupt_id(self.run, stored), out);
    }

    fn subject(&self, principal: &str) -> Subject<'_> {
        let tenant = self.log.tenant;
        if self.log.mark.is_old() {
            Subject::of_old_log(tenant, principal)
        } else {
            Subject::of(tenant, principal)
        }
    }

    fn write_owner(&self, value: &RawValue, out: &mut Vec<u8>) -> Option<()> {
        let members = Members::of(value)?;
        let mut owner = Object::begin(out);
        for (key, value) in members.iter() {
            match key {
                "tenant" | "workspace" => owner.copy(key, value),
                "principal" => {}
                _ => return None,
            }
        }
        // The principal is optional in the store, and the subject required by major 2.
        let principal = members.text("principal").unwrap_or_default();
        owner.value("subject", &self.subject(&principal));
        owner.end();
        Some(())
    }

    fn write_runs(&self, value: &RawValue, out: &mut Vec<u8>) -> Option<()> {
        let members = Members::of(value)?;
        let mut runs = Object::begin(out);
        for (key, value) in members.iter() {
            self.write_bound(&text(value)?, runs.key(key));
        }
        runs.end();
        Some(())
    }

    /// Outputs of workflows stay as they are. Those of eval runs are a summary, which may name the
    /// baseline.
    fn write_outputs(&self, value: &RawValue, out: &mut Vec<u8>) -> Option<()> {
        if !value.get().starts_with('{') {
            return None;
        }
        // Summaries of large runs are long.
        if !value.get().contains("\"regression\"") {
            copy(out, value);
            return Some(());
        }
        let members = Members::of(value)?;
        let of_summary = ["suiteId", "suiteVersion", "aggregateScore", "tasks"];
        let is_summary = of_summary.iter().all(|key| members.get(key).is_some());
        let mut outputs = Object::begin(out);
        for (key, value) in members.iter() {
            match Members::of(value) {
                Some(regression) if is_summary && key == "regression" => {
                    self.write_regression(&regression, outputs.key(key))?;
                }
                _ => outputs.copy(key, value),
            }
        }
        outputs.end();
        Some(())
    }

    fn write_regression(&self, members: &Members<'_>, out: &mut Vec<u8>) -> Option<()> {
        let mut regression = Object::begin(out);
        for (key, value) in members.iter() {
            match key {
                "baselineRunId" => self.write_bound(&text(value)?, regression.key(key)),
                "diffRef" => {
                    let link = diff_ref(self.log.tenant, &text(value)?)?;
                    regression.value(key, &link);
                }
                _ => regression.copy(key, value),
            }
        }
        regression.end();
        Some(())
    }
}

/// The name of a member under major 2; `None` if it has no seat. Kinds without a shape keep their
/// members.
fn seat(shape: Option<Shape>, key: &str) -> Option<Cow<'_, str>> {
    match shape {
        Some(shape) if !shape.has(key) => match shape.others {
            Others::Hatch => Some(Cow::Owned(extension(key))),
            Others::Closed | Others::Open => None,
        },
        _ => Some(Cow::Borrowed(key)),
    }
}

/// The name of a member that major 2 does not have: `x-touchstone-paused-by` for `pausedBy`.
fn extension(key: &str) -> String {
    let mut name = "x-touchstone-".to_owned();
    for letter in key.chars() {
        if letter.is_ascii_uppercase() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// An engine version as a number. Old documents have it as text.
pub(super) fn engine_version(value: &RawValue) -> Option<u64> {
    match number(value) {
        Some(version) => Some(version),
        None => text(value)?.parse().ok(),
    }
}

/// The id of an interrupt under major 2, not bound: unique in the tenant, and the same at each read.
/// Stored ids are unique in their run and shorter than major 2 permits.
pub fn interrupt_id<'i>(run: &str, stored: &'i str) -> Cow<'i, str> {
    const PREFIX: &str = "int_";
    const DIGITS: usize = 32;
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if let Some(digits) = stored.strip_prefix(PREFIX)
        && digits.len() == DIGITS
        && digits.bytes().all(is_digit)
    {
        return Cow::Borrowed(stored);
    }
    let hash = Sha256::new()
        .chain_update(run)
        .chain_update([0])
        .chain_update(stored);
    let digits = hex_prefix(&hash.finalize(), DIGITS);
    Cow::Owned(format!("{PREFIX}{digits}"))
}

/// The key of an interrupt under major 2, which limits its length.
pub(super) fn interrupt_key(stored: &str) -> Cow<'_, str> {
    match stored.chars().nth(LONGEST_KEY) {
        None => Cow::Borrowed(stored),
        Some(_) => Cow::Owned(format!("sha256-{}", hex(&Sha256::digest(stored)))),
    }
}

/// The location of the diff of two runs under major 2; `None` if the stored text is not a location
/// under major 1.
pub fn diff_ref(tenant: &str, stored: &str) -> Option<String> {
    let runs = stored.strip_prefix("/v1/runs/")?;
    let (run, against) = runs.split_once(":diff?against=")?;
    Some(format!(
        "/runs/{}:diff?against={}",
        id::projected(tenant, run),
        id::projected(tenant, against)
    ))
}

/// Appends an error with a registered code. A stored code that is not registered becomes the reason in
/// the details.
fn write_error(value: &RawValue, out: &mut Vec<u8>) -> Option<()> {
    let members = Members::of(value)?;
    let stored = members.text("code")?;
    members.get("message")?;
    let code = run_code(&stored);
    let mut error = Object::begin(out);
    error.value("code", code);
    for (key, value) in members.iter() {
        match key {
            "code" => {}
            "message" | "details" | "retryable" => error.copy(key, value),
            _ => error.copy(&extension(key), value),
        }
    }
    if code != stored {
        match members.get("details") {
            Some(_) => error.value(&extension("code"), &stored),
            None => {
                let mut details = Object::begin(error.key("details"));
                details.value("reason", &stored);
                if stored == "no_active_deployment" {
                    details.value("service", "agents");
                }
                details.end();
            }
        }
    }
    error.end();
    Some(())
}
