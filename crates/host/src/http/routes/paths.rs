//! Action suffixes: `/v1/runs/{runId}:retry` (OpenWOP rest-endpoints).
//!
//! The colon is a literal inside the last segment and may be sent as `%3A`; the last colon counts.
//! The router matches whole segments only, so before routing the suffix becomes a segment of its
//! own, with a marker that no public path has.

use axum::extract::Request;

use crate::http::negotiation::route_by;

const SIGN: char = '~';

/// Collections whose members take actions.
const WITH_ACTIONS: &[&str] = &["/v1/runs/", "/v1/host/touchstone/runs/"];

/// The collection that takes actions itself; the router knows those paths as they are.
const RUNS: &str = "/v1/runs";

/// Files named by a parameter and an extension, such as `{version}.tgz`; versions contain dots too,
/// so the last dot counts.
const PACK_FILES: &[&str] = &["json", "tgz", "sig"];
const KEY_FILES: &[&str] = &["pub"];

/// The router's form of a documented path.
pub fn internal(path: &str) -> String {
    path.replace("}:", &format!("}}/{SIGN}"))
        .replace("}.", &format!("}}/{SIGN}."))
}

/// The documented form of a router's path.
pub fn documented(path: &str) -> String {
    path.replace(&format!("/{SIGN}."), ".")
        .replace(&format!("/{SIGN}"), ":")
}

/// Rewrites a request's path into the router's form.
pub fn rewrite(mut request: Request) -> Request {
    if let Some(path) = rewritten(request.uri().path()) {
        route_by(&mut request, &path);
    }
    request
}

fn rewritten(path: &str) -> Option<String> {
    if path.contains(&format!("/{SIGN}")) {
        // Clients must not reach a route by its internal form.
        return Some(format!("/{SIGN}"));
    }
    if let Some(action) = path.strip_prefix(RUNS)
        && let Some(action) = action
            .strip_prefix("%3A")
            .or_else(|| action.strip_prefix("%3a"))
    {
        return Some(format!("{RUNS}:{action}"));
    }
    if let Some((folder, file)) = path.rsplit_once('/') {
        let kinds = match folder {
            "/keys" => KEY_FILES,
            _ if folder.starts_with("/v1/packs/") && folder.ends_with("/-") => PACK_FILES,
            _ => &[],
        };
        if let Some((member, kind)) = file.rsplit_once('.')
            && !member.is_empty()
            && kinds.contains(&kind)
        {
            return Some(format!("{folder}/{member}/{SIGN}.{kind}"));
        }
    }
    let rest = WITH_ACTIONS
        .iter()
        .find_map(|collection| path.strip_prefix(collection))?;
    if rest.contains('/') {
        return None;
    }
    let plain = rest.replace("%3A", ":").replace("%3a", ":");
    let (member, action) = plain.rsplit_once(':')?;
    let collection = path.strip_suffix(rest)?;
    Some(format!("{collection}{member}/{SIGN}{action}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("/v1/runs/r1:fork", Some("/v1/runs/r1/~fork"))]
    #[case("/v1/runs/r1%3Afork", Some("/v1/runs/r1/~fork"))]
    #[case("/v1/runs/r1%3afork", Some("/v1/runs/r1/~fork"))]
    #[case("/v1/runs/a:b:fork", Some("/v1/runs/a:b/~fork"))]
    #[case("/v1/runs/r1", None)]
    #[case("/v1/runs/r1/events", None)]
    #[case("/v1/runs/r1/~fork", Some("/~"))]
    #[case("/v1/workflows/eval:a@1", None)]
    #[case("/v1/runs:bulk-cancel", None)]
    #[case("/v1/runs%3Abulk-cancel", Some("/v1/runs:bulk-cancel"))]
    #[case(
        "/v1/packs/a.b.c/-/1.0.0-rc.1.tgz",
        Some("/v1/packs/a.b.c/-/1.0.0-rc.1/~.tgz")
    )]
    #[case("/v1/packs/a.b.c/-/1.0.json", Some("/v1/packs/a.b.c/-/1.0/~.json"))]
    #[case("/v1/packs/a.b.c/-/1.0.0.exe", None)]
    #[case("/v1/packs/a.b.c/-/keychain", None)]
    #[case("/v1/packs/-/search", None)]
    #[case("/v1/packs/a.b.json", None)]
    #[case("/keys/acme-1.pub", Some("/keys/acme-1/~.pub"))]
    fn a_suffix_is_split_at_the_last_colon(#[case] path: &str, #[case] expected: Option<&str>) {
        assert_eq!(rewritten(path).as_deref(), expected);
    }

    #[test]
    fn internal_and_documented_paths_convert_both_ways() {
        let path = "/v1/host/touchstone/runs/{runId}:retry";
        assert_eq!(documented(&internal(path)), path);
        let path = "/v1/packs/{name}/-/{version}.json";
        assert_eq!(internal(path), "/v1/packs/{name}/-/{version}/~.json");
        assert_eq!(documented(&internal(path)), path);
    }
}
