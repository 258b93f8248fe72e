//! The list of routes of the console, and how each is guarded.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware;
use axum::routing::{MethodFilter, MethodRouter, on};

use crate::api::ConsoleApi;
use crate::guard::{Guard, guard};
use touchstone_host::access::Scope;

/// Largest form, in bytes.
pub const MAX_FORM: usize = 256 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Needs no session.
    Open,
    /// Shows a page, or a file to download.
    Page,
    /// Changes something; the form has the session's token.
    Form,
    /// Sends events until the browser leaves.
    Stream,
}

#[derive(Clone, Copy, Debug)]
pub struct PageRoute {
    pub method: &'static str,
    pub path: &'static str,
    pub kind: Kind,
    /// `None` if the use case decides.
    pub scope: Option<Scope>,
}

/// The routes of the console; without a state, only their list.
pub struct Pages {
    api: Option<Arc<ConsoleApi>>,
    router: Router<Arc<ConsoleApi>>,
    routes: Vec<PageRoute>,
    /// Largest form of the next route, in bytes.
    most: usize,
}

impl Pages {
    pub fn new(api: Option<Arc<ConsoleApi>>) -> Self {
        Self {
            api,
            router: Router::new(),
            routes: Vec::new(),
            most: MAX_FORM,
        }
    }

    pub fn operations(self) -> Vec<PageRoute> {
        self.routes
    }

    pub fn router(self) -> Router {
        match self.api {
            Some(api) => self.router.with_state(api),
            None => Router::new(),
        }
    }

    /// A route that needs no session.
    #[must_use]
    pub fn open<T: 'static>(
        self,
        method: &Method,
        path: &'static str,
        handler: impl Handler<T, Arc<ConsoleApi>>,
    ) -> Self {
        let post = *method == Method::POST;
        self.add(post, path, Kind::Open, None, handler)
    }

    /// A page that needs a session whose caller has the scope.
    #[must_use]
    pub fn page<T: 'static>(
        self,
        path: &'static str,
        scope: impl Into<Option<Scope>>,
        handler: impl Handler<T, Arc<ConsoleApi>>,
    ) -> Self {
        self.add(false, path, Kind::Page, scope.into(), handler)
    }

    /// A form, as `POST`.
    #[must_use]
    pub fn form<T: 'static>(
        self,
        path: &'static str,
        scope: impl Into<Option<Scope>>,
        handler: impl Handler<T, Arc<ConsoleApi>>,
    ) -> Self {
        self.add(true, path, Kind::Form, scope.into(), handler)
    }

    /// A form with documents: as large as a body of the API may be.
    #[must_use]
    pub fn upload<T: 'static>(
        mut self,
        path: &'static str,
        scope: impl Into<Option<Scope>>,
        handler: impl Handler<T, Arc<ConsoleApi>>,
    ) -> Self {
        let api = self.api.as_ref();
        self.most = api.map_or(MAX_FORM, |api| api.host.settings.max_body_bytes);
        let mut pages = self.form(path, scope, handler);
        pages.most = MAX_FORM;
        pages
    }

    /// A stream of events.
    #[must_use]
    pub fn stream<T: 'static>(
        self,
        path: &'static str,
        scope: impl Into<Option<Scope>>,
        handler: impl Handler<T, Arc<ConsoleApi>>,
    ) -> Self {
        self.add(false, path, Kind::Stream, scope.into(), handler)
    }

    fn add<T: 'static>(
        mut self,
        post: bool,
        path: &'static str,
        kind: Kind,
        scope: Option<Scope>,
        handler: impl Handler<T, Arc<ConsoleApi>>,
    ) -> Self {
        let (filter, method) = match post {
            true => (MethodFilter::POST, "POST"),
            false => (MethodFilter::GET, "GET"),
        };
        self.routes.push(PageRoute {
            method,
            path,
            kind,
            scope,
        });
        let Some(api) = &self.api else {
            return self;
        };
        let mut route: MethodRouter<Arc<ConsoleApi>> = on(filter, handler);
        if kind != Kind::Open {
            let required = Guard {
                api: api.clone(),
                kind,
                scope,
                most: self.most,
            };
            route = route.route_layer(middleware::from_fn_with_state(required, guard));
        }
        self.router = self.router.route(path, route);
        self
    }
}
