"""Renders the Helm chart with Helm's own library and holds every document to the schemas of Kubernetes.

    check_chart.py CHART

CHART is a folder or an archive. Prints, for each set of values, the documents as JSON.
"""

import json
import sys

import helm_python as helm
import kubernetes_validate
import yaml

KUBERNETES = ["1.25", "1.37"]
# A custom resource, of which there is no schema.
CUSTOM = {"PodMonitor", "ServiceMonitor"}
KEY = {"firstKey": {"existingSecret": "first-key"}}
CLUSTER = {
    **KEY,
    "database": {"kind": "postgresql", "postgresql": {"existingSecret": "database"}},
    "hostKeys": {"existingSecret": "host-keys"},
    "replicas": 3,
    "config": '[[models]]\nclass = "*"\n',
    "env": [{"name": "MODEL_KEY", "valueFrom": {"secretKeyRef": {"name": "models", "key": "openai"}}}],
    "envFrom": [{"secretRef": {"name": "models"}}],
    "image": {"repository": "registry.example/touchstone", "digest": "sha256:" + "0" * 64, "pullSecrets": [{"name": "registry"}]},
    "ingress": {"enabled": True, "className": "nginx", "host": "evals.example", "tlsSecret": "tls"},
    "networkPolicy": {
        "enabled": True,
        "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "egress": [{"ports": [{"port": 443}]}],
    },
    "serviceMonitor": {"enabled": True, "existingSecret": "metrics-key", "labels": {"release": "prometheus"}},
    "tolerations": [{"key": "evals", "operator": "Exists"}],
    "nodeSelector": {"disk": "fast"},
    "affinity": {"podAntiAffinity": {}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
}
WORKERS = {
    **CLUSTER,
    "workers": {"replicas": 4, "concurrency": 64, "drainSeconds": 120},
    "nats": {"enabled": True},
}
EXTERNAL = {
    **KEY,
    "workers": {"replicas": 1, "config": '[[models]]\nclass = "general"\n', "env": [{"name": "MODEL_KEY", "value": "x"}]},
    "cluster": {
        "nats": "tls://nats-1.example:4222,tls://nats-2.example:4222",
        "credentials": {"existingSecret": "nats-user"},
        "ca": {"existingSecret": "nats-ca"},
    },
}
KEYS = {
    **EXTERNAL,
    "workers": {"replicas": 2, "keys": {"existingSecret": "worker-keys"}},
    "cluster": {"nats": "tls://nats.example:4222", "key": {"existingSecret": "host-key"}},
}
REFUSED = {
    "no first key": {},
    "replicas of SQLite": {**KEY, "replicas": 2},
    "PostgreSQL without a URL": {**KEY, "database": {"kind": "postgresql"}, "hostKeys": {"existingSecret": "host-keys"}},
    "PostgreSQL without host keys": {**KEY, "database": {"kind": "postgresql", "postgresql": {"existingSecret": "database"}}},
    "an unknown value": {**KEY, "replicaCount": 1},
    "an ingress without a host": {**KEY, "ingress": {"enabled": True}},
    "workers without NATS": {**KEY, "workers": {"replicas": 1}},
    "two kinds of NATS": {**EXTERNAL, "nats": {"enabled": True}},
    "two NATS servers": {**KEY, "nats": {"enabled": True, "replicas": 2}},
    "two users of a host": {**EXTERNAL, "cluster": {**EXTERNAL["cluster"], "key": {"existingSecret": "host-key"}}},
    "keys of workers without a user of hosts": {**KEYS, "cluster": {"nats": "tls://nats.example:4222"}},
    "keys for servers without users": {**WORKERS, "workers": {"replicas": 1, "keys": {"existingSecret": "worker-keys"}}},
    "a password in an address": {**KEY, "cluster": {"nats": "tls://user:password@nats.example:4222"}},
    "a tag as a digest": {**KEY, "image": {"repository": "touchstone", "digest": "latest"}},
}


def rendered(chart, values):
    manifests = chart.render(values, name="evals", namespace="prod")
    found = []
    for name, text in manifests.items():
        if name.endswith(".txt"):
            continue
        found += [one for one in yaml.load_all(text, Loader=Strict) if one]
    for document in found:
        if document["kind"] in CUSTOM:
            continue
        for version in KUBERNETES:
            kubernetes_validate.validate(document, version, strict=True)
    return found


class Strict(yaml.SafeLoader):
    """Refuses a key that occurs twice, as Kubernetes does."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        assert not twice, f"{twice} occurs twice: {node.start_mark}"
        return super().construct_mapping(node, deep=deep)


def main():
    path = sys.argv[1]
    for values in (KEY, CLUSTER, WORKERS, EXTERNAL, KEYS):
        report = helm.lint(path, values, strict=True)
        findings = [one for one in report.get("messages", []) if "icon is recommended" not in json.dumps(one)]
        assert not findings, findings
    with helm.Chart.load(path) as chart:
        documents = {"sqlite": rendered(chart, KEY), "postgresql": rendered(chart, CLUSTER)}
        documents |= {"workers": rendered(chart, WORKERS), "external": rendered(chart, EXTERNAL), "keys": rendered(chart, KEYS)}
        for what, values in REFUSED.items():
            try:
                chart.render(values, name="evals", namespace="prod")
            except helm.HelmError:
                continue
            sys.exit(f"accepted: {what}")
    json.dump(documents, sys.stdout)


main()
