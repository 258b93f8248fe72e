//! Every service of a host, built once from its parts. `app` makes the parts from a configuration;
//! tests make them with their own clock, ids and adapters.

use std::sync::Arc;

use axum::Router;
use tokio_util::sync::CancellationToken;

use crate::agent_cards::http::CardsApi;
use crate::agent_cards::service::Cards;
use crate::agent_cards::service::gate::CardGate;
use crate::agent_cards::service::history::CardScores;
use crate::agents::judge::RubricJudge;
use crate::agents::ports::live_tools::LiveTools;
use crate::agents::ports::model::Models;
use crate::agents::runtime::Runtime;
use crate::conformance::http::ConformanceApi;
use crate::conformance::{Seams, SeamsDeps};
use crate::deployments::http::DeploymentsApi;
use crate::deployments::service::attestations::{Attestations, Attester};
use crate::deployments::service::channels::DeployedVersions;
use crate::deployments::service::deployments::Deployments;
use crate::deployments::service::gates::Gates;
use crate::deployments::service::gates::condition::Condition;
use crate::host::http::{HostApi, HttpHost, HttpSettings};
use crate::host::ports::clock::Clock;
use crate::host::ports::ids::Ids;
use crate::host::service::audit::Audit;
use crate::host::service::keys::Keys;
use crate::host::service::vault::Vault;
use crate::host::store::database::Database;
use crate::host::telemetry::Metrics;
use crate::http::openapi::Unreadable;
use crate::http::{self, Apis, DocumentsApi};
use crate::kinds::KINDS;
use crate::kinds::PACK_FORMAT;
use crate::oasis::executor::OasisExecutor;
use crate::oasis::http::OasisApi;
use crate::oasis::ports::providers::Providers;
use crate::oasis::service::evaluations::Evaluations;
use crate::oasis::service::evaluations::plan::OasisPlanner;
use crate::oasis::service::gate::OasisGate;
use crate::oasis::service::library::Library as OasisLibrary;
use crate::packs::http::{PackRules, PacksApi};
use crate::packs::service::packs::Packs;
use crate::packs::service::publications::Publications;
use crate::ratings::http::RatingsApi;
use crate::ratings::http::rates::{AaafRates, Allowances};
use crate::ratings::service::badges::Gallery;
use crate::ratings::service::issuer::Issuer;
use crate::ratings::service::{Aaaf, AaafDeps, RatingGate};
use crate::runs::http::RunsApi;
use crate::runs::ports::webhooks::Notifier;
use crate::runs::service::annotations::Annotating;
use crate::runs::service::bundles::Bundles;
use crate::runs::service::command::Command;
use crate::runs::service::diffs::Diffs;
use crate::runs::service::executor::Executor;
use crate::runs::service::executor::eval::EvalWork;
use crate::runs::service::library::Library;
use crate::runs::service::log_reader::LogReader;
use crate::runs::service::projections::Projections;
use crate::runs::service::runs::{Offer, Runs};
use crate::runs::service::storage::Storage;
use crate::runs::service::webhooks::Webhooks;
use crate::runs::service::workflows::Workflows;
use crate::runs::storage::{Quotas, Retention};
use touchstone_deployments::rules::Channel;
use touchstone_kit::keys::PublicKey;
use touchstone_ratings::rules::place::Place;
use touchstone_runs::rules::run::request::HostLimits;

/// What a host is built from: its store, the world outside, and its settings.
pub struct Parts {
    pub store: Arc<Database>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub keys: Arc<Keys>,
    /// Encrypts secrets.
    pub vault: Arc<Vault>,
    pub models: Arc<dyn Models>,
    /// Tools for `live-shadow` runs.
    pub tools: Option<Arc<dyn LiveTools>>,
    /// Providers of environments for OASIS evaluations.
    pub providers: Arc<dyn Providers>,
    /// The evaluator that OASIS reports name.
    pub evaluator: Option<String>,
    /// Sends webhooks.
    pub notifier: Arc<dyn Notifier>,
    /// Fetches and scores agent cards.
    pub cards: Cards,
    /// The public address of badges.
    pub place: Place,
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
    pub retention: Retention,
    /// The command that runs in this process; `None` for a host.
    pub command: Option<Arc<Command>>,
    /// Whether the workflows of conformance suites exist.
    pub fixtures: bool,
}

/// The use cases of a host.
pub struct Services {
    pub executor: Arc<Executor>,
    pub runs: Arc<Runs>,
    pub packs: Arc<Packs>,
    pub storage: Arc<Storage>,
    pub webhooks: Arc<Webhooks>,
    pub cards: Arc<CardScores>,
    pub issuer: Arc<Issuer>,
    pub aaaf: Arc<Aaaf>,
    pub deployments: Arc<Deployments>,
    pub gates: Arc<Gates>,
    oasis: Arc<OasisLibrary>,
    bundles: Arc<Bundles>,
    projections: Arc<Projections>,
    parts: Shared,
}

/// The parts that routes use themselves.
struct Shared {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    keys: Arc<Keys>,
    attester: Attester,
    audit_key: PublicKey,
    channels: Arc<[Channel]>,
    pack_rules: PackRules,
    limits: HostLimits,
    providers: Arc<dyn Providers>,
}

impl Services {
    pub fn new(parts: Parts) -> Self {
        let (store, clock, ids) = (&parts.store, &parts.clock, &parts.ids);
        let library = Arc::new(Library::new(store.clone(), KINDS));
        let oasis = Arc::new(OasisLibrary::new(store.clone()));
        let projections = Arc::new(Projections::new(store.clone()));
        let storage = Arc::new(Storage::new(
            store.clone(),
            clock.clone(),
            projections.clone(),
            KINDS,
            parts.quotas,
            parts.retention,
        ));
        let eval = EvalWork::new(
            store.clone(),
            clock.clone(),
            ids.clone(),
            library.clone(),
            parts.models.clone(),
            Arc::new(Runtime::default()),
            parts.max_concurrency_per_tenant,
        )
        .judging_with(Arc::new(RubricJudge))
        .acting_with(parts.tools)
        .executing(Arc::new(OasisExecutor {
            providers: parts.providers.clone(),
            library: oasis.clone(),
        }));
        let executor = Executor::new(
            store.clone(),
            clock.clone(),
            ids.clone(),
            projections.clone(),
            eval,
        );
        let webhooks = Arc::new(Webhooks::new(
            store.clone(),
            clock.clone(),
            ids.clone(),
            parts.notifier.clone(),
        ));
        let runs = Runs::new(
            store.clone(),
            clock.clone(),
            ids.clone(),
            library.clone(),
            parts.models,
            projections.clone(),
            Offer {
                workflows: Workflows {
                    fixtures: parts.fixtures,
                },
                limits: parts.limits,
                webhooks: webhooks.clone(),
                judge: Arc::new(RubricJudge),
                channels: Arc::new(DeployedVersions {
                    store: store.clone(),
                    fixtures: parts.fixtures,
                }),
                planners: vec![Arc::new(OasisPlanner {
                    store: store.clone(),
                    library: oasis.clone(),
                    providers: parts.providers.clone(),
                    evaluator: parts.evaluator,
                })],
                command: parts.command,
            },
        );
        let runs = Arc::new(runs.limited_by(storage.clone()));
        let cards = Arc::new(CardScores::new(
            Arc::new(parts.cards),
            store.clone(),
            clock.clone(),
            ids.clone(),
        ));
        let issuer = Arc::new(Issuer::new(
            store.clone(),
            clock.clone(),
            ids.clone(),
            parts.vault.clone(),
            parts.place,
        ));
        let aaaf = Arc::new(Aaaf::new(AaafDeps {
            store: store.clone(),
            clock: clock.clone(),
            ids: ids.clone(),
            keys: parts.keys.clone(),
            vault: parts.vault,
            gallery: Gallery::new(issuer.clone()),
            notifier: parts.notifier,
            runs: runs.clone(),
        }));
        let gates = Arc::new(Gates::new(
            store.clone(),
            clock.clone(),
            runs.clone(),
            conditions(aaaf.clone(), cards.clone(), store.clone(), runs.clone()),
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
        let packs = Packs::new(store.clone(), clock.clone(), PACK_FORMAT)
            .limited_by(storage.clone())
            .keeping_deployed(deployments.clone());
        let packs = Arc::new(packs);
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
            webhooks,
            cards,
            issuer,
            aaaf,
            deployments,
            gates,
            projections,
            parts: Shared {
                store: parts.store,
                clock: parts.clock,
                ids: parts.ids,
                keys: parts.keys,
                attester: parts.attester,
                audit_key: parts.audit_key,
                channels: parts.channels,
                pack_rules: parts.pack_rules,
                limits: parts.limits,
                providers: parts.providers,
            },
        }
    }

    /// The HTTP API. `shutdown` ends its streams and polls.
    ///
    /// # Errors
    /// The API description built into this binary cannot be read.
    pub fn router(
        &self,
        settings: HttpSettings,
        rates: AaafRates,
        shutdown: CancellationToken,
    ) -> Result<Router, Unreadable> {
        let shared = &self.parts;
        let (limits, subscribers) = HttpHost::limits(&settings);
        let host = Arc::new(HttpHost {
            keys: shared.keys.clone(),
            store: shared.store.clone(),
            clock: shared.clock.clone(),
            ids: shared.ids.clone(),
            metrics: Metrics::install(),
            settings,
            limits,
            subscribers,
            dialects: vec![crate::ratings::http::DIALECT],
            shutdown,
        });
        Ok(http::router(Apis {
            documents: self.documents(&host)?,
            runs: self.runs_api(&host),
            packs: self.packs_api(&host),
            deployments: self.deployments_api(&host),
            oasis: OasisApi {
                host: host.clone(),
                runs: self.runs.clone(),
                evaluations: Evaluations {
                    library: self.oasis.clone(),
                    runs: self.runs.clone(),
                    providers: shared.providers.clone(),
                },
            },
            cards: CardsApi {
                host: host.clone(),
                cards: self.cards.clone(),
            },
            ratings: RatingsApi {
                host: host.clone(),
                aaaf: self.aaaf.clone(),
                allowances: Allowances::new(rates),
            },
            conformance: self.conformance_api(&host),
            host: HostApi {
                audit: Audit::new(shared.store.clone(), shared.audit_key.clone()),
                host,
            },
        }))
    }

    fn documents(&self, host: &Arc<HttpHost>) -> Result<DocumentsApi, Unreadable> {
        Ok(DocumentsApi {
            host: host.clone(),
            discovery: http::discovery::Document::new(
                &self.parts.limits,
                &host.settings,
                &self.parts.channels,
                self.parts.keys.roles(),
                &self.parts.audit_key,
            ),
            openapi: http::openapi::Document::load()?,
        })
    }

    fn runs_api(&self, host: &Arc<HttpHost>) -> RunsApi {
        let Shared {
            store, clock, ids, ..
        } = &self.parts;
        RunsApi {
            host: host.clone(),
            runs: self.runs.clone(),
            annotations: Arc::new(Annotating::new(
                self.runs.clone(),
                self.aaaf.clone(),
                store.clone(),
                clock.clone(),
                ids.clone(),
            )),
            bundles: self.bundles.clone(),
            diffs: Diffs::new(self.runs.clone(), store.clone(), self.projections.clone()),
            log: LogReader::new(store.clone()),
            projections: self.projections.clone(),
            storage: self.storage.clone(),
            webhooks: self.webhooks.clone(),
            reviews: self.aaaf.clone(),
        }
    }

    fn packs_api(&self, host: &Arc<HttpHost>) -> PacksApi {
        let Shared { store, clock, .. } = &self.parts;
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
    ratings: Arc<Aaaf>,
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
