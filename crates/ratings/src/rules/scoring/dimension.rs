//! The twelve dimensions and the axis each belongs to.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One of the two ratings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    Performance,
    Capability,
}

impl Axis {
    /// Both axes, performance first.
    pub const ALL: [Self; 2] = [Self::Performance, Self::Capability];

    /// The axis's dimensions, in the framework's order.
    pub const fn dimensions(self) -> &'static [Dimension] {
        match self {
            Self::Performance => &Dimension::PERFORMANCE,
            Self::Capability => &Dimension::CAPABILITY,
        }
    }

    /// Its name in documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Performance => "performance",
            Self::Capability => "capability",
        }
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    TaskCompletionRate,
    Accuracy,
    Speed,
    Consistency,
    ReviewCompliance,
    DomainBreadth,
    ComplexityCeiling,
    ToolProficiency,
    AutonomyLevel,
    LearningRate,
    DelegationCapability,
    OrchestrationSkills,
}

impl Dimension {
    pub const PERFORMANCE: [Self; 5] = [
        Self::TaskCompletionRate,
        Self::Accuracy,
        Self::Speed,
        Self::Consistency,
        Self::ReviewCompliance,
    ];

    pub const CAPABILITY: [Self; 7] = [
        Self::DomainBreadth,
        Self::ComplexityCeiling,
        Self::ToolProficiency,
        Self::AutonomyLevel,
        Self::LearningRate,
        Self::DelegationCapability,
        Self::OrchestrationSkills,
    ];

    pub fn axis(self) -> Axis {
        if Self::PERFORMANCE.contains(&self) {
            Axis::Performance
        } else {
            Axis::Capability
        }
    }

    /// Its key in documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TaskCompletionRate => "task_completion_rate",
            Self::Accuracy => "accuracy",
            Self::Speed => "speed",
            Self::Consistency => "consistency",
            Self::ReviewCompliance => "review_compliance",
            Self::DomainBreadth => "domain_breadth",
            Self::ComplexityCeiling => "complexity_ceiling",
            Self::ToolProficiency => "tool_proficiency",
            Self::AutonomyLevel => "autonomy_level",
            Self::LearningRate => "learning_rate",
            Self::DelegationCapability => "delegation_capability",
            Self::OrchestrationSkills => "orchestration_skills",
        }
    }

    /// The short name that people type.
    pub const fn short(self) -> &'static str {
        match self {
            Self::TaskCompletionRate => "completion",
            Self::Accuracy => "accuracy",
            Self::Speed => "speed",
            Self::Consistency => "consistency",
            Self::ReviewCompliance => "review",
            Self::DomainBreadth => "domains",
            Self::ComplexityCeiling => "complexity",
            Self::ToolProficiency => "tools",
            Self::AutonomyLevel => "autonomy",
            Self::LearningRate => "learning",
            Self::DelegationCapability => "delegation",
            Self::OrchestrationSkills => "orchestration",
        }
    }

    /// The dimension with this key or short name.
    pub fn named(name: &str) -> Option<Self> {
        let all = Self::PERFORMANCE.iter().chain(&Self::CAPABILITY);
        all.copied()
            .find(|it| it.as_str() == name || it.short() == name)
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dimension_is_found_by_key_and_by_short_name() {
        for dimension in Dimension::PERFORMANCE.iter().chain(&Dimension::CAPABILITY) {
            assert_eq!(Dimension::named(dimension.as_str()), Some(*dimension));
            assert_eq!(Dimension::named(dimension.short()), Some(*dimension));
        }
        assert_eq!(Dimension::named("charm"), None);
    }
}
