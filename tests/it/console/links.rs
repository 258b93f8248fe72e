//! Links and forms of all pages lead to pages that exist.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use touchstone_console::operations;
use touchstone_console::routes::Kind;

use super::support::{Names, Site, ended_run, example, is_html};
use crate::store::Engine::*;

/// Addresses within the console that a page leads to, and whether a link does.
fn links(html: &str) -> BTreeSet<(String, bool)> {
    static LINK: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("(href|action)=\"(/console[^\"#]*)").unwrap());
    let found = LINK.captures_iter(html);
    found
        .map(|it| {
            let place = it[2].replace("&#38;", "&").replace("&amp;", "&");
            (place, &it[1] == "href")
        })
        .collect()
}

#[tokio::test]
async fn links_and_forms_lead_to_pages_that_exist() {
    let site = Site::on(Sqlite).await.unwrap();
    let run = ended_run(&site.host).await;
    let names = Names::reviewed(&site.host, &run).await;
    let mut person = site.person().await;
    let mut waiting: Vec<String> = operations()
        .into_iter()
        .filter(|it| it.kind == Kind::Page)
        .filter_map(|it| example(it, &names))
        .collect();
    let mut walked = BTreeSet::new();
    while let Some(path) = waiting.pop() {
        if walked.len() > 300 || !walked.insert(path.clone()) {
            continue;
        }
        let reply = person.get(&path).await;
        if !is_html(&reply) || !reply.status.is_success() {
            continue;
        }
        for (link, is_link) in links(&reply.text()) {
            let place = link.split('?').next().unwrap();
            let known = operations()
                .into_iter()
                .any(|route| !route.path.contains('*') && matches(route.path, place));
            assert!(known, "{path} leads to {link}");
            let is_page = operations()
                .into_iter()
                .any(|route| route.kind == Kind::Page && matches(route.path, place));
            // A form adds its fields to its address.
            if is_page && is_link {
                let there = person.get(&link).await;
                assert!(
                    there.status.is_success(),
                    "{path} leads to {link}: {}",
                    there.status
                );
                waiting.push(link);
            }
        }
    }
    assert!(walked.len() > 6, "{walked:?}");
}

/// Whether an address belongs to a route.
pub fn matches(route: &str, path: &str) -> bool {
    let (route, path): (Vec<&str>, Vec<&str>) =
        (route.split('/').collect(), path.split('/').collect());
    let mut pairs = route.iter().zip(&path);
    route.len() == path.len() && pairs.all(|(a, b)| a == b || a.starts_with('{'))
}
