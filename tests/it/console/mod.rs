//! The web console: sessions, every page, what attackers try, and journeys in a browser.

mod browser;
mod compare;
mod deployments;
mod journeys;
mod live;
mod operations;
mod pages;
mod person;
mod ratings;
mod review;
mod runs;
mod screenshots;
mod security;
mod session;
mod support;
mod visitor;
mod walk;
