//! The list of endpoints of one feature, and how each is guarded.

pub mod paths;

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware;
use axum::routing::{MethodFilter, MethodRouter, on};

use crate::access::Scope;
use crate::http::HttpHost;
use crate::http::auth::{AuthRequirements, guard};
use crate::http::translation;

/// An operation as the API description names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    pub method: &'static str,
    /// The documented path.
    pub path: &'static str,
    /// Whether it needs an API key.
    pub keyed: bool,
    /// The required scope; `None` if no key is needed, or if the scope depends on the request.
    pub scope: Option<Scope>,
    /// `false` for routes that only answer that a capability is not offered, and for test seams;
    /// the API description leaves them out.
    pub described: bool,
}

/// The routes of one feature, whose handlers share the state `S`, and their operations.
pub struct Table<S> {
    state: Option<Arc<S>>,
    router: Router<Arc<S>>,
    operations: Vec<Operation>,
}

/// Who may call a route.
#[derive(Clone, Copy)]
enum Access {
    Anyone,
    /// A caller with a key and, if it is named, this scope.
    Keyed(Option<Scope>),
    /// A caller with a key and this scope, or the second one under major 2.
    KeyedByMajor(Scope, Scope),
    /// The same, for a request that waits for events.
    Waiting(Scope),
}

impl<S: AsRef<Arc<HttpHost>> + Send + Sync + 'static> Table<S> {
    /// A table of routes with handlers that share `state`; without a state, only the operations.
    pub fn new(state: Option<Arc<S>>) -> Self {
        Self {
            state,
            router: Router::new(),
            operations: Vec::new(),
        }
    }

    pub fn operations(self) -> Vec<Operation> {
        self.operations
    }

    pub fn router(self) -> Router {
        match self.state {
            Some(state) => self.router.with_state(state),
            None => Router::new(),
        }
    }

    /// A route that guards itself.
    #[must_use]
    pub fn guarded(
        mut self,
        operation: Operation,
        route: impl FnOnce(&Arc<S>) -> MethodRouter<Arc<S>>,
    ) -> Self {
        self.operations.push(operation);
        if let Some(state) = &self.state {
            let route = route(state);
            let path = paths::internal(operation.path);
            self.router = self.router.route(&path, route);
        }
        self
    }

    fn add<T: 'static>(
        self,
        method: &Method,
        path: &'static str,
        access: Access,
        described: bool,
        handler: impl Handler<T, Arc<S>>,
    ) -> Self {
        let (filter, method) = match *method {
            Method::POST => (MethodFilter::POST, "POST"),
            Method::DELETE => (MethodFilter::DELETE, "DELETE"),
            _ => (MethodFilter::GET, "GET"),
        };
        let (scope, scope_of_v2, waits) = match access {
            Access::Anyone => (None, None, false),
            Access::Keyed(scope) => (scope, None, false),
            Access::KeyedByMajor(of_v1, of_v2) => (Some(of_v1), Some(of_v2), false),
            Access::Waiting(scope) => (Some(scope), None, true),
        };
        let keyed = !matches!(access, Access::Anyone);
        let operation = Operation {
            method,
            path,
            keyed,
            scope,
            described,
        };
        self.guarded(operation, |state| {
            let host = state.as_ref().as_ref();
            let route = translation::around(on(filter, handler), host, operation);
            if !keyed {
                return route;
            }
            let required = AuthRequirements {
                host: host.clone(),
                scope,
                scope_of_v2,
                waits,
            };
            route.route_layer(middleware::from_fn_with_state(required, guard))
        })
    }

    /// A route that needs no key.
    #[must_use]
    pub fn open<T: 'static>(
        self,
        method: &Method,
        path: &'static str,
        handler: impl Handler<T, Arc<S>>,
    ) -> Self {
        self.add(method, path, Access::Anyone, true, handler)
    }

    /// A route that needs a key with a scope.
    #[must_use]
    pub fn keyed<T: 'static>(
        self,
        method: &Method,
        path: &'static str,
        scope: Scope,
        handler: impl Handler<T, Arc<S>>,
    ) -> Self {
        self.add(method, path, Access::Keyed(Some(scope)), true, handler)
    }

    /// A route that needs a key with another scope under major 2.
    #[must_use]
    pub fn keyed_by_major<T: 'static>(
        self,
        method: &Method,
        path: &'static str,
        (of_v1, of_v2): (Scope, Scope),
        handler: impl Handler<T, Arc<S>>,
    ) -> Self {
        let access = Access::KeyedByMajor(of_v1, of_v2);
        self.add(method, path, access, true, handler)
    }

    /// [`keyed`](Self::keyed), for requests that wait for events; they have their own concurrency limit.
    #[must_use]
    pub fn waiting<T: 'static>(
        self,
        method: &Method,
        path: &'static str,
        scope: Scope,
        handler: impl Handler<T, Arc<S>>,
    ) -> Self {
        self.add(method, path, Access::Waiting(scope), true, handler)
    }

    /// A route that needs a key; the use case checks the scope.
    #[must_use]
    pub fn authenticated<T: 'static>(
        self,
        method: &Method,
        path: &'static str,
        handler: impl Handler<T, Arc<S>>,
    ) -> Self {
        self.add(method, path, Access::Keyed(None), true, handler)
    }

    /// A route that only answers that a capability is not offered.
    #[must_use]
    pub fn not_offered<T: 'static>(
        self,
        method: &Method,
        path: &'static str,
        scope: Scope,
        handler: impl Handler<T, Arc<S>>,
    ) -> Self {
        self.add(method, path, Access::Keyed(Some(scope)), false, handler)
    }

    /// A route for conformance suites; 404 unless the host is in conformance mode and the caller
    /// has a test key.
    #[must_use]
    pub fn seam<T: 'static>(
        self,
        method: &Method,
        path: &'static str,
        handler: impl Handler<T, Arc<S>>,
    ) -> Self {
        self.add(method, path, Access::Keyed(None), false, handler)
    }
}
