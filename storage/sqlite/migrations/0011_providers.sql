-- Addresses at which somebody else runs an engine.
CREATE TABLE providers (
  id              TEXT PRIMARY KEY,
  name            TEXT NOT NULL UNIQUE,
  base_url        TEXT NOT NULL UNIQUE,
  kind            TEXT NOT NULL,
  vendor          TEXT NOT NULL,
  node            TEXT NOT NULL,
  engine          TEXT NOT NULL,
  principal       TEXT NOT NULL,
  credential      BLOB, -- sealed
  credential_key  TEXT NOT NULL, -- which key seals it
  degraded_at     INTEGER,
  degraded_reason TEXT NOT NULL,
  models          TEXT, -- JSON
  created_at      INTEGER NOT NULL,
  changed_at      INTEGER NOT NULL,
  revision        INTEGER NOT NULL
) STRICT;
