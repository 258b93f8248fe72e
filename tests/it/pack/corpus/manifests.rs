//! `pack.json`: JSON, schema, kind, engines, peers, runtime, agent ids.

use serde_json::{Value, json};
use touchstone_kit::error::ErrorCode::{
    InvalidEnginesRange, InvalidManifest, PackEngineUnsupported, PackKindInvalid,
    PackPeerDependencyMissing, PackRuntimeRequirementUnmet, TarballManifestNotJson,
    UnsupportedRuntime,
};
use touchstone_packs::rules::inventory;
use touchstone_packs::rules::manifest::capabilities::PeerPolicy;

use super::forge::Forge;
use super::{Case, loads, loads_and, refused};

fn replace(from: &'static str, to: &'static [u8]) -> impl FnOnce(&mut Forge) {
    move |f| {
        f.manifest["description"] = "marker".into();
        f.manifest_text = Some(Box::new(move |text| {
            let at = text
                .windows(from.len())
                .position(|w| w == from.as_bytes())
                .unwrap();
            [&text[..at], to, &text[at + from.len()..]].concat()
        }));
    }
}

fn set(pointer: &'static str, value: Value) -> impl FnOnce(&mut Forge) {
    move |f| {
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        f.manifest.pointer_mut(parent).unwrap()[member] = value;
    }
}

pub fn cases() -> Vec<Case> {
    let mut all = json_cases();
    all.extend(member_cases());
    all.extend(host_cases());
    all
}

fn json_cases() -> Vec<Case> {
    let deep: &'static [u8] =
        Vec::leak(format!("{}0{}", "[".repeat(20_000), "]".repeat(20_000)).into_bytes());
    vec![
        refused("json-cut", TarballManifestNotJson, |f| {
            f.manifest_text = Some(Box::new(|text| text[..text.len() - 1].to_vec()));
        }),
        refused("json-byte-order-mark", TarballManifestNotJson, |f| {
            f.manifest_text = Some(Box::new(|text| [b"\xef\xbb\xbf", &text[..]].concat()));
        }),
        refused("json-trailing", TarballManifestNotJson, |f| {
            f.manifest_text = Some(Box::new(|text| [text, b"{}".to_vec()].concat()));
        }),
        refused(
            "json-not-utf8",
            TarballManifestNotJson,
            replace("marker", b"\xc3"),
        ),
        refused(
            "json-lone-surrogate",
            TarballManifestNotJson,
            replace("marker", b"\\ud800"),
        ),
        refused(
            "json-double-member",
            TarballManifestNotJson,
            replace("\"description\":", b"\"name\":\"x\",\"description\":"),
        ),
        refused(
            "json-infinite",
            TarballManifestNotJson,
            replace("\"marker\"", b"1e999"),
        ),
        refused(
            "json-nan",
            TarballManifestNotJson,
            replace("\"marker\"", b"NaN"),
        ),
        refused(
            "json-deep",
            TarballManifestNotJson,
            replace("\"marker\"", deep),
        ),
        loads("json-pretty", |f| {
            f.manifest_text = Some(Box::new(|text| {
                serde_json::to_vec_pretty(&serde_json::from_slice::<Value>(&text).unwrap()).unwrap()
            }));
        }),
        loads(
            "json-unicode",
            set("/description", "Étiquette — 標籤 — שלום — \u{1f600}".into()),
        ),
        refused(
            "json-array",
            touchstone_kit::error::ErrorCode::ManifestNameMismatch,
            |f| {
                f.manifest_text = Some(Box::new(|text| [b"[", &text[..], b"]"].concat()));
            },
        ),
    ]
}

fn member_cases() -> Vec<Case> {
    vec![
        refused(
            "unknown-member",
            InvalidManifest,
            set("/postinstall", "sh".into()),
        ),
        refused(
            "agent-unknown-member",
            InvalidManifest,
            set("/agents/0/autoApprove", true.into()),
        ),
        refused(
            "agent-two-prompts",
            InvalidManifest,
            set("/agents/0/systemPrompt", "p".into()),
        ),
        refused("agent-no-prompt", InvalidManifest, |f| {
            drop(f.agent().as_object_mut().unwrap().remove("systemPromptRef"))
        }),
        refused(
            "agent-model-class",
            InvalidManifest,
            set("/agents/0/modelClass", "omniscient".into()),
        ),
        refused(
            "agent-threshold",
            InvalidManifest,
            set("/agents/0/confidence", json!({"defaultThreshold": 1.1})),
        ),
        loads("agent-skill", set("/agents/0/role", "skill".into())),
        refused("agent-skill-without-handoff", InvalidManifest, |f| {
            f.agent()["role"] = "skill".into();
            f.agent().as_object_mut().unwrap().remove("handoff");
        }),
        refused("agent-skill-with-memory", InvalidManifest, |f| {
            f.agent()["role"] = "skill".into();
            f.agent()["memoryShape"] = json!({"longTerm": true});
        }),
        loads("agent-assistant-with-memory", |f| {
            f.agent()["role"] = "assistant".into();
            f.agent()["memoryShape"] = json!({"longTerm": true});
        }),
        refused(
            "agent-of-another-pack",
            InvalidManifest,
            set("/agents/0/agentId", "core.openwop.agents.x.default".into()),
        ),
        refused("agent-two-segments", InvalidManifest, |f| {
            f.agent()["agentId"] = format!("{}.a.b", f.name).into()
        }),
        refused("agent-twice", InvalidManifest, |f| {
            let agent = f.agent().clone();
            f.manifest["agents"].as_array_mut().unwrap().push(agent);
        }),
        loads_and(
            "agent-second",
            |pack| pack.contents.agents.len() == 2,
            |f| {
                let mut agent = f.agent().clone();
                agent["agentId"] = format!("{}.second", f.name).into();
                f.manifest["agents"].as_array_mut().unwrap().push(agent);
            },
        ),
        refused("no-agents", InvalidManifest, set("/agents", json!([]))),
        loads("kind-node", set("/kind", "node".into())),
        refused("kind-agent", PackKindInvalid, set("/kind", "agent".into())),
        refused(
            "kind-prompt-with-agents",
            PackKindInvalid,
            set("/kind", "prompt".into()),
        ),
        refused(
            "kind-node-with-prompts",
            PackKindInvalid,
            set("/prompts", json!([])),
        ),
        refused("kind-connection", PackKindInvalid, |f| {
            f.manifest["kind"] = "connection".into();
            f.manifest.as_object_mut().unwrap().remove("agents");
        }),
        loads_and(
            "kind-prompt",
            |pack| pack.contents.agents.is_empty() && pack.contents.suites.len() == 1,
            |f| {
                f.manifest = json!({
                    "name": f.name, "version": "1.0.0", "kind": "prompt", "engines": {"openwop": "*"},
                    "prompts": [{"templateId": "t", "version": "1.0.0", "kind": "system", "text": "x"}]
                });
            },
        ),
        refused(
            "version-leading-zero",
            touchstone_kit::error::ErrorCode::ManifestVersionMismatch,
            set("/version", "01.0.0".into()),
        ),
        refused(
            "dependency-no-range",
            InvalidManifest,
            set("/dependencies", json!({"community.x.y": "banana"})),
        ),
        refused("dependency-on-itself", InvalidManifest, |f| {
            f.manifest["dependencies"] = json!({f.name.clone(): "*"})
        }),
        loads_and(
            "dependency-is-shown",
            |pack| inventory::facts(pack).dependencies["community.x.y"] == "^1.0.0",
            set("/dependencies", json!({"community.x.y": "^1.0.0"})),
        ),
        loads("pre-release", |f| {
            f.version = "1.0.0-rc.1+build.5".into();
            f.manifest["version"] = f.version.clone().into();
        }),
    ]
}

fn host_cases() -> Vec<Case> {
    vec![
        refused("engine-none", InvalidManifest, set("/engines", json!({}))),
        refused(
            "engine-no-range",
            InvalidEnginesRange,
            set("/engines/openwop", "banana".into()),
        ),
        refused(
            "engine-next",
            PackEngineUnsupported,
            set("/engines/openwop", ">=2.0.0".into()),
        ),
        loads(
            "engine-alternatives",
            set("/engines/openwop", "^0.9 || 1.x".into()),
        ),
        loads(
            "peer-had",
            set("/peerDependencies", json!({"aiProviders": "supported"})),
        ),
        refused(
            "peer-unheard-of",
            PackPeerDependencyMissing,
            set(
                "/peerDependencies",
                json!({"host.benchTeleport": "supported"}),
            ),
        ),
        loads_and(
            "peer-unheard-of-optional",
            |pack| pack.contents.degraded == ["host.benchTeleport"],
            |f| {
                f.manifest["peerDependencies"] = json!({"host.benchTeleport": "supported"});
                f.manifest["peerDependenciesMeta"] =
                    json!({"host.benchTeleport": {"optional": true}});
            },
        ),
        loads_and(
            "peer-degrades",
            |pack| {
                let both = ["host.agentRuntime", "openwop.agents.memoryBackends"];
                pack.contents.degraded == both && pack.contents.agents[0].degraded == both
            },
            set(
                "/peerDependencies",
                json!({"host.agentRuntime": "supported", "openwop.agents.memoryBackends": ">=longTerm"}),
            ),
        ),
        refused("peer-strict", PackPeerDependencyMissing, |f| {
            f.manifest["peerDependencies"] = json!({"host.agentRuntime": "supported"});
            f.policy.host.peers = PeerPolicy::Strict;
        }),
        loads_and(
            "agent-degrades",
            |pack| {
                pack.contents.degraded.is_empty()
                    && pack.contents.agents[0].degraded == ["host.workspace"]
            },
            set(
                "/agents/0/requiresCapabilities",
                json!(["aiProviders", "host.workspace"]),
            ),
        ),
        refused("runtime-none", InvalidManifest, |f| {
            drop(f.manifest.as_object_mut().unwrap().remove("runtime"))
        }),
        refused(
            "runtime-executes",
            UnsupportedRuntime,
            set(
                "/runtime",
                json!({"language": "javascript", "entry": "x.mjs"}),
            ),
        ),
        refused(
            "runtime-unknown-primitive",
            InvalidManifest,
            set("/runtime/requires", json!(["raw.memory"])),
        ),
        refused(
            "runtime-not-granted",
            PackRuntimeRequirementUnmet,
            set("/runtime/requires", json!(["net.outbound"])),
        ),
        loads("runtime-granted", |f| {
            f.manifest["runtime"]["requires"] = json!(["clock"]);
            f.policy.host.granted.insert("clock".into());
        }),
    ]
}
