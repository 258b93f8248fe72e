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
