-- Installed packs, and suites.

CREATE TABLE pack (
    tenant       TEXT   {bytewise} NOT NULL,
    name         TEXT   {bytewise} NOT NULL,
    version      TEXT   {bytewise} NOT NULL,
    integrity    TEXT   NOT NULL,
    installed_at BIGINT NOT NULL,
    facts        TEXT   NOT NULL,
    PRIMARY KEY (tenant, name, version)
);

-- One row per origin of a suite. Several packs, or an import (pack ''), may bring the same content, and removing one of
-- them keeps the suite of the others.
CREATE TABLE suite (
    tenant      TEXT    {bytewise} NOT NULL,
    suite_id    TEXT    {bytewise} NOT NULL,
    version     TEXT    {bytewise} NOT NULL,
    pack        TEXT    {bytewise} NOT NULL,
    digest      TEXT    NOT NULL,
    task_count  BIGINT  NOT NULL,
    signed      BOOLEAN NOT NULL,
    added_at    BIGINT  NOT NULL,
    -- The digest of its scoring document; empty if it has none.
    scoring     TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (tenant, suite_id, version, pack)
);
CREATE INDEX suite_of_pack ON suite (tenant, pack);
