-- Bytes of a run's log, counted when it is appended to; what remains of a deleted run; who holds it.
ALTER TABLE run ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN deleted_at BIGINT;
-- How far the log of a deleted run is masked; NULL when nothing is left to mask.
ALTER TABLE run ADD COLUMN masked_to BIGINT;
ALTER TABLE run ADD COLUMN legal_hold TEXT;
UPDATE run SET bytes = (SELECT COALESCE(SUM(OCTET_LENGTH(body)), 0) FROM event WHERE run_number = run.number);
CREATE INDEX run_unmasked ON run (number) WHERE masked_to IS NOT NULL;
