-- AAAF: which principal recorded an event, and of what kind it was then. Older events have neither.
ALTER TABLE aaaf_event ADD COLUMN recorder TEXT;
ALTER TABLE aaaf_event ADD COLUMN recorded_by TEXT;
