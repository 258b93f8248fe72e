-- How well the judges of a tenant agree with people: the newest comparison of each.
CREATE TABLE calibration (
    tenant      TEXT COLLATE "C"    NOT NULL,
    identity    TEXT COLLATE "C"    NOT NULL,
    document    TEXT    NOT NULL,
    PRIMARY KEY (tenant, identity)
);
