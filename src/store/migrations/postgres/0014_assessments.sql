-- AAAF: assessments, and who works on them.
CREATE TABLE aaaf_assessment (
    number       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization BIGINT NOT NULL REFERENCES aaaf_organization (number),
    agent        BIGINT NOT NULL REFERENCES aaaf_agent (number),
    id           TEXT   COLLATE "C" NOT NULL UNIQUE,
    stage        TEXT   COLLATE "C" NOT NULL,
    rated        BOOLEAN NOT NULL,
    reviewed     BOOLEAN NOT NULL DEFAULT FALSE,
    asked        TEXT   NOT NULL,
    finding      TEXT,
    created_at   BIGINT NOT NULL,
    started_at   BIGINT,
    ended_at     BIGINT,
    claims       BIGINT NOT NULL DEFAULT 0,
    lease_owner  TEXT   COLLATE "C",
    lease_until  BIGINT NOT NULL DEFAULT 0
);
-- Of an agent one at a time.
CREATE UNIQUE INDEX aaaf_assessment_of_agent ON aaaf_assessment (agent) WHERE stage IN ('pending', 'in_progress');
CREATE INDEX aaaf_assessment_unfinished ON aaaf_assessment (number) WHERE stage IN ('pending', 'in_progress');
CREATE INDEX aaaf_assessment_listed ON aaaf_assessment (organization, created_at, id);
CREATE INDEX aaaf_assessment_rated ON aaaf_assessment (agent, created_at, id) WHERE stage = 'completed' AND rated;
