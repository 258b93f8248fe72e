-- AAAF: what agents act by. `name`: their ids, every name they had, and every OpenWOP agent they stood for, in lower case; these
-- stay. `key`: the ids of keys that are assigned to them.
CREATE TABLE aaaf_agent_principal (
    organization BIGINT NOT NULL,
    principal    TEXT   NOT NULL,
    agent        BIGINT NOT NULL,
    kind         TEXT   NOT NULL,
    PRIMARY KEY (organization, principal, agent, kind)
);
INSERT INTO aaaf_agent_principal (organization, principal, agent, kind)
    SELECT organization, id, number, 'name' FROM aaaf_agent
    WHERE TRUE ON CONFLICT DO NOTHING;
INSERT INTO aaaf_agent_principal (organization, principal, agent, kind)
    SELECT organization, LOWER(name), number, 'name' FROM aaaf_agent
    WHERE TRUE ON CONFLICT DO NOTHING;
INSERT INTO aaaf_agent_principal (organization, principal, agent, kind)
    SELECT organization, LOWER(SUBSTR(profile ->> '$.openwop_agent', 1, INSTR(profile ->> '$.openwop_agent' || '@', '@') - 1)), number, 'name' FROM aaaf_agent
    WHERE profile ->> '$.openwop_agent' IS NOT NULL ON CONFLICT DO NOTHING;
-- What `key create --scope all` contained before there were assessments, badges or appeals: without the operator scopes from now on,
-- as 0028 does with the last such list.
UPDATE api_key SET scopes = '["approvals:respond","artifacts:read","audit:read","deploy:pause","deploy:promote","deploy:rollback","manifest:read","packs:install","packs:publish","packs:yank","packs:yank-revert","runs:cancel","runs:create","runs:read","suites:write","webhooks:manage"]'
WHERE scopes = '["approvals:respond","artifacts:read","audit:read","deploy:pause","deploy:promote","deploy:rollback","manifest:read","metrics:read","packs:install","packs:publish","packs:yank","packs:yank-revert","runs:cancel","runs:create","runs:read","suites:write","webhooks:manage"]';
UPDATE api_key SET scopes = '["approvals:respond","artifacts:read","audit:read","deploy:pause","deploy:promote","deploy:rollback","gates:write","manifest:read","packs:install","packs:publish","packs:yank","packs:yank-revert","runs:cancel","runs:create","runs:read","suites:write","webhooks:manage"]'
WHERE scopes = '["approvals:respond","artifacts:read","audit:read","deploy:pause","deploy:promote","deploy:rollback","gates:write","manifest:read","metrics:read","packs:install","packs:publish","packs:yank","packs:yank-revert","runs:cancel","runs:create","runs:read","suites:write","webhooks:manage"]';
UPDATE api_key SET scopes = '["agents:read","agents:write","approvals:respond","artifacts:read","audit:read","config:read","config:write","deploy:pause","deploy:promote","deploy:rollback","events:read","events:write","gates:write","manifest:read","packs:install","packs:publish","packs:yank","packs:yank-revert","runs:cancel","runs:create","runs:read","suites:write","webhooks:manage"]'
WHERE scopes = '["agents:read","agents:write","approvals:respond","artifacts:read","audit:read","config:read","config:write","deploy:pause","deploy:promote","deploy:rollback","events:read","events:write","gates:write","manifest:read","metrics:read","organizations:write","packs:install","packs:publish","packs:yank","packs:yank-revert","runs:cancel","runs:create","runs:read","suites:write","webhooks:manage"]';
UPDATE api_key SET scopes = '["agents:read","agents:write","approvals:respond","artifacts:read","assessments:read","assessments:review","assessments:write","audit:read","config:read","config:write","deploy:pause","deploy:promote","deploy:rollback","events:read","events:write","gates:write","manifest:read","packs:install","packs:publish","packs:yank","packs:yank-revert","runs:cancel","runs:create","runs:read","suites:write","webhooks:manage"]'
WHERE scopes = '["agents:read","agents:write","approvals:respond","artifacts:read","assessments:read","assessments:review","assessments:write","audit:read","config:read","config:write","deploy:pause","deploy:promote","deploy:rollback","events:read","events:write","gates:write","manifest:read","metrics:read","organizations:write","packs:install","packs:publish","packs:yank","packs:yank-revert","runs:cancel","runs:create","runs:read","suites:write","webhooks:manage"]';
UPDATE api_key SET scopes = '["agents:read","agents:write","approvals:respond","artifacts:read","assessments:read","assessments:review","assessments:write","audit:read","badges:read","badges:revoke","config:read","config:write","deploy:pause","deploy:promote","deploy:rollback","events:read","events:write","gates:write","manifest:read","packs:install","packs:publish","packs:yank","packs:yank-revert","runs:cancel","runs:create","runs:read","suites:write","webhooks:manage"]'
WHERE scopes = '["agents:read","agents:write","approvals:respond","artifacts:read","assessments:read","assessments:review","assessments:write","audit:read","badges:read","badges:revoke","config:read","config:write","deploy:pause","deploy:promote","deploy:rollback","events:read","events:write","gates:write","manifest:read","metrics:read","organizations:write","packs:install","packs:publish","packs:yank","packs:yank-revert","runs:cancel","runs:create","runs:read","suites:write","webhooks:manage"]';
