-- How far attempts to calibrate a judge are. One that is not ended and whose lease has run out was cut off.
CREATE TABLE calibration_attempt (
    tenant          TEXT    COLLATE "C" NOT NULL,
    calibration_id  TEXT    COLLATE "C" NOT NULL,
    began_at        BIGINT  NOT NULL,
    ended           BOOLEAN NOT NULL DEFAULT FALSE,
    lease_until     BIGINT  NOT NULL,
    document        TEXT    NOT NULL,
    PRIMARY KEY (tenant, calibration_id)
);
-- One at a time.
CREATE UNIQUE INDEX calibration_attempt_under_way ON calibration_attempt (tenant) WHERE NOT ended;
