-- The part of a run that changes: where its log ends, and who works on it. Small, because every append rewrites it.
CREATE TABLE run (
    number      INTEGER PRIMARY KEY,
    run_id      TEXT    NOT NULL UNIQUE,
    tenant      TEXT    NOT NULL,
    created_at  BIGINT  NOT NULL,
    head        BIGINT  NOT NULL DEFAULT 0,
    ended       BOOLEAN NOT NULL DEFAULT FALSE,
    fence       BIGINT  NOT NULL DEFAULT 0,
    lease_owner TEXT,
    lease_until BIGINT  NOT NULL DEFAULT 0,
    cancel      TEXT
);
CREATE INDEX run_unfinished ON run (number) WHERE NOT ended;
CREATE INDEX run_of_tenant ON run (tenant, number);

-- The part that never changes. A record names every task of its suite, so it may be megabytes.
CREATE TABLE run_record (
    run_number  INTEGER PRIMARY KEY REFERENCES run (number),
    record      TEXT    NOT NULL
);

-- The log, clustered by run and sequence: an append is an insert at the end, a read is one range.
CREATE TABLE event (
    run_number  BIGINT  NOT NULL REFERENCES run (number),
    sequence    BIGINT  NOT NULL,
    kind        TEXT    NOT NULL,
    body        TEXT    NOT NULL,
    PRIMARY KEY (run_number, sequence)
) WITHOUT ROWID;

CREATE TABLE api_key (
    id          TEXT    NOT NULL PRIMARY KEY,
    tenant      TEXT    NOT NULL,
    secret_hash BLOB    NOT NULL,
    scopes      TEXT    NOT NULL,
    created_at  BIGINT  NOT NULL,
    expires_at  BIGINT,
    revoked_at  BIGINT
) WITHOUT ROWID;

CREATE TABLE idempotency (
    tenant      TEXT    NOT NULL,
    endpoint    TEXT    NOT NULL,
    key_hash    BLOB    NOT NULL,
    digest      BLOB    NOT NULL,
    owner       TEXT    NOT NULL,
    lease_until BIGINT  NOT NULL,
    created_at  BIGINT  NOT NULL,
    status      BIGINT,
    body        BLOB,
    PRIMARY KEY (tenant, endpoint, key_hash)
);
CREATE INDEX idempotency_age ON idempotency (created_at);

CREATE TABLE blob (
    digest      TEXT    NOT NULL PRIMARY KEY,
    octets      BLOB    NOT NULL
);

CREATE TABLE pack (
    tenant       TEXT   NOT NULL,
    name         TEXT   NOT NULL,
    version      TEXT   NOT NULL,
    integrity    TEXT   NOT NULL,
    installed_at BIGINT NOT NULL,
    facts        TEXT   NOT NULL,
    PRIMARY KEY (tenant, name, version)
);

-- One row for every way a suite came here: several packs, or an import (pack ''), may bring the same content, and
-- removing one of them must not take it away from the others.
CREATE TABLE suite (
    tenant      TEXT    NOT NULL,
    suite_id    TEXT    NOT NULL,
    version     TEXT    NOT NULL,
    pack        TEXT    NOT NULL,
    digest      TEXT    NOT NULL,
    task_count  BIGINT  NOT NULL,
    signed      BOOLEAN NOT NULL,
    added_at    BIGINT  NOT NULL,
    PRIMARY KEY (tenant, suite_id, version, pack)
);
CREATE INDEX suite_of_pack ON suite (tenant, pack);
