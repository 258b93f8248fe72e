-- AAAF: badges, what signs them, what revokes them, and appeals.
ALTER TABLE aaaf_organization ADD COLUMN private_badges BOOLEAN NOT NULL DEFAULT FALSE;

-- What an organization signs with. A key that was retired goes on verifying; the secret half is sealed.
CREATE TABLE aaaf_issuer_key (
    number       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization BIGINT NOT NULL REFERENCES aaaf_organization (number),
    public       TEXT   COLLATE "C" NOT NULL,
    sealed       TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    retired_at   BIGINT,
    compromised  BOOLEAN NOT NULL DEFAULT FALSE
);
CREATE UNIQUE INDEX aaaf_issuer_key_current ON aaaf_issuer_key (organization) WHERE retired_at IS NULL;
CREATE INDEX aaaf_issuer_key_listed ON aaaf_issuer_key (organization, number);

-- Which badges are revoked: a list has one issuer and one address, and both stay as they are.
CREATE TABLE aaaf_status_list (
    number       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization BIGINT NOT NULL REFERENCES aaaf_organization (number),
    issuer       TEXT   COLLATE "C" NOT NULL,
    base_url     TEXT   COLLATE "C" NOT NULL,
    given_out    BIGINT NOT NULL DEFAULT 0,
    changes      BIGINT NOT NULL DEFAULT 0,
    created_at   BIGINT NOT NULL
);
CREATE INDEX aaaf_status_list_of ON aaaf_status_list (organization, issuer, base_url, number);

CREATE TABLE aaaf_badge (
    number       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization BIGINT NOT NULL REFERENCES aaaf_organization (number),
    agent        BIGINT NOT NULL REFERENCES aaaf_agent (number),
    assessment   TEXT   COLLATE "C" NOT NULL,
    revision     BIGINT NOT NULL,
    id           TEXT   COLLATE "C" NOT NULL UNIQUE,
    state        TEXT   COLLATE "C" NOT NULL,
    badge        TEXT   NOT NULL,
    credential   TEXT,
    status_list  BIGINT REFERENCES aaaf_status_list (number),
    status_index BIGINT,
    revocation   TEXT,
    valid_until  BIGINT NOT NULL,
    created_at   BIGINT NOT NULL
);
CREATE UNIQUE INDEX aaaf_badge_revision ON aaaf_badge (assessment, revision);
-- A bit is never given out twice.
CREATE UNIQUE INDEX aaaf_badge_bit ON aaaf_badge (status_list, status_index) WHERE status_index IS NOT NULL;
CREATE INDEX aaaf_badge_revoked ON aaaf_badge (status_list, status_index) WHERE state = 'revoked';
CREATE INDEX aaaf_badge_expiry ON aaaf_badge (valid_until, number) WHERE state = 'issued';
CREATE INDEX aaaf_badge_of_agent ON aaaf_badge (agent, number);

CREATE TABLE aaaf_appeal (
    number       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization BIGINT NOT NULL REFERENCES aaaf_organization (number),
    agent        BIGINT NOT NULL REFERENCES aaaf_agent (number),
    assessment   TEXT   COLLATE "C" NOT NULL,
    id           TEXT   COLLATE "C" NOT NULL UNIQUE,
    state        TEXT   COLLATE "C" NOT NULL,
    filing       TEXT   NOT NULL,
    resolution   TEXT,
    -- The how-manieth accepted one of its assessment it is: each sees the evidence as those before left it.
    accepted     BIGINT,
    created_at   BIGINT NOT NULL,
    resolved_at  BIGINT
);
CREATE INDEX aaaf_appeal_listed ON aaaf_appeal (organization, assessment, created_at, id);
CREATE UNIQUE INDEX aaaf_appeal_accepted ON aaaf_appeal (assessment, accepted) WHERE accepted IS NOT NULL;
-- Evidence about an agent with an open one is held.
CREATE INDEX aaaf_appeal_open ON aaaf_appeal (agent) WHERE state IN ('filed', 'under_review');

-- A dimension has one open appeal.
CREATE TABLE aaaf_appealed_dimension (
    assessment TEXT COLLATE "C" NOT NULL,
    dimension  TEXT COLLATE "C" NOT NULL,
    appeal     BIGINT NOT NULL REFERENCES aaaf_appeal (number),
    PRIMARY KEY (assessment, dimension)
);
