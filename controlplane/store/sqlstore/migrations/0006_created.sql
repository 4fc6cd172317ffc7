-- The revision in which a row was made, and the revisions in which it took unique values
-- that it has not had from the start: a JSON object by index, or NULL. created is what
-- writers say; these the store alone writes.
ALTER TABLE resources ADD COLUMN created_revision INTEGER NOT NULL DEFAULT 0;
ALTER TABLE resources ADD COLUMN taken BLOB;

-- Rows are made in the order of their ids, and none has been written before it was made.
-- So none was made after the least revision that it or a later one bears; that of a row
-- which was never changed is the one in which it was made.
UPDATE resources SET created_revision = made.revision
  FROM (SELECT id, min(revision) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS revision FROM resources) AS made
  WHERE made.id = resources.id;
