-- Work that is done again and again, by one replica at a time.
CREATE TABLE aaaf_job (
    name        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    done_at     BIGINT,
    lease_owner TEXT COLLATE "C",
    lease_until BIGINT NOT NULL DEFAULT 0
);
