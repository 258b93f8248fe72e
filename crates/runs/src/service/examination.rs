//! Asks one judge about the assertions of one answer. Some assertions take several questions: the
//! statements of a text first, and then a decision about each.

use futures_util::future::join_all;
use serde_json::Value;

use crate::rules::eval::judged::exhibit::{Exhibit, about_context};
use crate::rules::eval::judged::{self, Decided, Items, context};
use crate::rules::eval::scoring_document::Check;
use crate::rules::eval::scoring_document::checks::{
    AnswerRelevance, Factuality, OfContext, PreferredToBaseline, Rubric,
};
use touchstone_agents::judge::Questioning;
use touchstone_agents::ports::agent::{EventSink, Meter};
use touchstone_agents::ports::model::ModelBinding;
use touchstone_agents::rules::ModelReply;
use touchstone_agents::rules::judging::form::{Asked, better, category, closed_reply};
use touchstone_agents::rules::judging::lists::{
    MAX_ITEMS, NEEDED, RELEVANT, SUPPORTED, USEFUL, statements, verdicts,
};
use touchstone_agents::rules::judging::verdict;
use touchstone_kit::ids::{RunId, TaskId, TenantId};

/// An answer, and the judge that is asked about it.
#[derive(Clone, Copy)]
pub(super) struct Examination<'a> {
    pub tenant: &'a TenantId,
    pub run: &'a RunId,
    pub task: &'a TaskId,
    pub exhibit: Exhibit<'a>,
    /// The task's input, in which the pointers of assertions select.
    pub input: &'a Value,
    /// Results of the agent's tools, in their order.
    pub returned: &'a [Value],
    pub model: &'a ModelBinding,
    pub meter: &'a dyn Meter,
    pub sink: &'a dyn EventSink,
}

/// The label of a task with an assertion that no judge decides.
const NOT_JUDGED: &str = "judge_unsupported";

impl Examination<'_> {
    /// The decision about the assertion at this place.
    ///
    /// # Errors
    /// Why there is none, as a label.
    pub async fn decide(&self, place: &str, check: &Check) -> Result<Decided, String> {
        match check {
            Check::ClosedQuestion(it) => {
                let asked = self.exhibit.closed_question(&it.question);
                Ok(self.ask(place, 0, asked, closed_reply).await?.into())
            }
            Check::Rubric(it) => self.rubric(place, it).await,
            Check::Factuality(it) => self.factuality(place, it).await,
            Check::AnswerRelevance(it) => self.answer_relevance(place, it).await,
            Check::Faithfulness(it) => self.faithfulness(place, it).await,
            Check::ContextPrecision(it) => self.context_precision(place, it).await,
            Check::ContextRecall(it) => self.context_recall(place, it).await,
            Check::ContextRelevance(it) => self.context_relevance(place, it).await,
            _ => Err(NOT_JUDGED.to_owned()),
        }
    }

    async fn ask<T>(
        &self,
        place: &str,
        number: usize,
        asked: Asked,
        read: impl Fn(&ModelReply) -> Option<T> + Send,
    ) -> Result<T, String> {
        let questioning = Questioning {
            tenant: self.tenant,
            run: self.run,
            task: self.task,
            input: self.exhibit.input,
            model: self.model,
            assertion: place,
            number: u32::try_from(number).unwrap_or(u32::MAX),
        };
        questioning.ask(asked, read, self.meter, self.sink).await
    }

    async fn rubric(&self, place: &str, it: &Rubric) -> Result<Decided, String> {
        let criteria = it.criteria.iter().enumerate();
        let asked = criteria.map(|(n, criterion)| {
            let asked = self.exhibit.criterion(&criterion.criterion);
            self.ask(place, n, asked, verdict::read)
        });
        let verdicts: Result<Vec<_>, String> = join_all(asked).await.into_iter().collect();
        Ok(judged::rubric(it, &verdicts?))
    }

    async fn factuality(&self, place: &str, it: &Factuality) -> Result<Decided, String> {
        let asked = self.exhibit.factuality(&it.reference);
        let (category, reason) = self.ask(place, 0, asked, category).await?;
        Ok(Decided {
            label: Some(category.as_str().to_owned()),
            ..Decided::yes_or_no(it.accepts(category), reason)
        })
    }

    async fn answer_relevance(&self, place: &str, it: &AnswerRelevance) -> Result<Decided, String> {
        let texts = self.statements(place, &self.exhibit.answer_text()).await?;
        let asked = batches(&texts, |items| self.exhibit.about_task(&RELEVANT, items));
        Ok(self.items(place, texts, asked).await?.share(0.0, it.min))
    }

    async fn faithfulness(&self, place: &str, it: &OfContext) -> Result<Decided, String> {
        let texts = self.statements(place, &self.exhibit.answer_text()).await?;
        // An answer that states nothing states nothing that is unsupported.
        Ok(self.supported(place, it, texts).await?.share(1.0, it.min))
    }

    async fn context_recall(&self, place: &str, it: &OfContext) -> Result<Decided, String> {
        let reference = it.reference.as_deref().unwrap_or_default();
        let texts = self.statements(place, reference).await?;
        Ok(self.supported(place, it, texts).await?.share(0.0, it.min))
    }

    async fn context_precision(&self, place: &str, it: &OfContext) -> Result<Decided, String> {
        let texts = context::parts(it, self.input, self.returned);
        let answer = self.exhibit.answer_text();
        let answer = it.reference.as_deref().unwrap_or(&answer);
        let asked = batches(&texts, |items| {
            self.exhibit.about_answer(&USEFUL, answer, items)
        });
        let items = self.items(place, texts, asked).await?;
        Ok(items.average_precision(it.min))
    }

    async fn context_relevance(&self, place: &str, it: &OfContext) -> Result<Decided, String> {
        let parts = context::parts(it, self.input, self.returned);
        let texts = context::sentences(&parts);
        let asked = batches(&texts, |items| self.exhibit.about_task(&NEEDED, items));
        Ok(self.items(place, texts, asked).await?.share(0.0, it.min))
    }

    /// The answer of the agent against that of the baseline.
    pub async fn preferred(
        &self,
        place: &str,
        it: &PreferredToBaseline,
        baseline: &Value,
    ) -> Result<Decided, String> {
        let (answer, criterion) = (self.exhibit.answer, it.criterion.as_deref());
        let orders = [
            self.exhibit.preference(criterion, answer, baseline),
            self.exhibit.preference(criterion, baseline, answer),
        ];
        let asked = orders.into_iter().enumerate();
        let asked = asked.map(|(n, asked)| self.ask(place, n, asked, better));
        let mut replies = join_all(asked).await.into_iter();
        match (replies.next(), replies.next()) {
            (Some(first), Some(second)) => Ok(judged::preference(first?, second?, it.min)),
            _ => Err(NOT_JUDGED.to_owned()),
        }
    }

    async fn statements(&self, place: &str, text: &str) -> Result<Vec<String>, String> {
        let asked = self.exhibit.statements(text);
        self.ask(place, 0, asked, statements).await
    }

    /// Whether the context supports each statement. Without a context, it supports none.
    async fn supported(
        &self,
        place: &str,
        it: &OfContext,
        texts: Vec<String>,
    ) -> Result<Items, String> {
        let parts = context::parts(it, self.input, self.returned);
        if parts.is_empty() {
            return Ok(Items::none_of(texts, "there is no context"));
        }
        let asked = batches(&texts, |items| about_context(&SUPPORTED, &parts, items));
        self.items(place, texts, asked).await
    }

    async fn items(
        &self,
        place: &str,
        texts: Vec<String>,
        batches: Vec<(usize, Asked)>,
    ) -> Result<Items, String> {
        let mut all = Vec::with_capacity(texts.len());
        for (n, (size, asked)) in batches.into_iter().enumerate() {
            let read = move |reply: &ModelReply| verdicts(reply, size);
            all.extend(self.ask(place, n + 1, asked, read).await?);
        }
        Ok(Items {
            texts,
            verdicts: all,
        })
    }
}

/// A question about each batch of items, with its size.
fn batches(items: &[String], asked: impl Fn(&[String]) -> Asked) -> Vec<(usize, Asked)> {
    let batches = items.chunks(MAX_ITEMS);
    batches.map(|batch| (batch.len(), asked(batch))).collect()
}
