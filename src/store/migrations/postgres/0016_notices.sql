-- AAAF: what organizations are told of, whom, and how far that is.
CREATE TABLE aaaf_webhook (
    number          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization    BIGINT NOT NULL REFERENCES aaaf_organization (number),
    id              TEXT   COLLATE "C" NOT NULL UNIQUE,
    url             TEXT   NOT NULL,
    events          TEXT   NOT NULL,
    -- Sealed: a signature needs the secret itself.
    secret          TEXT   NOT NULL,
    fingerprint     TEXT   NOT NULL,
    previous_secret TEXT,
    previous_until  BIGINT,
    created_at      BIGINT NOT NULL,
    failing_since   BIGINT,
    disabled_at     BIGINT,
    disabled        TEXT,
    -- When the first of its deliveries that wait is due.
    due_at          BIGINT,
    fence           BIGINT NOT NULL DEFAULT 0,
    lease_owner     TEXT   COLLATE "C",
    lease_until     BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX aaaf_webhook_listed ON aaaf_webhook (organization, created_at, id);
CREATE INDEX aaaf_webhook_due ON aaaf_webhook (due_at) WHERE due_at IS NOT NULL;

-- Of one subject there is one notice of a topic: the id follows from both. The body goes before the notice does.
CREATE TABLE aaaf_notice (
    number       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization BIGINT NOT NULL REFERENCES aaaf_organization (number),
    id           TEXT   COLLATE "C" NOT NULL UNIQUE,
    topic        TEXT   COLLATE "C" NOT NULL,
    body         TEXT   NOT NULL,
    told_at      BIGINT NOT NULL
);
CREATE INDEX aaaf_notice_told ON aaaf_notice (told_at, number);

CREATE TABLE aaaf_delivery (
    number       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook      BIGINT NOT NULL REFERENCES aaaf_webhook (number) ON DELETE CASCADE,
    notice       BIGINT NOT NULL REFERENCES aaaf_notice (number),
    id           TEXT   COLLATE "C" NOT NULL UNIQUE,
    state        TEXT   COLLATE "C" NOT NULL,
    attempts     BIGINT NOT NULL DEFAULT 0,
    due_at       BIGINT,
    attempted_at BIGINT,
    outcome      TEXT,
    created_at   BIGINT NOT NULL
);
CREATE INDEX aaaf_delivery_due ON aaaf_delivery (webhook, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX aaaf_delivery_listed ON aaaf_delivery (webhook, created_at, id);
CREATE INDEX aaaf_delivery_of_notice ON aaaf_delivery (notice);
CREATE INDEX aaaf_delivery_over ON aaaf_delivery (created_at) WHERE due_at IS NULL;
