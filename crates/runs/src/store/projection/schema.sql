-- The folded state of a long log, so that it need not be folded again. A cache: both tables may be emptied at any time.
-- It is read only if its format is known, its sequence is in the log, and `content` is still that of the run.
CREATE TABLE run_projection (
    run_number  {rowid} PRIMARY KEY REFERENCES run (number) ON DELETE CASCADE,
    format      BIGINT  NOT NULL,
    -- The last event that was folded.
    sequence    BIGINT  NOT NULL,
    -- The task content that the log kept then: a state may contain parts of it.
    content     TEXT    NOT NULL
);

-- The head of a state is part 0; its tasks follow in chunks. On SQLite a table of large values is read faster with row ids.
CREATE TABLE run_projection_part (
    run_number  BIGINT  NOT NULL REFERENCES run_projection (run_number) ON DELETE CASCADE,
    part        BIGINT  NOT NULL,
    octets      {bytes} NOT NULL,
    PRIMARY KEY (run_number, part)
);
