-- The process that carries out a judge calibration.
ALTER TABLE calibration_attempt ADD COLUMN lease_owner TEXT;
-- Their leases are measured by another clock from now on; no process that measured the old ones is alive during an upgrade.
UPDATE calibration_attempt SET lease_until = 0 WHERE NOT ended;
-- Leases of dead processes are looked for whenever there is nothing to do.
CREATE INDEX webhook_leased ON webhook (lease_owner) WHERE lease_owner IS NOT NULL;
CREATE INDEX aaaf_webhook_leased ON aaaf_webhook (lease_owner) WHERE lease_owner IS NOT NULL;
