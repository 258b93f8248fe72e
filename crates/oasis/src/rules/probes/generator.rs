//! The verdict's description of where probes come from (OASIS Adv).

use sha2::{Digest as _, Sha256};

use super::mutation;
use crate::rules::format::Package;
use crate::rules::request::AdversarialRequest;
use crate::rules::verdict::document::{Generator, GeneratorKind, Reproducibility};
use touchstone_kit::hex::hex;

/// The version of the probe generator. A different version produces different probes for the same
/// seed.
const GENERATION: u32 = 1;

/// The generator of a run's probes.
///
/// A red team's file is stored, so its probes can be reproduced.
pub fn generator(asked: &AdversarialRequest, package: &Package) -> Generator {
    let profile = format!("{}@{}", package.profile.identifier, package.profile.version);
    let mutates = asked.mutations > 0;
    let file = asked.red_team_digest.clone();
    let file = file.or_else(|| asked.red_team.as_deref().map(|text| sha256(&[text])));
    let kind = match (mutates, file.is_some()) {
        (true, true) => GeneratorKind::Hybrid,
        (true, false) => GeneratorKind::Mutation,
        (false, true) => GeneratorKind::RedTeam,
        (false, false) => GeneratorKind::Other,
    };
    let mut parts = Vec::new();
    if mutates {
        let (count, seed) = (asked.mutations, asked.seed);
        parts.push(format!("{count} mutations drawn with seed {seed}"));
    }
    if file.is_some() {
        parts.push("a red team's file".to_owned());
    }
    if !package.reserved.is_empty() {
        parts.push("scenarios the profile does not publish".to_owned());
    }
    if parts.is_empty() {
        parts.push("no probes".to_owned());
    }
    Generator {
        kind,
        reproducibility: Reproducibility::Deterministic,
        model: None,
        base_scenario_set: Some(profile.clone()),
        mutation_strategy: mutates.then(|| mutation::STRATEGY.to_owned()),
        team: None,
        description: Some(parts.join("; ")),
        config_hash: Some(sha256(&[
            &GENERATION.to_string(),
            &asked.seed.to_string(),
            &asked.mutations.to_string(),
            file.as_deref().unwrap_or_default(),
            &profile,
        ])),
    }
}

/// The hash of lines. No line contains a line break, except possibly a single line.
fn sha256(lines: &[&str]) -> String {
    let digest = Sha256::digest(lines.join("\n").as_bytes());
    format!("sha256:{}", hex(&digest))
}
