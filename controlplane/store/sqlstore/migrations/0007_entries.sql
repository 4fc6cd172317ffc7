-- Each row lists its own index entries, so that they are found without an index of the
-- indexes by id: a JSON list of ["u", field, value] for uniques, ["r", to_kind, to_scope,
-- to_name, field] for refs and ["l", field, value] for lists.
ALTER TABLE resources ADD COLUMN entries TEXT NOT NULL DEFAULT '[]';

UPDATE resources SET entries = (SELECT json_group_array(json(entry)) FROM (
  SELECT json_array('u', field, value) AS entry FROM uniques WHERE uniques.id = resources.id
  UNION ALL SELECT json_array('r', to_kind, to_scope, to_name, field) FROM refs WHERE refs.id = resources.id
  UNION ALL SELECT json_array('l', field, value) FROM lists WHERE lists.id = resources.id
));

-- Whoever removes a row removes its entries: nothing looks for them by id.
CREATE TABLE uniques_listed (
  kind  TEXT NOT NULL,
  scope TEXT NOT NULL,
  field TEXT NOT NULL,
  value TEXT NOT NULL,
  id    INTEGER NOT NULL, -- of resources
  PRIMARY KEY (kind, scope, field, value)
) STRICT, WITHOUT ROWID;
INSERT INTO uniques_listed (kind, scope, field, value, id) SELECT kind, scope, field, value, id FROM uniques ORDER BY kind, scope, field, value;
DROP TABLE uniques;
ALTER TABLE uniques_listed RENAME TO uniques;

CREATE TABLE refs_listed (
  to_kind  TEXT NOT NULL,
  to_scope TEXT NOT NULL,
  to_name  TEXT NOT NULL,
  kind     TEXT NOT NULL,
  field    TEXT NOT NULL,
  scope    TEXT NOT NULL,
  name     TEXT NOT NULL,
  refuse   INTEGER NOT NULL, -- 1: the target cannot be deleted
  id       INTEGER NOT NULL, -- of resources
  PRIMARY KEY (to_kind, to_scope, to_name, kind, field, scope, name)
) STRICT, WITHOUT ROWID;
INSERT INTO refs_listed (to_kind, to_scope, to_name, kind, field, scope, name, refuse, id)
  SELECT to_kind, to_scope, to_name, kind, field, scope, name, refuse, id FROM refs ORDER BY to_kind, to_scope, to_name, kind, field, scope, name;
DROP TABLE refs;
ALTER TABLE refs_listed RENAME TO refs;

CREATE TABLE lists_listed (
  kind  TEXT NOT NULL,
  scope TEXT NOT NULL,
  field TEXT NOT NULL,
  value TEXT NOT NULL,
  name  TEXT NOT NULL,
  id    INTEGER NOT NULL, -- of resources
  PRIMARY KEY (kind, scope, field, value, name)
) STRICT, WITHOUT ROWID;
INSERT INTO lists_listed (kind, scope, field, value, name, id) SELECT kind, scope, field, value, name, id FROM lists ORDER BY kind, scope, field, value, name;
DROP TABLE lists;
ALTER TABLE lists_listed RENAME TO lists;
