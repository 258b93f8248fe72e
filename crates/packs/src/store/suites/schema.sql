-- Suites that were imported as streams.

-- The document without its tasks. The digest is that of the whole document.
CREATE TABLE suite_stream (
    digest     TEXT   {bytewise} PRIMARY KEY,
    -- Names its chunks.
    upload     TEXT   NOT NULL,
    header     TEXT   NOT NULL,
    task_count BIGINT NOT NULL,
    -- Length of the whole document.
    text_bytes BIGINT NOT NULL,
    -- Size of its chunks.
    bytes      BIGINT NOT NULL
);

CREATE TABLE suite_chunk (
    upload     TEXT   {bytewise} NOT NULL,
    chunk      BIGINT NOT NULL,
    octets     {bytes} NOT NULL,
    PRIMARY KEY (upload, chunk)
);

-- Uploads that have not ended.
CREATE TABLE suite_upload (
    upload     TEXT   {bytewise} PRIMARY KEY,
    started_at BIGINT NOT NULL
);
