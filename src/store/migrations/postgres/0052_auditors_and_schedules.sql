-- AAAF: auditors outside the tenant of an organization, and when the schedule last tried to have an agent assessed.
ALTER TABLE aaaf_organization ADD COLUMN auditors TEXT NOT NULL DEFAULT '[]';
ALTER TABLE aaaf_agent ADD COLUMN reassessment_tried_at BIGINT;
