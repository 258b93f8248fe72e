-- The process that carries out a judge calibration.
ALTER TABLE calibration_attempt ADD COLUMN lease_owner TEXT COLLATE "C";
