-- The command that was asked to execute a run; NULL if any host may. Hosts leave the runs of commands alone.
ALTER TABLE run ADD COLUMN executor TEXT;
