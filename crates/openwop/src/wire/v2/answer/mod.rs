//! Answers in the closed form of major 2: members without a seat are left out, ids get their
//! tenant, links lead to major 2.

mod agent;
mod annotation;
mod audit;
mod deployment;
mod effect;
mod eval;
mod interrupt;
pub mod run;
#[cfg(test)]
mod tests;
mod webhook;
mod workflow;

use serde_json::{Map, Value};

use crate::wire::id::{bound, projected};
use crate::wire::v2::translation::{Context, Unprojectable};

/// The body of an answer under major 2. That of an error is not translated here.
///
/// # Errors
/// The body lacks what major 2 requires.
pub fn answer(
    operation: &str,
    context: &Context<'_>,
    status: u16,
    body: Value,
) -> Result<Value, Unprojectable> {
    if !(200..300).contains(&status) {
        return Ok(body);
    }
    Ok(match operation {
        "createRun" => run::created(context, body)?,
        "getRun" => run::snapshot(context, body)?,
        "listRuns" => run::list(context, body)?,
        "pollRunEvents" => run::polled(body)?,
        "cancelRun" => run::cancelled(context, body)?,
        "bulkCancelRuns" => run::bulk(context, body)?,
        "pauseRun" => run::paused(context, body)?,
        "resumeRun" => run::resumed(context, body)?,
        "forkRun" => run::forked(context, body)?,
        "diffRun" => run::diff(context, body)?,
        "getEvalSummary" => eval::summary(context, body)?,
        "getRunEffects" => effect::effects(context, body)?,
        "getEffectSeamManifest" => effect::seams(body)?,
        "createAnnotation" => annotation::annotation(context, body)?,
        "listAnnotations" => annotation::list(context, body)?,
        "resolveInterruptByRun" | "resolveInterruptByToken" => interrupt::resolved(context, body)?,
        "inspectInterruptByToken" => interrupt::requested(body)?,
        "listAgents" => agent::inventory(body)?,
        "getAgent" => agent::entry(body)?,
        "listAgentDeployments" => deployment::list(context, body)?,
        "transitionAgentDeployment" => deployment::record(context, body)?,
        "registerWebhook" => webhook::registered(context, body)?,
        "rotateWebhookSecret" => webhook::rotated(body)?,
        "listWebhookDeadLetters" => webhook::dead_letters(context, body)?,
        "getWorkflow" => workflow::definition(body)?,
        "verifyAuditLog" => audit::verified(body)?,
        _ => body,
    })
}

/// A closed object that is made of the members of an inner one.
struct Closed {
    kind: &'static str,
    given: Map<String, Value>,
    made: Map<String, Value>,
}

impl Closed {
    fn of(kind: &'static str, given: Value) -> Result<Self, Unprojectable> {
        match given {
            Value::Object(given) => Ok(Self {
                kind,
                given,
                made: Map::new(),
            }),
            _ => Err(Unprojectable {
                of: kind.to_owned(),
                keys: Vec::new(),
            }),
        }
    }

    fn lacks(&self, name: &str) -> Unprojectable {
        Unprojectable {
            of: self.kind.to_owned(),
            keys: vec![name.to_owned()],
        }
    }

    /// Takes a member out of the inner object.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.given.remove(name).filter(|value| !value.is_null())
    }

    fn needed(&mut self, name: &str) -> Result<Value, Unprojectable> {
        self.take(name).ok_or_else(|| self.lacks(name))
    }

    fn text(&mut self, name: &str) -> Result<String, Unprojectable> {
        match self.take(name) {
            Some(Value::String(text)) => Ok(text),
            _ => Err(self.lacks(name)),
        }
    }

    fn list(&mut self, name: &str) -> Result<Vec<Value>, Unprojectable> {
        match self.take(name) {
            Some(Value::Array(items)) => Ok(items),
            _ => Err(self.lacks(name)),
        }
    }

    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.made.insert(name.to_owned(), value.into());
    }

    /// Required members that are the same.
    fn keep(&mut self, names: &[&str]) -> Result<(), Unprojectable> {
        for name in names {
            let value = self.needed(name)?;
            self.put(name, value);
        }
        Ok(())
    }

    /// Optional members that are the same.
    fn keep_any(&mut self, names: &[&str]) {
        for name in names {
            if let Some(value) = self.take(name) {
                self.put(name, value);
            }
        }
    }

    /// A required id; returns the opaque part.
    fn bind(&mut self, context: &Context<'_>, name: &str) -> Result<String, Unprojectable> {
        let id = self.text(name)?;
        self.put(name, bound(context.tenant, &id));
        Ok(id)
    }

    /// An optional id.
    fn bind_any(&mut self, context: &Context<'_>, name: &str) -> Result<(), Unprojectable> {
        match self.given.get(name) {
            None | Some(Value::Null) => Ok(()),
            Some(_) => self.bind(context, name).map(drop),
        }
    }

    fn done(self) -> Value {
        Value::Object(self.made)
    }
}

/// Each item in its closed form.
fn each(
    items: Vec<Value>,
    closed: impl FnMut(Value) -> Result<Value, Unprojectable>,
) -> Result<Value, Unprojectable> {
    let items: Result<Vec<Value>, Unprojectable> = items.into_iter().map(closed).collect();
    items.map(Value::Array)
}

/// The path of a run under major 2.
fn run_path(tenant: &str, run: &str) -> String {
    format!("/runs/{}", projected(tenant, run))
}
