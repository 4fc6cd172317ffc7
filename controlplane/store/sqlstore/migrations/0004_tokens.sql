-- What tokens leave among the changes has a room of its
-- own, 2: a busy day of revocations pushes nothing of an operator out. What proxies did
-- stays where it is.
UPDATE changes SET budget = 2
  WHERE budget = 0 AND kind = 'oauth2_token';
UPDATE changes SET place = placed.place
  FROM (SELECT number, row_number() OVER (PARTITION BY budget ORDER BY number) AS place FROM changes) AS placed
  WHERE placed.number = changes.number;

INSERT INTO meta (name, value) SELECT 'changes_since_tokens', value FROM meta WHERE name = 'changes_since';
