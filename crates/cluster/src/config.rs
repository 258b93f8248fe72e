//! The section `[cluster]` of the configuration.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use touchstone_agents::rules::distribution::Distribution;
use touchstone_agents::rules::worker_labels::WorkerLabels;
use url::{Host, Url};

use crate::rules::access::pools::Pools;
use crate::rules::access::rights::Rights;
use crate::rules::wire::parts::ContentLimits;

/// Longest time in which a worker may work without an answer of its owner, in seconds.
const MAX_HOLD_S: u64 = 600;
/// Shortest one. Heartbeats are sent each second.
const MIN_HOLD_S: u64 = 3;
/// Most sets of labels that runs may require.
const MAX_LABEL_SETS: usize = 32;
/// Largest value of `max_task_bytes`.
const MAX_TASK_BYTES: usize = 256 * 1024 * 1024;
/// Largest value of `max_pool_bytes`.
const MAX_POOL_BYTES: usize = 16 * 1024 * 1024 * 1024;
/// Most copies of a queue that a cluster of NATS servers keeps.
const MAX_REPLICAS: usize = 5;

/// How this host and its workers reach each other.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterSettings {
    /// Addresses of NATS servers with JetStream, separated by commas: `tls://nats-1:4222`. If unset,
    /// this host has no workers.
    pub nats: Option<String>,
    /// A file with the credentials of a NATS user (`.creds`).
    pub credentials_file: Option<PathBuf>,
    /// A file with the seed of a NATS user's `NKey`.
    pub nkey_file: Option<PathBuf>,
    /// Certificates of authorities that are trusted in addition to those of the system (PEM).
    pub ca_file: Option<PathBuf>,
    /// Allows connections without TLS to other machines.
    pub insecure: bool,
    /// Copies of the queues in a cluster of NATS servers, 1 to 5.
    pub replicas: usize,
    /// Seconds that a worker may work without an answer of this host. Its tasks are given to others
    /// after this.
    pub hold_s: u64,
    /// Where runs are executed that do not set `configurable.evalDistribution`.
    pub distribution: Distribution,
    /// The sets of labels of workers that runs may require.
    pub labels: LabelSets,
    /// Largest task in bytes that workers fetch in parts; larger ones are executed by the host.
    pub max_task_bytes: usize,
    /// Bytes of all such tasks of a pool, and of their answers, that workers have from a host at the
    /// same time.
    pub max_pool_bytes: usize,
    /// Tenants with queues of their own.
    pub pools: Pools,
    /// The workers that may execute tasks, if only some may.
    pub workers: Rights,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            nats: None,
            credentials_file: None,
            nkey_file: None,
            ca_file: None,
            insecure: false,
            replicas: 1,
            hold_s: 10,
            distribution: Distribution::Local,
            labels: LabelSets::default(),
            max_task_bytes: ContentLimits::default().task,
            max_pool_bytes: ContentLimits::default().pool,
            pools: Pools::default(),
            workers: Rights::default(),
        }
    }
}

/// Sets of labels, each written as labels that are separated by commas. Each can have queues of its own
/// in each pool and for each model, so that there are few.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct LabelSets(Vec<WorkerLabels>);

impl LabelSets {
    pub fn as_slice(&self) -> &[WorkerLabels] {
        &self.0
    }
}

impl TryFrom<Vec<String>> for LabelSets {
    type Error = String;

    fn try_from(texts: Vec<String>) -> Result<Self, String> {
        if texts.len() > MAX_LABEL_SETS {
            let count = texts.len();
            return Err(format!(
                "`cluster.labels` must be at most {MAX_LABEL_SETS} sets of labels, got {count}"
            ));
        }
        let sets = texts.iter().map(|text| {
            WorkerLabels::parse(text).map_err(|problem| {
                format!(
                    "`cluster.labels` contains `{text}`, which is not a set of labels such as `gpu,region=eu`: it {problem}"
                )
            })
        });
        sets.collect::<Result<_, _>>().map(Self)
    }
}

/// A field of the section, and its fault.
pub type Fault = (&'static str, String);

impl ClusterSettings {
    /// Checks rules that the types do not express.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn check(&self) -> Result<(), Fault> {
        if !(1..=MAX_REPLICAS).contains(&self.replicas) {
            let problem = format!(
                "must be between 1 and {MAX_REPLICAS}, got {}",
                self.replicas
            );
            return Err(("replicas", problem));
        }
        if !(MIN_HOLD_S..=MAX_HOLD_S).contains(&self.hold_s) {
            let problem = format!(
                "must be between {MIN_HOLD_S} and {MAX_HOLD_S}, got {}",
                self.hold_s
            );
            return Err(("hold_s", problem));
        }
        if self.max_task_bytes > MAX_TASK_BYTES {
            let problem = format!(
                "must be at most {MAX_TASK_BYTES}, got {}",
                self.max_task_bytes
            );
            return Err(("max_task_bytes", problem));
        }
        if !(self.max_task_bytes..=MAX_POOL_BYTES).contains(&self.max_pool_bytes) {
            let problem = format!(
                "must be between `max_task_bytes` ({}) and {MAX_POOL_BYTES}, got {}",
                self.max_task_bytes, self.max_pool_bytes
            );
            return Err(("max_pool_bytes", problem));
        }
        if self.credentials_file.is_some() && self.nkey_file.is_some() {
            let problem =
                "must not be set together with `credentials_file`: a NATS user has one of both";
            return Err(("nkey_file", problem.to_owned()));
        }
        self.servers().map(drop)
    }

    /// The addresses of the servers; none if there is no cluster.
    ///
    /// # Errors
    /// [`Fault`]. It does not quote an address, which may hold a password.
    pub fn servers(&self) -> Result<Vec<Url>, Fault> {
        let Some(list) = &self.nats else {
            return Ok(Vec::new());
        };
        let servers = list.split(',').map(|text| self.server(text.trim()));
        servers.collect()
    }

    fn server(&self, text: &str) -> Result<Url, Fault> {
        let wrong = |problem: &str| ("nats", problem.to_owned());
        let url: Url = text.parse().map_err(|_| {
            wrong("must be addresses such as `tls://nats.example:4222`, separated by commas")
        })?;
        if !matches!(url.scheme(), "nats" | "tls") || url.host().is_none() {
            return Err(wrong(
                "must be addresses that begin with `tls://` or `nats://` and name a host",
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong(
                "must not contain a user or a password; use `nkey_file` or `credentials_file`",
            ));
        }
        if url.scheme() == "nats" && !self.insecure && !is_loopback(&url) {
            return Err(wrong(
                "names another machine without TLS; use `tls://`, or set `insecure = true` in a trusted network",
            ));
        }
        Ok(url)
    }

    pub const fn content(&self) -> ContentLimits {
        ContentLimits {
            task: self.max_task_bytes,
            pool: self.max_pool_bytes,
        }
    }

    pub const fn hold(&self) -> Duration {
        Duration::from_secs(self.hold_s)
    }
}

fn is_loopback(url: &Url) -> bool {
    // The host of a URL whose scheme is not one of the web is not parsed as an address.
    match url.host() {
        Some(Host::Domain(name)) => {
            name == "localhost"
                || name
                    .parse()
                    .is_ok_and(|it: std::net::Ipv4Addr| it.is_loopback())
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn with(nats: &str, insecure: bool) -> ClusterSettings {
        ClusterSettings {
            nats: Some(nats.to_owned()),
            insecure,
            ..ClusterSettings::default()
        }
    }

    #[rstest]
    #[case("nats://127.0.0.1:4222", false)]
    #[case("nats://localhost:4222", false)]
    #[case("nats://[::1]:4222", false)]
    #[case("tls://nats.example", false)]
    #[case("tls://a.example:4222, tls://b.example:4222", false)]
    #[case("nats://10.0.0.1:4222", true)]
    fn a_usable_address_is_accepted(#[case] nats: &str, #[case] insecure: bool) {
        assert_eq!(with(nats, insecure).check(), Ok(()));
    }

    #[rstest]
    #[case("", "must be addresses")]
    #[case("nats.example:4222", "must be addresses")]
    #[case("http://127.0.0.1:4222", "must be addresses that begin")]
    #[case("nats://10.0.0.1:4222", "without TLS")]
    #[case("nats://localhost.example:4222", "without TLS")]
    #[case("nats://127.0.0.1.example:4222", "without TLS")]
    #[case("nats://127.0.0.1,nats://10.0.0.1", "without TLS")]
    #[case("tls://user:secret@nats.example", "must not contain a user")]
    #[case("tls://user@nats.example", "must not contain a user")]
    fn an_unusable_address_is_refused_without_quoting_it(
        #[case] nats: &str,
        #[case] expected: &str,
    ) {
        let (field, problem) = with(nats, false).check().unwrap_err();
        assert_eq!(field, "nats");
        assert!(problem.contains(expected), "{problem}");
        assert!(!problem.contains("secret"), "{problem}");
    }

    #[test]
    fn a_user_has_one_kind_of_credentials() {
        let settings = ClusterSettings {
            credentials_file: Some("host.creds".into()),
            nkey_file: Some("host.nk".into()),
            ..ClusterSettings::default()
        };
        assert_eq!(settings.check().unwrap_err().0, "nkey_file");
    }

    #[rstest]
    #[case(ClusterSettings { replicas: 0, ..ClusterSettings::default() }, "replicas")]
    #[case(ClusterSettings { replicas: 6, ..ClusterSettings::default() }, "replicas")]
    #[case(ClusterSettings { hold_s: 2, ..ClusterSettings::default() }, "hold_s")]
    #[case(ClusterSettings { hold_s: 601, ..ClusterSettings::default() }, "hold_s")]
    #[case(ClusterSettings { max_task_bytes: MAX_TASK_BYTES + 1, ..ClusterSettings::default() }, "max_task_bytes")]
    #[case(ClusterSettings { max_pool_bytes: 1, ..ClusterSettings::default() }, "max_pool_bytes")]
    fn numbers_are_within_their_ranges(#[case] settings: ClusterSettings, #[case] field: &str) {
        assert_eq!(settings.check().unwrap_err().0, field);
    }

    #[test]
    fn the_sets_of_labels_that_runs_may_require_are_few() {
        let sets = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|it| (*it).to_owned()).collect();
            LabelSets::try_from(texts)
        };
        let found = sets(&["gpu", "region=eu, gpu"]).unwrap();
        let shown: Vec<String> = found.as_slice().iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["gpu", "gpu, region=eu"]);
        for (texts, expected) in [
            (vec!["gpu;eu"], "contains `gpu;eu`"),
            (vec![""], "contains ``"),
            (vec!["1,2,3,4,5,6,7,8,9"], "at most 8 labels, got 9"),
            (vec!["gpu"; 33], "at most 32 sets of labels, got 33"),
        ] {
            let problem = sets(&texts).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
