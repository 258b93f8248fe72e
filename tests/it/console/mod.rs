//! The web console: sessions, every page, what attackers try, and journeys in a browser.

mod browser;
mod compare;
mod deployments;
mod errors;
mod headers;
mod journeys;
mod links;
mod live;
mod local;
mod oidc;
mod operations;
mod pages;
mod person;
mod promoting;
mod ratings;
mod review;
mod runs;
mod screenshots;
mod security;
mod session;
mod speed;
mod support;
mod visitor;
mod walk;
mod watching;
