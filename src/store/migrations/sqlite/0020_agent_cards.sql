-- What agent cards came to, look by look, and which are looked at again by themselves.
CREATE TABLE card_look (
    number    INTEGER PRIMARY KEY,
    tenant    TEXT    NOT NULL,
    url       TEXT    NOT NULL,
    id        TEXT    NOT NULL UNIQUE,
    looked_at BIGINT  NOT NULL,
    -- Whether there was a card, and whether its agent was asked.
    scored    BOOLEAN NOT NULL,
    asked     BOOLEAN NOT NULL,
    document  TEXT    NOT NULL
);
CREATE INDEX card_look_of ON card_look (tenant, url, number);
CREATE INDEX card_look_kept ON card_look (tenant, number);

CREATE TABLE card_watch (
    tenant   TEXT   NOT NULL,
    url      TEXT   NOT NULL,
    document TEXT   NOT NULL,
    due_at   BIGINT NOT NULL,
    PRIMARY KEY (tenant, url)
);
CREATE INDEX card_watch_due ON card_watch (due_at);
