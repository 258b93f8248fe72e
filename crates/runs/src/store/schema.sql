-- Runs and their event logs, annotations, judge calibrations and webhooks.

-- The part of a run that changes: the head of its log, its lease, and what it is found by. Small, because every append
-- rewrites it.
CREATE TABLE run (
    number      {serial},
    run_id      TEXT    {bytewise} NOT NULL UNIQUE,
    tenant      TEXT    {bytewise} NOT NULL,
    created_at  BIGINT  NOT NULL,
    head        BIGINT  NOT NULL DEFAULT 0,
    ended       BOOLEAN NOT NULL DEFAULT FALSE,
    fence       BIGINT  NOT NULL DEFAULT 0,
    lease_owner TEXT    {bytewise},
    lease_until BIGINT  NOT NULL DEFAULT 0,
    cancel      TEXT,
    -- The requested pause, until the run is resumed.
    pause       TEXT,
    -- A caller may require that no other run of the same scope is active.
    scope       TEXT    {bytewise},
    -- Whether the pause is in force. Until then the request can be withdrawn.
    pause_taken BOOLEAN NOT NULL DEFAULT FALSE,
    -- The agent and version that an eval run evaluates.
    eval_agent   TEXT   {bytewise},
    eval_version TEXT   {bytewise},
    -- The experiment that the run is a trial of.
    experiment  TEXT,
    -- What an eval run of its kind is found by, besides the agent.
    profile      TEXT   {bytewise},
    -- Time spent working or waiting, in microseconds, and the start of the current period; NULL if none.
    active_us    BIGINT NOT NULL DEFAULT 0,
    active_since BIGINT,
    -- Size of the log in bytes, updated by each append.
    bytes       BIGINT  NOT NULL DEFAULT 0,
    deleted_at  BIGINT,
    -- The event up to which the log of a deleted run is masked; NULL if nothing is left to mask.
    masked_to   BIGINT,
    -- The task content that the log keeps: all, failures (of tasks that did not pass) or none.
    content     TEXT    NOT NULL DEFAULT 'all',
    legal_hold  TEXT,
    -- The command that executes the run; NULL if any host may. Hosts do not claim the runs of commands.
    executor    TEXT,
    -- The run that was retried, and the number of the retry. Retries of retries count with their source.
    retry_root   TEXT,
    retry_number BIGINT
);
-- Free space on each page keeps updates off the indexes.
-- postgres: ALTER TABLE run SET (fillfactor = 50);
CREATE INDEX run_unfinished ON run (number) WHERE NOT ended;
CREATE INDEX run_of_tenant ON run (tenant, number);
CREATE INDEX run_active_scope ON run (tenant, scope) WHERE scope IS NOT NULL AND NOT ended;
CREATE INDEX run_of_version ON run (tenant, eval_agent, eval_version, number) WHERE eval_agent IS NOT NULL AND ended;
-- An eval run that has not ended is an attempt too.
CREATE INDEX run_attempt ON run (tenant, eval_agent, eval_version, number) WHERE eval_agent IS NOT NULL;
CREATE INDEX run_of_experiment ON run (tenant, experiment, number) WHERE experiment IS NOT NULL;
CREATE INDEX run_of_profile ON run (tenant, eval_agent, eval_version, profile, number) WHERE profile IS NOT NULL AND ended;
CREATE INDEX run_unmasked ON run (number) WHERE masked_to IS NOT NULL;
CREATE INDEX run_with_content ON run (number) WHERE ended AND content <> 'none' AND eval_agent IS NOT NULL AND profile IS NULL;
CREATE UNIQUE INDEX run_retry ON run (tenant, retry_root, retry_number) WHERE retry_root IS NOT NULL;

-- The part of a run that never changes. A record names every task of its suite, so it may take megabytes.
CREATE TABLE run_record (
    run_number  {rowid} PRIMARY KEY REFERENCES run (number),
    record      TEXT    NOT NULL
);

-- The rows of the list of runs. A projection: the subject is derived from the record, status and result from the log.
-- A run that has ended without a result is projected by the next list.
CREATE TABLE run_summary (
    run_number    {rowid} PRIMARY KEY REFERENCES run (number),
    tenant        TEXT    {bytewise} NOT NULL,
    run_id        TEXT    {bytewise} NOT NULL,
    created_at    BIGINT  NOT NULL,
    kind          TEXT    NOT NULL,
    suite_id      TEXT    {bytewise},
    suite_version TEXT    {bytewise},
    agent_id      TEXT    {bytewise},
    agent_version TEXT    {bytewise},
    model         TEXT    {bytewise},
    status        TEXT    NOT NULL,
    verdict       TEXT,
    subject       TEXT    NOT NULL,
    -- NULL until the run has ended.
    result        TEXT
);
CREATE INDEX run_summary_newest ON run_summary (tenant, created_at, run_id);
CREATE INDEX run_summary_of_suite ON run_summary (tenant, suite_id, created_at, run_id) WHERE suite_id IS NOT NULL;
CREATE INDEX run_summary_of_agent ON run_summary (tenant, agent_id, created_at, run_id) WHERE agent_id IS NOT NULL;
CREATE INDEX run_summary_of_verdict ON run_summary (tenant, verdict, created_at, run_id) WHERE verdict IS NOT NULL;
-- The newest judged run of each agent version and suite.
CREATE INDEX run_summary_of_version ON run_summary (tenant, suite_id, agent_id, agent_version, run_number, verdict)
    WHERE verdict IS NOT NULL;
CREATE INDEX run_summary_open ON run_summary (tenant, run_number) WHERE result IS NULL;

-- Labels that people give to runs; those of the request come first. They can be removed, unlike annotations.
CREATE TABLE run_tag (
    run_number  BIGINT  NOT NULL REFERENCES run (number),
    tag         TEXT    {bytewise} NOT NULL,
    PRIMARY KEY (run_number, tag)
) {without rowid};

-- The names that runs are searched by, in lower case: their suites, agents, models and tags. A name without runs is
-- deleted with its last run.
CREATE TABLE run_name (
    number      {serial},
    tenant      TEXT    {bytewise} NOT NULL,
    name        TEXT    {bytewise} NOT NULL,
    UNIQUE (tenant, name)
);
CREATE TABLE run_named (
    name_number BIGINT  NOT NULL,
    created_at  BIGINT  NOT NULL,
    run_id      TEXT    {bytewise} NOT NULL,
    run_number  BIGINT  NOT NULL,
    PRIMARY KEY (name_number, created_at, run_id)
) {without rowid};
CREATE INDEX run_named_of_run ON run_named (run_number, name_number);

-- The log, clustered by run and sequence on SQLite: an append inserts at the end, a read is one range. PostgreSQL has no
-- foreign key here: an insert takes the number from the row of the run, which it has just updated, and checking each
-- event would cost as much as writing it.
CREATE TABLE event (
    -- sqlite: run_number BIGINT NOT NULL REFERENCES run (number),
    -- postgres: run_number BIGINT NOT NULL,
    sequence    BIGINT  NOT NULL,
    kind        TEXT    NOT NULL,
    body        TEXT    NOT NULL,
    PRIMARY KEY (run_number, sequence)
) {without rowid};

-- Annotations are numbered within their run. They are not events, so they are neither replayed nor forked.
CREATE TABLE annotation (
    run_number  BIGINT  NOT NULL REFERENCES run (number),
    number      BIGINT  NOT NULL,
    task        TEXT,
    document    TEXT    NOT NULL,
    PRIMARY KEY (run_number, number)
);

-- Runs that a person declared void. They are kept but count for no gate.
CREATE TABLE run_void (
    run_number  {rowid} PRIMARY KEY REFERENCES run (number) ON DELETE CASCADE,
    document    TEXT    NOT NULL
);

-- The newest calibration of each judge of a tenant: its agreement with people.
CREATE TABLE calibration (
    tenant      TEXT    {bytewise} NOT NULL,
    identity    TEXT    {bytewise} NOT NULL,
    document    TEXT    NOT NULL,
    calibrated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, identity)
);

-- Attempts to calibrate a judge. One that has not ended and whose lease has expired was interrupted.
CREATE TABLE calibration_attempt (
    tenant          TEXT    {bytewise} NOT NULL,
    calibration_id  TEXT    {bytewise} NOT NULL,
    began_at        BIGINT  NOT NULL,
    ended           BOOLEAN NOT NULL DEFAULT FALSE,
    lease_until     BIGINT  NOT NULL,
    document        TEXT    NOT NULL,
    lease_owner     TEXT    {bytewise},
    PRIMARY KEY (tenant, calibration_id)
);
-- One at a time.
CREATE UNIQUE INDEX calibration_attempt_under_way ON calibration_attempt (tenant) WHERE NOT ended;

-- Queues of answers of a run that people label. `settings` never changes.
CREATE TABLE review_queue (
    number      {serial},
    id          TEXT    {bytewise} NOT NULL UNIQUE,
    tenant      TEXT    {bytewise} NOT NULL,
    run_number  BIGINT  NOT NULL REFERENCES run (number),
    settings    TEXT    NOT NULL,
    closed_at   BIGINT
);
CREATE INDEX review_queue_of_tenant ON review_queue (tenant, number);
CREATE INDEX review_queue_of_run ON review_queue (run_number);

CREATE TABLE review_item (
    queue       BIGINT  NOT NULL REFERENCES review_queue (number) ON DELETE CASCADE,
    number      BIGINT  NOT NULL,
    task        TEXT    NOT NULL,
    PRIMARY KEY (queue, number)
) {without rowid};

CREATE TABLE review_label (
    queue       BIGINT  NOT NULL REFERENCES review_queue (number) ON DELETE CASCADE,
    item        BIGINT  NOT NULL,
    principal   TEXT    {bytewise} NOT NULL,
    document    TEXT    NOT NULL,
    PRIMARY KEY (queue, item, principal)
);

-- Answers that people have opened. Claims end by themselves.
CREATE TABLE review_claim (
    queue       BIGINT  NOT NULL REFERENCES review_queue (number) ON DELETE CASCADE,
    item        BIGINT  NOT NULL,
    principal   TEXT    {bytewise} NOT NULL,
    until       BIGINT  NOT NULL,
    PRIMARY KEY (queue, item, principal)
) {without rowid};

-- A webhook with a run number belongs to that run (`callbackUrl`): it follows no other run and is deleted after the run's
-- end is delivered. Secrets are not in the settings, so that lists do not read them.
CREATE TABLE webhook (
    number          {serial},
    id              TEXT    {bytewise} NOT NULL UNIQUE,
    tenant          TEXT    {bytewise} NOT NULL,
    settings        TEXT    NOT NULL,
    secret          TEXT    NOT NULL,
    previous_secret TEXT,
    previous_until  BIGINT,
    run_number      BIGINT,
    created_at      BIGINT  NOT NULL,
    circuit         TEXT    NOT NULL,
    following       BOOLEAN NOT NULL DEFAULT TRUE,
    fence           BIGINT  NOT NULL DEFAULT 0,
    lease_owner     TEXT    {bytewise},
    lease_until     BIGINT  NOT NULL DEFAULT 0,
    served_at       BIGINT  NOT NULL DEFAULT 0,
    -- Whether the secrets are encrypted with the host key.
    sealed          BOOLEAN NOT NULL DEFAULT FALSE
);
CREATE INDEX webhook_of_tenant ON webhook (tenant, number);
CREATE INDEX webhook_plain ON webhook (number) WHERE NOT sealed;
-- SQLite releases the leases of dead processes at once; on PostgreSQL they expire.
-- sqlite: CREATE INDEX webhook_leased ON webhook (lease_owner) WHERE lease_owner IS NOT NULL;

-- The last delivered event of each run that a webhook follows. The row is deleted when the whole run is delivered.
-- PostgreSQL has no foreign key to the run: the number is read from the run's row in the same transaction.
CREATE TABLE webhook_run (
    webhook_number  BIGINT  NOT NULL REFERENCES webhook (number) ON DELETE CASCADE,
    -- sqlite: run_number BIGINT NOT NULL REFERENCES run (number),
    -- postgres: run_number BIGINT NOT NULL,
    sequence        BIGINT  NOT NULL,
    PRIMARY KEY (webhook_number, run_number)
) {without rowid};

-- The last attempts to deliver events to a webhook, without content. The numbers of a webhook increase.
CREATE TABLE webhook_delivery (
    webhook_number  BIGINT  NOT NULL REFERENCES webhook (number) ON DELETE CASCADE,
    number          BIGINT  NOT NULL,
    document        TEXT    NOT NULL,
    PRIMARY KEY (webhook_number, number)
) {without rowid};
