-- How long a run has been worked on or has waited, in microseconds, and since when that is being counted; NULL while it is not.
ALTER TABLE run ADD COLUMN active_us BIGINT NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN active_since BIGINT;
