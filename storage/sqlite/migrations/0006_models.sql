-- Models that were added while a server ran.
CREATE TABLE models (
  name       TEXT PRIMARY KEY,
  definition TEXT NOT NULL,
  actor      TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL,
  revision   INTEGER NOT NULL
) STRICT;
