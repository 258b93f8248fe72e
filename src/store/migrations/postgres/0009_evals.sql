-- Whom a run evaluates: the newest eval of a version is found among all the other runs of its tenant.
ALTER TABLE run ADD COLUMN eval_agent TEXT COLLATE "C";
ALTER TABLE run ADD COLUMN eval_version TEXT COLLATE "C";
UPDATE run SET (eval_agent, eval_version) = (
    SELECT record::json #>> '{spec,work,eval,agentId}', record::json #>> '{spec,work,eval,agentVersion}'
    FROM run_record WHERE run_number = number);
CREATE INDEX run_of_version ON run (tenant, eval_agent, eval_version, number) WHERE eval_agent IS NOT NULL AND ended;
