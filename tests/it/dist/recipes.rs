//! The recipes for other package managers: the Homebrew formula and the Helm chart.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{ROOT, artefact, succeed, tool};
use crate::client::python;

#[test]
fn the_formula_installs_the_archive_whose_checksum_it_has() {
    let Some(ruby) = tool("the Homebrew formula", "ruby") else {
        return;
    };
    let archive = artefact("touchstone-0", ".tar");
    let place = TempDir::new().unwrap();
    succeed(
        Command::new("tar")
            .args(["--strip-components=1", "-xf"])
            .arg(&archive)
            .arg("-C")
            .arg(place.path()),
    );
    let prefix = TempDir::new().unwrap();
    let facts = succeed(
        Command::new(ruby)
            .arg(Path::new(ROOT).join("tests/ruby/formula.rb"))
            .arg(artefact("touchstone", ".rb"))
            .args([place.path(), prefix.path()]),
    );
    let facts: Value = serde_json::from_str(&facts).unwrap();
    let sum = succeed(Command::new("sha256sum").arg(&archive));
    assert_eq!(facts["sha256"], sum[..64]);
    assert_eq!(facts["version"], env!("CARGO_PKG_VERSION"));
    let name = archive.file_name().unwrap().to_string_lossy().into_owned();
    assert!(
        facts["url"]
            .as_str()
            .unwrap()
            .ends_with(&format!("/{name}"))
    );
    assert_eq!(facts["depends_on"], json!([{"arch": "x86_64"}, "linux"]));
    assert_eq!(facts["service"]["run"][1], "serve");
    for file in [
        "bin/touchstone",
        "share/man/man1/touchstone-eval.1",
        "etc/bash_completion.d/touchstone",
        "share/zsh/site-functions/_touchstone",
        "share/fish/vendor_completions.d/touchstone.fish",
        "var/touchstone",
    ] {
        assert!(prefix.path().join(file).exists(), "{file}");
    }
}

/// The document of a kind in rendered manifests.
fn of_kind<'a>(documents: &'a Value, kind: &str) -> Option<&'a Value> {
    documents
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["kind"] == kind)
}

/// The containers of a workload, those that run before the others first.
fn containers(workload: &Value) -> Vec<&Value> {
    let pod = &workload["spec"]["template"]["spec"];
    ["initContainers", "containers"]
        .iter()
        .flat_map(|member| pod[*member].as_array().unwrap())
        .collect()
}

#[test]
fn the_chart_renders_manifests_of_restricted_pods_that_kubernetes_accepts() {
    let Some(python) = python("the Helm chart") else {
        return;
    };
    let rendered = succeed(
        Command::new(python)
            .arg("-B")
            .arg(Path::new(ROOT).join("tests/python/check_chart.py"))
            .arg(artefact("touchstone-chart-", ".tgz")),
    );
    let rendered: Value = serde_json::from_str(&rendered).unwrap();
    let (small, cluster) = (&rendered["sqlite"], &rendered["postgresql"]);
    let stateful = of_kind(small, "StatefulSet").unwrap();
    let deployment = of_kind(cluster, "Deployment").unwrap();
    assert!(of_kind(small, "Deployment").is_none() && of_kind(cluster, "StatefulSet").is_none());
    for workload in [stateful, deployment] {
        let security = &workload["spec"]["template"]["spec"]["securityContext"];
        assert_eq!(security["runAsNonRoot"], true);
        assert_eq!(security["seccompProfile"]["type"], "RuntimeDefault");
        let containers = containers(workload);
        assert_eq!(containers.len(), 2);
        for container in containers {
            assert_eq!(
                container["securityContext"],
                json!({
                    "allowPrivilegeEscalation": false,
                    "readOnlyRootFilesystem": true,
                    "capabilities": {"drop": ["ALL"]},
                })
            );
            // The commands that the chart starts are those of the program.
            let arguments = container["args"].as_array().unwrap();
            let mut words: Vec<&str> = arguments.iter().map(|it| it.as_str().unwrap()).collect();
            words.push("--help");
            succeed(Command::new(env!("CARGO_BIN_EXE_touchstone")).args(words));
        }
        assert_eq!(
            workload["spec"]["selector"]["matchLabels"]["app.kubernetes.io/instance"],
            "evals"
        );
    }
    assert_eq!(stateful["spec"]["replicas"], 1);
    assert_eq!(
        stateful["spec"]["volumeClaimTemplates"][0]["metadata"]["name"],
        "data"
    );
    assert_eq!(deployment["spec"]["replicas"], 3);
    let environment = containers(deployment)[1]["env"].as_array().unwrap();
    let names: Vec<&Value> = environment.iter().map(|it| &it["name"]).collect();
    for name in [
        "TOUCHSTONE_DATABASE_URL",
        "TOUCHSTONE_SECRETS__KEY_FILE",
        "TOUCHSTONE_ATTEST__KEY_FILE",
        "MODEL_KEY",
    ] {
        assert!(names.contains(&&json!(name)), "{name}");
    }
    for kind in [
        "Ingress",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "ServiceMonitor",
    ] {
        assert!(of_kind(cluster, kind).is_some(), "{kind}");
    }
    assert!(of_kind(small, "NetworkPolicy").is_some());
    assert!(of_kind(small, "ServiceMonitor").is_none());
}
