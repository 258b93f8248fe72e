-- Which profile a run evaluates by: the newest OASIS evaluation of a version is found among all its other evals.
ALTER TABLE run ADD COLUMN oasis_profile TEXT COLLATE "C";
CREATE INDEX run_of_profile ON run (tenant, eval_agent, eval_version, oasis_profile, number) WHERE oasis_profile IS NOT NULL AND ended;
