-- Ratings (AAAF): organizations, their agents, evidence, assessments, badges, appeals and notices.

CREATE TABLE rating_organization (
    number      {serial},
    id          TEXT    {bytewise} NOT NULL UNIQUE,
    tenant      TEXT    {bytewise} NOT NULL UNIQUE,
    name        TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    config      TEXT    NOT NULL,
    created_at  BIGINT  NOT NULL,
    updated_at  BIGINT  NOT NULL,
    revision    BIGINT  NOT NULL,
    private_badges BOOLEAN NOT NULL DEFAULT FALSE,
    -- Auditors outside the tenant of the organization.
    auditors    TEXT    NOT NULL DEFAULT '[]'
);

CREATE TABLE rating_agent (
    number       {serial},
    organization BIGINT NOT NULL REFERENCES rating_organization (number),
    id           TEXT   {bytewise} NOT NULL UNIQUE,
    name         TEXT   {bytewise} NOT NULL,
    archived     BOOLEAN NOT NULL,
    profile      TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    revision     BIGINT NOT NULL,
    -- No events of a suspended agent are recorded.
    suspended    BOOLEAN NOT NULL DEFAULT FALSE,
    -- When the schedule last tried to order an assessment.
    reassessment_tried_at BIGINT
);
CREATE UNIQUE INDEX rating_agent_name ON rating_agent (organization, name) WHERE NOT archived;
CREATE INDEX rating_agent_listed ON rating_agent (organization, created_at, id);

-- Names and keys under which agents act. Kind `name`: ids, all former and current names, and the OpenWOP agents that they
-- represented, in lower case; these are never deleted. Kind `key`: ids of the keys that are assigned to the agent.
CREATE TABLE rating_agent_principal (
    organization BIGINT NOT NULL,
    principal    TEXT   {bytewise} NOT NULL,
    agent        BIGINT NOT NULL,
    kind         TEXT   NOT NULL,
    PRIMARY KEY (organization, principal, agent, kind)
);

-- Evidence. Rows are never changed. No foreign key: an insert names an agent that its transaction has just read, agents are
-- never deleted, and checking each event would cost as much as writing it.
CREATE TABLE rating_event (
    number       {serial},
    organization BIGINT NOT NULL,
    agent        BIGINT NOT NULL,
    id           TEXT   {bytewise} NOT NULL,
    kind         TEXT   {bytewise} NOT NULL,
    occurred_at  BIGINT NOT NULL,
    recorded_at  BIGINT NOT NULL,
    task         TEXT   {bytewise} NOT NULL,
    assessment   TEXT   {bytewise},
    source       TEXT   {bytewise} NOT NULL,
    data         TEXT   NOT NULL,
    -- The kind of principal that recorded the event, and the principal.
    recorder     TEXT,
    recorded_by  TEXT
);
-- An event that a client sends twice counts once.
CREATE UNIQUE INDEX rating_event_id ON rating_event (organization, id);
-- The evidence window of an agent is one range.
CREATE INDEX rating_event_window ON rating_event (organization, agent, occurred_at, number);
-- An assessment reads evidence by task, including assignments before the window.
CREATE INDEX rating_event_of_task ON rating_event (organization, agent, task, occurred_at, number);
-- The results of a stress test, at any time.
CREATE INDEX rating_event_active ON rating_event (organization, agent, assessment, occurred_at, number) WHERE assessment IS NOT NULL;

CREATE TABLE rating_assessment (
    number       {serial},
    organization BIGINT NOT NULL REFERENCES rating_organization (number),
    agent        BIGINT NOT NULL REFERENCES rating_agent (number),
    id           TEXT   {bytewise} NOT NULL UNIQUE,
    stage        TEXT   {bytewise} NOT NULL,
    rated        BOOLEAN NOT NULL,
    reviewed     BOOLEAN NOT NULL DEFAULT FALSE,
    asked        TEXT   NOT NULL,
    finding      TEXT,
    created_at   BIGINT NOT NULL,
    started_at   BIGINT,
    ended_at     BIGINT,
    claims       BIGINT NOT NULL DEFAULT 0,
    lease_owner  TEXT   {bytewise},
    lease_until  BIGINT NOT NULL DEFAULT 0,
    -- How often it was set aside to wait for the runs of its stress tests.
    parked       BIGINT NOT NULL DEFAULT 0
);
-- At most one unfinished assessment per agent.
CREATE UNIQUE INDEX rating_assessment_of_agent ON rating_assessment (agent) WHERE stage IN ('pending', 'in_progress');
CREATE INDEX rating_assessment_unfinished ON rating_assessment (number) WHERE stage IN ('pending', 'in_progress');
CREATE INDEX rating_assessment_listed ON rating_assessment (organization, created_at, id);
CREATE INDEX rating_assessment_rated ON rating_assessment (agent, created_at, id) WHERE stage = 'completed' AND rated;

-- Signing keys of organizations. A retired key still verifies. The private key is encrypted with the host key.
CREATE TABLE rating_issuer_key (
    number       {serial},
    organization BIGINT NOT NULL REFERENCES rating_organization (number),
    public       TEXT   {bytewise} NOT NULL,
    sealed       TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    retired_at   BIGINT,
    compromised  BOOLEAN NOT NULL DEFAULT FALSE
);
CREATE UNIQUE INDEX rating_issuer_key_current ON rating_issuer_key (organization) WHERE retired_at IS NULL;
CREATE INDEX rating_issuer_key_listed ON rating_issuer_key (organization, number);

-- Revocation lists of badges. The issuer and the address of a list never change.
CREATE TABLE rating_status_list (
    number       {serial},
    organization BIGINT NOT NULL REFERENCES rating_organization (number),
    issuer       TEXT   {bytewise} NOT NULL,
    base_url     TEXT   {bytewise} NOT NULL,
    given_out    BIGINT NOT NULL DEFAULT 0,
    changes      BIGINT NOT NULL DEFAULT 0,
    created_at   BIGINT NOT NULL
);
CREATE INDEX rating_status_list_of ON rating_status_list (organization, issuer, base_url, number);

CREATE TABLE rating_badge (
    number       {serial},
    organization BIGINT NOT NULL REFERENCES rating_organization (number),
    agent        BIGINT NOT NULL REFERENCES rating_agent (number),
    assessment   TEXT   {bytewise} NOT NULL,
    revision     BIGINT NOT NULL,
    id           TEXT   {bytewise} NOT NULL UNIQUE,
    state        TEXT   {bytewise} NOT NULL,
    badge        TEXT   NOT NULL,
    credential   TEXT,
    status_list  BIGINT REFERENCES rating_status_list (number),
    status_index BIGINT,
    revocation   TEXT,
    valid_until  BIGINT NOT NULL,
    created_at   BIGINT NOT NULL
);
CREATE UNIQUE INDEX rating_badge_revision ON rating_badge (assessment, revision);
-- A bit of a revocation list belongs to one badge.
CREATE UNIQUE INDEX rating_badge_bit ON rating_badge (status_list, status_index) WHERE status_index IS NOT NULL;
CREATE INDEX rating_badge_revoked ON rating_badge (status_list, status_index) WHERE state = 'revoked';
CREATE INDEX rating_badge_expiry ON rating_badge (valid_until, number) WHERE state = 'issued';
CREATE INDEX rating_badge_of_agent ON rating_badge (agent, number);

CREATE TABLE rating_appeal (
    number       {serial},
    organization BIGINT NOT NULL REFERENCES rating_organization (number),
    agent        BIGINT NOT NULL REFERENCES rating_agent (number),
    assessment   TEXT   {bytewise} NOT NULL,
    id           TEXT   {bytewise} NOT NULL UNIQUE,
    state        TEXT   {bytewise} NOT NULL,
    filing       TEXT   NOT NULL,
    resolution   TEXT,
    -- Position among the accepted appeals of its assessment. Each sees the evidence as the earlier ones left it.
    accepted     BIGINT,
    created_at   BIGINT NOT NULL,
    resolved_at  BIGINT
);
CREATE INDEX rating_appeal_listed ON rating_appeal (organization, assessment, created_at, id);
CREATE UNIQUE INDEX rating_appeal_accepted ON rating_appeal (assessment, accepted) WHERE accepted IS NOT NULL;
-- Evidence about an agent with an open appeal is kept.
CREATE INDEX rating_appeal_open ON rating_appeal (agent) WHERE state IN ('filed', 'under_review');

-- At most one open appeal per dimension.
CREATE TABLE rating_appealed_dimension (
    assessment TEXT   {bytewise} NOT NULL,
    dimension  TEXT   {bytewise} NOT NULL,
    appeal     BIGINT NOT NULL REFERENCES rating_appeal (number),
    PRIMARY KEY (assessment, dimension)
);

CREATE TABLE rating_webhook (
    number          {serial},
    organization    BIGINT NOT NULL REFERENCES rating_organization (number),
    id              TEXT   {bytewise} NOT NULL UNIQUE,
    url             TEXT   NOT NULL,
    events          TEXT   NOT NULL,
    -- Encrypted with the host key, not hashed: signing needs the secret.
    secret          TEXT   NOT NULL,
    fingerprint     TEXT   NOT NULL,
    previous_secret TEXT,
    previous_until  BIGINT,
    created_at      BIGINT NOT NULL,
    failing_since   BIGINT,
    disabled_at     BIGINT,
    disabled        TEXT,
    -- When the first waiting delivery is due.
    due_at          BIGINT,
    fence           BIGINT NOT NULL DEFAULT 0,
    lease_owner     TEXT   {bytewise},
    lease_until     BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX rating_webhook_listed ON rating_webhook (organization, created_at, id);
CREATE INDEX rating_webhook_due ON rating_webhook (due_at) WHERE due_at IS NOT NULL;
-- SQLite releases the leases of dead processes at once; on PostgreSQL they expire.
-- sqlite: CREATE INDEX rating_webhook_leased ON rating_webhook (lease_owner) WHERE lease_owner IS NOT NULL;

-- There is one notice per subject and topic: the id follows from both. The body is deleted before the notice.
CREATE TABLE rating_notice (
    number       {serial},
    organization BIGINT NOT NULL REFERENCES rating_organization (number),
    id           TEXT   {bytewise} NOT NULL UNIQUE,
    topic        TEXT   {bytewise} NOT NULL,
    body         TEXT   NOT NULL,
    told_at      BIGINT NOT NULL
);
CREATE INDEX rating_notice_told ON rating_notice (told_at, number);

CREATE TABLE rating_delivery (
    number       {serial},
    webhook      BIGINT NOT NULL REFERENCES rating_webhook (number) ON DELETE CASCADE,
    notice       BIGINT NOT NULL REFERENCES rating_notice (number),
    id           TEXT   {bytewise} NOT NULL UNIQUE,
    state        TEXT   {bytewise} NOT NULL,
    attempts     BIGINT NOT NULL DEFAULT 0,
    due_at       BIGINT,
    attempted_at BIGINT,
    outcome      TEXT,
    created_at   BIGINT NOT NULL
);
CREATE INDEX rating_delivery_due ON rating_delivery (webhook, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX rating_delivery_listed ON rating_delivery (webhook, created_at, id);
CREATE INDEX rating_delivery_of_notice ON rating_delivery (notice);
CREATE INDEX rating_delivery_over ON rating_delivery (created_at) WHERE due_at IS NULL;

-- How the tasks of a suite count in assessments.
CREATE TABLE rating_profile (
    organization BIGINT NOT NULL REFERENCES rating_organization (number),
    -- suiteId@version
    suite        TEXT   NOT NULL,
    document     TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    PRIMARY KEY (organization, suite)
);

-- Eval runs whose results were taken as evidence or left out. An organization counts a run for one agent.
CREATE TABLE rating_collected_run (
    organization BIGINT NOT NULL REFERENCES rating_organization (number),
    run          TEXT   NOT NULL,
    agent        BIGINT NOT NULL REFERENCES rating_agent (number),
    suite        TEXT   NOT NULL,
    events       BIGINT NOT NULL,
    left_out     TEXT,
    gathered_at  BIGINT NOT NULL,
    PRIMARY KEY (organization, run)
);
CREATE INDEX rating_collected_run_suite ON rating_collected_run (organization, suite);
CREATE INDEX rating_collected_run_left_out ON rating_collected_run (organization, agent, gathered_at) WHERE left_out IS NOT NULL;

CREATE TABLE rating_stress_test_result (
    organization BIGINT NOT NULL REFERENCES rating_organization (number),
    assessment   TEXT   NOT NULL,
    test         TEXT   NOT NULL,
    task         TEXT   NOT NULL,
    run          TEXT   NOT NULL,
    outcome      TEXT   NOT NULL,
    score        DOUBLE PRECISION NOT NULL,
    recorded_at  BIGINT NOT NULL,
    PRIMARY KEY (organization, assessment, test, task)
);
CREATE INDEX rating_stress_test_result_age ON rating_stress_test_result (recorded_at);

-- Stress tasks that organizations add to the library.
CREATE TABLE rating_own_stress_task (
    organization BIGINT NOT NULL REFERENCES rating_organization (number),
    id           TEXT   NOT NULL,
    document     TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (organization, id)
);
