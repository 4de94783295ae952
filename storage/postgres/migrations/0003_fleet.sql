-- Who leads the cluster, the machines of the fleet, what operators want of them,
-- and what was ordered to run on them.
CREATE TABLE term (
  one      integer PRIMARY KEY CHECK (one = 1), -- there is one row at most
  cluster  text COLLATE "C" NOT NULL,
  number   bigint NOT NULL,
  holder   text COLLATE "C" NOT NULL,
  begun_at timestamptz NOT NULL
);

CREATE TABLE nodes (
  id            text COLLATE "C" PRIMARY KEY,
  instance      text COLLATE "C" NOT NULL,
  address       text COLLATE "C" NOT NULL,
  agent_version text COLLATE "C" NOT NULL,
  boot          text COLLATE "C" NOT NULL,
  labels        text COLLATE "C", -- JSON
  registration     text COLLATE "C", -- JSON
  first_seen    timestamptz NOT NULL,
  last_seen     timestamptz NOT NULL
);
CREATE INDEX nodes_by_time ON nodes (first_seen, id);

CREATE TABLE cordons (
  node   text COLLATE "C" PRIMARY KEY,
  target text COLLATE "C" NOT NULL,
  reason text COLLATE "C" NOT NULL,
  at     timestamptz NOT NULL
);

CREATE TABLE replicas (
  id         text COLLATE "C" PRIMARY KEY,
  model      text COLLATE "C" NOT NULL,
  command    text COLLATE "C" NOT NULL,
  generation bigint NOT NULL,
  state      text COLLATE "C" NOT NULL,
  reason     text COLLATE "C" NOT NULL,
  shards     text COLLATE "C" NOT NULL, -- JSON
  created_at timestamptz NOT NULL,
  changed_at timestamptz NOT NULL
);
CREATE INDEX replicas_by_time ON replicas (created_at, id);
CREATE INDEX replicas_by_model ON replicas (model, created_at, id);
