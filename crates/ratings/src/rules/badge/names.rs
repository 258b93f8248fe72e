//! Display names of axes and dimensions.

use super::{Axis, Dimension};

pub const fn axis_name(axis: Axis) -> &'static str {
    match axis {
        Axis::Performance => "Performance",
        Axis::Capability => "Capability",
    }
}

pub const fn dimension_name(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::TaskCompletionRate => "Task Completion Rate",
        Dimension::Accuracy => "Accuracy",
        Dimension::Speed => "Speed to Delivery",
        Dimension::Consistency => "Consistency",
        Dimension::ReviewCompliance => "Review Compliance",
        Dimension::DomainBreadth => "Domain Breadth",
        Dimension::ComplexityCeiling => "Complexity Ceiling",
        Dimension::ToolProficiency => "Tool Proficiency",
        Dimension::AutonomyLevel => "Autonomy Level",
        Dimension::LearningRate => "Learning Rate",
        Dimension::DelegationCapability => "Delegation Capability",
        Dimension::OrchestrationSkills => "Orchestration Skills",
    }
}
