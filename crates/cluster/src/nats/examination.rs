//! What an operator should know about the NATS servers before hosts and workers use them.

use std::time::Duration;

use async_nats::ConnectErrorKind;
use async_nats::jetstream::context::{CreateStreamErrorKind, GetStreamErrorKind};
use async_nats::jetstream::stream::{self, StorageType};
use async_nats::jetstream::{self, Context, ErrorCode};
use futures_util::StreamExt as _;

use crate::config::ClusterSettings;
use crate::nats::{ANSWERED_WITHIN, Role, options};
use crate::ports::bus::BusError;
use crate::rules::access::pools::Pool;
use crate::rules::subjects::{self, PROBE_STREAM};
use crate::rules::wire;

/// How long the connection may take.
const CONNECTED_WITHIN: Duration = Duration::from_secs(5);

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// No server answers at the addresses.
    NoAnswer,
    /// The certificate or the TLS settings do not fit.
    Tls,
    /// The credentials are missing, unreadable or refused.
    Credentials,
}

/// The queues of the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueState {
    /// The first host creates them, with as many copies as the settings say.
    Possible,
    /// The servers cannot keep this many copies.
    TooManyCopies,
    /// They exist with this number of copies, of which some may be at servers that are down.
    Exist {
        copies: usize,
        offline: usize,
        has_leader: bool,
    },
    /// The account has no JetStream.
    NoJetStream,
    Failed(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examination {
    /// The server that answered.
    pub server: String,
    pub version: String,
    pub has_tls: bool,
    /// Largest message in bytes.
    pub max_payload: usize,
    /// The pools of the settings, sorted by name. States of the servers, such as
    /// [`QueueState::NoJetStream`], are reported for one pool only.
    pub pools: Vec<PoolState>,
    /// Pools with queues that the settings do not name, or why they were not found.
    pub other_pools: Result<Vec<Pool>, String>,
}

/// The queues of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolState {
    pub pool: Pool,
    pub queues: QueueState,
}

impl Examination {
    /// Whether the largest message of Touchstone fits.
    pub const fn takes_all_messages(&self) -> bool {
        self.max_payload >= wire::MAX_BYTES
    }
}

/// Connects once and looks at the servers.
///
/// # Errors
/// There is no connection: the reason and its text.
pub async fn examine(settings: &ClusterSettings) -> Result<Examination, (Unreachable, String)> {
    let connecting = async {
        let (addresses, options) = options(settings, &Role::Host).await.map_err(
            // Addresses were checked with the configuration, which leaves the credentials.
            |cause| match cause {
                BusError::Failed(text) => (Unreachable::Credentials, text),
                other => (Unreachable::NoAnswer, other.to_string()),
            },
        )?;
        let connected = options.connect(addresses).await;
        connected.map_err(|cause| {
            let kind = match cause.kind() {
                ConnectErrorKind::Tls => Unreachable::Tls,
                ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                    Unreachable::Credentials
                }
                _ => Unreachable::NoAnswer,
            };
            (kind, cause.to_string())
        })
    };
    let connected = tokio::time::timeout(CONNECTED_WITHIN, connecting).await;
    let client = connected.map_err(|_| {
        (
            Unreachable::NoAnswer,
            "no answer within 5 seconds".to_owned(),
        )
    })??;
    let info = client.server_info();
    let context = jetstream::context::ContextBuilder::new()
        .timeout(ANSWERED_WITHIN)
        .ack_timeout(ANSWERED_WITHIN)
        .build(client);
    let (pools, other_pools) = match info.jetstream {
        true => (
            pools(&context, settings).await,
            other_pools(&context, settings).await,
        ),
        false => {
            let state = PoolState {
                pool: Pool::shared(),
                queues: QueueState::NoJetStream,
            };
            (vec![state], Ok(Vec::new()))
        }
    };
    Ok(Examination {
        server: info.server_name,
        version: info.version,
        has_tls: info.tls_required,
        max_payload: info.max_payload,
        pools,
        other_pools,
    })
}

async fn pools(context: &Context, settings: &ClusterSettings) -> Vec<PoolState> {
    let mut configured = settings.pools.all();
    configured.sort();
    let (mut found, mut is_general_known) = (Vec::new(), false);
    for pool in configured {
        let queues = queues(context, &pool, settings.replicas).await;
        // These are about the servers and not about the pool.
        let is_general = matches!(queues, QueueState::TooManyCopies | QueueState::NoJetStream);
        if !(is_general && is_general_known) {
            found.push(PoolState { pool, queues });
        }
        is_general_known |= is_general;
    }
    found
}

/// The pools with queues that the settings do not name. The user of hosts may ask for the names of
/// their streams, and for nothing else.
async fn other_pools(context: &Context, settings: &ClusterSettings) -> Result<Vec<Pool>, String> {
    let configured = settings.pools.all();
    let mut names = context.stream_names();
    let mut pools = Vec::new();
    while let Some(name) = names.next().await {
        let name = name.map_err(|cause| cause.to_string())?;
        pools.extend(Pool::of_stream(&name).filter(|pool| !configured.contains(pool)));
    }
    pools.sort();
    pools.dedup();
    Ok(pools)
}

async fn queues(context: &Context, pool: &Pool, copies: usize) -> QueueState {
    let cause = match context.get_stream(pool.stream()).await {
        Ok(stream) => {
            let info = stream.cached_info();
            let cluster = info.cluster.as_ref();
            let peers = cluster.map(|it| it.replicas.as_slice()).unwrap_or_default();
            return QueueState::Exist {
                copies: info.config.num_replicas,
                offline: peers.iter().filter(|it| it.offline).count(),
                // A single server has no list of copies.
                has_leader: cluster.is_none_or(|it| it.leader.is_some()),
            };
        }
        Err(cause) => cause,
    };
    match cause.kind() {
        GetStreamErrorKind::JetStream(cause) => match cause.error_code() {
            ErrorCode::STREAM_NOT_FOUND => possible(context, copies).await,
            ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => {
                QueueState::NoJetStream
            }
            _ => QueueState::Failed(cause.to_string()),
        },
        _ => QueueState::Failed(cause.to_string()),
    }
}

/// Whether a stream with this many copies can be created.
async fn possible(context: &Context, copies: usize) -> QueueState {
    let created = context.create_stream(stream::Config {
        name: PROBE_STREAM.to_owned(),
        subjects: vec![subjects::probe()],
        storage: StorageType::Memory,
        num_replicas: copies,
        max_messages: 1,
        ..stream::Config::default()
    });
    let Err(cause) = created.await else {
        return match context.delete_stream(PROBE_STREAM).await {
            Ok(_) => QueueState::Possible,
            Err(cause) => QueueState::Failed(cause.to_string()),
        };
    };
    match cause.kind() {
        CreateStreamErrorKind::JetStream(cause) if is_about_copies(cause.error_code()) => {
            QueueState::TooManyCopies
        }
        _ => QueueState::Failed(cause.to_string()),
    }
}

fn is_about_copies(code: ErrorCode) -> bool {
    [
        ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED,
        ErrorCode::CLUSTER_NO_PEERS,
        ErrorCode::INSUFFICIENT_RESOURCES,
    ]
    .contains(&code)
}
