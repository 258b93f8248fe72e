//! The embedded migrations of each engine.

use sqlx::SqlStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

pub(super) fn sqlite() -> Migrator {
    migrator(&[
        (1, "core", include_str!("migrations/sqlite/0001_core.sql")),
        (2, "flow", include_str!("migrations/sqlite/0002_flow.sql")),
        (
            4,
            "annotations",
            include_str!("migrations/sqlite/0004_annotations.sql"),
        ),
        (
            5,
            "deployments",
            include_str!("migrations/sqlite/0005_deployments.sql"),
        ),
        (
            6,
            "webhooks",
            include_str!("migrations/sqlite/0006_webhooks.sql"),
        ),
        (
            7,
            "access",
            include_str!("migrations/sqlite/0007_access.sql"),
        ),
        (8, "pause", include_str!("migrations/sqlite/0008_pause.sql")),
        (9, "evals", include_str!("migrations/sqlite/0009_evals.sql")),
        (
            10,
            "experiments",
            include_str!("migrations/sqlite/0010_experiments.sql"),
        ),
        (
            11,
            "calibrations",
            include_str!("migrations/sqlite/0011_calibrations.sql"),
        ),
        (
            12,
            "calibration attempts",
            include_str!("migrations/sqlite/0012_calibration_attempts.sql"),
        ),
        (13, "aaaf", include_str!("migrations/sqlite/0013_aaaf.sql")),
        (
            14,
            "assessments",
            include_str!("migrations/sqlite/0014_assessments.sql"),
        ),
        (
            15,
            "badges",
            include_str!("migrations/sqlite/0015_badges.sql"),
        ),
        (
            16,
            "notices",
            include_str!("migrations/sqlite/0016_notices.sql"),
        ),
        (
            17,
            "profiles",
            include_str!("migrations/sqlite/0017_profiles.sql"),
        ),
        (18, "jobs", include_str!("migrations/sqlite/0018_jobs.sql")),
        (
            19,
            "stress tests",
            include_str!("migrations/sqlite/0019_stress_tests.sql"),
        ),
        (
            20,
            "agent cards",
            include_str!("migrations/sqlite/0020_agent_cards.sql"),
        ),
        (
            21,
            "oasis",
            include_str!("migrations/sqlite/0021_oasis.sql"),
        ),
        (
            22,
            "write probe",
            include_str!("migrations/sqlite/0022_write_probe.sql"),
        ),
        (
            24,
            "active time",
            include_str!("migrations/sqlite/0024_active_time.sql"),
        ),
        (
            27,
            "secrets at rest",
            include_str!("migrations/sqlite/0027_secrets_at_rest.sql"),
        ),
        (
            28,
            "operator scopes",
            include_str!("migrations/sqlite/0028_operator_scopes.sql"),
        ),
        (
            29,
            "storage",
            include_str!("migrations/sqlite/0029_storage.sql"),
        ),
        (
            32,
            "recorders",
            include_str!("migrations/sqlite/0032_recorders.sql"),
        ),
        (
            33,
            "events by task",
            include_str!("migrations/sqlite/0033_events_by_task.sql"),
        ),
        (
            37,
            "executor",
            include_str!("migrations/sqlite/0037_executor.sql"),
        ),
        (
            38,
            "retries",
            include_str!("migrations/sqlite/0038_retries.sql"),
        ),
        (
            39,
            "attempts",
            include_str!("migrations/sqlite/0039_attempts.sql"),
        ),
        (
            40,
            "leases",
            include_str!("migrations/sqlite/0040_leases.sql"),
        ),
        (
            43,
            "agent_principals",
            include_str!("migrations/sqlite/0043_agent_principals.sql"),
        ),
        (
            49,
            "agent_suspension",
            include_str!("migrations/sqlite/0049_agent_suspension.sql"),
        ),
        (
            50,
            "own_stress_tasks",
            include_str!("migrations/sqlite/0050_own_stress_tasks.sql"),
        ),
        (
            52,
            "auditors and schedules",
            include_str!("migrations/sqlite/0052_auditors_and_schedules.sql"),
        ),
        (
            53,
            "audit_checkpoints",
            include_str!("migrations/sqlite/0053_audit_checkpoints.sql"),
        ),
        (
            56,
            "unlisted stress suites",
            include_str!("migrations/sqlite/0056_unlisted_stress_suites.sql"),
        ),
    ])
}

pub(super) fn postgres() -> Migrator {
    migrator(&[
        (1, "core", include_str!("migrations/postgres/0001_core.sql")),
        (2, "flow", include_str!("migrations/postgres/0002_flow.sql")),
        (
            4,
            "annotations",
            include_str!("migrations/postgres/0004_annotations.sql"),
        ),
        (
            5,
            "deployments",
            include_str!("migrations/postgres/0005_deployments.sql"),
        ),
        (
            6,
            "webhooks",
            include_str!("migrations/postgres/0006_webhooks.sql"),
        ),
        (
            7,
            "access",
            include_str!("migrations/postgres/0007_access.sql"),
        ),
        (
            8,
            "pause",
            include_str!("migrations/postgres/0008_pause.sql"),
        ),
        (
            9,
            "evals",
            include_str!("migrations/postgres/0009_evals.sql"),
        ),
        (
            10,
            "experiments",
            include_str!("migrations/postgres/0010_experiments.sql"),
        ),
        (
            11,
            "calibrations",
            include_str!("migrations/postgres/0011_calibrations.sql"),
        ),
        (
            12,
            "calibration attempts",
            include_str!("migrations/postgres/0012_calibration_attempts.sql"),
        ),
        (
            13,
            "aaaf",
            include_str!("migrations/postgres/0013_aaaf.sql"),
        ),
        (
            14,
            "assessments",
            include_str!("migrations/postgres/0014_assessments.sql"),
        ),
        (
            15,
            "badges",
            include_str!("migrations/postgres/0015_badges.sql"),
        ),
        (
            16,
            "notices",
            include_str!("migrations/postgres/0016_notices.sql"),
        ),
        (
            17,
            "profiles",
            include_str!("migrations/postgres/0017_profiles.sql"),
        ),
        (
            18,
            "jobs",
            include_str!("migrations/postgres/0018_jobs.sql"),
        ),
        (
            19,
            "stress tests",
            include_str!("migrations/postgres/0019_stress_tests.sql"),
        ),
        (
            20,
            "agent cards",
            include_str!("migrations/postgres/0020_agent_cards.sql"),
        ),
        (
            21,
            "oasis",
            include_str!("migrations/postgres/0021_oasis.sql"),
        ),
        (
            22,
            "write probe",
            include_str!("migrations/postgres/0022_write_probe.sql"),
        ),
        (
            24,
            "active time",
            include_str!("migrations/postgres/0024_active_time.sql"),
        ),
        (
            27,
            "secrets at rest",
            include_str!("migrations/postgres/0027_secrets_at_rest.sql"),
        ),
        (
            28,
            "operator scopes",
            include_str!("migrations/postgres/0028_operator_scopes.sql"),
        ),
        (
            29,
            "storage",
            include_str!("migrations/postgres/0029_storage.sql"),
        ),
        (
            32,
            "recorders",
            include_str!("migrations/postgres/0032_recorders.sql"),
        ),
        (
            33,
            "events by task",
            include_str!("migrations/postgres/0033_events_by_task.sql"),
        ),
        (
            37,
            "executor",
            include_str!("migrations/postgres/0037_executor.sql"),
        ),
        (
            38,
            "retries",
            include_str!("migrations/postgres/0038_retries.sql"),
        ),
        (
            39,
            "attempts",
            include_str!("migrations/postgres/0039_attempts.sql"),
        ),
        (
            40,
            "leases",
            include_str!("migrations/postgres/0040_leases.sql"),
        ),
        (
            43,
            "agent_principals",
            include_str!("migrations/postgres/0043_agent_principals.sql"),
        ),
        (
            49,
            "agent_suspension",
            include_str!("migrations/postgres/0049_agent_suspension.sql"),
        ),
        (
            50,
            "own_stress_tasks",
            include_str!("migrations/postgres/0050_own_stress_tasks.sql"),
        ),
        (
            52,
            "auditors and schedules",
            include_str!("migrations/postgres/0052_auditors_and_schedules.sql"),
        ),
        (
            53,
            "audit_checkpoints",
            include_str!("migrations/postgres/0053_audit_checkpoints.sql"),
        ),
        (
            56,
            "unlisted stress suites",
            include_str!("migrations/postgres/0056_unlisted_stress_suites.sql"),
        ),
    ])
}

fn migrator(steps: &[(i64, &'static str, &'static str)]) -> Migrator {
    let steps = steps.iter().map(|&(version, description, sql)| {
        let sql = SqlStr::from_static(sql);
        Migration::new(
            version,
            description.into(),
            MigrationType::Simple,
            sql,
            false,
        )
    });
    Migrator::with_migrations(steps.collect())
}
