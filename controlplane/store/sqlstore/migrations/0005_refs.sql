-- What a row refers to may be in another scope, and rows of two scopes may have one name:
-- the key says both scopes. Those of the referrer and its name at the end make pages by
-- reference one walk along the key. Until now both were the same.
CREATE TABLE refs_of_scopes (
  to_kind  TEXT NOT NULL,
  to_scope TEXT NOT NULL,
  to_name  TEXT NOT NULL,
  kind     TEXT NOT NULL,
  field    TEXT NOT NULL,
  scope    TEXT NOT NULL,
  name     TEXT NOT NULL,
  refuse   INTEGER NOT NULL, -- 1: the target cannot be deleted
  id       INTEGER NOT NULL REFERENCES resources (id) ON DELETE CASCADE,
  PRIMARY KEY (to_kind, to_scope, to_name, kind, field, scope, name)
) STRICT, WITHOUT ROWID;

INSERT INTO refs_of_scopes (to_kind, to_scope, to_name, kind, field, scope, name, refuse, id)
  SELECT to_kind, scope, to_name, kind, field, scope, name, refuse, id FROM refs
  ORDER BY to_kind, scope, to_name, kind, field, name;

DROP TABLE refs;
ALTER TABLE refs_of_scopes RENAME TO refs;
CREATE INDEX refs_id ON refs (id);
