-- AAAF: agents about which nothing is recorded for the time being.
ALTER TABLE aaaf_agent ADD COLUMN suspended BOOLEAN NOT NULL DEFAULT FALSE;
