//! Assertions that a judge decides: what it is asked, and what its reply means. docs/judging.md
//! defines them and names their sources.

pub mod agreement;
pub mod context;
pub mod exhibit;
pub mod parts;
mod score;

use serde_json::{Value, json};

use super::scoring_document::{Assertion, Check, ScoringDocument};
use touchstone_agents::rules::judging::form::{
    CLOSED_QUESTION, ClosedReply, FACTUALITY, Form, PREFERENCE, QUOTATIONS,
};
use touchstone_agents::rules::judging::lists::{NEEDED, RELEVANT, STATEMENTS, SUPPORTED, USEFUL};

pub use score::{Items, preference, preferred_to_none, rubric};

/// A decision about one assertion, before it is known who decided it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decided {
    /// 0.0..=1.0.
    pub score: f64,
    pub holds: bool,
    /// A label from a closed list.
    pub label: Option<String>,
    /// The single decisions that the score is computed from.
    pub verdicts: Vec<bool>,
    /// Task content; empty if no reason was given.
    pub reason: String,
}

impl Decided {
    pub fn yes_or_no(holds: bool, reason: String) -> Self {
        Self {
            score: if holds { 1.0 } else { 0.0 },
            holds,
            reason,
            ..Self::default()
        }
    }
}

impl From<ClosedReply> for Decided {
    fn from(reply: ClosedReply) -> Self {
        Self::yes_or_no(reply.yes, reply.reason)
    }
}

/// The assertions of a document that a judge decides, in the order of the document.
pub fn decided_by_judge(document: &ScoringDocument) -> Vec<&Assertion> {
    let mut found = Vec::new();
    let entries = document.defaults.iter().chain(document.tasks.values());
    for assertion in entries.flat_map(|entry| &entry.assertions) {
        assertion.visit(&mut |it| {
            if it.check.is_judged() {
                found.push(it);
            }
        });
    }
    found
}

/// The part of a judge's identity that these assertions determine.
pub fn identified(assertions: &[&Assertion]) -> Value {
    let mut forms: Vec<&Form> = Vec::new();
    for form in assertions.iter().flat_map(|it| forms_of(&it.check)) {
        if !forms.contains(form) {
            forms.push(form);
        }
    }
    forms.sort_by_key(|form| form.name);
    let forms = forms.iter().map(|form| {
        json!({
            "name": form.name,
            "rules": form.rules,
            "question": form.question,
            "reply": form.schema,
            "maxTokens": form.max_tokens,
        })
    });
    let decided = assertions
        .iter()
        .map(|it| json!({"check": it.check, "not": it.not, "weight": it.weight}));
    json!({
        "quotations": QUOTATIONS,
        "forms": forms.collect::<Vec<_>>(),
        "decided": decided.collect::<Vec<_>>(),
    })
}

/// The forms of the questions about such an assertion.
const fn forms_of(check: &Check) -> &'static [&'static Form] {
    match check {
        Check::ClosedQuestion(_) => &[&CLOSED_QUESTION],
        Check::Factuality(_) => &[&FACTUALITY],
        Check::AnswerRelevance(_) => &[&STATEMENTS, &RELEVANT],
        Check::Faithfulness(_) | Check::ContextRecall(_) => &[&STATEMENTS, &SUPPORTED],
        Check::ContextPrecision(_) => &[&USEFUL],
        Check::ContextRelevance(_) => &[&NEEDED],
        Check::PreferredToBaseline(_) => &[&PREFERENCE],
        // A rubric asks as the suite's own rubrics do, which every identity covers.
        _ => &[],
    }
}
