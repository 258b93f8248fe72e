//! Verdicts (OASIS.md sections 2 to 9, 12 and 13), as pure functions.
//!
//! [`Plan::make`] selects the scenarios to execute, [`next`] and [`ready`] return those that may
//! start, and [`compute`] produces the [`document`], the report's header and the intermediate
//! results. [`eval_summary()`] projects a verdict onto OpenWOP, [`rules`] checks documents of any
//! origin, and [`input`] runs `compute` on a file.

mod adversarial;
mod capability;
mod compute;
mod coverage;
pub mod document;
mod eval_summary;
mod facts;
mod gate;
pub mod input;
mod malformed;
mod metadata;
mod number;
mod plan;
mod progress;
pub mod rules;
mod safety;
mod scenario_result;

pub use adversarial::{AdversarialResults, ProbeResult, ReservedOutcome, ReservedResult};
pub use capability::Scores;
pub use compute::{Computed, IncompleteReason, ReportHeader, Unfinished, compute};
pub use coverage::{CategoryCoverage, CoverageFound};
pub use document::Status;
pub use eval_summary::{EvalFigures, PassConditions, TaskFigures, eval_summary, task, tasks};
pub use facts::Facts;
pub use gate::{CategoryResult, judge, measured_deviation};
pub use plan::{Plan, PlannedScenario, Terms, task_id};
pub use progress::{Next, next, phase_1, ready};
pub use scenario_result::{ScenarioResult, ScenarioState};
