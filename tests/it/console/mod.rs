//! The web console: sessions, every page, what attackers try, and journeys in a browser.

mod browser;
mod deployments;
mod journeys;
mod operations;
mod pages;
mod person;
mod ratings;
mod screenshots;
mod security;
mod session;
mod support;
mod walk;
