-- Which retry of which run a run is. Retries of retries count with their source, and each number exists once.
ALTER TABLE run ADD COLUMN retry_root TEXT;
ALTER TABLE run ADD COLUMN retry_number BIGINT;
CREATE UNIQUE INDEX run_retry ON run (tenant, retry_root, retry_number) WHERE retry_root IS NOT NULL;
