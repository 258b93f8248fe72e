-- Scores of agent cards, and the cards that are scored again by a schedule.

CREATE TABLE card_look (
    number    {serial},
    tenant    TEXT    {bytewise} NOT NULL,
    url       TEXT    {bytewise} NOT NULL,
    id        TEXT    {bytewise} NOT NULL UNIQUE,
    looked_at BIGINT  NOT NULL,
    -- Whether a card was found, and whether its agent was called.
    scored    BOOLEAN NOT NULL,
    asked     BOOLEAN NOT NULL,
    document  TEXT    NOT NULL
);
CREATE INDEX card_look_of ON card_look (tenant, url, number);
CREATE INDEX card_look_kept ON card_look (tenant, number);

CREATE TABLE card_watch (
    tenant   TEXT   {bytewise} NOT NULL,
    url      TEXT   {bytewise} NOT NULL,
    document TEXT   NOT NULL,
    due_at   BIGINT NOT NULL,
    PRIMARY KEY (tenant, url)
);
CREATE INDEX card_watch_due ON card_watch (due_at);
