//! Signals between replicas, over a [`Fanout`] if there is one, else over LISTEN and NOTIFY.
//!
//! Senders do not wait. Signals accumulate while a statement is in flight, with only the newest
//! head of each run kept, and the next statement sends them all. Signals need not be durable: a
//! replica that misses one reads the log at its next poll. After a lost connection, all waiters
//! read the log at once. Replicas always listen to the database, because a replica without a
//! connection to the fan-out sends its signals there.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, warn};

use crate::background::{Panicked, spawn};
use crate::ports::fanout::Fanout;
use crate::ports::run_log::Head;
use crate::store::signals::LocalSignals;
use touchstone_kit::ids::RunId;
use touchstone_kit::json::text_of;

const CHANNEL: &str = "touchstone";
const SEND: &str = "SELECT pg_notify('touchstone', payload) FROM UNNEST($1::text[]) AS payload";

/// Delay between two attempts to reconnect.
const RECONNECT: Duration = Duration::from_secs(1);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Signal {
    Head {
        run: RunId,
        sequence: u64,
        ended: bool,
    },
    Cancel {
        run: RunId,
    },
    Annotated {
        run: RunId,
    },
    Work,
}

/// Sends signals to the other replicas and receives theirs, until it is dropped.
pub struct Broadcast {
    outbox: Arc<Outbox>,
    fanout: Arc<OnceLock<Arc<dyn Fanout>>>,
    _tasks: [AbortOnDropHandle<Result<(), Panicked>>; 2],
}

#[derive(Default)]
struct Outbox {
    pending: Mutex<Pending>,
    filled: Notify,
}

#[derive(Default)]
struct Pending {
    heads: HashMap<RunId, Head>,
    cancels: HashSet<RunId>,
    annotated: HashSet<RunId>,
    work: bool,
}

impl Broadcast {
    /// Starts to listen, then to send.
    pub(super) async fn start(
        options: PgConnectOptions,
        signals: Arc<LocalSignals>,
    ) -> Result<Self, sqlx::Error> {
        // A signal need not survive a crash, so its commit need not wait for the disk.
        let pool = PgPoolOptions::new()
            .max_connections(2)
            .acquire_timeout(crate::store::postgres::PATIENCE)
            .connect_lazy_with(options.options([("synchronous_commit", "off")]));
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen(CHANNEL).await?;
        let outbox = Arc::new(Outbox::default());
        let fanout = Arc::new(OnceLock::new());
        let tasks = [
            spawn("signal listener", listen(listener, signals)),
            spawn(
                "signal sender",
                send(pool, Arc::clone(&outbox), Arc::clone(&fanout)),
            ),
        ];
        Ok(Self {
            outbox,
            fanout,
            _tasks: tasks.map(AbortOnDropHandle::new),
        })
    }

    /// Sends later signals by `fanout`. Only the first one is used.
    pub(in crate::store) fn send_by(&self, fanout: Arc<dyn Fanout>) {
        let _ = self.fanout.set(fanout);
    }

    pub fn head(&self, run: &RunId, head: Head) {
        self.outbox.put(|pending| {
            pending.heads.insert(run.clone(), head);
        });
    }

    pub fn cancel(&self, run: &RunId) {
        self.outbox.put(|pending| {
            pending.cancels.insert(run.clone());
        });
    }

    pub fn annotated(&self, run: &RunId) {
        self.outbox.put(|pending| {
            pending.annotated.insert(run.clone());
        });
    }

    pub fn work(&self) {
        self.outbox.put(|pending| pending.work = true);
    }
}

impl Outbox {
    fn put(&self, change: impl FnOnce(&mut Pending)) {
        change(&mut self.lock());
        self.filled.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    fn into_signals(self) -> impl Iterator<Item = Signal> {
        let heads = self.heads.into_iter().map(|(run, head)| Signal::Head {
            run,
            sequence: head.sequence,
            ended: head.ended,
        });
        let cancels = self.cancels.into_iter().map(|run| Signal::Cancel { run });
        let annotated = self
            .annotated
            .into_iter()
            .map(|run| Signal::Annotated { run });
        heads
            .chain(cancels)
            .chain(annotated)
            .chain(self.work.then_some(Signal::Work))
    }
}

async fn send(pool: PgPool, outbox: Arc<Outbox>, fanout: Arc<OnceLock<Arc<dyn Fanout>>>) {
    loop {
        outbox.filled.notified().await;
        let pending = std::mem::take(&mut *outbox.lock());
        let payloads: Vec<String> = pending
            .into_signals()
            .map(|signal| text_of(&signal))
            .collect();
        if let Some(fanout) = fanout.get() {
            match fanout.send(&payloads).await {
                Ok(()) => continue,
                Err(cause) => debug!(%cause, "the database carries signals instead"),
            }
        }
        if let Err(cause) = sqlx::query(SEND).bind(payloads).execute(&pool).await {
            warn!(%cause, "a signal to the other replicas was lost; they will read the log at their next poll");
        }
    }
}

async fn listen(mut listener: PgListener, signals: Arc<LocalSignals>) {
    loop {
        match listener.try_recv().await {
            Ok(Some(notification)) => {
                receive(notification.payload(), Origin::Database, &signals);
            }
            // The connection was lost and has been restored.
            Ok(None) => signals.touch_all(),
            Err(cause) => {
                warn!(%cause, "cannot receive signals from the other replicas; retrying");
                tokio::time::sleep(RECONNECT).await;
                signals.touch_all();
            }
        }
    }
}

/// How a signal came.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Origin {
    Database,
    /// A wrong head may come this way, so the log is read again.
    Fanout,
}

/// Wakes those who wait for a signal.
pub(in crate::store) fn receive(signal: &str, origin: Origin, signals: &LocalSignals) {
    match serde_json::from_str(signal) {
        Ok(Signal::Head {
            run,
            sequence,
            ended,
        }) => match origin {
            Origin::Database => signals.raise(&run, Head { sequence, ended }),
            Origin::Fanout => signals.hint(&run),
        },
        Ok(Signal::Cancel { run }) => {
            signals.touch(&run);
            signals.ring();
        }
        Ok(Signal::Annotated { run }) => signals.annotate(Some(run)),
        Ok(Signal::Work) => signals.ring(),
        // A replica of another version may send unknown signals.
        Err(_) => signals.touch_all(),
    }
}
