-- What proxies do has a room of its own among the changes: whoever has the token of one
-- pushes nothing of others out. 0: of operators, 1: of proxies.
ALTER TABLE changes ADD COLUMN budget INTEGER NOT NULL DEFAULT 0;
-- In its budget, ascending without gaps: two of them tell how many are between.
ALTER TABLE changes ADD COLUMN place INTEGER NOT NULL DEFAULT 0;

UPDATE changes SET budget = 1
  WHERE actor_kind = 'node' OR origin = 'proxy' OR (actor_kind = 'system' AND actor = 'removal');
UPDATE changes SET place = placed.place
  FROM (SELECT number, row_number() OVER (PARTITION BY budget ORDER BY number) AS place FROM changes) AS placed
  WHERE placed.number = changes.number;

-- In the order of numbers for each.
CREATE INDEX changes_budget ON changes (budget);

INSERT INTO meta (name, value) SELECT 'changes_since_proxies', value FROM meta WHERE name = 'changes_since';
