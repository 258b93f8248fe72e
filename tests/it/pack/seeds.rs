//! Valid documents that use every member of their schema.

use serde_json::{Value, json};
use touchstone_openwop::schema::Document;

pub fn of(document: Document) -> Vec<Value> {
    match document {
        Document::AgentEvalSuite => vec![suite()],
        Document::EvalSummary => vec![summary()],
        Document::AgentManifest => vec![agent("skill"), inline_agent()],
        Document::NodePackManifest => vec![agent_pack(), node_pack(), connector_pack()],
        Document::PromptPackManifest => vec![prompt_pack()],
        Document::PromptTemplate => vec![template()],
        Document::PromptKind => vec![json!("system")],
        Document::PromptRef => vec![
            json!("prompt:writer@1.0.0"),
            json!({"libraryId": "l", "templateId": "t", "version": "1.0.0", "variableOverrides": {"a": 1}}),
        ],
        Document::PackLockfile => vec![lockfile()],
        Document::RegistryVersionManifest => vec![served(), served_prompts()],
        Document::AgentInventoryResponse => vec![inventory()],
        Document::ErrorEnvelope => vec![json!({"error": "e", "message": "m", "details": {"a": 1}})],
        Document::AgentRef => vec![agent_ref()],
        Document::RunEvent => vec![event()],
        Document::RunSnapshot => vec![snapshot()],
        // Their vectors are in `tests/fixtures/oasis`.
        Document::CreateRun | Document::OasisVerdict | Document::OasisComputeInput => Vec::new(),
    }
}

fn suite() -> Value {
    json!({
        "suiteId": "community.x.evals.y", "version": "1.0.0", "targetAgentId": "a",
        "modes": ["golden", "rubric"], "allowedModels": ["general", "coding"],
        "thresholds": {"passScore": 0.5, "maxCostUsd": 1.5, "maxP95LatencyMs": 2},
        "tasks": [
            {"taskId": "a-1", "input": {"x": 1},
             "expected": {"kind": "golden", "match": {"strategy": "json-match", "value": null}},
             "fixtures": {"toolResponses": [{"tool": "t", "response": 1}], "memorySeed": [{"k": 1}]}},
            {"taskId": "b", "input": null,
             "expected": {"kind": "rubric", "rubric": [{"criterion": "c", "weight": 0.5}]}}
        ]
    })
}

fn summary() -> Value {
    json!({
        "suiteId": "community.x.evals.y", "suiteVersion": "1.0.0", "evaluatedModelClass": "general",
        "aggregateScore": 0.5, "passed": true, "taskCount": 1, "passedCount": 1, "totalCostUsd": 0.25,
        "tasks": [{"taskId": "a", "score": 1, "passed": true, "costUsd": 0.1, "latencyMs": 5, "schemaValid": true,
                   "safetyFindings": [{"kind": "k", "severity": "low"}]}],
        "regression": {"baselineRunId": "r", "scoreDelta": -0.5, "diffRef": "d"}
    })
}

fn agent(role: &str) -> Value {
    json!({
        "agentId": "community.x.pack.default", "persona": "P", "modelClass": "general", "role": role,
        "systemPromptRef": "prompts/a.md", "evalSuiteRef": "evals/a.json", "toolAllowlist": ["openwop:t"],
        "requiresCapabilities": ["aiProviders"], "label": "L", "description": "D",
        "memoryShape": {"scratchpad": true, "conversation": false, "longTerm": false},
        "confidence": {"defaultThreshold": 0.5},
        "handoff": {"taskSchemaRef": "schemas/t.json", "returnSchemaRef": "schemas/r.json"},
        "promptLibraryRef": "library",
        "promptOverrides": {"system": "prompt:a", "user": {"templateId": "t"}, "few-shot": "prompt:b@1.0.0", "schema-hint": "prompt:c"}
    })
}

fn inline_agent() -> Value {
    json!({
        "agentId": "local.x.pack.default", "persona": "P", "modelClass": "coding", "systemPrompt": "p",
        "memoryShape": {"conversation": true, "longTerm": true}
    })
}

fn agent_pack() -> Value {
    json!({
        "kind": "node", "name": "community.x.pack", "version": "1.0.0", "description": "d", "author": "a", "license": "MIT",
        "homepage": "https://example.org", "repository": "https://example.org", "keywords": ["k"],
        "engines": {"openwop": ">=1.0.0", "node": 20},
        "dependencies": {"community.x.other": "^1"}, "peerDependencies": {"aiProviders": "supported"},
        "peerDependenciesMeta": {"aiProviders": {"optional": true}},
        "agents": [agent("assistant")],
        "runtime": {"language": "remote", "entry": "pack.json", "format": "esm", "minRuntimeVersion": "node>=20",
                    "requires": ["net.dns", "clock"]},
        "signing": {"publicKeyRef": "k", "signatureRef": "keys/pack.json.sig", "method": "manual"}
    })
}

fn node_pack() -> Value {
    json!({
        "name": "vendor.acme.tools", "version": "1.0.0-rc.1+b", "engines": {"openwop": "*"},
        "nodes": [{
            "typeId": "acme.node", "version": "1.0.0", "label": "l", "description": "d", "category": "data", "role": "pure",
            "capabilities": ["streamable", "cacheable"], "configSchemaRef": "a", "inputSchemaRef": "b", "outputSchemaRef": "c",
            "outputs": {"o": {"sensitive": true, "other": 1}}, "envelopeContractRef": "e",
            "artifact": {"typeId": "t", "syncOn": "manual", "supportsCheckpoint": true},
            "mcp": {"exposeAsTool": true, "toolName": "t"},
            "requiresSecrets": [{"id": "s", "kind": "custom", "provider": "p", "scope": "run"}],
            "requiredCredentials": [{"key": "k", "scope": "tenant", "displayName": "d"}],
            "auth": {"type": "oauth2", "provider": "p", "scopes": ["s"]},
            "requiredModelCapabilities": ["structured-output", "x-host-acme-thing"],
            "fallbackModel": {"provider": "openai", "model": "m"}
        }],
        "runtime": {"language": "javascript", "entry": "index.mjs"}
    })
}

fn connector_pack() -> Value {
    json!({
        "name": "vendor.acme.mail", "version": "1.0.0", "engines": {"openwop": "*"},
        "nodes": [{"typeId": "a", "version": "1", "category": "integration", "role": "side-effect"}],
        "runtime": {"language": "wasm", "entry": "x.wasm"},
        "connector": {
            "id": "mail", "displayName": "Mail",
            "auth": {"type": "credential", "key": "k", "scope": "user"},
            "actions": [{"typeId": "a", "displayName": "A", "idempotent": true, "paginated": false,
                         "rateLimit": {"requests": 1, "perSeconds": 1}}],
            "triggers": ["t"]
        }
    })
}

fn template() -> Value {
    json!({
        "templateId": "writer", "version": "1.0.0", "kind": "system", "text": "t", "name": "n", "description": "d",
        "variables": [{"name": "v", "type": "string", "required": true, "source": "input", "extractPath": "$", "defaultValue": 1, "description": "d"}],
        "modelHints": {"modelClass": "writing", "temperature": 0.5, "maxTokens": 1, "envelopeType": "e"},
        "tags": ["t"],
        "meta": {"author": "a", "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z", "source": "pack",
                 "packName": "community.x.pack", "packVersion": "1.0.0"}
    })
}

fn prompt_pack() -> Value {
    json!({
        "name": "community.x.prompts", "version": "1.0.0", "kind": "prompt", "description": "d", "author": "a", "license": "MIT",
        "homepage": "https://example.org", "repository": "https://example.org", "keywords": ["k"],
        "engines": {"openwop": "*", "node": "20"}, "dependencies": {"community.x.other": "*"},
        "prompts": [{"templateId": "t", "version": "1.0.0", "kind": "user", "text": ""}],
        "signing": {"publicKeyRef": "k", "signatureRef": "s", "method": "sigstore"}
    })
}

fn lockfile() -> Value {
    json!({
        "lockfileVersion": 1, "generatedAt": "2026-01-01T00:00:00Z", "registry": "https://example.org",
        "fallbackRegistries": ["https://example.org/a"], "overrides": {"community.x.a": "1.0.0"},
        "packs": [{
            "name": "community.x.a", "version": "1.0.0", "resolved": "https://example.org/a.tgz",
            "integrity": "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
            "signature": {"algorithm": "ed25519", "publicKey": "k", "value": "v"},
            "dependencies": {"a": "1"}, "peerDependencies": {"b": "supported"}
        }]
    })
}

fn served() -> Value {
    json!({
        "name": "community.x.pack", "version": "1.0.0", "description": "d", "author": "a", "license": "MIT",
        "homepage": "https://example.org", "repository": "https://example.org", "keywords": ["k"],
        "engines": {"openwop": "*"}, "kind": "node", "agents": [{"agentId": "a"}],
        "nodes": [{"typeId": "t", "version": "1", "category": "c", "role": "r"}],
        "runtime": {"language": "remote", "entry": "pack.json", "abiVersion": "1"},
        "peerDependencies": {"a": "b"}, "dependencies": {"c": "d"},
        "signing": {"method": "manual", "publicKeyRef": "k", "publicKeyUrl": "/k", "signatureRef": "s"},
        "integrity": "sha256-abc", "publishedAt": "2026-01-01T00:00:00Z",
        "tarballUrl": "/v1/packs/a/-/b.tgz", "signatureUrl": "/v1/packs/a/-/b.sig",
        "deprecated": false, "yanked": false, "yankedReason": "y", "deprecationReason": "d", "supersededBy": "2.0.0",
        "advisoryUrl": "https://example.org"
    })
}

fn served_prompts() -> Value {
    json!({
        "name": "community.x.prompts", "version": "1.0.0", "engines": {"openwop": "*"}, "kind": "prompt",
        "prompts": [{}], "integrity": "sha256-abc"
    })
}

fn inventory() -> Value {
    json!({"total": 1, "agents": [{
        "agentId": "a", "persona": "p", "label": "l", "description": "d", "modelClass": "general", "packName": "n",
        "packVersion": "1", "toolAllowlist": ["t"], "hasHandoffSchemas": true,
        "memoryShape": {"scratchpad": true, "conversation": true, "longTerm": true}, "confidenceThreshold": 0.5,
        "degraded": ["x"], "memoryDegraded": true, "degradedMemoryDimensions": ["write"],
        "roster": [{"rosterId": "r", "persona": "p", "workflows": ["w"]}]
    }]})
}

fn agent_ref() -> Value {
    json!({"agentId": "abc", "name": "n", "modelClass": "reasoning", "memoryRef": "m", "version": "1", "sourceManifestId": "s"})
}

fn event() -> Value {
    json!({
        "eventId": "e", "runId": "r", "nodeId": "n", "type": "eval.scored", "payload": {"a": 1},
        "timestamp": "2026-01-01T00:00:00Z", "sequence": 0, "schemaVersion": 1, "engineVersion": "1", "causationId": "c"
    })
}

fn snapshot() -> Value {
    json!({
        "runId": "r", "workflowId": "w", "status": "running", "owner": {"tenant": "t", "workspace": "w", "principal": "p"},
        "currentNodeId": "n", "startedAt": "2026-01-01T00:00:00Z", "completedAt": "2026-01-01T00:00:00Z",
        "agent": {"agentId": "abc", "channel": "stable"}, "runOrchestrator": agent_ref(),
        "nodeStates": {"a": 1}, "variables": {"a": 1}, "channels": {"a": 1},
        "error": {"code": "c", "message": "m", "details": {}}, "engineVersion": "1", "eventLogSchemaVersion": 2,
        "tags": ["t"], "metadata": {"a": 1}, "configurable": {"a": 1},
        "metrics": {"openwopCost": {"usd": 1.5, "tokens": {"input": 1, "output": 1}, "model": "m", "provider": "p", "duration_ms": 1}, "cost": 1}
    })
}
