-- AAAF: keys of organizations, organizations, their agents, and the evidence about these.

-- A key that is one text, looked up by its hash.
ALTER TABLE api_key ADD COLUMN whole BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX api_key_hash ON api_key (secret_hash) WHERE whole;
CREATE INDEX api_key_replaced_hash ON api_key (previous_hash) WHERE whole AND previous_hash IS NOT NULL;

-- A tenant with a face.
CREATE TABLE aaaf_organization (
    number      INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    tenant      TEXT    NOT NULL UNIQUE,
    name        TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    config      TEXT    NOT NULL,
    created_at  BIGINT  NOT NULL,
    updated_at  BIGINT  NOT NULL,
    revision    BIGINT  NOT NULL
);

CREATE TABLE aaaf_agent (
    number       INTEGER PRIMARY KEY,
    organization BIGINT NOT NULL REFERENCES aaaf_organization (number),
    id           TEXT   NOT NULL UNIQUE,
    name         TEXT   NOT NULL,
    archived     BOOLEAN NOT NULL,
    profile      TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    revision     BIGINT NOT NULL
);
CREATE UNIQUE INDEX aaaf_agent_name ON aaaf_agent (organization, name) WHERE NOT archived;
CREATE INDEX aaaf_agent_listed ON aaaf_agent (organization, created_at, id);

-- Evidence, append-only: a row is never changed. No foreign key: an insert names an agent that its own transaction has just
-- read, agents are never deleted, and a check of each event would cost as much as writing it.
CREATE TABLE aaaf_event (
    number       INTEGER PRIMARY KEY,
    organization BIGINT NOT NULL,
    agent        BIGINT NOT NULL,
    id           TEXT   NOT NULL,
    kind         TEXT   NOT NULL,
    occurred_at  BIGINT NOT NULL,
    recorded_at  BIGINT NOT NULL,
    task         TEXT   NOT NULL,
    assessment   TEXT  ,
    source       TEXT   NOT NULL,
    data         TEXT   NOT NULL
);
-- What a client sent twice counts once.
CREATE UNIQUE INDEX aaaf_event_id ON aaaf_event (organization, id);
-- A window of an agent is one range.
CREATE INDEX aaaf_event_window ON aaaf_event (organization, agent, occurred_at, number);
-- What a task was assigned as, however long before the window.
CREATE INDEX aaaf_event_assigned ON aaaf_event (organization, agent, task, occurred_at, number) WHERE kind = 'task_assigned';
-- What a stress test has brought, whenever it did.
CREATE INDEX aaaf_event_active ON aaaf_event (organization, agent, assessment, occurred_at, number) WHERE assessment IS NOT NULL;
