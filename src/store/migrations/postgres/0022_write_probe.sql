-- One row that readiness checks overwrite, to learn whether the database takes writes.
CREATE TABLE write_probe (
    id          BIGINT  PRIMARY KEY,
    written_at  BIGINT  NOT NULL,
    filler      TEXT    NOT NULL
);
-- The filler stands for room on the disk: compressed, it would need none.
ALTER TABLE write_probe ALTER COLUMN filler SET STORAGE EXTERNAL;
