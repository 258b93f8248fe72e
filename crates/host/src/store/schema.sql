-- What every feature uses: API keys, idempotent requests, jobs, stored files, host secrets and the audit log.

CREATE TABLE api_key (
    id          TEXT    {bytewise} NOT NULL PRIMARY KEY,
    tenant      TEXT    {bytewise} NOT NULL,
    secret_hash {bytes} NOT NULL,
    scopes      TEXT    NOT NULL,
    created_at  BIGINT  NOT NULL,
    expires_at  BIGINT,
    revoked_at  BIGINT,
    roles       TEXT    NOT NULL DEFAULT '[]',
    principal   TEXT,
    test        BOOLEAN NOT NULL DEFAULT FALSE,
    -- A replaced secret that is valid until `previous_until`.
    previous_hash  {bytes},
    previous_until BIGINT,
    -- Whether the key is one string without an id, so that it is looked up by its hash.
    whole       BOOLEAN NOT NULL DEFAULT FALSE
) {without rowid};
CREATE INDEX api_key_hash ON api_key (secret_hash) WHERE whole;
CREATE INDEX api_key_replaced_hash ON api_key (previous_hash) WHERE whole AND previous_hash IS NOT NULL;

CREATE TABLE idempotency (
    tenant      TEXT    {bytewise} NOT NULL,
    endpoint    TEXT    {bytewise} NOT NULL,
    key_hash    {bytes} NOT NULL,
    digest      {bytes} NOT NULL,
    owner       TEXT    {bytewise} NOT NULL,
    lease_until BIGINT  NOT NULL,
    created_at  BIGINT  NOT NULL,
    status      BIGINT,
    body        {bytes},
    -- Whether the body is encrypted with the host key.
    sealed      BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (tenant, endpoint, key_hash)
);
CREATE INDEX idempotency_age ON idempotency (created_at);
CREATE INDEX idempotency_plain ON idempotency (tenant, endpoint, key_hash) WHERE NOT sealed AND status IS NOT NULL;
-- SQLite releases the requests of dead processes at once; on PostgreSQL their leases expire.
-- sqlite: CREATE INDEX idempotency_under_way ON idempotency (owner) WHERE status IS NULL;

-- Periodic work that one replica does at a time.
CREATE TABLE job (
    name        TEXT   {bytewise} NOT NULL PRIMARY KEY,
    done_at     BIGINT,
    lease_owner TEXT   {bytewise},
    lease_until BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE blob (
    digest      TEXT    {bytewise} NOT NULL PRIMARY KEY,
    octets      {bytes} NOT NULL
);
-- Archives are already compressed.
-- postgres: ALTER TABLE blob ALTER COLUMN octets SET STORAGE EXTERNAL;

-- Keys that the host creates once, to sign what it must recognize later.
CREATE TABLE host_secret (
    name        TEXT    NOT NULL PRIMARY KEY,
    secret      {bytes} NOT NULL
) {without rowid};

-- One row that readiness checks overwrite, to find out whether the database accepts writes.
CREATE TABLE write_probe (
    id          BIGINT  PRIMARY KEY,
    written_at  BIGINT  NOT NULL,
    filler      TEXT    NOT NULL
);
-- The filler takes up room on the disk. Compressed, it would need almost none.
-- postgres: ALTER TABLE write_probe ALTER COLUMN filler SET STORAGE EXTERNAL;

-- The audit log, a hash chain per tenant. The body is the canonical form that was hashed.
CREATE TABLE audit_entry (
    tenant      TEXT    {bytewise} NOT NULL,
    sequence    BIGINT  NOT NULL,
    body        TEXT    NOT NULL,
    hash        TEXT    NOT NULL,
    PRIMARY KEY (tenant, sequence)
);

-- The last entry of each chain. An append locks this row, and a chain that ends earlier was truncated.
CREATE TABLE audit_head (
    tenant      TEXT    {bytewise} NOT NULL PRIMARY KEY,
    sequence    BIGINT  NOT NULL,
    hash        TEXT    NOT NULL,
    -- The last entry that a checkpoint covers.
    anchored    BIGINT  NOT NULL DEFAULT 0
);

-- Signed checkpoints of the audit log. Each covers the entries after `after_sequence` up to `at_sequence`.
CREATE TABLE audit_checkpoint (
    tenant         TEXT   {bytewise} NOT NULL,
    after_sequence BIGINT NOT NULL,
    at_sequence    BIGINT NOT NULL,
    id             TEXT   NOT NULL UNIQUE,
    merkle_root    TEXT   NOT NULL,
    signature      TEXT   NOT NULL,
    created_at     BIGINT NOT NULL,
    PRIMARY KEY (tenant, at_sequence)
);

-- Entries are added, never changed or deleted.
-- sqlite: CREATE TRIGGER audit_entry_changed BEFORE UPDATE ON audit_entry
-- sqlite: BEGIN SELECT RAISE(ABORT, 'entries of the audit log are never changed'); END;
-- sqlite: CREATE TRIGGER audit_entry_deleted BEFORE DELETE ON audit_entry
-- sqlite: BEGIN SELECT RAISE(ABORT, 'entries of the audit log are never deleted'); END;
-- postgres: CREATE FUNCTION audit_entry_is_kept() RETURNS trigger AS $$
-- postgres: BEGIN
-- postgres:     RAISE EXCEPTION 'entries of the audit log are never changed or deleted';
-- postgres: END
-- postgres: $$ LANGUAGE plpgsql;
-- postgres: CREATE TRIGGER audit_entry_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entry
-- postgres:     FOR EACH STATEMENT EXECUTE FUNCTION audit_entry_is_kept();

-- Sessions of the console. Times are in microseconds since 1970.
CREATE TABLE console_session (
    id             TEXT    {bytewise} NOT NULL PRIMARY KEY,
    tenant         TEXT    {bytewise} NOT NULL,
    principal      TEXT    NOT NULL,
    -- `key`, `local` or `oidc`.
    method         TEXT    NOT NULL,
    -- The key that signed in; its rights are read at each request.
    key_id         TEXT    {bytewise},
    -- SHA-256 of the secret that signed in: a rotation of the key ends the session with it.
    key_hash       {bytes},
    -- Issuer, scopes and roles of a session that an OpenID provider began, as JSON.
    oidc           TEXT,
    token_hash     {bytes} NOT NULL,
    -- A replaced token that is valid until `previous_until`, for requests in progress.
    previous_hash  {bytes},
    previous_until BIGINT,
    csrf           {bytes} NOT NULL,
    created_at     BIGINT  NOT NULL,
    used_at        BIGINT  NOT NULL,
    rotated_at     BIGINT  NOT NULL,
    ended_at       BIGINT
) {without rowid};
CREATE INDEX console_session_age ON console_session (created_at);
CREATE INDEX console_session_tenant ON console_session (tenant, created_at);
CREATE INDEX console_session_open ON console_session (tenant, principal, created_at) WHERE ended_at IS NULL;

-- Sign-ins that went to an OpenID provider. Each is used once; it holds hashes only.
CREATE TABLE sign_in_attempt (
    state_hash   {bytes} NOT NULL PRIMARY KEY,
    browser_hash {bytes} NOT NULL,
    to_path      TEXT    NOT NULL,
    -- The session of the browser that began the sign-in; it ends with the sign-in.
    session_id   TEXT    {bytewise},
    expires_at   BIGINT  NOT NULL
) {without rowid};
CREATE INDEX sign_in_attempt_age ON sign_in_attempt (expires_at);
