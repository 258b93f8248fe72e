-- The first events of the log of an ended run, compressed. The rows of `event` continue after the last segment.
CREATE TABLE log_segment (
    run_number     BIGINT  NOT NULL REFERENCES run (number) ON DELETE CASCADE,
    first_sequence BIGINT  NOT NULL,
    last_sequence  BIGINT  NOT NULL,
    octets         {bytes} NOT NULL,
    PRIMARY KEY (run_number, last_sequence)
);
