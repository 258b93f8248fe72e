//! One renderer per watched run, however many people watch it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::warn;

use crate::api::ConsoleApi;
use crate::live::frame::Frame;
use crate::live::view::watched;
use touchstone_host::background::spawn;
use touchstone_host::ports::run_log::Head;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{RunId, TenantId};

/// Shortest and longest time between two frames.
const SHORTEST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(2);
/// A frame takes at most this share of the time.
const SHARE: u32 = 10;
/// Each watcher adds this to the time between two frames.
const PER_WATCHER: Duration = Duration::from_micros(20);

type Key = (TenantId, RunId);
type Frames = watch::Sender<Option<Arc<Frame>>>;

/// The newest frame; `None` until the first is rendered.
pub type Watcher = watch::Receiver<Option<Arc<Frame>>>;

/// The watched runs.
#[derive(Default)]
pub struct LiveRuns {
    watched: Mutex<HashMap<Key, Frames>>,
}

impl LiveRuns {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Frames>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a run. The first watcher starts its renderer, which ends with the last watcher, with
    /// the run and with the host.
    pub fn watch(&self, api: &Arc<ConsoleApi>, tenant: &TenantId, run: &RunId) -> Watcher {
        let key = (tenant.clone(), run.clone());
        let mut watched = self.lock();
        if let Some(frames) = watched.get(&key) {
            return frames.subscribe();
        }
        let (frames, watcher) = watch::channel(None);
        watched.insert(key.clone(), frames.clone());
        drop(watched);
        let api = api.clone();
        spawn("live run", async move {
            render_all(&api, &key, &frames).await;
            api.live.remove(&key, &frames);
        });
        watcher
    }

    fn remove(&self, key: &Key, frames: &Frames) {
        let mut watched = self.lock();
        // A successor may already have taken its place.
        if watched.get(key).is_some_and(|it| it.same_channel(frames)) {
            watched.remove(key);
        }
    }

    /// Removes a run without watchers; `false` if it has one.
    fn remove_unwatched(&self, key: &Key, frames: &Frames) -> bool {
        let mut watched = self.lock();
        let is_unwatched = frames.receiver_count() == 0;
        if is_unwatched {
            watched.remove(key);
        }
        is_unwatched
    }
}

async fn render_all(api: &ConsoleApi, key: &Key, frames: &Frames) {
    let (tenant, run) = key;
    let mut follow = api.runs.log.follow(run, Head::default());
    loop {
        let started = Instant::now();
        follow.head();
        match render(api, tenant, run, frames).await {
            Ok(has_ended) if has_ended => return,
            Ok(_) => {}
            Err(problem) => {
                // The streams end, and browsers connect again.
                warn!(run_id = %run, error = %problem, "could not render a watched run");
                return;
            }
        }
        sleep(pause(started.elapsed(), frames.receiver_count())).await;
        tokio::select! {
            () = api.host.shutdown.cancelled() => return,
            () = follow.changed() => {}
            () = frames.closed() => {}
        }
        if api.live.remove_unwatched(key, frames) {
            return;
        }
    }
}

/// Renders and announces a frame; `true` if the run has ended.
async fn render(
    api: &ConsoleApi,
    tenant: &TenantId,
    run: &RunId,
    frames: &Frames,
) -> Result<bool, Problem> {
    let found = watched(api, tenant, run).await?;
    let before = frames.borrow().clone();
    let frame = Frame::render(&found.live, before.as_deref()).map_err(|cause| internal(&cause))?;
    let has_ended = frame.has_ended;
    frames.send_replace(Some(Arc::new(frame)));
    Ok(has_ended)
}

fn pause(rendering: Duration, watchers: usize) -> Duration {
    let watchers = u32::try_from(watchers).unwrap_or(u32::MAX);
    let least = rendering.saturating_mul(SHARE);
    let least = least.max(PER_WATCHER.saturating_mul(watchers));
    least.clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(1, 1, 250)]
    #[case(60, 1, 600)]
    #[case(1, 50_000, 1000)]
    #[case(5_000, 1, 2000)]
    fn frames_are_slower_for_large_runs_and_many_watchers(
        #[case] rendering: u64,
        #[case] watchers: usize,
        #[case] expected: u64,
    ) {
        let found = pause(Duration::from_millis(rendering), watchers);
        assert_eq!(found, Duration::from_millis(expected));
    }
}
