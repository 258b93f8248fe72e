pub mod annotations;
pub mod attempts;
pub mod calibrations;
pub mod deliveries;
mod event_row;
pub mod pauses;
pub mod profiles;
pub mod projection;
pub mod queue;
pub mod reviews;
pub mod run_list;
pub mod run_names;
pub mod runs;
pub mod segments;
pub mod storage;
pub mod webhooks;
pub mod work;

use touchstone_host::store::migrations::{HeldWork, Leases, Schema, SecretTable};
use touchstone_kit::sealing::owner;

pub const SCHEMA: Schema = Schema {
    feature: "runs",
    migrations: &[
        include_str!("schema.sql"),
        include_str!("decided.sql"),
        include_str!("projection/schema.sql"),
        include_str!("segments/schema.sql"),
        include_str!("projection/results.sql"),
        include_str!("webhooks/schema.sql"),
    ],
    leases: &[
        Leases {
            owners: "SELECT lease_owner FROM run WHERE NOT ended AND lease_owner IS NOT NULL",
            release: "UPDATE run SET lease_owner = NULL, lease_until = 0, active_since = NULL
                WHERE NOT ended AND lease_owner = $1",
        },
        Leases {
            owners: "SELECT lease_owner FROM webhook WHERE lease_owner IS NOT NULL",
            release: "UPDATE webhook SET lease_owner = NULL, lease_until = 0
                WHERE lease_owner = $1",
        },
        Leases {
            owners: "SELECT lease_owner FROM calibration_attempt
                WHERE NOT ended AND lease_owner IS NOT NULL",
            release: "UPDATE calibration_attempt SET lease_owner = NULL, lease_until = 0
                WHERE NOT ended AND lease_owner = $1",
        },
    ],
    secrets: &[SecretTable {
        name: "webhook",
        select: "SELECT number, id, secret, previous_secret, sealed FROM webhook
            WHERE number > $1 ORDER BY number LIMIT $2",
        select_plain: Some(
            "SELECT number, id, secret, previous_secret, sealed FROM webhook
            WHERE number > $1 AND NOT sealed ORDER BY number LIMIT $2",
        ),
        update: "UPDATE webhook SET secret = $2, previous_secret = $3, sealed = TRUE
            WHERE number = $1 AND secret = $4",
        owner: owner::webhook,
    }],
    held: &[
        // Hosts do not claim a run that names an executor. Journals and runs that wait for a
        // person without a deadline are never due.
        HeldWork {
            name: "unfinished runs",
            hold: "UPDATE run SET executor = 'host:restored'
                WHERE NOT ended AND executor IS NULL AND lease_until < 9223372036854775807",
            count: "SELECT COUNT(*) FROM run WHERE NOT ended AND executor = 'host:restored'",
            release: "UPDATE run SET executor = NULL WHERE executor = 'host:restored'",
        },
        // No clock reaches this end of a lease.
        HeldWork {
            name: "webhooks",
            hold: "UPDATE webhook SET fence = fence + 1, lease_owner = NULL,
                    lease_until = 9223372036854775807",
            count: "SELECT COUNT(*) FROM webhook
                WHERE lease_owner IS NULL AND lease_until = 9223372036854775807",
            release: "UPDATE webhook SET lease_until = 0
                WHERE lease_owner IS NULL AND lease_until = 9223372036854775807",
        },
    ],
};
