-- What was changed and by whom, for people and for audits.
CREATE TABLE changes (
  number     INTEGER PRIMARY KEY, -- without gaps, from 1
  previous   INTEGER NOT NULL, -- the newest revision before the commit
  revision   INTEGER NOT NULL,
  time       INTEGER NOT NULL, -- microseconds of Unix time
  actor_kind TEXT NOT NULL,
  actor      TEXT NOT NULL,
  origin     TEXT NOT NULL,
  op         TEXT NOT NULL,
  kind       TEXT NOT NULL,
  scoping    INTEGER NOT NULL,
  scope      TEXT NOT NULL,
  name       TEXT NOT NULL,
  sealed     INTEGER NOT NULL, -- 1: detail is encrypted
  detail     BLOB NOT NULL
) STRICT;

CREATE INDEX changes_previous ON changes (previous);
-- Each is in the order of numbers for one value; the last one counts.
CREATE INDEX changes_kind ON changes (kind);
CREATE INDEX changes_scope ON changes (scope);
CREATE INDEX changes_actor ON changes (actor);
CREATE INDEX changes_kind_scope ON changes (kind, scope);

-- Nothing was recorded up to here.
INSERT INTO meta (name, value) SELECT 'changes_since', value FROM meta WHERE name = 'revision';
