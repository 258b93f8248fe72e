//! `GET /v1/host/touchstone/errors/{code}`: the documentation of an error code, which the `Link`
//! header of every error names. `README` is the list of all codes.

use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse as _;

use touchstone_host::http::answer::{Answer, ERROR_PAGES};
use touchstone_host::http::extract::PathParameters;
use touchstone_kit::error::{ErrorCode, Problem};

/// Codes and their pages, of both error envelopes, and the lists of codes.
static PAGES: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/error_pages.rs"));

pub async fn get(path: PathParameters) -> Answer {
    let code = path.get("code");
    let page = page_of(code)
        .ok_or_else(|| Problem::new(ErrorCode::NotFound, "there is no such error code"))?;
    let fixed = [
        (
            CONTENT_TYPE,
            HeaderValue::from_static("text/markdown; charset=utf-8"),
        ),
        (
            CACHE_CONTROL,
            HeaderValue::from_static("public, max-age=300"),
        ),
    ];
    Ok((fixed, with_served_links(page)).into_response())
}

fn page_of(code: &str) -> Option<&'static str> {
    let (_, page) = PAGES.iter().find(|(known, _)| *known == code)?;
    Some(page)
}

/// The page with links that work on this host. The files link each other by relative paths.
fn with_served_links(page: &str) -> String {
    let mut served = String::with_capacity(page.len());
    let mut rest = page;
    while let Some((before, label, target, after)) = next_link(rest) {
        served.push_str(before);
        served.push_str(&served_link(label, target));
        rest = after;
    }
    served.push_str(rest);
    served
}

/// The text before the first Markdown link, its label and target, and the text after it.
fn next_link(text: &str) -> Option<(&str, &str, &str, &str)> {
    let (head, tail) = text.split_once("](")?;
    let (before, label) = head.rsplit_once('[')?;
    let (target, after) = tail.split_once(')')?;
    Some((before, label, target, after))
}

/// A link to a page that this host serves; the path of the file for other documents.
fn served_link(label: &str, target: &str) -> String {
    let Some(file) = target.strip_suffix(".md") else {
        return format!("[{label}]({target})");
    };
    let name = file.rsplit_once('/').map_or(file, |(_, name)| name);
    match page_of(name) {
        Some(_) => format!("[{label}]({ERROR_PAGES}/{name})"),
        None => format!("{label} (`docs/{name}.md`)"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::index(
        "[All codes](README.md)",
        "[All codes](/v1/host/touchstone/errors/README)"
    )]
    #[case::of_ratings(
        "[All codes](../README.md)",
        "[All codes](/v1/host/touchstone/errors/README)"
    )]
    #[case::code(
        "| [`CONFLICT`](ratings/CONFLICT.md) | 409 |",
        "| [`CONFLICT`](/v1/host/touchstone/errors/CONFLICT) | 409 |"
    )]
    #[case::other_document(
        "More: [Ratings](../../ratings.md).",
        "More: Ratings (`docs/ratings.md`)."
    )]
    #[case::same_page("[Commands](#commands)", "[Commands](#commands)")]
    #[case::no_link("`a[0]` (b)", "`a[0]` (b)")]
    fn links_lead_to_pages_of_the_host(#[case] page: &str, #[case] served: &str) {
        assert_eq!(with_served_links(page), served);
    }
}
