//! The state behind the endpoints: environments, switches, and a list of calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::conformance::{ENVIRONMENT, Preflight, document};
use super::desk::{Bad, Environment, now};
use super::faults::Fault;
use super::observed::observation;

#[derive(Clone, Debug)]
pub struct Options {
    /// Highest tier it provides.
    pub tier: u8,
    /// Preflight fault.
    pub preflight: Preflight,
    pub faults: Vec<Fault>,
    /// Whether others act at the desk too.
    pub others: bool,
    /// Duration of `hang` faults.
    pub hang: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tier: 2,
            preflight: Preflight::Ok,
            faults: Vec::new(),
            others: true,
            hang: Duration::from_secs(30),
        }
    }
}

/// A received call.
#[derive(Clone, Debug, Serialize)]
pub struct Call {
    /// `conformance`, `ops`, or one of the evaluator's calls.
    pub call: String,
    pub scenario_id: String,
    /// Empty before there is an environment.
    pub environment_id: String,
    pub observation_type: Option<String>,
    /// The effect of the switch that applied.
    pub effect: Option<String>,
}

#[derive(Default)]
struct Inside {
    preflight: Preflight,
    faults: Vec<Fault>,
    open: BTreeMap<String, Environment>,
    gone: BTreeSet<String>,
    calls: Vec<Call>,
    literals: Vec<String>,
}

pub struct House {
    options: Options,
    inside: Mutex<Inside>,
}

/// Status and body of a response.
pub type Given = (u16, Value);

fn sorry(status: u16, words: &str) -> Given {
    (status, json!({"status": "error", "error": words}))
}

impl From<Bad> for Given {
    fn from(bad: Bad) -> Self {
        sorry(400, &bad.0)
    }
}

fn text<'a>(body: &'a Value, name: &str) -> &'a str {
    body.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list(body: &Value, name: &str) -> Vec<Value> {
    body.get(name)
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default()
}

impl House {
    pub fn new(options: Options) -> Self {
        let inside = Inside {
            preflight: options.preflight,
            faults: options.faults.clone(),
            ..Inside::default()
        };
        Self {
            options,
            inside: Mutex::new(inside),
        }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Duration of `hang` faults.
    pub fn hang(&self) -> Duration {
        self.options.hang
    }

    /// Replaces the switches.
    pub fn disturb(&self, preflight: Preflight, faults: Vec<Fault>) {
        let mut inside = self.inside();
        inside.preflight = preflight;
        inside.faults = faults;
    }

    pub fn calls(&self) -> Vec<Call> {
        self.inside().calls.clone()
    }

    /// Environments that were not torn down.
    pub fn open(&self) -> Vec<String> {
        self.inside().open.keys().cloned().collect()
    }

    /// Every literal of a contained value that was ever sent to an evaluator.
    pub fn literals(&self) -> Vec<String> {
        self.inside().literals.clone()
    }

    /// `GET /v1/conformance`, and its current fault.
    pub fn conformance(&self, profile: &str) -> (Preflight, Value) {
        let mut inside = self.inside();
        let wrong = inside.preflight;
        inside.calls.push(Call {
            call: "conformance".to_owned(),
            scenario_id: String::new(),
            environment_id: String::new(),
            observation_type: None,
            effect: None,
        });
        (wrong, document(profile, self.options.tier, wrong))
    }

    /// Records a call of the evaluator and returns the effect of the switch that applies.
    pub fn arrives(&self, call: &str, body: &Value) -> Option<String> {
        let mut inside = self.inside();
        let environment_id = text(body, "environment_id").to_owned();
        let scenario_id = match inside.open.get(&environment_id) {
            Some(environment) => environment.scenario.clone(),
            None => text(body, "scenario_id").to_owned(),
        };
        let observation_type = body
            .get("observation_type")
            .and_then(Value::as_str)
            .map(str::to_owned);
        let mut effect = None;
        for fault in &mut inside.faults {
            let strikes = fault.strikes(call, &scenario_id, observation_type.as_deref());
            effect = effect.or_else(|| strikes.map(str::to_owned));
        }
        inside.calls.push(Call {
            call: call.to_owned(),
            scenario_id,
            environment_id,
            observation_type,
            effect: effect.clone(),
        });
        effect
    }

    /// Executes a call of the evaluator.
    pub fn carry_out(&self, call: &str, body: &Value, effect: Option<&str>) -> Given {
        if call == "provision" {
            return self.provision(body).unwrap_or_else(Given::from);
        }
        let mut inside = self.inside();
        let id = text(body, "environment_id");
        let known = if inside.gone.contains(id) { 410 } else { 404 };
        let Some(environment) = inside.open.get_mut(id) else {
            return sorry(known, "there is no such environment");
        };
        match call {
            "inject-state" => inject(environment, body).unwrap_or_else(Given::from),
            "state-snapshot" => {
                let resources = environment.snapshot(&list(body, "resources"));
                (
                    200,
                    json!({"environment_id": id, "timestamp": now(), "resources": resources}),
                )
            }
            "observe" => observation(environment, body, effect)
                .map_or_else(|| sorry(400, "this cannot be observed"), |seen| (200, seen)),
            _ => {
                inside.open.remove(id);
                inside.gone.insert(id.to_owned());
                (200, json!({"status": "destroyed"}))
            }
        }
    }

    fn provision(&self, body: &Value) -> Result<Given, Bad> {
        let asked = body.get("environment").unwrap_or(&Value::Null);
        if text(asked, "type") != ENVIRONMENT {
            return Ok(sorry(200, "only front desks are provided here"));
        }
        let mut inside = self.inside();
        let id = format!("desk-{:04}", inside.open.len() + inside.gone.len() + 1);
        let scenario = text(body, "scenario_id").to_owned();
        let environment = Environment::new(
            id.clone(),
            scenario,
            &list(asked, "state"),
            self.options.others,
        )?;
        let mut told = Vec::new();
        for entry in list(body, "value_containment") {
            let reference = text(&entry, "value_ref");
            let Some(literals) = environment.literals(reference) else {
                return Ok(sorry(200, &format!("`{reference}` cannot be resolved")));
            };
            inside.literals.extend(literals.iter().cloned());
            told.push(json!({"value_ref": reference, "literals": literals}));
        }
        let ready = json!({
            "environment_id": id, "status": "ready", "agent_endpoint": format!("/desks/{id}/ops"),
            "agent_credentials": {"token": environment.token, "principal": environment.principal},
            "containment_values": told,
        });
        inside.open.insert(id, environment);
        Ok((201, ready))
    }

    /// Executes an operation of an agent, if its token is valid.
    pub fn operate(&self, id: &str, bearer: &str, body: &Value) -> Given {
        let mut inside = self.inside();
        let known = if inside.gone.contains(id) { 410 } else { 404 };
        let Some(environment) = inside.open.get_mut(id) else {
            return sorry(known, "there is no such environment");
        };
        if bearer != format!("Bearer {}", environment.token) {
            return sorry(401, "the agent is not let in");
        }
        let done = environment.operate(body);
        let call = Call {
            call: "ops".to_owned(),
            scenario_id: environment.scenario.clone(),
            environment_id: id.to_owned(),
            observation_type: None,
            effect: None,
        };
        inside.calls.push(call);
        done.map_or_else(Given::from, |result| (200, result))
    }
}

fn inject(environment: &mut Environment, body: &Value) -> Result<Given, Bad> {
    let state = list(body, "state");
    match text(body, "trigger") {
        "" | "now" => environment.inject(&state)?,
        moment @ ("after_first_tool_call" | "on_second_query") => {
            environment.inject_when(moment, state)
        }
        _ => return Ok(sorry(200, "this trigger is not known")),
    }
    Ok((200, json!({"status": "applied"})))
}
