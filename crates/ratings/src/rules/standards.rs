//! Maps dimensions, phases and functions to published standards (AAAF S16). The mapping helps users
//! of a standard find what it asks for; it certifies nothing.

use serde_json::{Value, json};

use crate::rules::scoring::dimension::Dimension;

const AGENT_DESCRIPTIONS: &str = "IEEE P2894";
const VOCABULARY: &str = "ISO/IEC 22989:2022";
const MANAGEMENT: &str = "ISO/IEC 42001:2023";
const QUALITY: &str = "ISO/IEC 25059:2023";
const RISK: &str = "NIST AI 100-1";
const AGENTS: &str = "NIST AI Agent Standards Initiative (2026)";
const GENERATIVE: &str = "NIST AI 600-1";

/// The standards and which part of them is used.
const STANDARDS: [(&str, &str); 7] = [
    (
        AGENT_DESCRIPTIONS,
        "description of agent capabilities, and levels of interoperability",
    ),
    (
        VOCABULARY,
        "vocabulary: agent, system, model, transparency, explainability",
    ),
    (
        MANAGEMENT,
        "a management system for AI: plan, do, check, act, and its controls",
    ),
    (
        QUALITY,
        "a quality model for AI systems: accuracy, robustness, fairness, interpretability",
    ),
    (
        RISK,
        "risk management in four functions: govern, map, measure, manage",
    ),
    (
        AGENTS,
        "identity, authentication, security and interoperability of agents",
    ),
    (GENERATIVE, "risks added by generative AI"),
];

/// The counterpart of a dimension: the standards, and the relevant part of them.
pub const fn of(dimension: Dimension) -> (&'static [&'static str], &'static str) {
    match dimension {
        Dimension::TaskCompletionRate => (&[RISK], "MEASURE 2.6: valid and reliable"),
        Dimension::Accuracy => (&[QUALITY], "accuracy"),
        Dimension::Speed => (&[QUALITY], "performance efficiency: time behaviour"),
        Dimension::Consistency => (&[RISK], "MEASURE 2.6: reliable in different contexts"),
        Dimension::ReviewCompliance => (&[MANAGEMENT], "control A.6.2.6: monitoring; acting on it"),
        Dimension::DomainBreadth => (&[AGENT_DESCRIPTIONS], "meaning of a described capability"),
        Dimension::ComplexityCeiling => (&[QUALITY], "functional suitability: completeness"),
        Dimension::ToolProficiency => (&[AGENTS], "secure and identified use of tools"),
        Dimension::AutonomyLevel => (&[VOCABULARY], "a human in, on or out of the loop"),
        Dimension::LearningRate => (&[QUALITY], "adaptability: learning while in use"),
        Dimension::DelegationCapability => (
            &[AGENTS, AGENT_DESCRIPTIONS],
            "authorized communication between agents; described capabilities",
        ),
        Dimension::OrchestrationSkills => (
            &[AGENTS, AGENT_DESCRIPTIONS, MANAGEMENT],
            "coordination of several agents; interoperability; governance of the whole system",
        ),
    }
}

pub fn document() -> Value {
    let standards: Vec<Value> = STANDARDS
        .iter()
        .map(|(id, relevance)| json!({"id": id, "relevance": relevance}))
        .collect();
    let dimensions: Vec<Value> = Dimension::PERFORMANCE
        .iter()
        .chain(&Dimension::CAPABILITY)
        .map(|dimension| {
            let (standards, clause) = of(*dimension);
            json!({"axis": dimension.axis().as_str(), "dimension": dimension.as_str(),
                "standards": standards, "clause": clause})
        })
        .collect();
    json!({
        "framework": "AAAF",
        "version": "1.0.0",
        "claim": "The mapping refers to the named standards. It is neither a certification by \
            any of them nor an audit against them.",
        "standards": standards,
        "dimensions": dimensions,
        "iso_42001_pdca": [
            {"phase": "Plan", "activity": "define what is assessed and how it is weighted",
             "evidence": ["config", "config/weights", "config/taxonomy"]},
            {"phase": "Do", "activity": "collect evidence and score it", "evidence": ["events", "assessments"]},
            {"phase": "Check", "activity": "compare with the previous assessment, and graders \
                with people",
             "evidence": ["assessment.calibration"]},
            {"phase": "Act", "activity": "certify, correct by appeal, reassess", "evidence": ["badges", "appeals"]},
        ],
        "nist_ai_rmf": [
            {"function": "GOVERN", "activity": "the configuration of an organization: weights, thresholds, tiers"},
            {"function": "MAP", "activity": "the context of an agent: its domains, tools and autonomy"},
            {"function": "MEASURE", "activity": "evidence and scores"},
            {"function": "MANAGE", "activity": "badges: issued, revoked, renewed"},
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dimension_maps_to_standards_that_are_listed() {
        let document = document();
        let listed: Vec<&str> = STANDARDS.iter().map(|(id, _)| *id).collect();
        let dimensions = document["dimensions"].as_array().unwrap();
        assert_eq!(dimensions.len(), 12);
        for dimension in dimensions {
            let standards = dimension["standards"].as_array().unwrap();
            assert!(!standards.is_empty());
            for standard in standards {
                assert!(listed.contains(&standard.as_str().unwrap()), "{standard}");
            }
        }
    }

    #[test]
    fn every_phase_and_function_has_its_activity() {
        let document = document();
        for (list, key, names) in [
            ("iso_42001_pdca", "phase", ["Plan", "Do", "Check", "Act"]),
            (
                "nist_ai_rmf",
                "function",
                ["GOVERN", "MAP", "MEASURE", "MANAGE"],
            ),
        ] {
            let entries = document[list].as_array().unwrap();
            let found: Vec<&str> = entries.iter().map(|it| it[key].as_str().unwrap()).collect();
            assert_eq!(found, names);
            assert!(entries.iter().all(|it| it["activity"].is_string()));
        }
    }
}
