-- When the next failed delivery of a webhook is due, and until when none is made.
ALTER TABLE webhook ADD COLUMN retry_at BIGINT;
ALTER TABLE webhook ADD COLUMN paused_until BIGINT NOT NULL DEFAULT 0;

-- Events whose delivery failed and that are sent again. The log has their content.
CREATE TABLE webhook_retry (
    webhook_number  BIGINT  NOT NULL REFERENCES webhook (number) ON DELETE CASCADE,
    run_number      BIGINT  NOT NULL REFERENCES run (number) ON DELETE CASCADE,
    sequence        BIGINT  NOT NULL,
    kind            TEXT    NOT NULL,
    event_id        TEXT    NOT NULL,
    attempts        BIGINT  NOT NULL,
    due_at          BIGINT  NOT NULL,
    last_status     BIGINT,
    PRIMARY KEY (webhook_number, run_number, sequence)
) {without rowid};
CREATE INDEX webhook_retry_due ON webhook_retry (webhook_number, due_at);
CREATE INDEX webhook_retry_of_run ON webhook_retry (run_number);

-- Deliveries that were given up, without content. The numbers of a webhook increase.
CREATE TABLE webhook_dead_letter (
    webhook_number  BIGINT  NOT NULL REFERENCES webhook (number) ON DELETE CASCADE,
    number          BIGINT  NOT NULL,
    delivery_id     TEXT    {bytewise} NOT NULL,
    expires_at      BIGINT  NOT NULL,
    document        TEXT    NOT NULL,
    PRIMARY KEY (webhook_number, number),
    UNIQUE (webhook_number, delivery_id)
) {without rowid};
CREATE INDEX webhook_dead_letter_expired ON webhook_dead_letter (expires_at);
