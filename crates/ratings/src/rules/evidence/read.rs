//! Reads an event from JSON, with the framework's error messages.

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::data::{
    DelegationDecision, DelegationOutcome, OrchestrationPlan, OrchestrationResult, TaskAssigned,
    TaskCompleted, TaskRevised, ToolInvoked,
};
use super::kinds::EventType;
use super::recorder::Recorder;

/// Maximum length of an identifier or a name, in characters.
pub(super) const MAX_NAME: usize = 256;

/// A recorded fact about an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Chosen by the sender; an id counts once.
    pub id: Option<String>,
    pub agent_id: String,
    pub timestamp: Timestamp,
    pub task_id: String,
    /// The assessment whose stress test produced the event. Without one, the event is passive
    /// evidence.
    pub assessment_id: Option<String>,
    pub data: Data,
    /// Who recorded the event, if that decides what counts; `None` for events that are scored as
    /// given.
    pub recorder: Option<Recorder>,
}

/// The data of an event, by type.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    TaskAssigned(Box<TaskAssigned>),
    TaskCompleted(Box<TaskCompleted>),
    TaskRevised(TaskRevised),
    ToolInvoked(ToolInvoked),
    DelegationDecision(Box<DelegationDecision>),
    DelegationOutcome(DelegationOutcome),
    OrchestrationPlan(Box<OrchestrationPlan>),
    OrchestrationResult(Box<OrchestrationResult>),
}

/// Why a document is not an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("Invalid value: event must be a JSON object")]
    NotAnObject,
    /// The member is missing, or is null where null is not allowed.
    #[error("Missing required field: {0}")]
    Missing(String),
    #[error("Invalid event type")]
    EventType,
    #[error("Invalid timestamp")]
    Timestamp,
    /// The member has the wrong type or is out of range.
    #[error("Invalid value: {0}")]
    Invalid(String),
}

#[derive(Deserialize)]
struct Common {
    task_id: String,
    #[serde(default)]
    assessment_id: Option<String>,
}

/// The members around the data.
pub(super) struct Envelope<'a> {
    pub id: Option<&'a str>,
    pub agent_id: &'a str,
    pub event_type: EventType,
    pub timestamp: Timestamp,
    data: Option<&'a Value>,
}

impl<'a> Envelope<'a> {
    pub fn read(document: &'a Value) -> Result<Self, Fault> {
        let document = document.as_object().ok_or(Fault::NotAnObject)?;
        let agent_id = text(document, "agent_id")?;
        let event_type = EventType::from_name(text(document, "type")?).ok_or(Fault::EventType)?;
        let timestamp = match present(document, "timestamp")? {
            Value::String(text) => text.parse().map_err(|_| Fault::Timestamp)?,
            _ => return Err(Fault::Timestamp),
        };
        let id = match document.get("id") {
            None | Some(Value::Null) => None,
            Some(_) => Some(text(document, "id")?),
        };
        let data = document.get("data");
        Ok(Self {
            id,
            agent_id,
            event_type,
            timestamp,
            data,
        })
    }

    pub fn open(self) -> Result<Event, Fault> {
        let missing = || Fault::Missing("data".to_owned());
        let data = self.data.ok_or_else(missing)?;
        let members = data.as_object().ok_or_else(missing)?;
        for required in self.event_type.required() {
            let there = match members.get(*required) {
                None => false,
                Some(Value::Null) => EventType::is_nullable(required),
                Some(_) => true,
            };
            if !there {
                return Err(Fault::Missing(format!("data.{required}")));
            }
        }
        let common: Common = typed(data)?;
        named("data.task_id", &common.task_id)?;
        let data = Data::read(self.event_type, data)?;
        if let Some(name) = data.out_of_range() {
            return Err(Fault::Invalid(format!("data.{name}")));
        }
        Ok(Event {
            id: self.id.map(str::to_owned),
            agent_id: self.agent_id.to_owned(),
            timestamp: self.timestamp,
            task_id: common.task_id,
            assessment_id: common.assessment_id,
            data,
            recorder: None,
        })
    }
}

fn present<'a>(document: &'a Map<String, Value>, name: &str) -> Result<&'a Value, Fault> {
    let value = document.get(name).filter(|it| !it.is_null());
    value.ok_or_else(|| Fault::Missing(name.to_owned()))
}

fn text<'a>(document: &'a Map<String, Value>, name: &str) -> Result<&'a str, Fault> {
    let text = present(document, name)?.as_str();
    let text = text.ok_or_else(|| Fault::Invalid(name.to_owned()))?;
    named(name, text)?;
    Ok(text)
}

fn named(name: &str, text: &str) -> Result<(), Fault> {
    if text.chars().nth(MAX_NAME).is_some() {
        return Err(Fault::Invalid(name.to_owned()));
    }
    Ok(())
}

/// Names only the outermost member, because inner values may be content.
fn typed<T: DeserializeOwned>(data: &Value) -> Result<T, Fault> {
    serde_path_to_error::deserialize(data).map_err(|fault| {
        let path = fault.path().to_string();
        let outer = path.split(['.', '[']).next().unwrap_or_default();
        Fault::Invalid(format!("data.{outer}"))
    })
}

impl Event {
    /// Reads an event.
    ///
    /// # Errors
    /// The first problem found.
    pub fn read(document: &Value) -> Result<Self, Fault> {
        Envelope::read(document)?.open()
    }

    /// The scored part of the event, as a document.
    pub fn document(&self) -> Value {
        let mut data = self.data.document();
        if let Value::Object(data) = &mut data {
            data.insert("task_id".to_owned(), Value::from(self.task_id.clone()));
            if let Some(id) = &self.assessment_id {
                data.insert("assessment_id".to_owned(), Value::from(id.clone()));
            }
        }
        let mut document = Map::new();
        if let Some(id) = &self.id {
            document.insert("id".to_owned(), Value::from(id.clone()));
        }
        document.insert("agent_id".to_owned(), Value::from(self.agent_id.clone()));
        document.insert("type".to_owned(), Value::from(self.event_type().as_str()));
        document.insert(
            "timestamp".to_owned(),
            Value::from(self.timestamp.to_string()),
        );
        document.insert("data".to_owned(), data);
        Value::Object(document)
    }

    pub const fn event_type(&self) -> EventType {
        match self.data {
            Data::TaskAssigned(_) => EventType::TaskAssigned,
            Data::TaskCompleted(_) => EventType::TaskCompleted,
            Data::TaskRevised(_) => EventType::TaskRevised,
            Data::ToolInvoked(_) => EventType::ToolInvoked,
            Data::DelegationDecision(_) => EventType::DelegationDecision,
            Data::DelegationOutcome(_) => EventType::DelegationOutcome,
            Data::OrchestrationPlan(_) => EventType::OrchestrationPlan,
            Data::OrchestrationResult(_) => EventType::OrchestrationResult,
        }
    }
}

impl Data {
    fn read(event_type: EventType, data: &Value) -> Result<Self, Fault> {
        Ok(match event_type {
            EventType::TaskAssigned => Self::TaskAssigned(typed(data)?),
            EventType::TaskCompleted => Self::TaskCompleted(typed(data)?),
            EventType::TaskRevised => Self::TaskRevised(typed(data)?),
            EventType::ToolInvoked => Self::ToolInvoked(typed(data)?),
            EventType::DelegationDecision => Self::DelegationDecision(typed(data)?),
            EventType::DelegationOutcome => Self::DelegationOutcome(typed(data)?),
            EventType::OrchestrationPlan => Self::OrchestrationPlan(typed(data)?),
            EventType::OrchestrationResult => Self::OrchestrationResult(typed(data)?),
        })
    }

    fn out_of_range(&self) -> Option<&'static str> {
        match self {
            Self::TaskAssigned(it) => it.out_of_range(),
            Self::TaskCompleted(it) => it.out_of_range(),
            Self::DelegationDecision(it) => it.out_of_range(),
            Self::OrchestrationPlan(it) => it.out_of_range(),
            Self::OrchestrationResult(it) => it.out_of_range(),
            Self::TaskRevised(_) | Self::ToolInvoked(_) | Self::DelegationOutcome(_) => None,
        }
    }

    fn document(&self) -> Value {
        let written = match self {
            Self::TaskAssigned(it) => serde_json::to_value(it),
            Self::TaskCompleted(it) => serde_json::to_value(it),
            // Required, but never scored.
            Self::TaskRevised(it) => serde_json::to_value(it).map(|mut it| {
                if let Value::Object(members) = &mut it {
                    members.insert("changes".to_owned(), Value::Null);
                }
                it
            }),
            Self::ToolInvoked(it) => serde_json::to_value(it),
            Self::DelegationDecision(it) => serde_json::to_value(it),
            Self::DelegationOutcome(it) => serde_json::to_value(it),
            Self::OrchestrationPlan(it) => serde_json::to_value(it),
            Self::OrchestrationResult(it) => serde_json::to_value(it),
        };
        // Serialization cannot fail: these are plain structs of text and finite numbers.
        written.unwrap_or_default()
    }
}
