-- The verdict that accounts for chance, which depends on the other runs of the same agent version and suite. NULL until
-- a list decides it: after the end of the run, and after rows of earlier versions. `verdict` is the one of the run's own
-- scores.
ALTER TABLE run_summary ADD COLUMN decided TEXT;
CREATE INDEX run_summary_of_decided ON run_summary (tenant, COALESCE(decided, verdict), created_at, run_id)
    WHERE verdict IS NOT NULL;
CREATE INDEX run_summary_undecided ON run_summary (tenant, run_number) WHERE verdict IS NOT NULL AND decided IS NULL;
