//! The routes of the AAAF API.

use std::sync::Arc;

use axum::handler::Handler;
use axum::http::Method;
use axum::middleware;
use axum::routing::{MethodFilter, on};

use crate::http::RatingsApi;
use crate::http::assessments::{self, appeals, audits};
use crate::http::badges::{self, issuer_keys, public};
use crate::http::guard::{RequestIdentity, RouteGuard, guard};
use crate::http::organizations::config::{Taxonomy, Weights};
use crate::http::organizations::{self, config};
use crate::http::stress_tests::{self, profiles};
use crate::http::{agents, dimensions, events, webhooks};
use touchstone_host::access::Scope;
use touchstone_host::http::routes::{Operation, Table};

#[derive(Clone, Copy)]
struct Access(Option<Scope>, RequestIdentity);

impl Access {
    /// A member of an organization with the scope.
    const fn member(scope: Scope) -> Self {
        Self(Some(scope), RequestIdentity::Organization)
    }

    /// A key with the scope, with or without an organization.
    const fn caller(scope: Scope) -> Self {
        Self(Some(scope), RequestIdentity::Caller)
    }

    /// No key required; the use case decides what is shown.
    const OPEN: Self = Self(None, RequestIdentity::Anonymous);

    /// Any key; the use case requires the scope that the request needs.
    const AUTHENTICATED: Self = Self(None, RequestIdentity::Caller);
}

/// Routes that a [`RouteGuard`] admits requests to.
struct GuardedRoutes(Table<RatingsApi>);

macro_rules! methods {
    ($($name:ident $method:ident),*) => {
        $(fn $name<H, T>(self, path: &'static str, access: Access, handler: H) -> Self
        where
            H: Handler<T, Arc<RatingsApi>>,
            T: 'static,
        {
            let method = (stringify!($method), MethodFilter::$method);
            self.add(method, path, access, handler)
        })*
    };
}

impl GuardedRoutes {
    methods!(get GET, post POST, put PUT, patch PATCH, delete DELETE);

    fn add<H, T>(
        self,
        (method, filter): (&'static str, MethodFilter),
        path: &'static str,
        Access(scope, identity): Access,
        handler: H,
    ) -> Self
    where
        H: Handler<T, Arc<RatingsApi>>,
        T: 'static,
    {
        let operation = Operation {
            method,
            path,
            keyed: identity != RequestIdentity::Anonymous,
            scope,
            described: true,
        };
        Self(self.0.guarded(operation, |api| {
            let route = RouteGuard {
                api: api.clone(),
                scope,
                identity,
                writes: filter != MethodFilter::GET,
            };
            on(filter, handler).route_layer(middleware::from_fn_with_state(route, guard))
        }))
    }
}

pub fn routes(table: Table<RatingsApi>) -> Table<RatingsApi> {
    api(public(table))
}

/// The documents that verifiers of badges read.
pub fn public(table: Table<RatingsApi>) -> Table<RatingsApi> {
    let get = &Method::GET;
    table
        .open(get, "/status/{statusListId}", public::status_list)
        .open(get, "/orgs/{organizationId}/did.json", public::did_document)
}

/// The rating API under `/api/v1`.
pub fn api(table: Table<RatingsApi>) -> Table<RatingsApi> {
    let subjects = [
        organization_routes,
        config_routes,
        agent_routes,
        event_routes,
        stress_test_routes,
        assessment_routes,
        appeal_routes,
        audit_routes,
        badge_routes,
        webhook_routes,
    ];
    let routes = GuardedRoutes(table);
    subjects
        .into_iter()
        .fold(routes, |routes, add| add(routes))
        .0
}

fn organization_routes(routes: GuardedRoutes) -> GuardedRoutes {
    routes
        .post(
            "/api/v1/organizations",
            Access::caller(Scope::OrganizationsWrite),
            organizations::create,
        )
        .get(
            "/api/v1/organizations/{organizationId}",
            Access::AUTHENTICATED,
            organizations::get,
        )
        .patch(
            "/api/v1/organizations/{organizationId}",
            Access::AUTHENTICATED,
            organizations::change,
        )
        .post(
            "/api/v1/organizations/{organizationId}/issuer-keys/rotate",
            Access::AUTHENTICATED,
            issuer_keys::rotate,
        )
}

fn config_routes(routes: GuardedRoutes) -> GuardedRoutes {
    let read = Access::member(Scope::ConfigRead);
    let write = Access::member(Scope::ConfigWrite);
    routes
        .get(
            "/api/v1/organizations/{organizationId}/config",
            Access::AUTHENTICATED,
            config::get,
        )
        .patch(
            "/api/v1/organizations/{organizationId}/config",
            Access::AUTHENTICATED,
            config::change,
        )
        .get(
            "/api/v1/organizations/{organizationId}/config/weights",
            Access::AUTHENTICATED,
            config::organization_section::<Weights>,
        )
        .put(
            "/api/v1/organizations/{organizationId}/config/weights",
            Access::AUTHENTICATED,
            config::set_organization_section::<Weights>,
        )
        .get(
            "/api/v1/organizations/{organizationId}/config/taxonomy",
            Access::AUTHENTICATED,
            config::organization_section::<Taxonomy>,
        )
        .put(
            "/api/v1/organizations/{organizationId}/config/taxonomy",
            Access::AUTHENTICATED,
            config::set_organization_section::<Taxonomy>,
        )
        .get(
            "/api/v1/config/weights",
            read,
            config::own_section::<Weights>,
        )
        .put(
            "/api/v1/config/weights",
            write,
            config::set_own_section::<Weights>,
        )
        .get(
            "/api/v1/config/taxonomy",
            read,
            config::own_section::<Taxonomy>,
        )
        .put(
            "/api/v1/config/taxonomy",
            write,
            config::set_own_section::<Taxonomy>,
        )
        .get("/api/v1/standards", read, config::standards)
}

fn agent_routes(routes: GuardedRoutes) -> GuardedRoutes {
    let write = Access::member(Scope::AgentsWrite);
    let read = Access::member(Scope::AgentsRead);
    routes
        .post("/api/v1/agents", write, agents::enroll)
        .get("/api/v1/agents", read, agents::list)
        .get("/api/v1/agents/{agentId}", read, agents::get)
        .get(
            "/api/v1/agents/{agentId}/progress",
            Access::member(Scope::EventsRead),
            agents::progress,
        )
        .get(
            "/api/v1/dimensions",
            Access::member(Scope::AssessmentsRead),
            dimensions::list,
        )
        .patch("/api/v1/agents/{agentId}", write, agents::change)
        .delete("/api/v1/agents/{agentId}", write, agents::archive)
}

fn event_routes(routes: GuardedRoutes) -> GuardedRoutes {
    let write = Access::member(Scope::EventsWrite);
    routes
        .post("/api/v1/events", write, events::record)
        .post("/api/v1/events/batch", write, events::record_batch)
        .post("/api/v1/events/collect", write, events::collect)
        .get(
            "/api/v1/events",
            Access::member(Scope::EventsRead),
            events::list,
        )
}

fn stress_test_routes(routes: GuardedRoutes) -> GuardedRoutes {
    let read = Access::member(Scope::ConfigRead);
    let write = Access::member(Scope::ConfigWrite);
    routes
        .get("/api/v1/stress-tests", read, stress_tests::list)
        .post("/api/v1/stress-tests", write, stress_tests::add)
        .delete(
            "/api/v1/stress-tests/{stressTestId}",
            write,
            stress_tests::remove,
        )
        .get("/api/v1/profiles", read, profiles::list)
        .get(
            "/api/v1/profiles/{suiteId}/{suiteVersion}",
            read,
            profiles::get,
        )
        .delete(
            "/api/v1/profiles/{suiteId}/{suiteVersion}",
            write,
            profiles::remove,
        )
        .put(
            "/api/v1/profiles/{suiteId}/{suiteVersion}",
            write,
            profiles::set,
        )
}

fn assessment_routes(routes: GuardedRoutes) -> GuardedRoutes {
    let write = Access::member(Scope::AssessmentsWrite);
    let read = Access::member(Scope::AssessmentsRead);
    routes
        .post("/api/v1/assessments", write, assessments::order)
        .get("/api/v1/assessments", read, assessments::list)
        .get("/api/v1/assessments/{assessmentId}", read, assessments::get)
        .get(
            "/api/v1/assessments/{assessmentId}/stress-test",
            read,
            assessments::stress_results,
        )
        .post(
            "/api/v1/assessments/{assessmentId}/stress-test",
            write,
            assessments::add_stress_test,
        )
        .post(
            "/api/v1/agents/{agentId}/stress-test",
            write,
            assessments::stress_test,
        )
        .post(
            "/api/v1/assessments/{assessmentId}/review",
            Access::member(Scope::AssessmentsReview),
            assessments::review,
        )
}

fn appeal_routes(routes: GuardedRoutes) -> GuardedRoutes {
    let read = Access::member(Scope::AssessmentsRead);
    routes
        .post(
            "/api/v1/assessments/{assessmentId}/appeals",
            Access::member(Scope::AppealsFile),
            appeals::file,
        )
        .get(
            "/api/v1/assessments/{assessmentId}/appeals",
            read,
            appeals::list,
        )
        .get(
            "/api/v1/assessments/{assessmentId}/appeals/{appealId}",
            read,
            appeals::get,
        )
        .post(
            "/api/v1/assessments/{assessmentId}/appeals/{appealId}/resolve",
            Access::member(Scope::AppealsReview),
            appeals::resolve,
        )
}

fn audit_routes(routes: GuardedRoutes) -> GuardedRoutes {
    let read = Access::caller(Scope::AssessmentsRead);
    routes
        .get(
            "/api/v1/audits/{organizationId}/assessments",
            read,
            audits::list,
        )
        .get(
            "/api/v1/audits/{organizationId}/assessments/{assessmentId}",
            read,
            audits::get,
        )
        .post(
            "/api/v1/audits/{organizationId}/assessments/{assessmentId}/review",
            Access::caller(Scope::AssessmentsReview),
            audits::review,
        )
}

fn badge_routes(routes: GuardedRoutes) -> GuardedRoutes {
    routes
        .get("/api/v1/badges/{badgeId}", Access::OPEN, badges::get)
        .get(
            "/api/v1/badges/{badgeId}/credential",
            Access::OPEN,
            badges::credential,
        )
        .get(
            "/api/v1/badges/{badgeId}/verify",
            Access::OPEN,
            badges::verify,
        )
        .post(
            "/api/v1/badges/{badgeId}/revoke",
            Access::member(Scope::BadgesRevoke),
            badges::revoke,
        )
}

fn webhook_routes(routes: GuardedRoutes) -> GuardedRoutes {
    let manage = Access::member(Scope::WebhooksManage);
    routes
        .post("/api/v1/webhooks", manage, webhooks::create_webhook)
        .get("/api/v1/webhooks", manage, webhooks::list)
        .get("/api/v1/webhooks/{webhookId}", manage, webhooks::get)
        .delete("/api/v1/webhooks/{webhookId}", manage, webhooks::remove)
        .post(
            "/api/v1/webhooks/{webhookId}/rotate-secret",
            manage,
            webhooks::rotate,
        )
        .post(
            "/api/v1/webhooks/{webhookId}/enable",
            manage,
            webhooks::enable,
        )
        .get(
            "/api/v1/webhooks/{webhookId}/deliveries",
            manage,
            webhooks::deliveries,
        )
        .post(
            "/api/v1/webhooks/{webhookId}/deliveries/{deliveryId}/redeliver",
            manage,
            webhooks::redeliver,
        )
}
