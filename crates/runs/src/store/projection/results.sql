-- What views of an ended run need of its tasks, beside its stored state, and deleted with it. A cache: it may be emptied at any time.
CREATE TABLE run_task_results (
    run_number  {rowid} PRIMARY KEY REFERENCES run_projection (run_number) ON DELETE CASCADE,
    format      BIGINT  NOT NULL,
    -- The last event of the run. It is read only together with a state that ends there.
    sequence    BIGINT  NOT NULL,
    octets      {bytes} NOT NULL
);
