//! Whether skills are described and tagged (A2A 0.3.0 §5.5.4).

use serde::Serialize;
use serde_json::Value;

use crate::rules::document::{Card, items, text};
use crate::rules::finding::{Code, Finding, Findings};

/// Required members of a skill.
const REQUIRED: [&str; 3] = ["id", "name", "description"];

/// Points for skills: 10 if there is any, 5 if all are complete, 5 if all are tagged; minus 2 for
/// each incomplete skill and 1 for each untagged one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillsQuality {
    pub score: u64,
    pub max_score: u64,
    pub skills_present: bool,
    /// Whether all skills have an id, a name and a description.
    pub all_skills_have_required_fields: bool,
    /// Whether all skills have a tag.
    pub all_skills_have_tags: bool,
}

pub(super) fn score(card: &Card, findings: &mut Findings) -> SkillsQuality {
    let skills = card.items("skills");
    if skills.is_empty() {
        findings.push(Finding::new(
            Code::SkillsEmpty,
            "/skills",
            "The card lists no skills; describe at least one in `skills`.",
        ));
    }
    let (mut incomplete, mut untagged) = (0_u64, 0_u64);
    for (index, skill) in skills.iter().enumerate() {
        if !is_complete(skill) {
            incomplete += 1;
            findings.push(Finding::new(
                Code::SkillRequiredFieldMissing,
                format!("/skills/{index}"),
                "The skill lacks an `id`, a `name` or a `description`; give it all three, none \
                of them blank.",
            ));
        }
        if !is_tagged(skill) {
            untagged += 1;
            findings.push(Finding::new(
                Code::SkillTagsMissing,
                format!("/skills/{index}/tags"),
                "The skill has no tags, so it cannot be found by tag; add at least one non-blank \
                 tag to `tags`.",
            ));
        }
        mode_findings(index, skill, findings);
    }
    let skills_present = !skills.is_empty();
    let all_skills_have_required_fields = skills_present && incomplete == 0;
    let all_skills_have_tags = skills_present && untagged == 0;
    let awarded = 10 * u64::from(skills_present)
        + 5 * u64::from(all_skills_have_required_fields)
        + 5 * u64::from(all_skills_have_tags);
    SkillsQuality {
        score: awarded.saturating_sub(2 * incomplete + untagged),
        max_score: 20,
        skills_present,
        all_skills_have_required_fields,
        all_skills_have_tags,
    }
}

fn is_complete(skill: &Value) -> bool {
    REQUIRED.iter().all(|name| text(skill.get(name)).is_some())
}

fn is_tagged(skill: &Value) -> bool {
    let tags = items(skill.get("tags"));
    tags.iter().any(|tag| text(Some(tag)).is_some())
}

/// Faults of a skill's own modes cost no points.
fn mode_findings(index: usize, skill: &Value, findings: &mut Findings) {
    for name in ["inputModes", "outputModes"] {
        for (mode, value) in items(skill.get(name)).iter().enumerate() {
            if !super::format::is_media_type_value(value) {
                findings.push(Finding::new(
                    Code::SkillModeInvalid,
                    format!("/skills/{index}/{name}/{mode}"),
                    "The skill's mode is not a media type; write one such as `text/plain`.",
                ));
            }
        }
    }
}
