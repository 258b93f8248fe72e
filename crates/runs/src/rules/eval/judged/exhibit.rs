//! The texts that a judge may read about a task, and the questions about it.

use std::borrow::Cow;

use serde_json::Value;

use touchstone_agents::rules::judging::MAX_TOKENS;
use touchstone_agents::rules::judging::form::{
    Asked, CLOSED_QUESTION, FACTUALITY, Form, PREFERENCE,
};
use touchstone_agents::rules::judging::lists::STATEMENTS;
use touchstone_agents::rules::judging::prompt::{JudgedTexts, quoted};
use touchstone_agents::rules::judging::verdict;

#[derive(Clone, Copy, Debug)]
pub struct Exhibit<'a> {
    /// The agent's input.
    pub input: &'a Value,
    /// The agent's answer.
    pub answer: &'a Value,
}

/// A quotation with its name.
pub type Quotation<'a> = (&'static str, Cow<'a, str>);

impl<'a> Exhibit<'a> {
    fn task(&self) -> Quotation<'a> {
        ("task", quoted(self.input))
    }

    fn answer(&self) -> Quotation<'a> {
        ("answer", quoted(self.answer))
    }

    pub fn closed_question(&self, question: &str) -> Asked {
        CLOSED_QUESTION.ask(&[
            ("question", Cow::Borrowed(question)),
            self.task(),
            self.answer(),
        ])
    }

    /// The question about one criterion, as for a rubric of the suite.
    pub fn criterion(&self, criterion: &str) -> Asked {
        let texts = JudgedTexts {
            criterion,
            input: self.input,
            output: self.answer,
        };
        Asked {
            messages: texts.messages(),
            schema: verdict::SCHEMA,
            max_tokens: MAX_TOKENS,
        }
    }

    pub fn factuality(&self, reference: &str) -> Asked {
        FACTUALITY.ask(&[
            self.task(),
            ("reference", Cow::Borrowed(reference)),
            self.answer(),
        ])
    }

    /// The statements of a text that belongs to the task.
    pub fn statements(&self, text: &str) -> Asked {
        STATEMENTS.ask(&[self.task(), ("text", Cow::Borrowed(text))])
    }

    /// The answer as text.
    pub fn answer_text(&self) -> Cow<'a, str> {
        quoted(self.answer)
    }

    /// Items that are compared with the task.
    pub fn about_task(&self, form: &Form, items: &[String]) -> Asked {
        form.ask_about(vec![self.task()], items)
    }

    /// Parts of a context that are compared with the task and an answer to it.
    pub fn about_answer(&self, form: &Form, answer: &str, items: &[String]) -> Asked {
        let quotations = vec![self.task(), ("answer", Cow::Borrowed(answer))];
        form.ask_about(quotations, items)
    }

    /// Which of two answers is better, in this order.
    pub fn preference(&self, criterion: Option<&str>, first: &Value, second: &Value) -> Asked {
        let criterion = criterion.map(|it| ("criterion", Cow::Borrowed(it)));
        let mut quotations: Vec<Quotation<'_>> = criterion.into_iter().collect();
        quotations.extend([
            self.task(),
            ("first", quoted(first)),
            ("second", quoted(second)),
        ]);
        PREFERENCE.ask(&quotations)
    }
}

/// Statements that are compared with the parts of a context.
pub fn about_context(form: &Form, context: &[String], items: &[String]) -> Asked {
    let parts = context
        .iter()
        .map(|part| ("context", Cow::Borrowed(&**part)));
    form.ask_about(parts.collect(), items)
}
