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
    assert_workers(&rendered);
    assert!(of_kind(small, "NetworkPolicy").is_some());
    assert!(of_kind(small, "ServiceMonitor").is_none());
}

/// The document of a kind with this name.
fn named<'a>(documents: &'a Value, kind: &str, name: &str) -> &'a Value {
    let mut all = documents.as_array().unwrap().iter();
    all.find(|it| it["kind"] == kind && it["metadata"]["name"] == name)
        .unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// The value of a variable of a container.
fn variable<'a>(container: &'a Value, name: &str) -> &'a Value {
    let mut all = container["env"].as_array().unwrap().iter();
    let found = all.find(|it| it["name"] == name);
    &found.unwrap_or_else(|| panic!("no {name} in {container}"))["value"]
}

/// Hosts and workers name the same servers, and workers have time to drain.
fn assert_workers(rendered: &Value) {
    let included = &rendered["workers"];
    let host = named(included, "Deployment", "evals-touchstone");
    let worker = named(included, "Deployment", "evals-touchstone-worker");
    let pod = &worker["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let servers = variable(container, "TOUCHSTONE_CLUSTER__NATS");
    assert_eq!(servers.as_str().unwrap().split(',').count(), 3);
    for container in containers(host) {
        assert_eq!(variable(container, "TOUCHSTONE_CLUSTER__NATS"), servers);
    }
    assert_eq!(pod["terminationGracePeriodSeconds"], 135);
    let arguments = container["args"].as_array().unwrap();
    let mut words: Vec<&str> = arguments.iter().map(|it| it.as_str().unwrap()).collect();
    assert!(words.contains(&"120"), "{words:?}");
    // Kubernetes replaces it by the name of the pod.
    for word in words.iter_mut().filter(|it| **it == "$(POD_NAME)") {
        *word = "evals-worker-7d9f8b6c5d-x2x9z";
    }
    words.push("--help");
    succeed(Command::new(env!("CARGO_BIN_EXE_touchstone")).args(words));
    let nats = named(included, "StatefulSet", "evals-touchstone-nats");
    assert_eq!(nats["spec"]["replicas"], 3);
    // Services and policies of a part must not select the pods of another one.
    let name = "app.kubernetes.io/name";
    let labels: Vec<&Value> = [host, worker, nats]
        .iter()
        .map(|it| &it["spec"]["template"]["metadata"]["labels"][name])
        .collect();
    assert!(labels[0] != labels[1] && labels[1] != labels[2] && labels[0] != labels[2]);

    let external = named(
        &rendered["external"],
        "Deployment",
        "evals-touchstone-worker",
    );
    let container = &external["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(variable(container, "TOUCHSTONE_CLUSTER__INSECURE"), "false");
    let mounts = container["volumeMounts"].as_array().unwrap();
    for (variable_name, mount) in [
        ("TOUCHSTONE_CLUSTER__CREDENTIALS_FILE", "nats-user"),
        ("TOUCHSTONE_CLUSTER__CA_FILE", "nats-ca"),
    ] {
        let file = variable(container, variable_name).as_str().unwrap();
        let mounted = mounts.iter().find(|it| it["name"] == mount).unwrap();
        assert!(file.starts_with(mounted["mountPath"].as_str().unwrap()));
    }

    // With keys, a host and each worker has a NATS user of its own.
    let host = named(&rendered["keys"], "StatefulSet", "evals-touchstone");
    let worker = named(&rendered["keys"], "StatefulSet", "evals-touchstone-worker");
    for (workload, secret, file) in [
        (host, "host-key", "host.nk"),
        (worker, "worker-keys", "$(POD_NAME).nk"),
    ] {
        let pod = &workload["spec"]["template"]["spec"];
        let volumes = pod["volumes"].as_array().unwrap();
        let volume = volumes.iter().find(|it| it["name"] == "nats-user").unwrap();
        assert_eq!(volume["secret"]["secretName"], secret);
        let container = &pod["containers"][0];
        let named = variable(container, "TOUCHSTONE_CLUSTER__NKEY_FILE");
        assert_eq!(named, &json!(format!("/etc/touchstone-nats/{file}")));
    }
    let arguments = &worker["spec"]["template"]["spec"]["containers"][0]["args"];
    assert_eq!(arguments[2], "$(POD_NAME)");
}

/// The example of a cluster on one machine: the program accepts its commands, variables and
/// configuration, and NATS accepts that of its servers.
#[test]
fn the_compose_file_starts_what_the_program_understands() {
    let folder = Path::new(ROOT).join("deploy/compose");
    let text = std::fs::read_to_string(folder.join("compose.yaml")).unwrap();
    let document: Value = serde_saphyr::from_str(&text).unwrap();
    let services = document["services"].as_object().unwrap();
    let (mut hosts, mut servers) = (0, 0);
    for (name, service) in services {
        let service = merged(service);
        let words = service.get("command").and_then(Value::as_array);
        let words: Vec<&str> = words
            .into_iter()
            .flatten()
            .map(|it| it.as_str().unwrap())
            .collect();
        if name.starts_with("nats-") {
            servers += 1;
            assert!(words.contains(&name.as_str()), "{words:?}");
            assert_eq!(service["networks"], json!(["cluster"]));
        }
        let Some(subcommand) = words.first().filter(|it| ["serve", "worker"].contains(it)) else {
            continue;
        };
        hosts += 1;
        let environment = service["environment"].as_object().unwrap();
        assert_eq!(
            environment.contains_key("TOUCHSTONE_DATABASE_URL"),
            *subcommand == "serve"
        );
        let mut command = Command::new(env!("CARGO_BIN_EXE_touchstone"));
        command.args(&words).arg("--help");
        succeed(&mut command);
        // The doctor reads the configuration with the variables of the service.
        let place = TempDir::new().unwrap();
        let mut doctor = Command::new(env!("CARGO_BIN_EXE_touchstone"));
        doctor
            .args(["--json", "doctor", "--data"])
            .arg(place.path());
        for (name, value) in environment {
            let is_setting = name.starts_with("TOUCHSTONE_CLUSTER__");
            if is_setting && name != "TOUCHSTONE_CLUSTER__NATS" {
                doctor.env(name, value.as_str().unwrap());
            }
        }
        doctor.env("TOUCHSTONE_CONFIG", folder.join("touchstone.toml"));
        doctor.env("MODEL_KEY", "none");
        let report = doctor.output().unwrap();
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        let checks = report["checks"].as_array().unwrap();
        let of_configuration = checks.iter().filter(|it| it["area"] == "configuration");
        for check in of_configuration {
            assert_eq!(check["status"], "ok", "{name}: {check}");
        }
    }
    assert_eq!((hosts, servers), (3, 3));
    assert_eq!(document["networks"]["cluster"]["internal"], true);
    let Some(nats) = tool("the servers of the compose file", "nats-server") else {
        return;
    };
    let file = folder.join("nats.conf");
    succeed(Command::new(nats).arg("-t").arg("-c").arg(file));
}

/// A service with the members of its template.
fn merged(service: &Value) -> serde_json::Map<String, Value> {
    let mut members = service.as_object().unwrap().clone();
    if let Some(Value::Object(template)) = members.remove("<<") {
        for (name, value) in template {
            members.entry(name).or_insert(value);
        }
    }
    members
}

/// The unit of workers starts a command that the program has.
#[test]
fn the_unit_of_workers_starts_a_worker() {
    let unit = Path::new(ROOT).join("deploy/systemd/touchstone-worker@.service");
    let text = std::fs::read_to_string(unit).unwrap();
    let start = text
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let start = start
        .unwrap()
        .replace("%l-%i", "machine-1")
        .replace("${CONCURRENCY}", "32");
    let words: Vec<&str> = start.split(' ').skip(1).collect();
    succeed(
        Command::new(env!("CARGO_BIN_EXE_touchstone"))
            .args(words)
            .arg("--help"),
    );
    let after = |name: &str| {
        let (_, rest) = text.split_once(name).unwrap();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().unwrap()
    };
    assert!(after("--drain ") < after("TimeoutStopSec="));
}
