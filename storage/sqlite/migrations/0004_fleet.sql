-- Who leads the cluster, the machines of the fleet, what operators want of them,
-- and what was ordered to run on them.
CREATE TABLE term (
  one      INTEGER PRIMARY KEY CHECK (one = 1), -- there is one row at most
  cluster  TEXT NOT NULL,
  number   INTEGER NOT NULL,
  holder   TEXT NOT NULL,
  begun_at INTEGER NOT NULL
) STRICT;

CREATE TABLE nodes (
  id            TEXT PRIMARY KEY,
  instance      TEXT NOT NULL,
  address       TEXT NOT NULL,
  agent_version TEXT NOT NULL,
  boot          TEXT NOT NULL,
  labels        TEXT, -- JSON
  registration     TEXT, -- JSON
  first_seen    INTEGER NOT NULL,
  last_seen     INTEGER NOT NULL
) STRICT;
CREATE INDEX nodes_by_time ON nodes (first_seen, id);

CREATE TABLE cordons (
  node   TEXT PRIMARY KEY,
  target TEXT NOT NULL,
  reason TEXT NOT NULL,
  at     INTEGER NOT NULL
) STRICT;

CREATE TABLE replicas (
  id         TEXT PRIMARY KEY,
  model      TEXT NOT NULL,
  command    TEXT NOT NULL,
  generation INTEGER NOT NULL,
  state      TEXT NOT NULL,
  reason     TEXT NOT NULL,
  shards     TEXT NOT NULL, -- JSON
  created_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL
) STRICT;
CREATE INDEX replicas_by_time ON replicas (created_at, id);
CREATE INDEX replicas_by_model ON replicas (model, created_at, id);
