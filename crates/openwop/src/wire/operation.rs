//! The paths of the protocol (OpenWOP v2 path manifest).

use crate::wire::Major;

/// The one resource with the same path under both majors.
pub const DISCOVERY: &str = "/.well-known/openwop";

/// First segments of operations, below `/v1` under major 1. Operations that this host does not
/// offer are among them: they are answered as operations of the protocol.
const ROOTS: &[&str] = &[
    "agents",
    "connection-providers",
    "content",
    "interrupts",
    "openapi.json",
    "prompts",
    "proposals",
    "runs",
    "tools",
    "trigger-subscriptions",
    "webhooks",
    "workflows",
];

/// Operations that share their first segment with routes that are not of the protocol.
const OTHERS: &[&str] = &["/audit/verify"];

/// The same, and major 1 does not have them.
const OTHERS_OF_V2: &[&str] = &["/host/effect-seams", "/host/events", "/host/events/test"];
const UI_PLUGINS: &str = "/host/ui-plugins/";

/// Operations that one major lacks, by method and path under major 1.
const ONLY: &[(Major, &str, &str)] = &[
    (Major::V1, "GET", "/v1/runs/{runId}/debug-bundle"),
    (Major::V2, "GET", "/v1/runs"),
    (Major::V2, "GET", "/v1/runs/{runId}/effects"),
    (Major::V2, "GET", "/v1/host/effect-seams"),
    (Major::V2, "GET", "/v1/webhooks/{webhookId}/dead-letters"),
];

/// Whether a major has the operation with this method and path, where the path is the one of major
/// 1 with its parameters. Operations that are in no list are in both majors.
pub fn has(major: Major, method: &str, path: &str) -> bool {
    let only = ONLY.iter().find(|(_, m, p)| (*m, *p) == (method, path));
    only.is_none_or(|(of, _, _)| *of == major)
}

/// Whether a path, without `/v1`, is one of the protocol under a major.
pub fn is_operation(major: Major, path: &str) -> bool {
    let Some(rest) = path.strip_prefix('/') else {
        return false;
    };
    let first = rest.split('/').next().unwrap_or(rest);
    // An action of a collection: `runs:bulk-cancel`.
    let first = first.split(':').next().unwrap_or(first);
    let first = first.split('%').next().unwrap_or(first);
    let is_other = OTHERS.contains(&path)
        || major == Major::V2 && (OTHERS_OF_V2.contains(&path) || path.starts_with(UI_PLUGINS));
    ROOTS.contains(&first) || is_other
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("/runs", true)]
    #[case("/runs/", true)]
    #[case("/runs/acme~2Frun_1/events/poll", true)]
    #[case("/runs:bulk-cancel", true)]
    #[case("/runs%3Abulk-cancel", true)]
    #[case("/openapi.json", true)]
    #[case("/audit/verify", true)]
    #[case("/audit", false)]
    #[case("/tools", true)]
    #[case("/packs", false)]
    #[case("/runsx", false)]
    #[case("//runs", false)]
    #[case("runs", false)]
    #[case("/", false)]
    #[case("/host/touchstone/runs", false)]
    fn operations_are_known_by_their_first_segment(#[case] path: &str, #[case] expected: bool) {
        assert_eq!(is_operation(Major::V1, path), expected);
        assert_eq!(is_operation(Major::V2, path), expected);
    }

    #[rstest]
    #[case("/host/effect-seams")]
    #[case("/host/events")]
    #[case("/host/ui-plugins/a/b/frame")]
    fn operations_below_host_are_only_in_major_2(#[case] path: &str) {
        assert!(is_operation(Major::V2, path));
        assert!(!is_operation(Major::V1, path));
    }

    #[test]
    fn each_major_has_operations_of_its_own() {
        assert!(has(Major::V1, "GET", "/v1/runs/{runId}/debug-bundle"));
        assert!(!has(Major::V2, "GET", "/v1/runs/{runId}/debug-bundle"));
        assert!(has(Major::V2, "GET", "/v1/runs"));
        assert!(!has(Major::V1, "GET", "/v1/runs"));
        assert!(has(Major::V1, "POST", "/v1/runs"));
        assert!(has(Major::V2, "POST", "/v1/runs"));
    }
}
