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

/// The routes of members of organizations.
struct Members(Table<RatingsApi>);

impl Members {
    fn add<H, T>(
        self,
        method: &'static str,
        path: &'static str,
        Access(scope, identity): Access,
        handler: H,
    ) -> Self
    where
        H: Handler<T, Arc<RatingsApi>>,
        T: 'static,
    {
        let filter = match method {
            "POST" => MethodFilter::POST,
            "PUT" => MethodFilter::PUT,
            "PATCH" => MethodFilter::PATCH,
            "DELETE" => MethodFilter::DELETE,
            _ => MethodFilter::GET,
        };
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

/// All routes of ratings.
pub fn routes(table: Table<RatingsApi>) -> Table<RatingsApi> {
    members(public(table))
}

/// The documents that verifiers of badges read.
pub fn public(table: Table<RatingsApi>) -> Table<RatingsApi> {
    let get = &Method::GET;
    table
        .open(get, "/status/{statusListId}", public::status_list)
        .open(get, "/orgs/{organizationId}/did.json", public::did_document)
}

/// The rating API under `/api/v1`.
pub fn members(table: Table<RatingsApi>) -> Table<RatingsApi> {
    let member = Access::member;
    Members(table)
        .add(
            "POST",
            "/api/v1/organizations",
            Access::caller(Scope::OrganizationsWrite),
            organizations::create,
        )
        .add(
            "GET",
            "/api/v1/organizations/{organizationId}",
            Access::AUTHENTICATED,
            organizations::get,
        )
        .add(
            "PATCH",
            "/api/v1/organizations/{organizationId}",
            Access::AUTHENTICATED,
            organizations::change,
        )
        .add(
            "POST",
            "/api/v1/organizations/{organizationId}/issuer-keys/rotate",
            Access::AUTHENTICATED,
            issuer_keys::rotate,
        )
        .add(
            "GET",
            "/api/v1/organizations/{organizationId}/config",
            Access::AUTHENTICATED,
            config::get,
        )
        .add(
            "PATCH",
            "/api/v1/organizations/{organizationId}/config",
            Access::AUTHENTICATED,
            config::change,
        )
        .add(
            "GET",
            "/api/v1/organizations/{organizationId}/config/weights",
            Access::AUTHENTICATED,
            config::organization_weights,
        )
        .add(
            "PUT",
            "/api/v1/organizations/{organizationId}/config/weights",
            Access::AUTHENTICATED,
            config::set_organization_weights,
        )
        .add(
            "GET",
            "/api/v1/organizations/{organizationId}/config/taxonomy",
            Access::AUTHENTICATED,
            config::organization_taxonomy,
        )
        .add(
            "PUT",
            "/api/v1/organizations/{organizationId}/config/taxonomy",
            Access::AUTHENTICATED,
            config::set_organization_taxonomy,
        )
        .add(
            "GET",
            "/api/v1/config/weights",
            member(Scope::ConfigRead),
            config::weights,
        )
        .add(
            "PUT",
            "/api/v1/config/weights",
            member(Scope::ConfigWrite),
            config::set_weights,
        )
        .add(
            "GET",
            "/api/v1/config/taxonomy",
            member(Scope::ConfigRead),
            config::taxonomy,
        )
        .add(
            "PUT",
            "/api/v1/config/taxonomy",
            member(Scope::ConfigWrite),
            config::set_taxonomy,
        )
        .add(
            "GET",
            "/api/v1/standards",
            member(Scope::ConfigRead),
            config::standards,
        )
        .add(
            "POST",
            "/api/v1/events",
            member(Scope::EventsWrite),
            events::record,
        )
        .add(
            "POST",
            "/api/v1/events/batch",
            member(Scope::EventsWrite),
            events::record_batch,
        )
        .add(
            "POST",
            "/api/v1/events/collect",
            member(Scope::EventsWrite),
            events::collect,
        )
        .add(
            "GET",
            "/api/v1/stress-tests",
            member(Scope::ConfigRead),
            stress_tests::list,
        )
        .add(
            "POST",
            "/api/v1/stress-tests",
            member(Scope::ConfigWrite),
            stress_tests::add,
        )
        .add(
            "DELETE",
            "/api/v1/stress-tests/{stressTestId}",
            member(Scope::ConfigWrite),
            stress_tests::remove,
        )
        .add(
            "GET",
            "/api/v1/profiles",
            member(Scope::ConfigRead),
            profiles::list,
        )
        .add(
            "GET",
            "/api/v1/profiles/{suiteId}/{suiteVersion}",
            member(Scope::ConfigRead),
            profiles::get,
        )
        .add(
            "DELETE",
            "/api/v1/profiles/{suiteId}/{suiteVersion}",
            member(Scope::ConfigWrite),
            profiles::remove,
        )
        .add(
            "PUT",
            "/api/v1/profiles/{suiteId}/{suiteVersion}",
            member(Scope::ConfigWrite),
            profiles::set,
        )
        .add(
            "GET",
            "/api/v1/events",
            member(Scope::EventsRead),
            events::list,
        )
        .add(
            "POST",
            "/api/v1/assessments",
            member(Scope::AssessmentsWrite),
            assessments::order,
        )
        .add(
            "GET",
            "/api/v1/assessments",
            member(Scope::AssessmentsRead),
            assessments::list,
        )
        .add(
            "GET",
            "/api/v1/assessments/{assessmentId}",
            member(Scope::AssessmentsRead),
            assessments::get,
        )
        .add(
            "GET",
            "/api/v1/assessments/{assessmentId}/stress-test",
            member(Scope::AssessmentsRead),
            assessments::stress_results,
        )
        .add(
            "POST",
            "/api/v1/assessments/{assessmentId}/stress-test",
            member(Scope::AssessmentsWrite),
            assessments::add_stress_test,
        )
        .add(
            "POST",
            "/api/v1/agents/{agentId}/stress-test",
            member(Scope::AssessmentsWrite),
            assessments::stress_test,
        )
        .add(
            "POST",
            "/api/v1/assessments/{assessmentId}/review",
            member(Scope::AssessmentsReview),
            assessments::review,
        )
        .add(
            "GET",
            "/api/v1/audits/{organizationId}/assessments",
            Access::caller(Scope::AssessmentsRead),
            audits::list,
        )
        .add(
            "GET",
            "/api/v1/audits/{organizationId}/assessments/{assessmentId}",
            Access::caller(Scope::AssessmentsRead),
            audits::get,
        )
        .add(
            "POST",
            "/api/v1/audits/{organizationId}/assessments/{assessmentId}/review",
            Access::caller(Scope::AssessmentsReview),
            audits::review,
        )
        .add(
            "POST",
            "/api/v1/assessments/{assessmentId}/appeals",
            member(Scope::AppealsFile),
            appeals::file,
        )
        .add(
            "GET",
            "/api/v1/assessments/{assessmentId}/appeals",
            member(Scope::AssessmentsRead),
            appeals::list,
        )
        .add(
            "GET",
            "/api/v1/assessments/{assessmentId}/appeals/{appealId}",
            member(Scope::AssessmentsRead),
            appeals::get,
        )
        .add(
            "POST",
            "/api/v1/assessments/{assessmentId}/appeals/{appealId}/resolve",
            member(Scope::AppealsReview),
            appeals::resolve,
        )
        .add("GET", "/api/v1/badges/{badgeId}", Access::OPEN, badges::get)
        .add(
            "GET",
            "/api/v1/badges/{badgeId}/credential",
            Access::OPEN,
            badges::credential,
        )
        .add(
            "GET",
            "/api/v1/badges/{badgeId}/verify",
            Access::OPEN,
            badges::verify,
        )
        .add(
            "POST",
            "/api/v1/badges/{badgeId}/revoke",
            member(Scope::BadgesRevoke),
            badges::revoke,
        )
        .add(
            "POST",
            "/api/v1/agents",
            member(Scope::AgentsWrite),
            agents::enroll,
        )
        .add(
            "GET",
            "/api/v1/agents",
            member(Scope::AgentsRead),
            agents::list,
        )
        .add(
            "GET",
            "/api/v1/agents/{agentId}",
            member(Scope::AgentsRead),
            agents::get,
        )
        .add(
            "GET",
            "/api/v1/agents/{agentId}/progress",
            member(Scope::EventsRead),
            agents::progress,
        )
        .add(
            "GET",
            "/api/v1/dimensions",
            member(Scope::AssessmentsRead),
            dimensions::list,
        )
        .add(
            "PATCH",
            "/api/v1/agents/{agentId}",
            member(Scope::AgentsWrite),
            agents::change,
        )
        .add(
            "DELETE",
            "/api/v1/agents/{agentId}",
            member(Scope::AgentsWrite),
            agents::archive,
        )
        .add(
            "POST",
            "/api/v1/webhooks",
            member(Scope::WebhooksManage),
            webhooks::create_webhook,
        )
        .add(
            "GET",
            "/api/v1/webhooks",
            member(Scope::WebhooksManage),
            webhooks::list,
        )
        .add(
            "GET",
            "/api/v1/webhooks/{webhookId}",
            member(Scope::WebhooksManage),
            webhooks::get,
        )
        .add(
            "DELETE",
            "/api/v1/webhooks/{webhookId}",
            member(Scope::WebhooksManage),
            webhooks::remove,
        )
        .add(
            "POST",
            "/api/v1/webhooks/{webhookId}/rotate-secret",
            member(Scope::WebhooksManage),
            webhooks::rotate,
        )
        .add(
            "POST",
            "/api/v1/webhooks/{webhookId}/enable",
            member(Scope::WebhooksManage),
            webhooks::enable,
        )
        .add(
            "GET",
            "/api/v1/webhooks/{webhookId}/deliveries",
            member(Scope::WebhooksManage),
            webhooks::deliveries,
        )
        .add(
            "POST",
            "/api/v1/webhooks/{webhookId}/deliveries/{deliveryId}/redeliver",
            member(Scope::WebhooksManage),
            webhooks::redeliver,
        )
        .0
}
