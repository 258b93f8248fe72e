//! The paths of the protocol (OpenWOP v2 path manifest).

use crate::wire::Major;
use crate::wire::version::Majors;

/// The one resource with the same path under both majors.
pub const DISCOVERY: &str = "/.well-known/openwop";

/// The routes of this host. They have no major, and are served with and without `/v1`.
const OWN: &str = "/host/touchstone";

/// The operations of major 1 among the routes of this host: for its own programs, whether or not it
/// serves major 1 of the protocol.
pub const TWINS: &str = "/host/touchstone/v1";

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

/// An operation that this host has.
#[derive(Debug, PartialEq, Eq)]
pub struct Operation {
    pub id: &'static str,
    pub method: &'static str,
    /// The path with its parameters, in the form of major 1.
    pub path: &'static str,
    pub majors: &'static [Major],
}

const fn both(id: &'static str, method: &'static str, path: &'static str) -> Operation {
    Operation {
        id,
        method,
        path,
        majors: &[Major::V1, Major::V2],
    }
}

const fn v1(id: &'static str, method: &'static str, path: &'static str) -> Operation {
    Operation {
        majors: &[Major::V1],
        ..both(id, method, path)
    }
}

const fn v2(id: &'static str, method: &'static str, path: &'static str) -> Operation {
    Operation {
        majors: &[Major::V2],
        ..both(id, method, path)
    }
}

/// The operations of this host, with their ids of the path manifest.
pub const OPERATIONS: &[Operation] = &[
    both("getCapabilities", "GET", "/.well-known/openwop"),
    both("getOpenApiSpec", "GET", "/v1/openapi.json"),
    both("getWorkflow", "GET", "/v1/workflows/{workflowId}"),
    both("createRun", "POST", "/v1/runs"),
    v2("listRuns", "GET", "/v1/runs"),
    both("bulkCancelRuns", "POST", "/v1/runs:bulk-cancel"),
    both("getRun", "GET", "/v1/runs/{runId}"),
    both("streamRunEvents", "GET", "/v1/runs/{runId}/events"),
    both("pollRunEvents", "GET", "/v1/runs/{runId}/events/poll"),
    both("cancelRun", "POST", "/v1/runs/{runId}/cancel"),
    both("pauseRun", "POST", "/v1/runs/{runId}:pause"),
    both("resumeRun", "POST", "/v1/runs/{runId}:resume"),
    both("forkRun", "POST", "/v1/runs/{runId}:fork"),
    both("diffRun", "GET", "/v1/runs/{runId}:diff"),
    both("listAnnotations", "GET", "/v1/runs/{runId}/annotations"),
    both("createAnnotation", "POST", "/v1/runs/{runId}/annotations"),
    both(
        "getArtifact",
        "GET",
        "/v1/runs/{runId}/artifacts/{artifactId}",
    ),
    both("getEvalSummary", "GET", "/v1/runs/{runId}/eval-summary"),
    v2("getRunEffects", "GET", "/v1/runs/{runId}/effects"),
    v1("getDebugBundle", "GET", "/v1/runs/{runId}/debug-bundle"),
    both(
        "resolveInterruptByRun",
        "POST",
        "/v1/runs/{runId}/interrupts/{nodeId}",
    ),
    both("inspectInterruptByToken", "GET", "/v1/interrupts/{token}"),
    both("resolveInterruptByToken", "POST", "/v1/interrupts/{token}"),
    both("registerWebhook", "POST", "/v1/webhooks"),
    both("unregisterWebhook", "DELETE", "/v1/webhooks/{webhookId}"),
    v2(
        "listWebhookDeadLetters",
        "GET",
        "/v1/webhooks/{webhookId}/dead-letters",
    ),
    both(
        "rotateWebhookSecret",
        "POST",
        "/v1/webhooks/{webhookId}/rotate-secret",
    ),
    both("listAgents", "GET", "/v1/agents"),
    both("getAgent", "GET", "/v1/agents/{agentId}"),
    both(
        "listAgentDeployments",
        "GET",
        "/v1/agents/{agentId}/deployments",
    ),
    both(
        "transitionAgentDeployment",
        "POST",
        "/v1/agents/{agentId}/deployments",
    ),
    both("verifyAuditLog", "GET", "/v1/audit/verify"),
    v2("getEffectSeamManifest", "GET", "/v1/host/effect-seams"),
];

impl Operation {
    /// Whether the operation takes a body and an `Idempotency-Key`.
    pub fn writes(&self) -> bool {
        self.method == "POST"
    }
}

/// The operation with this method and path, where the path is the one of major 1 with its
/// parameters.
pub fn find(method: &str, path: &str) -> Option<&'static Operation> {
    // The answer to HEAD is the one to GET without its body.
    let method = if method == "HEAD" { "GET" } else { method };
    OPERATIONS
        .iter()
        .find(|it| (it.method, it.path) == (method, path))
}

/// Whether a major has a route of this host. Major 2 has only the listed operations; the routes of
/// major 1 that only say that something is not offered are not among them.
pub fn has(major: Major, method: &str, path: &str) -> bool {
    match find(method, path) {
        Some(operation) => operation.majors.contains(&major),
        None => major == Major::V1,
    }
}

/// The methods of operations at a path, in the form of major 1, that a major does not have.
pub fn methods_of_others(major: Major, path: &str) -> impl Iterator<Item = &'static str> {
    let others = OPERATIONS
        .iter()
        .filter(move |it| !it.majors.contains(&major) && fits(it.path, path));
    others.map(|it| it.method)
}

/// Whether a path is one of those with these parameters, each of which is a whole segment.
fn fits(template: &str, path: &str) -> bool {
    let (mut expected, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (expected.next(), given.next()) {
            (None, None) => return true,
            (Some(name), Some(value)) if name.starts_with('{') && !value.is_empty() => {}
            (Some(name), Some(value)) if name == value => {}
            _ => return false,
        }
    }
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

/// The path of the twin of an operation of major 1, which may have a query.
pub fn twin(path: &str) -> Option<String> {
    let rest = path.strip_prefix("/v1")?;
    let bare = rest.split('?').next().unwrap_or(rest);
    is_operation(Major::V1, bare).then(|| format!("{TWINS}{rest}"))
}

/// Where a host with these majors serves an operation of major 1: at its path, or at its twin.
pub fn link(majors: Majors, path: String) -> String {
    let twin = (!majors.has(Major::V1)).then(|| twin(&path)).flatten();
    twin.unwrap_or(path)
}

/// The path that the router knows of a route of this host, if it is another one.
pub fn routed(path: &str) -> Option<String> {
    let operation = path.strip_prefix(TWINS);
    if let Some(rest) = operation.filter(|it| is_operation(Major::V1, it)) {
        return Some(format!("/v1{rest}"));
    }
    let rest = path.strip_prefix(OWN)?;
    rest.starts_with('/').then(|| format!("/v1{path}"))
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

    #[rstest]
    #[case("GET", "/v1/runs/{runId}/debug-bundle", true, false)]
    #[case("GET", "/v1/runs", false, true)]
    #[case("HEAD", "/v1/runs", false, true)]
    #[case("POST", "/v1/runs", true, true)]
    #[case("HEAD", "/v1/runs/{runId}", true, true)]
    #[case("PUT", "/v1/runs/{runId}", true, false)]
    #[case("GET", "/v1/runs/{runId}/ancestry", true, false)]
    fn each_major_has_operations_of_its_own(
        #[case] method: &str,
        #[case] path: &str,
        #[case] in_v1: bool,
        #[case] in_v2: bool,
    ) {
        assert_eq!(has(Major::V1, method, path), in_v1);
        assert_eq!(has(Major::V2, method, path), in_v2);
    }

    #[rstest]
    #[case("/v1/runs", Some("/host/touchstone/v1/runs"))]
    #[case("/v1/runs?limit=1", Some("/host/touchstone/v1/runs?limit=1"))]
    #[case("/v1/runs/run_1:fork", Some("/host/touchstone/v1/runs/run_1:fork"))]
    #[case("/v1/audit/verify", Some("/host/touchstone/v1/audit/verify"))]
    #[case("/v1/host/touchstone/runs", None)]
    #[case("/v1/packs/-/search", None)]
    #[case("/runs", None)]
    fn an_operation_of_major_1_has_a_twin(#[case] path: &str, #[case] expected: Option<&str>) {
        assert_eq!(twin(path).as_deref(), expected);
        if let Some(expected) = expected.filter(|it| !it.contains('?')) {
            assert_eq!(routed(expected).as_deref(), Some(path));
        }
    }

    #[rstest]
    #[case(Majors::Both, "/v1/runs/run_1", "/v1/runs/run_1")]
    #[case(Majors::V2, "/v1/runs/run_1", "/host/touchstone/v1/runs/run_1")]
    #[case(Majors::V2, "/v1/packs", "/v1/packs")]
    fn links_lead_to_what_is_served(
        #[case] majors: Majors,
        #[case] path: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(link(majors, path.to_owned()), expected);
    }

    #[rstest]
    #[case("/host/touchstone/runs", Some("/v1/host/touchstone/runs"))]
    #[case("/host/touchstone/v1/packs", Some("/v1/host/touchstone/v1/packs"))]
    #[case("/host/touchstone", None)]
    #[case("/host/touchstones/runs", None)]
    #[case("/host/effect-seams", None)]
    #[case("/v1/host/touchstone/runs", None)]
    #[case("/v1/runs", None)]
    fn routes_of_the_host_need_no_version(#[case] path: &str, #[case] expected: Option<&str>) {
        assert_eq!(routed(path).as_deref(), expected);
    }

    #[rstest]
    #[case(Major::V1, "/v1/runs", &["GET"])]
    #[case(Major::V2, "/v1/runs", &[])]
    #[case(Major::V1, "/v1/runs/run_1/effects", &["GET"])]
    #[case(Major::V1, "/v1/runs//effects", &[])]
    #[case(Major::V1, "/v1/runs/run_1", &[])]
    #[case(Major::V2, "/v1/runs/run_1/debug-bundle", &["GET"])]
    #[case(Major::V2, "/v1/runs/run_1/debug-bundle/more", &[])]
    fn methods_of_other_majors_are_known_by_their_path(
        #[case] major: Major,
        #[case] path: &str,
        #[case] expected: &[&str],
    ) {
        let found: Vec<&str> = methods_of_others(major, path).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn every_operation_is_on_a_path_of_its_majors() {
        for it in OPERATIONS {
            let path = it.path.strip_prefix("/v1").unwrap_or(it.path);
            for major in it.majors {
                assert!(it.path == DISCOVERY || is_operation(*major, path), "{it:?}");
            }
            assert_eq!(find(it.method, it.path), Some(it));
        }
    }
}
