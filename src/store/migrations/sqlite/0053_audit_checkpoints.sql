-- Signed checkpoints of the audit log: each covers the entries behind `after_sequence` up to `at_sequence`.
CREATE TABLE audit_checkpoint (
    tenant         TEXT NOT NULL,
    after_sequence BIGINT NOT NULL,
    at_sequence    BIGINT NOT NULL,
    id             TEXT   NOT NULL UNIQUE,
    merkle_root    TEXT   NOT NULL,
    signature      TEXT   NOT NULL,
    created_at     BIGINT NOT NULL,
    PRIMARY KEY (tenant, at_sequence)
);

-- The last entry that is in a checkpoint.
ALTER TABLE audit_head ADD COLUMN anchored BIGINT NOT NULL DEFAULT 0;

-- Entries are added, never changed or deleted.
CREATE TRIGGER audit_entry_changed BEFORE UPDATE ON audit_entry
BEGIN SELECT RAISE(ABORT, 'entries of the audit log are never changed'); END;
CREATE TRIGGER audit_entry_deleted BEFORE DELETE ON audit_entry
BEGIN SELECT RAISE(ABORT, 'entries of the audit log are never deleted'); END;
