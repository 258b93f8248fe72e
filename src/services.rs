//! Every service of a host, built once from its parts. `app` makes the parts from a configuration;
//! tests make them with their own clock, ids and adapters.

use std::sync::Arc;

use axum::Router;
use tokio_util::sync::CancellationToken;

use crate::conformance::http::ConformanceApi;
use crate::conformance::{Seams, SeamsDeps};
use crate::http::cluster::ClusterApi;
use crate::http::{self, Apis, DocumentsApi};
use crate::kinds::KINDS;
use crate::kinds::PACK_FORMAT;
use touchstone_agent_cards::http::CardsApi;
use touchstone_agent_cards::service::Cards;
use touchstone_agent_cards::service::gate::CardGate;
use touchstone_agent_cards::service::history::CardScores;
use touchstone_agents::ports::agent::AgentRuntime;
use touchstone_agents::ports::live_tools::LiveTools;
use touchstone_agents::ports::model::Models;
use touchstone_agents::runtime::Runtime;
use touchstone_cluster::service::Cluster;
use touchstone_cluster::service::owner::ClusterRuntime;
use touchstone_console::api::ConsoleApi;
use touchstone_console::config::{ConsoleConfig, Setting};
use touchstone_console::live::hub::LiveRuns;
use touchstone_console::session::oidc::provider::Provider;
use touchstone_deployments::http::DeploymentsApi;
use touchstone_deployments::rules::Channel;
use touchstone_deployments::service::attestations::{Attestations, Attester};
use touchstone_deployments::service::deployments::Deployments;
use touchstone_deployments::service::gates::Gates;
use touchstone_deployments::service::gates::condition::Condition;
use touchstone_deployments::service::queries::DeploymentQueries;
use touchstone_host::http::{HostApi, HttpHost, HttpSettings};
use touchstone_host::objects::ObjectStorage;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_host::service::audit::Audit;
use touchstone_host::service::jobs::Replica;
use touchstone_host::service::keys::Keys;
use touchstone_host::service::sessions::Sessions;
use touchstone_host::service::vault::Vault;
use touchstone_host::store::database::Database;
use touchstone_host::telemetry::Metrics;
use touchstone_kit::keys::PublicKey;
use touchstone_oasis::executor::OasisExecutor;
use touchstone_oasis::http::OasisApi;
use touchstone_oasis::ports::providers::Providers;
use touchstone_oasis::rules::report::decision;
use touchstone_oasis::service::evaluations::Evaluations;
use touchstone_oasis::service::evaluations::plan::OasisPlanner;
use touchstone_oasis::service::gate::OasisGate;
use touchstone_oasis::service::library::Library as OasisLibrary;
use touchstone_openwop::wire::version::Majors;
use touchstone_packs::http::{PackRules, PacksApi};
use touchstone_packs::ports::host::AgentDeployments;
use touchstone_packs::service::packs::Packs;
use touchstone_packs::service::publications::Publications;
use touchstone_ratings::http::RatingsApi;
use touchstone_ratings::http::rates::{Allowances, RatingRates};
use touchstone_ratings::rules::badge::host_url::HostUrl;
use touchstone_ratings::service::badges::BadgeRenderer;
use touchstone_ratings::service::badges::issuer::Issuer;
use touchstone_ratings::service::{RatingGate, RatingServices, Ratings};
use touchstone_runs::http::RunsApi;
use touchstone_runs::rules::run::request::HostLimits;
use touchstone_runs::service::annotations::Annotations;
use touchstone_runs::service::archive::retention::Retention;
use touchstone_runs::service::archive::{Archive, ArchiveParts};
use touchstone_runs::service::bundles::Bundles;
use touchstone_runs::service::command::Command;
use touchstone_runs::service::diffs::Diffs;
use touchstone_runs::service::executor::Executor;
use touchstone_runs::service::executor::eval::EvalExecutor;
use touchstone_runs::service::executor::task_loop::TenantPermits;
use touchstone_runs::service::library::Library;
use touchstone_runs::service::log_reader::LogReader;
use touchstone_runs::service::projections::Projections;
use touchstone_runs::service::reviews::Reviews;
use touchstone_runs::service::runs::{RunServices, Runs};
use touchstone_runs::service::storage::Storage;
use touchstone_runs::service::webhooks::Webhooks;
use touchstone_runs::service::workflows::Workflows;
use touchstone_runs::storage::{
    ContentRetention, Quotas, Retention as RetentionSettings, StorageLimits,
};
use touchstone_runs::webhook_client::WebhookClient;

/// The parts of a host: its store, its adapters and its settings.
pub struct Parts {
    pub store: Arc<Database>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub keys: Arc<Keys>,
    /// Sessions of the console.
    pub sessions: Arc<Sessions>,
    pub console: ConsoleConfig,
    /// The OpenID provider at which people sign in to the console.
    pub oidc: Option<Arc<Provider>>,
    /// The configuration, for people to read.
    pub in_force: Arc<[Setting]>,
    /// Encrypts secrets.
    pub vault: Arc<Vault>,
    pub models: Arc<dyn Models>,
    /// Tools for `live-shadow` runs.
    pub tools: Option<Arc<dyn LiveTools>>,
    /// The connection to workers and other replicas, if this host has one.
    pub cluster: Option<Cluster>,
    /// Providers of environments for OASIS evaluations.
    pub providers: Arc<dyn Providers>,
    /// The evaluator that OASIS reports name.
    pub evaluator: Option<String>,
    /// Sends webhooks.
    pub notifier: Arc<WebhookClient>,
    /// Fetches and scores agent cards.
    pub cards: Arc<Cards>,
    /// The public address of badges.
    pub host_url: HostUrl,
    /// Signs verdicts.
    pub attester: Attester,
    /// Verifies checkpoints of the audit log.
    pub audit_key: PublicKey,
    /// Channels that versions are promoted on.
    pub channels: Arc<[Channel]>,
    pub pack_rules: PackRules,
    pub limits: HostLimits,
    /// Maximum number of tasks in flight for one tenant, over all its runs.
    pub max_concurrency_per_tenant: usize,
    pub quotas: Quotas,
    pub retention: RetentionSettings,
    /// How long task content is kept.
    pub content: ContentRetention,
    /// Where runs are archived before they are deleted.
    pub archive: Option<ObjectStorage>,
    /// The command that runs in this process; `None` for a host.
    pub command: Option<Arc<Command>>,
    /// Whether the workflows of conformance suites exist.
    pub fixtures: bool,
    /// The majors of the protocol that the host serves.
    pub majors: Majors,
}

/// The use cases of a host.
pub struct Services {
    pub executor: Arc<Executor>,
    pub runs: Arc<Runs>,
    pub packs: Arc<Packs>,
    pub storage: Arc<Storage>,
    pub archive: Option<Arc<Archive>>,
    pub webhooks: Arc<Webhooks>,
    pub cards: Arc<CardScores>,
    pub issuer: Arc<Issuer>,
    pub ratings: Arc<Ratings>,
    pub deployments: Arc<Deployments>,
    pub gates: Arc<Gates>,
    oasis: Arc<OasisLibrary>,
    bundles: Arc<Bundles>,
    projections: Arc<Projections>,
    parts: Parts,
}

impl Parts {
    fn executor(
        &self,
        library: &Arc<Library>,
        oasis: &Arc<OasisLibrary>,
        projections: &Arc<Projections>,
    ) -> Arc<Executor> {
        let eval = EvalExecutor {
            store: self.store.clone(),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            library: library.clone(),
            models: self.models.clone(),
            runtime: Arc::new(Runtime::default()),
            cluster: self.cluster.as_ref().map(|cluster| {
                let (owner, local) = (cluster.owner.clone(), Runtime::default());
                Arc::new(ClusterRuntime { owner, local }) as Arc<dyn AgentRuntime>
            }),
            tools: self.tools.clone(),
            kinds: vec![Arc::new(OasisExecutor {
                providers: self.providers.clone(),
                library: oasis.clone(),
            })],
            permits: TenantPermits::new(self.max_concurrency_per_tenant),
        };
        Executor::new(
            self.store.clone(),
            self.clock.clone(),
            self.ids.clone(),
            projections.clone(),
            eval,
        )
    }

    fn runs(
        &self,
        library: &Arc<Library>,
        oasis: &Arc<OasisLibrary>,
        projections: &Arc<Projections>,
        deployments: Arc<dyn AgentDeployments>,
        storage: &Arc<Storage>,
        webhooks: &Arc<Webhooks>,
    ) -> Runs {
        Runs::new(
            self.store.clone(),
            self.clock.clone(),
            self.ids.clone(),
            library.clone(),
            self.models.clone(),
            projections.clone(),
            RunServices {
                workflows: Workflows {
                    fixtures: self.fixtures,
                },
                limits: self.limits.clone(),
                webhooks: webhooks.clone(),
                deployments,
                planners: vec![Arc::new(OasisPlanner {
                    store: self.store.clone(),
                    library: oasis.clone(),
                    providers: self.providers.clone(),
                    evaluator: self.evaluator.clone(),
                })],
                storage: storage.clone(),
                command: self.command.clone(),
                majors: self.majors,
            },
        )
    }

    fn ratings(&self, runs: &Arc<Runs>) -> (Arc<Issuer>, Arc<Ratings>) {
        let issuer = Arc::new(Issuer::new(
            self.store.clone(),
            self.clock.clone(),
            self.ids.clone(),
            self.vault.clone(),
            self.host_url.clone(),
        ));
        let ratings = Arc::new(Ratings::new(RatingServices {
            store: self.store.clone(),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            keys: self.keys.clone(),
            vault: self.vault.clone(),
            badges: BadgeRenderer::new(issuer.clone()),
            notifier: self.notifier.clone(),
            runs: runs.clone(),
        }));
        (issuer, ratings)
    }
}

impl Services {
    pub fn new(parts: Parts) -> Self {
        let (store, clock, ids) = (&parts.store, &parts.clock, &parts.ids);
        let keeps_large = parts.content.ends_with_runs();
        let projections = Projections::new(store.clone()).keeping_large(keeps_large);
        let projections = Arc::new(projections);
        let deployed = Arc::new(DeploymentQueries {
            store: store.clone(),
            fixtures: parts.fixtures,
        });
        let storage = Arc::new(Storage::new(
            store.clone(),
            clock.clone(),
            projections.clone(),
            KINDS,
            deployed.clone(),
            StorageLimits {
                quotas: parts.quotas,
                retention: parts.retention,
                content: parts.content,
            },
        ));
        let library = Arc::new(Library::new(store.clone(), KINDS));
        let oasis = Arc::new(OasisLibrary::new(store.clone()));
        let executor = parts.executor(&library, &oasis, &projections);
        let webhooks = Arc::new(Webhooks::new(
            store.clone(),
            clock.clone(),
            ids.clone(),
            parts.notifier.clone(),
        ));
        let runs = parts.runs(
            &library,
            &oasis,
            &projections,
            deployed.clone(),
            &storage,
            &webhooks,
        );
        let runs = Arc::new(runs);
        let archive = parts.archive.clone().map(|objects| {
            Arc::new(Archive::new(ArchiveParts {
                clock: clock.clone(),
                runs: runs.clone(),
                storage: storage.clone(),
                objects,
                key: parts.attester.key.clone(),
                host_id: parts.attester.host_id.clone(),
            }))
        });
        let cards = Arc::new(CardScores::new(
            parts.cards.clone(),
            store.clone(),
            clock.clone(),
            ids.clone(),
        ));
        let (issuer, ratings) = parts.ratings(&runs);
        let gates = Arc::new(Gates::new(
            store.clone(),
            clock.clone(),
            runs.clone(),
            conditions(ratings.clone(), cards.clone(), store.clone(), runs.clone()),
            parts.keys.roles().clone(),
            parts.channels.clone(),
        ));
        let deployments = Arc::new(Deployments::new(
            store.clone(),
            clock.clone(),
            ids.clone(),
            gates.clone(),
            parts.channels.clone(),
        ));
        let packs = Arc::new(Packs::new(
            store.clone(),
            clock.clone(),
            ids.clone(),
            PACK_FORMAT,
            storage.clone(),
            deployed,
        ));
        let bundles = Arc::new(Bundles::new(
            runs.clone(),
            store.clone(),
            projections.clone(),
            clock.clone(),
        ));
        Self {
            oasis,
            bundles,
            executor,
            runs,
            packs,
            storage,
            archive,
            webhooks,
            cards,
            issuer,
            ratings,
            deployments,
            gates,
            projections,
            parts,
        }
    }

    /// Deletes runs past their retention.
    pub fn retention(&self) -> Retention {
        let replica = Replica {
            store: self.parts.store.clone(),
            clock: self.parts.clock.clone(),
            owner: self.parts.ids.mint("replica"),
        };
        Retention::new(self.storage.clone(), self.archive.clone(), replica)
    }

    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The HTTP API. `shutdown` ends its streams and polls.
    pub fn router(
        &self,
        settings: HttpSettings,
        rates: RatingRates,
        shutdown: CancellationToken,
    ) -> Router {
        let parts = &self.parts;
        let (limits, subscribers) = HttpHost::limits(&settings);
        let host = Arc::new(HttpHost {
            keys: parts.keys.clone(),
            store: parts.store.clone(),
            clock: parts.clock.clone(),
            ids: parts.ids.clone(),
            metrics: Metrics::install(),
            settings,
            limits,
            subscribers,
            dialects: vec![
                touchstone_ratings::http::DIALECT,
                touchstone_console::page::error::DIALECT,
            ],
            shutdown,
        });
        let apis = Apis {
            documents: self.documents(&host),
            runs: Arc::new(self.runs_api(&host)),
            packs: Arc::new(self.packs_api(&host)),
            deployments: Arc::new(self.deployments_api(&host)),
            oasis: Arc::new(OasisApi {
                host: host.clone(),
                runs: self.runs.clone(),
                evaluations: Evaluations {
                    library: self.oasis.clone(),
                    runs: self.runs.clone(),
                    providers: parts.providers.clone(),
                },
            }),
            cards: Arc::new(CardsApi {
                host: host.clone(),
                cards: self.cards.clone(),
            }),
            ratings: Arc::new(RatingsApi {
                host: host.clone(),
                ratings: self.ratings.clone(),
                allowances: Allowances::new(rates),
            }),
            conformance: self.conformance_api(&host),
            cluster: ClusterApi {
                host: host.clone(),
                runs: self.runs.clone(),
                cluster: parts.cluster.clone(),
            },
            host: Arc::new(HostApi {
                audit: Audit::new(parts.store.clone(), parts.audit_key.clone()),
                host,
            }),
            console: None,
        };
        let console = parts.console.enabled.then(|| self.console_api(&apis));
        http::router(Apis { console, ..apis })
    }

    fn console_api(&self, apis: &Apis) -> Arc<ConsoleApi> {
        let parts = &self.parts;
        Arc::new(ConsoleApi {
            host: apis.host.host.clone(),
            health: apis.host.clone(),
            runs: apis.runs.clone(),
            packs: apis.packs.clone(),
            deployments: apis.deployments.clone(),
            ratings: apis.ratings.clone(),
            oasis: apis.oasis.clone(),
            cards: apis.cards.clone(),
            cluster: parts.cluster.clone(),
            sessions: parts.sessions.clone(),
            live: LiveRuns::default(),
            oidc: parts.oidc.clone(),
            settings: parts.console.clone(),
            in_force: parts.in_force.clone(),
            secure: parts.host_url.is_secure(),
        })
    }

    fn documents(&self, host: &Arc<HttpHost>) -> DocumentsApi {
        DocumentsApi {
            host: host.clone(),
            discovery: http::discovery::Document::new(&http::discovery::Facts {
                limits: &self.parts.limits,
                settings: &host.settings,
                channels: &self.parts.channels,
                roles: self.parts.keys.roles(),
                audit_key: &self.parts.audit_key,
                people_sign_in: self.parts.oidc.is_some(),
            }),
        }
    }

    fn runs_api(&self, host: &Arc<HttpHost>) -> RunsApi {
        let Parts {
            store, clock, ids, ..
        } = &self.parts;
        RunsApi {
            host: host.clone(),
            runs: self.runs.clone(),
            annotations: Arc::new(Annotations::new(
                self.runs.clone(),
                self.ratings.clone(),
                &decision::LABELS,
                store.clone(),
                clock.clone(),
                ids.clone(),
            )),
            bundles: self.bundles.clone(),
            diffs: Diffs::new(self.runs.clone(), store.clone(), self.projections.clone()),
            log: LogReader::new(store.clone()),
            projections: self.projections.clone(),
            storage: self.storage.clone(),
            archive: self.archive.clone(),
            webhooks: self.webhooks.clone(),
            reviews: self.ratings.clone(),
            human_reviews: Arc::new(Reviews::new(
                self.runs.clone(),
                self.ratings.clone(),
                store.clone(),
                clock.clone(),
                ids.clone(),
            )),
        }
    }

    fn packs_api(&self, host: &Arc<HttpHost>) -> PacksApi {
        let Parts { store, clock, .. } = &self.parts;
        let pack_rules = self.parts.pack_rules.clone();
        let publication = pack_rules.publication.clone();
        PacksApi {
            host: host.clone(),
            packs: self.packs.clone(),
            pack_rules,
            publications: publication
                .map(|publication| Publications::new(store.clone(), clock.clone(), publication)),
        }
    }

    fn deployments_api(&self, host: &Arc<HttpHost>) -> DeploymentsApi {
        DeploymentsApi {
            host: host.clone(),
            deployments: self.deployments.clone(),
            gates: self.gates.clone(),
            attestations: Attestations::new(
                self.runs.clone(),
                self.gates.clone(),
                self.parts.clock.clone(),
                self.parts.attester.clone(),
            ),
            runs: self.runs.clone(),
        }
    }

    fn conformance_api(&self, host: &Arc<HttpHost>) -> ConformanceApi {
        ConformanceApi {
            host: host.clone(),
            bundles: self.bundles.clone(),
            seams: Seams::new(SeamsDeps {
                runs: self.runs.clone(),
                packs: self.packs.clone(),
                deployments: self.deployments.clone(),
                keys: self.parts.keys.clone(),
                webhooks: self.webhooks.clone(),
                store: self.parts.store.clone(),
                clock: self.parts.clock.clone(),
                ids: self.parts.ids.clone(),
            }),
        }
    }
}

/// The conditions that features add to promotion policies, in the order in which they are shown.
pub fn conditions(
    ratings: Arc<Ratings>,
    cards: Arc<CardScores>,
    store: Arc<Database>,
    runs: Arc<Runs>,
) -> Vec<Arc<dyn Condition>> {
    vec![
        Arc::new(RatingGate::new(ratings)),
        Arc::new(CardGate::new(cards)),
        Arc::new(OasisGate::new(store, runs)),
    ]
}
