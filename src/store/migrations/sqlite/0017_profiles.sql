-- AAAF: what the tasks of suites are to assessments.
CREATE TABLE aaaf_profile (
    organization BIGINT NOT NULL REFERENCES aaaf_organization (number),
    -- suiteId@version
    suite        TEXT   NOT NULL,
    document     TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    PRIMARY KEY (organization, suite)
);

-- What became of eval runs, so that none is looked at twice. An organization counts a run for one agent.
CREATE TABLE aaaf_gathered (
    organization BIGINT NOT NULL REFERENCES aaaf_organization (number),
    run          TEXT   NOT NULL,
    agent        BIGINT NOT NULL REFERENCES aaaf_agent (number),
    suite        TEXT   NOT NULL,
    events       BIGINT NOT NULL,
    left_out     TEXT,
    gathered_at  BIGINT NOT NULL,
    PRIMARY KEY (organization, run)
);
CREATE INDEX aaaf_gathered_suite ON aaaf_gathered (organization, suite);
CREATE INDEX aaaf_gathered_left_out ON aaaf_gathered (organization, agent, gathered_at) WHERE left_out IS NOT NULL;
