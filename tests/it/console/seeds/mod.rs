//! A host with content for every page of the console, and the people who see the pages.

mod cluster;
mod desk;
pub mod evals;
mod organization;

use std::sync::Arc;

use async_trait::async_trait;
use touchstone_agents::ports::model::{Model, ModelError, ModelInfo};
use touchstone_agents::rules::{ModelReply, ModelRequest};
use touchstone_host::access::Scope;
use touchstone_kit::ids::TenantId;
use touchstone_ratings::rules::badge::host_url::HostUrl;

use super::support::{Names, Person, Site};
use crate::agent_cards::wire::agent::Agent as CardAgent;
use crate::http::support::host::{Echo, Lab, TestHost, id_of};
use crate::oasis::desk::agents::Actor;
use crate::oasis::desk::evaluation::{Rooms, providers};
use crate::oasis::desk::provider::Options;
use crate::ratings::api::Site as Organized;
use crate::store::{Engine, TestStore};

/// A page with its content, or one that says why there is none.
#[derive(Clone, Debug)]
pub struct Shown {
    pub path: String,
    pub has_content: bool,
}

/// A person, and the pages that the person opens.
pub struct Viewer {
    pub key: String,
    pub pages: Vec<Shown>,
}

impl Viewer {
    pub fn paths(&self) -> Vec<String> {
        self.pages.iter().map(|it| it.path.clone()).collect()
    }
}

pub struct Seeded {
    /// The host, with an organization beside the tenant of the eval runs.
    pub site: Organized,
    pub names: Names,
    pub viewers: Vec<Viewer>,
    _kept: (TestStore, Rooms, CardAgent),
}

impl Seeded {
    pub fn host(&self) -> &TestHost {
        &self.site.host
    }
}

/// The agent of the front desk if there are tools to call, and otherwise the one that echoes.
struct EitherAgent {
    desk: Arc<Actor>,
    echo: Echo,
}

#[async_trait]
impl Model for EitherAgent {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        match request.definitions.is_empty() {
            true => self.echo.complete(request).await,
            false => self.desk.complete(request).await,
        }
    }

    fn info(&self) -> &ModelInfo {
        self.echo.info()
    }
}

fn with_content(paths: impl IntoIterator<Item = String>) -> Vec<Shown> {
    let shown = |path| Shown {
        path,
        has_content: true,
    };
    paths.into_iter().map(shown).collect()
}

fn without_content(paths: impl IntoIterator<Item = String>) -> Vec<Shown> {
    let shown = |path| Shown {
        path,
        has_content: false,
    };
    paths.into_iter().map(shown).collect()
}

/// `None`, with a printed note, if the engine is not available.
pub async fn seeded(engine: Engine, place: HostUrl) -> Option<Seeded> {
    let script = desk::script();
    let rooms = Rooms::open(Options::default()).await;
    let agent = EitherAgent {
        desk: Actor::of(&script),
        echo: Echo::default(),
    };
    let lab = Lab {
        agent: Some(Arc::new(agent)),
        two_judges: true,
        providers: providers(rooms.url(), std::time::Duration::from_secs(20)),
        cluster: Some(cluster::cluster().await),
        ..Lab::default()
    };
    let Site { host, database } = Site::with(engine, place, lab).await?;
    let site = Organized::of(host, None).await;
    let host = &site.host;
    let runs = evals::runs(host).await;
    let mut names = Names::reviewed(host, &runs.first).await;
    let mut pages = evals::pages(host, &runs, &names).await;
    let evaluation = desk::evaluated(host, &script).await;
    pages.extend(desk::pages(&evaluation));
    names.evaluation = evaluation.to_string();
    names.scenario = desk::SCENARIO.to_owned();
    names.waiting = runs.waiting.to_string();
    names.webhook.clone_from(&runs.webhook);
    let key = host.key_with(&[Scope::RunsRead]).await;
    names.key = id_of(&key).to_string();
    let colleague = Person::token(host, &key).await;
    names.session = colleague.split('.').next().unwrap().to_owned();
    let poor = Viewer {
        key,
        pages: evals::pages_of_a_reader(&runs, &evaluation),
    };
    let (organization, card) = organization::seed(&site, &mut names).await;
    let viewers = vec![
        Viewer {
            key: host.key.clone(),
            pages,
        },
        organization,
        poor,
    ];
    Some(Seeded {
        site,
        names,
        viewers,
        _kept: (database, rooms, card),
    })
}

/// A key of another organization, with every scope.
pub async fn stranger(site: &Organized) -> String {
    let tenant = TenantId::from(site.theirs.id.as_str());
    let key = site.host.issue(|issue| {
        issue.tenant = tenant;
        issue.scopes = Scope::ALL.to_vec();
        issue.principal = Some("mallory".to_owned());
    });
    key.await
}
