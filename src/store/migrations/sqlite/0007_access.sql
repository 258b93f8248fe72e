-- Keys that hold roles, name a principal, are for tests only, or have a replaced secret that is still good.
ALTER TABLE api_key ADD COLUMN roles TEXT NOT NULL DEFAULT '[]';
ALTER TABLE api_key ADD COLUMN principal TEXT;
ALTER TABLE api_key ADD COLUMN test BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE api_key ADD COLUMN previous_hash BLOB;
ALTER TABLE api_key ADD COLUMN previous_until BIGINT;

-- What a run's caller said it is about; of one scope only one run may be active, if whoever creates it says so.
ALTER TABLE run ADD COLUMN scope TEXT;
CREATE INDEX run_active_scope ON run (tenant, scope) WHERE scope IS NOT NULL AND NOT ended;
