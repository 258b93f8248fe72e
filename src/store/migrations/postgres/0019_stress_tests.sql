-- AAAF: assessments that wait for the runs of their stress tests, and what became of the tasks of these.
ALTER TABLE aaaf_assessment ADD COLUMN parked BIGINT NOT NULL DEFAULT 0;

CREATE TABLE aaaf_stress_test_result (
    organization BIGINT NOT NULL REFERENCES aaaf_organization (number),
    assessment   TEXT   NOT NULL,
    test         TEXT   NOT NULL,
    task         TEXT   NOT NULL,
    run          TEXT   NOT NULL,
    outcome      TEXT   NOT NULL,
    score        DOUBLE PRECISION NOT NULL,
    recorded_at  BIGINT NOT NULL,
    PRIMARY KEY (organization, assessment, test, task)
);
CREATE INDEX aaaf_stress_test_result_age ON aaaf_stress_test_result (recorded_at);
