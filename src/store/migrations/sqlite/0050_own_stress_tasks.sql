-- AAAF: stress tasks that organizations add to the library.
CREATE TABLE aaaf_own_stress_task (
    organization BIGINT NOT NULL REFERENCES aaaf_organization (number),
    id           TEXT   NOT NULL,
    document     TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (organization, id)
);
