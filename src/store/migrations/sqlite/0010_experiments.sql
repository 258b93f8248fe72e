-- Which experiment a run is a trial of.
ALTER TABLE run ADD COLUMN experiment TEXT;
CREATE INDEX run_of_experiment ON run (tenant, experiment, number) WHERE experiment IS NOT NULL;
