-- Whether the secrets of a row are encrypted with the host's key. Rows from before are encrypted when the host starts.
ALTER TABLE webhook ADD COLUMN sealed BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE idempotency ADD COLUMN sealed BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX webhook_plain ON webhook (number) WHERE NOT sealed;
CREATE INDEX idempotency_plain ON idempotency (tenant, endpoint, key_hash) WHERE NOT sealed AND status IS NOT NULL;
