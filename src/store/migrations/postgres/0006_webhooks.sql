-- One with a run number is that run's own (`callbackUrl`): it follows no other run, and is gone once it was told of the end.
-- Secrets stand apart from the settings, so that no list reads them by accident.
CREATE TABLE webhook (
    number          BIGINT  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id              TEXT    COLLATE "C" NOT NULL UNIQUE,
    tenant          TEXT    COLLATE "C" NOT NULL,
    settings        TEXT    NOT NULL,
    secret          TEXT    NOT NULL,
    previous_secret TEXT,
    previous_until  BIGINT,
    run_number      BIGINT,
    created_at      BIGINT  NOT NULL,
    circuit         TEXT    NOT NULL,
    following       BOOLEAN NOT NULL DEFAULT TRUE,
    fence           BIGINT  NOT NULL DEFAULT 0,
    lease_owner     TEXT    COLLATE "C",
    lease_until     BIGINT  NOT NULL DEFAULT 0,
    served_at       BIGINT  NOT NULL DEFAULT 0
);
CREATE INDEX webhook_of_tenant ON webhook (tenant, number);

-- How far each subscription has been served of each run it follows. A run that was served whole has no row any more. No
-- foreign key to the run: its number comes from the run's own row, in the same transaction.
CREATE TABLE webhook_run (
    webhook_number  BIGINT  NOT NULL REFERENCES webhook (number) ON DELETE CASCADE,
    run_number      BIGINT  NOT NULL,
    sequence        BIGINT  NOT NULL,
    PRIMARY KEY (webhook_number, run_number)
);
