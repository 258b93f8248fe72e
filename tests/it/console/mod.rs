//! The web console: sessions, every page, what attackers try, and journeys in a browser.

mod audited;
mod browser;
mod compare;
mod deployments;
mod headers;
mod journeys;
mod limits;
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
mod seeds;
mod session;
mod speed;
pub mod support;
mod visitor;
mod walk;
mod watching;
