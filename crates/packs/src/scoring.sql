-- The digest of a suite's scoring document; empty if it has none.

ALTER TABLE suite ADD COLUMN scoring TEXT NOT NULL DEFAULT '';
