-- The deployments of an agent are one value: a transition reads it, decides, and writes the next one if nobody was
-- faster. The log of every transition is a run of its own.
CREATE TABLE deployment (
    tenant      TEXT NOT NULL,
    agent_id    TEXT NOT NULL,
    revision    BIGINT  NOT NULL,
    document    TEXT    NOT NULL,
    PRIMARY KEY (tenant, agent_id)
);

-- What a gate demands. An empty agent or channel stands for any.
CREATE TABLE promotion_policy (
    tenant      TEXT NOT NULL,
    agent_id    TEXT NOT NULL,
    channel     TEXT NOT NULL,
    document    TEXT    NOT NULL,
    PRIMARY KEY (tenant, agent_id, channel)
);

-- Decisions, chained by hash. The body is the canonical form that was hashed.
CREATE TABLE audit_entry (
    tenant      TEXT NOT NULL,
    sequence    BIGINT  NOT NULL,
    body        TEXT    NOT NULL,
    hash        TEXT    NOT NULL,
    PRIMARY KEY (tenant, sequence)
);

-- Where each chain ends: the lock of whoever appends, and the proof that nothing was cut off.
CREATE TABLE audit_head (
    tenant      TEXT NOT NULL PRIMARY KEY,
    sequence    BIGINT  NOT NULL,
    hash        TEXT    NOT NULL
);
