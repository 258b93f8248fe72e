-- Text is compared octet by octet (COLLATE "C"), as SQLite does: lists have one order on both engines.

-- The part of a run that changes: where its log ends, and who works on it. Small, because every append rewrites it;
-- the free space on each page keeps those rewrites off the indexes.
CREATE TABLE run (
    number      BIGINT  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id      TEXT    COLLATE "C" NOT NULL UNIQUE,
    tenant      TEXT    COLLATE "C" NOT NULL,
    created_at  BIGINT  NOT NULL,
    head        BIGINT  NOT NULL DEFAULT 0,
    ended       BOOLEAN NOT NULL DEFAULT FALSE,
    fence       BIGINT  NOT NULL DEFAULT 0,
    lease_owner TEXT    COLLATE "C",
    lease_until BIGINT  NOT NULL DEFAULT 0,
    cancel      TEXT
) WITH (fillfactor = 50);
CREATE INDEX run_unfinished ON run (number) WHERE NOT ended;
CREATE INDEX run_of_tenant ON run (tenant, number);

-- The part that never changes. A record names every task of its suite, so it may be megabytes.
CREATE TABLE run_record (
    run_number  BIGINT  PRIMARY KEY REFERENCES run (number),
    record      TEXT    NOT NULL
);

-- The log. No foreign key: every insert takes its run's number from the row it has just updated, and a check of each
-- event would cost as much as writing it.
CREATE TABLE event (
    run_number  BIGINT  NOT NULL,
    sequence    BIGINT  NOT NULL,
    kind        TEXT    NOT NULL,
    body        TEXT    NOT NULL,
    PRIMARY KEY (run_number, sequence)
);

CREATE TABLE api_key (
    id          TEXT    COLLATE "C" PRIMARY KEY,
    tenant      TEXT    COLLATE "C" NOT NULL,
    secret_hash BYTEA   NOT NULL,
    scopes      TEXT    NOT NULL,
    created_at  BIGINT  NOT NULL,
    expires_at  BIGINT,
    revoked_at  BIGINT
);

CREATE TABLE idempotency (
    tenant      TEXT    COLLATE "C" NOT NULL,
    endpoint    TEXT    COLLATE "C" NOT NULL,
    key_hash    BYTEA   NOT NULL,
    digest      BYTEA   NOT NULL,
    owner       TEXT    COLLATE "C" NOT NULL,
    lease_until BIGINT  NOT NULL,
    created_at  BIGINT  NOT NULL,
    status      BIGINT,
    body        BYTEA,
    PRIMARY KEY (tenant, endpoint, key_hash)
);
CREATE INDEX idempotency_age ON idempotency (created_at);

CREATE TABLE blob (
    digest      TEXT    COLLATE "C" PRIMARY KEY,
    octets      BYTEA   NOT NULL
);
-- Archives are compressed already.
ALTER TABLE blob ALTER COLUMN octets SET STORAGE EXTERNAL;

CREATE TABLE pack (
    tenant       TEXT   COLLATE "C" NOT NULL,
    name         TEXT   COLLATE "C" NOT NULL,
    version      TEXT   COLLATE "C" NOT NULL,
    integrity    TEXT   NOT NULL,
    installed_at BIGINT NOT NULL,
    facts        TEXT   NOT NULL,
    PRIMARY KEY (tenant, name, version)
);

-- One row for every way a suite came here: several packs, or an import (pack ''), may bring the same content, and
-- removing one of them must not take it away from the others.
CREATE TABLE suite (
    tenant      TEXT    COLLATE "C" NOT NULL,
    suite_id    TEXT    COLLATE "C" NOT NULL,
    version     TEXT    COLLATE "C" NOT NULL,
    pack        TEXT    COLLATE "C" NOT NULL,
    digest      TEXT    NOT NULL,
    task_count  BIGINT  NOT NULL,
    signed      BOOLEAN NOT NULL,
    added_at    BIGINT  NOT NULL,
    PRIMARY KEY (tenant, suite_id, version, pack)
);
CREATE INDEX suite_of_pack ON suite (tenant, pack);
