-- A pause that was asked for, until the run is resumed.
ALTER TABLE run ADD COLUMN pause TEXT;

-- Keys this host made for itself, once: they sign what it must recognise again.
CREATE TABLE host_secret (
    name        TEXT    NOT NULL PRIMARY KEY,
    secret      BLOB    NOT NULL
) WITHOUT ROWID;
