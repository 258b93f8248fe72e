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
    tenant     TEXT   {bytewise} NOT NULL,
    started_at BIGINT NOT NULL,
    -- Size of the chunks so far.
    bytes      BIGINT NOT NULL
);
CREATE INDEX suite_upload_of_tenant ON suite_upload (tenant);

-- Size in bytes of the tasks or the document that were stored for this row. NULL in rows of earlier versions, which
-- stored every suite as one document.
ALTER TABLE suite ADD COLUMN bytes BIGINT;
