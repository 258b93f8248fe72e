-- Whether the pause that was asked for comes into force: until then the request can be taken back.
ALTER TABLE run ADD COLUMN pause_taken BOOLEAN NOT NULL DEFAULT FALSE;
