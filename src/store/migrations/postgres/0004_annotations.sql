-- What people say about a run, numbered within the run. Beside the log: not replayed, not forked.
CREATE TABLE annotation (
    run_number  BIGINT  NOT NULL REFERENCES run (number),
    number      BIGINT  NOT NULL,
    task        TEXT,
    document    TEXT    NOT NULL,
    PRIMARY KEY (run_number, number)
);
