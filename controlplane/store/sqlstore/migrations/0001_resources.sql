CREATE TABLE meta (
  name  TEXT PRIMARY KEY,
  value ANY NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO meta (name, value) VALUES ('revision', 0);

CREATE TABLE resources (
  id       INTEGER PRIMARY KEY,
  kind     TEXT NOT NULL,
  scope    TEXT NOT NULL,
  name     TEXT NOT NULL,
  version  INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  created  INTEGER NOT NULL, -- microseconds of Unix time
  modified INTEGER NOT NULL, -- microseconds of Unix time
  expires  INTEGER NOT NULL, -- milliseconds of Unix time, 0 = never
  sealed   INTEGER NOT NULL, -- 1: spec is encrypted
  spec     BLOB NOT NULL,
  UNIQUE (kind, scope, name)
) STRICT;

CREATE INDEX resources_expires ON resources (expires) WHERE expires > 0;

-- Secret values are keyed digests.
CREATE TABLE uniques (
  kind  TEXT NOT NULL,
  scope TEXT NOT NULL,
  field TEXT NOT NULL,
  value TEXT NOT NULL,
  id    INTEGER NOT NULL REFERENCES resources (id) ON DELETE CASCADE,
  PRIMARY KEY (kind, scope, field, value)
) STRICT, WITHOUT ROWID;

CREATE INDEX uniques_id ON uniques (id);

-- The name of the referrer makes pages by reference one walk along the key.
CREATE TABLE refs (
  to_kind TEXT NOT NULL,
  scope   TEXT NOT NULL,
  to_name TEXT NOT NULL,
  kind    TEXT NOT NULL,
  field   TEXT NOT NULL,
  name    TEXT NOT NULL,
  refuse  INTEGER NOT NULL, -- 1: the target cannot be deleted
  id      INTEGER NOT NULL REFERENCES resources (id) ON DELETE CASCADE,
  PRIMARY KEY (to_kind, scope, to_name, kind, field, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX refs_id ON refs (id);

CREATE TABLE lists (
  kind  TEXT NOT NULL,
  scope TEXT NOT NULL,
  field TEXT NOT NULL,
  value TEXT NOT NULL,
  name  TEXT NOT NULL,
  id    INTEGER NOT NULL REFERENCES resources (id) ON DELETE CASCADE,
  PRIMARY KEY (kind, scope, field, value, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX lists_id ON lists (id);

CREATE TABLE events (
  revision INTEGER NOT NULL,
  ordinal  INTEGER NOT NULL,
  kind     TEXT NOT NULL,
  scope    TEXT NOT NULL,
  name     TEXT NOT NULL,
  op       TEXT NOT NULL,
  PRIMARY KEY (revision, ordinal)
) STRICT, WITHOUT ROWID;
