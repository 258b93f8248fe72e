//! A cache of model answers by exact request, for people who change an agent and run it again.
//!
//! Caching is a decorator of the model port, like cassettes. The n-th identical request of a task
//! in one process gets the n-th answer, so that the trials of an experiment never share an answer,
//! and a question that is repeated because its answer was unusable gets another one. Errors are not
//! kept, and neither are replies that a judge, a simulated user or an embedding model must not
//! give, such as malformed ones. Nothing in the cache is evidence: runs that may use it are marked.

pub mod folder;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::model::answer_cache::folder::AnswerFolder;
use crate::model::cassette::format::{Reply, exact_request_of};
use crate::model::config::Provider;
use crate::ports::model::{Model, ModelError, ModelInfo};
use crate::rules::COMMAND_PROVIDER;
use crate::rules::{ModelReply, ModelRequest};
use touchstone_kit::hex::hex;

/// Separates these digests from all others. Changes with everything that an answer depends on.
const RECIPE: &str = "touchstone:answer-cache:v1";

/// A request's key, and the task that made it.
type Place = (String, Option<String>);

/// The identical requests of a task.
#[derive(Debug, Default)]
struct Requests {
    /// Number of requests so far.
    count: u32,
    /// Those without an answer in the cache that the model has not answered yet.
    open: BTreeSet<u32>,
}

/// The answers of one command.
#[derive(Debug)]
pub struct AnswerCache {
    folder: Arc<AnswerFolder>,
    requests: Mutex<HashMap<Place, Requests>>,
    /// Names the state of the program that answers for the agent; `None` if it is unknown.
    program: Option<String>,
}

impl AnswerCache {
    pub fn new(folder: AnswerFolder) -> Self {
        Self {
            folder: Arc::new(folder),
            requests: Mutex::default(),
            program: None,
        }
    }

    /// Also keeps the answers of the program that acts as the agent, for as long as it is in this
    /// state.
    #[must_use]
    pub fn of_program(self, state: Option<String>) -> Self {
        Self {
            program: state,
            ..self
        }
    }

    /// The address under which the program's answers are kept.
    pub(super) fn program(&self) -> Option<String> {
        let state = self.program.as_ref()?;
        Some(format!("{}:{state}", COMMAND_PROVIDER))
    }

    /// Wraps the model at this endpoint.
    pub fn wrap(self: &Arc<Self>, url: &str, model: Arc<dyn Model>) -> Arc<dyn Model> {
        Arc::new(CachedModel {
            url: url.to_owned(),
            model,
            cache: Arc::clone(self),
        })
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<Place, Requests>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request, and returns its number. Trials may make equal requests at the same time,
    /// so a number is given out once.
    fn begin(&self, place: &Place) -> u32 {
        let mut requests = self.requests();
        let of_task = requests.entry(place.clone()).or_default();
        let number = of_task.count;
        of_task.count += 1;
        number
    }

    /// Leaves the answer to a request to the model.
    fn leave_open(&self, place: &Place, number: u32) {
        let mut requests = self.requests();
        let of_task = requests.entry(place.clone()).or_default();
        of_task.open.insert(number);
    }

    /// Number of identical requests so far.
    fn count(&self, place: &Place) -> u32 {
        self.requests().get(place).map_or(0, |it| it.count)
    }

    /// The number of a request that the model has answered.
    fn end(&self, place: &Place) -> Option<u32> {
        self.requests().get_mut(place)?.open.pop_first()
    }
}

/// Digest over everything that determines the answer. The API key is not part of it.
fn key_of(url: &str, info: &ModelInfo, request: &ModelRequest<'_>) -> String {
    let mut document = json!({
        "recipe": RECIPE,
        "url": url,
        "request": exact_request_of(info, request),
    });
    // A program gets the input as it is, beside the messages.
    if info.provider == COMMAND_PROVIDER
        && let (Some(task), Some(members)) = (&request.task, document.as_object_mut())
    {
        members.insert("input".to_owned(), task.input.clone());
    }
    hex(&Sha256::digest(document.to_string()))
}

/// The name of the file with the n-th answer.
fn name_of(key: &str, nth: u32) -> String {
    hex(&Sha256::digest(format!("{key}/{nth}")))
}

struct CachedModel {
    /// Address of the endpoint.
    url: String,
    model: Arc<dyn Model>,
    cache: Arc<AnswerCache>,
}

impl CachedModel {
    /// Whether the answer depends on what a remote agent or a program keeps of the conversation, or is
    /// needed to continue it.
    fn is_bound_to_agent(&self, request: &ModelRequest<'_>) -> bool {
        let keeps = [Provider::A2a.as_str(), COMMAND_PROVIDER];
        request.thread.is_some() && keeps.contains(&self.info().provider.as_str())
    }

    fn place(&self, request: &ModelRequest<'_>) -> Place {
        let task = request.task.map(|task| task.id.as_str().to_owned());
        (key_of(&self.url, self.model.info(), request), task)
    }
}

#[async_trait]
impl Model for CachedModel {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let reply = self.model.complete(request).await?;
        let place = self.place(request);
        if let Some(number) = self.cache.end(&place)
            && let Ok(document) = serde_json::to_vec(&Reply::of(&reply))
        {
            let name = name_of(&place.0, number);
            let folder = self.cache.folder.clone();
            // A cache that cannot be written does not make the answer worse.
            let _ = tokio::task::spawn_blocking(move || folder.write(&name, &document)).await;
        }
        Ok(reply)
    }

    async fn recall(&self, request: &ModelRequest<'_>) -> Option<ModelReply> {
        if self.is_bound_to_agent(request) {
            return None;
        }
        let place = self.place(request);
        let number = self.cache.begin(&place);
        let name = name_of(&place.0, number);
        let folder = self.cache.folder.clone();
        let document = tokio::task::spawn_blocking(move || folder.read(&name)).await;
        let document = document.ok().flatten();
        let reply = document.and_then(|document| serde_json::from_slice::<Reply>(&document).ok());
        let Some(reply) = reply else {
            self.cache.leave_open(&place, number);
            return None;
        };
        Some(ModelReply {
            from_cache: true,
            ..reply.into()
        })
    }

    async fn forget(&self, request: &ModelRequest<'_>, reply: &ModelReply) {
        let place = self.place(request);
        let count = self.cache.count(&place);
        let Ok(unusable) = serde_json::to_vec(&Reply::of(reply)) else {
            return;
        };
        let folder = self.cache.folder.clone();
        // Trials make equal requests at the same time, so the reply tells which one is meant.
        let removed = tokio::task::spawn_blocking(move || {
            let names = (0..count).map(|number| name_of(&place.0, number));
            for name in names.filter(|name| folder.read(name).as_ref() == Some(&unusable)) {
                folder.remove(&name);
            }
        });
        let _ = removed.await;
    }

    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    async fn adapter(&self) -> Option<Value> {
        self.model.adapter().await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::rules::prices::ModelPrice;
    use crate::rules::{Message, RetryPolicy, TaskHint};
    use touchstone_kit::ids::TaskId;

    /// Answers with the number of the call, and fails every call from `fails_from` on.
    struct Counting {
        info: ModelInfo,
        calls: AtomicU32,
        fails_from: u32,
    }

    #[async_trait]
    impl Model for Counting {
        async fn complete(&self, _: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
            let call = self.calls.fetch_add(1, Ordering::Relaxed);
            if call >= self.fails_from {
                return Err(ModelError::unavailable("connect", true));
            }
            Ok(ModelReply {
                text: Some(format!(
                    "answer {call}, key sk-ant-api03-{}",
                    "x".repeat(80)
                )),
                ..ModelReply::default()
            })
        }

        fn info(&self) -> &ModelInfo {
            &self.info
        }
    }

    fn counting(model: &str, fails_from: u32) -> Arc<Counting> {
        Arc::new(Counting {
            info: ModelInfo {
                provider: "openai".to_owned(),
                model: model.to_owned(),
                price: Some(ModelPrice::configured(1.0, 1.0)),
                max_concurrency: 1,
                timeout: Duration::from_secs(1),
                retry: RetryPolicy::default(),
            },
            calls: AtomicU32::new(0),
            fails_from,
        })
    }

    /// One command: the answer to a task's request, and whether it came from the cache.
    async fn ask(model: &Arc<dyn Model>, task: &str, text: &str) -> Result<(String, bool), ()> {
        let (id, input) = (TaskId::from(task), Value::from(text));
        let request = ModelRequest {
            messages: vec![Message::User(text.into())],
            task: Some(TaskHint {
                id: &id,
                input: &input,
                turn: 0,
            }),
            ..ModelRequest::default()
        };
        let reply = match model.recall(&request).await {
            Some(reply) => reply,
            None => model.complete(&request).await.map_err(|_| ())?,
        };
        Ok((reply.text.unwrap_or_default(), reply.from_cache))
    }

    fn command(folder: &std::path::Path, url: &str, model: &Arc<Counting>) -> Arc<dyn Model> {
        let cache = Arc::new(AnswerCache::new(AnswerFolder::at(folder)));
        cache.wrap(url, Arc::clone(model) as Arc<dyn Model>)
    }

    const URL: &str = "http://127.0.0.1/v1";

    #[tokio::test]
    async fn an_equal_request_of_a_later_command_gets_the_same_answer() {
        let folder = folder::tests::temporary();
        let model = counting("m", 9);
        let first = ask(&command(&folder, URL, &model), "a", "x").await.unwrap();
        assert!(!first.1);
        let again = ask(&command(&folder, URL, &model), "a", "x").await.unwrap();
        assert_eq!(again, (first.0.clone(), true));
        // The task's name does not matter, so renaming a task costs nothing.
        let renamed = ask(&command(&folder, URL, &model), "b", "x").await.unwrap();
        assert_eq!(renamed, (first.0, true));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[tokio::test]
    async fn a_repeated_request_of_one_command_never_gets_the_same_answer_twice() {
        let folder = folder::tests::temporary();
        let model = counting("m", 9);
        let trials = command(&folder, URL, &model);
        let first = ask(&trials, "a", "x").await.unwrap();
        let second = ask(&trials, "a", "x").await.unwrap();
        assert_ne!(first.0, second.0);
        assert!(!second.1);
        // Both are found again, in the same order.
        let later = command(&folder, URL, &model);
        assert_eq!(ask(&later, "a", "x").await.unwrap(), (first.0, true));
        assert_eq!(ask(&later, "a", "x").await.unwrap(), (second.0, true));
        assert!(!ask(&later, "a", "x").await.unwrap().1);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[tokio::test]
    async fn equal_requests_at_the_same_time_get_different_answers() {
        let folder = folder::tests::temporary();
        let model = counting("m", 99);
        for from_cache in [false, true] {
            let trials = command(&folder, URL, &model);
            let (a, b) = tokio::join!(ask(&trials, "a", "x"), ask(&trials, "a", "x"));
            let (a, b) = (a.unwrap(), b.unwrap());
            assert_ne!(a.0, b.0);
            assert_eq!((a.1, b.1), (from_cache, from_cache));
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// A program in this state, asked with a text or in a conversation.
    async fn ask_program(
        folder: &std::path::Path,
        state: &str,
        thread: bool,
    ) -> Option<ModelReply> {
        let model = counting("command-1", 9);
        let info = ModelInfo {
            provider: COMMAND_PROVIDER.to_owned(),
            ..model.info.clone()
        };
        let model = Arc::new(Counting {
            info,
            calls: AtomicU32::new(0),
            fails_from: 9,
        });
        let cache = AnswerCache::new(AnswerFolder::at(folder)).of_program(Some(state.to_owned()));
        let url = cache.program().unwrap();
        let model = Arc::new(cache).wrap(&url, model);
        let request = ModelRequest {
            messages: vec![Message::User("x".into())],
            thread: thread.then(Default::default),
            ..ModelRequest::default()
        };
        let recalled = model.recall(&request).await;
        if recalled.is_none() {
            model.complete(&request).await.unwrap();
        }
        recalled
    }

    #[tokio::test]
    async fn answers_of_a_program_belong_to_its_state() {
        let folder = folder::tests::temporary();
        assert!(ask_program(&folder, "1", false).await.is_none());
        assert!(ask_program(&folder, "1", false).await.is_some());
        assert!(ask_program(&folder, "2", false).await.is_none());
        assert!(ask_program(&folder, "1", true).await.is_none());
        assert!(ask_program(&folder, "1", true).await.is_none());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[tokio::test]
    async fn another_text_model_or_endpoint_is_another_request() {
        let folder = folder::tests::temporary();
        let model = counting("m", 99);
        ask(&command(&folder, URL, &model), "a", "x").await.unwrap();
        let others = [
            (URL, counting("m", 9), "y"),
            (URL, counting("n", 9), "x"),
            ("http://127.0.0.2/v1", counting("m", 9), "x"),
        ];
        for (url, model, text) in others {
            let asked = ask(&command(&folder, url, &model), "a", text).await;
            assert!(!asked.unwrap().1, "{url} {text}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[tokio::test]
    async fn an_unusable_reply_is_forgotten_and_others_are_kept() {
        let folder = folder::tests::temporary();
        let model = counting("m", 9);
        let cached = command(&folder, URL, &model);
        ask(&cached, "a", "x").await.unwrap();
        let kept = ask(&cached, "a", "x").await.unwrap();
        let later = command(&folder, URL, &model);
        let (id, input) = (TaskId::from("a"), Value::from("x"));
        let request = ModelRequest {
            messages: vec![Message::User("x".into())],
            task: Some(TaskHint {
                id: &id,
                input: &input,
                turn: 0,
            }),
            ..ModelRequest::default()
        };
        let unusable = later.recall(&request).await.unwrap();
        later.forget(&request, &unusable).await;
        let last = command(&folder, URL, &model);
        assert!(!ask(&last, "a", "x").await.unwrap().1);
        assert_eq!(ask(&last, "a", "x").await.unwrap(), (kept.0, true));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[tokio::test]
    async fn errors_are_not_kept() {
        let folder = folder::tests::temporary();
        let broken = counting("m", 0);
        assert!(
            ask(&command(&folder, URL, &broken), "a", "x")
                .await
                .is_err()
        );
        let works = counting("m", 9);
        assert!(
            !ask(&command(&folder, URL, &works), "a", "x")
                .await
                .unwrap()
                .1
        );
        std::fs::remove_dir_all(folder).unwrap();
    }
}
