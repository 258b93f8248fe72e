-- Deployments of agents, and promotion policies.

-- All deployments of an agent are one document: a transition reads it, decides, and writes the next revision unless
-- another transition was faster. The log of each transition is a run.
CREATE TABLE deployment (
    tenant      TEXT   {bytewise} NOT NULL,
    agent_id    TEXT   {bytewise} NOT NULL,
    revision    BIGINT NOT NULL,
    document    TEXT   NOT NULL,
    PRIMARY KEY (tenant, agent_id)
);

-- What a gate requires. An empty agent or channel means any.
CREATE TABLE promotion_policy (
    tenant      TEXT   {bytewise} NOT NULL,
    agent_id    TEXT   {bytewise} NOT NULL,
    channel     TEXT   {bytewise} NOT NULL,
    document    TEXT   NOT NULL,
    PRIMARY KEY (tenant, agent_id, channel)
);
