-- Sessions of the console. Times are in microseconds since 1970.
CREATE TABLE console_session (
    id             TEXT    {bytewise} NOT NULL PRIMARY KEY,
    tenant         TEXT    {bytewise} NOT NULL,
    principal      TEXT    NOT NULL,
    -- `key` or `local`.
    method         TEXT    NOT NULL,
    -- The key that signed in; its rights are read at each request.
    key_id         TEXT    {bytewise},
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
