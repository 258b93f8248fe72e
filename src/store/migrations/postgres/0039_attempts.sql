-- Every eval run of a version is an attempt, also one that has not ended.
CREATE INDEX run_attempt ON run (tenant, eval_agent, eval_version, number) WHERE eval_agent IS NOT NULL;
-- Runs that a person declared void: they stay, and count for no gate.
CREATE TABLE run_void (
    run_number  BIGINT  PRIMARY KEY REFERENCES run (number) ON DELETE CASCADE,
    document    TEXT    NOT NULL
);
