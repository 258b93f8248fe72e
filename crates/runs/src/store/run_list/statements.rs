//! The statements of the list of runs.

use crate::rules::run::listing::RunQuery;

/// A query of the numbers in a JSON array of texts.
macro_rules! numbers {
    ($array:literal) => {
        concat!(
            "SELECT CAST(it AS BIGINT) AS number FROM (
                SELECT CAST(NULL AS TEXT) AS it WHERE FALSE UNION ALL {each ",
            $array,
            "}) AS numbers"
        )
    };
}

/// The condition that the run has a name with the word.
macro_rules! word {
    ($parameter:literal) => {
        concat!(
            " AND (",
            $parameter,
            " IS NULL OR EXISTS (SELECT 1 FROM run_named n JOIN run_name m ON m.number = n.name_number
            WHERE n.run_number = s.run_number AND m.name LIKE ",
            $parameter,
            " ESCAPE '\\'))"
        )
    };
}

/// A statement that lists runs from `$source`, whose rows meet `$condition`: together they choose
/// an index. All statements have the same parameters.
macro_rules! list {
    ($source:expr, $condition:literal) => {
        list!($source, $condition, "s.created_at", "s.run_id")
    };
    ($source:expr, $condition:literal, $created_at:literal, $run_id:literal) => {
        concat!(
            "SELECT s.run_id, s.created_at,
        CASE WHEN r.cancel IS NOT NULL AND NOT r.ended THEN 'cancelling'
            WHEN s.status = 'pending' AND r.head > 0 THEN 'running' ELSE s.status END,
        s.subject, s.result, s.decided, EXISTS (SELECT 1 FROM run_void v WHERE v.run_number = s.run_number)
    FROM ",
            $source,
            " WHERE r.number = s.run_number AND s.tenant = $1 AND ",
            $condition,
            " AND s.created_at >= $2 AND s.created_at < $3 AND (s.created_at, s.run_id) < ($4, $5)
        AND s.run_id >= $6 AND s.run_id < $7
        AND ($8 IS NULL OR s.kind = $8)
        AND ($9 IS NULL OR s.suite_id = $9) AND ($10 IS NULL OR s.suite_version = $10)
        AND ($11 IS NULL OR s.agent_id = $11) AND ($12 IS NULL OR s.agent_version = $12)
        AND ($13 IS NULL OR s.model = $13) AND ($14 IS NULL OR COALESCE(s.decided, s.verdict) = $14)
        AND ($15 IS NULL OR $15 = CASE WHEN r.cancel IS NOT NULL AND NOT r.ended THEN 'cancelling'
            WHEN s.status = 'pending' AND r.head > 0 THEN 'running' ELSE s.status END)
        AND ($16 IS NULL OR EXISTS (SELECT 1 FROM run_tag t WHERE t.run_number = s.run_number AND t.tag = $16))",
            word!("$18"),
            word!("$19"),
            word!("$20"),
            word!("$21"),
            // `subject` begins with `{"kind":"…","workflowId":"…"` for a run with a workflow.
            " AND (CAST($22 AS TEXT) IS NULL
            OR SUBSTR(s.subject, LENGTH(s.kind) + 12, LENGTH(CAST($22 AS TEXT))) = CAST($22 AS TEXT))",
            " ORDER BY ",
            $created_at,
            " DESC, ",
            $run_id,
            " DESC LIMIT $17"
        )
    };
}

// `CROSS JOIN` fixes the order of the tables on SQLite.
const LIST: &str = list!("run_summary s CROSS JOIN run r", "TRUE");
const LIST_OF_SUITE: &str = list!("run_summary s CROSS JOIN run r", "s.suite_id = $9");
const LIST_OF_AGENT: &str = list!("run_summary s CROSS JOIN run r", "s.agent_id = $11");
// An expression keeps SQLite from reading all rows in the order of the list.
const LIST_UNFINISHED: &str = list!(
    "run_summary s CROSS JOIN run r",
    "s.result IS NULL",
    "+s.created_at",
    "s.run_id"
);
const LIST_OF_VERDICT: &str = list!(
    "run_summary s CROSS JOIN run r",
    "s.verdict IS NOT NULL AND COALESCE(s.decided, s.verdict) = $14"
);
/// The runs with a name, in the order of the name's index.
pub const LIST_OF_NAME: &str = list!(
    "run_named f CROSS JOIN run_summary s CROSS JOIN run r",
    "f.name_number = $23 AND s.run_number = f.run_number AND f.created_at >= $2 AND f.created_at < $3
        AND (f.created_at, f.run_id) < ($4, $5)",
    "f.created_at",
    "f.run_id"
);
pub const LIST_OF_RUNS: &str = list!(
    concat!(
        "(",
        numbers!("$23"),
        ") f CROSS JOIN run_summary s CROSS JOIN run r"
    ),
    "s.run_number = f.number"
);
/// The newest run with a verdict of each suite and agent version.
pub const NEWEST_OF_VERSIONS: &str = "SELECT MAX(run_number) FROM run_summary
    WHERE tenant = $1 AND verdict IS NOT NULL AND suite_id IS NOT NULL
        AND run_number NOT IN (SELECT run_number FROM run_void)
        AND ($2 IS NULL OR agent_id = $2)
    GROUP BY suite_id, agent_id, agent_version ORDER BY MAX(run_number) DESC LIMIT $3";
const LIST_OF_PREFIX: &str = list!(
    "run r CROSS JOIN run_summary s",
    "r.run_id >= $6 AND r.run_id < $7"
);

pub const ROWS: &str = concat!(
    "SELECT s.run_id, s.created_at, s.status, s.subject, s.result, s.decided, FALSE
    FROM run_summary s WHERE s.run_number IN (",
    numbers!("$1"),
    ") ORDER BY s.run_number DESC"
);

/// The statement that lists the runs of a query without words.
pub fn statement(asked: &RunQuery) -> &'static str {
    if asked.id_prefix.is_some() {
        LIST_OF_PREFIX
    } else if asked.status.is_some_and(|status| !status.is_terminal()) {
        LIST_UNFINISHED
    } else if asked.agent_id.is_some() {
        LIST_OF_AGENT
    } else if asked.suite_id.is_some() {
        LIST_OF_SUITE
    } else if asked.verdict.is_some() {
        LIST_OF_VERDICT
    } else {
        LIST
    }
}
