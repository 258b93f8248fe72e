-- AAAF: the evidence of an assessment is read task by task.
CREATE INDEX aaaf_event_of_task ON aaaf_event (organization, agent, task, occurred_at, number);
-- The same for assignments alone.
DROP INDEX aaaf_event_assigned;
