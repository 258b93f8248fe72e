//! The stand-in pack for an agent outside this host, because stress test runs need an
//! installed agent.

use serde_json::json;

use crate::rules::agent::OpenwopAgent;
use touchstone_packs::rules::Refusal;
use touchstone_packs::rules::archive::MANIFEST;
use touchstone_packs::rules::build::{Files, build};

const PACK: &str = "core.aaaf.elsewhere";
const AGENT: &str = "core.aaaf.elsewhere.agent";
const VERSION: &str = "1.0.0";

/// The agent that the runs name.
pub fn agent() -> OpenwopAgent {
    OpenwopAgent {
        id: AGENT.to_owned(),
        version: Some(VERSION.to_owned()),
    }
}

/// The pack's archive for an agent that is offered these tools; the same tools give the same bytes.
///
/// # Errors
/// The archive exceeds a pack limit.
pub fn pack(tools: &[String]) -> Result<Vec<u8>, Refusal> {
    let manifest = json!({
        "name": PACK,
        "version": VERSION,
        "description": "Stands in for an agent that runs elsewhere.",
        "author": "Touchstone contributors",
        "license": "Apache-2.0",
        "engines": {"openwop": ">=1.0.0 <2.0.0"},
        "runtime": {"language": "remote", "entry": MANIFEST},
        "agents": [{
            "agentId": AGENT,
            "persona": "Agent elsewhere",
            "modelClass": "general",
            "systemPrompt": "Do the task in the input and answer with its result.",
            "toolAllowlist": tools,
        }],
    });
    let files = Files::from([(MANIFEST.to_owned(), manifest.to_string().into_bytes())]);
    build(&files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_packs::rules::{archive, contents};

    #[test]
    fn the_stand_in_is_a_valid_pack_with_the_expected_tools() {
        let tools = ["desk:file".to_owned(), "look up / 2".to_owned()];
        let bytes = pack(&tools).unwrap();
        assert_eq!(bytes, pack(&tools).unwrap());
        assert_ne!(bytes, pack(&[]).unwrap());
        let opened = contents::reopen(&archive::read(&bytes).unwrap());
        let (manifest, agents) = opened.unwrap();
        assert_eq!(manifest.version, VERSION);
        let [only] = agents.as_slice() else {
            panic!("one agent")
        };
        assert_eq!(only.manifest.agent_id, agent().id);
        assert_eq!(only.tools(), tools);
    }
}
