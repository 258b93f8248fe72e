-- Keys that hold roles, name a principal, are for tests only, or have a replaced secret that is still good.
ALTER TABLE api_key ADD COLUMN roles TEXT NOT NULL DEFAULT '[]';
ALTER TABLE api_key ADD COLUMN principal TEXT;
ALTER TABLE api_key ADD COLUMN test BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE api_key ADD COLUMN previous_hash BYTEA;
ALTER TABLE api_key ADD COLUMN previous_until BIGINT;
