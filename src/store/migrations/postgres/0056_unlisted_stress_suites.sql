-- AAAF: suites of an organization's own stress tasks hold ground truth. They are stored for their runs and no longer listed.
DELETE FROM blob WHERE digest IN (
        SELECT digest FROM suite WHERE pack = '' AND suite_id LIKE 'organization.aaaf.evals.own-%')
    AND digest NOT IN (SELECT digest FROM suite WHERE pack <> '')
    AND NOT EXISTS (SELECT 1 FROM run_record WHERE record LIKE '%' || blob.digest || '%');
DELETE FROM suite WHERE pack = '' AND suite_id LIKE 'organization.aaaf.evals.own-%';
