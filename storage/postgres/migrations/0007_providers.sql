-- Addresses at which somebody else runs an engine.
CREATE TABLE providers (
  id              text COLLATE "C" PRIMARY KEY,
  name            text COLLATE "C" NOT NULL UNIQUE,
  base_url        text COLLATE "C" NOT NULL UNIQUE,
  kind            text COLLATE "C" NOT NULL,
  vendor          text COLLATE "C" NOT NULL,
  node            text COLLATE "C" NOT NULL,
  engine          text COLLATE "C" NOT NULL,
  principal       text COLLATE "C" NOT NULL,
  credential      bytea, -- sealed
  credential_key  text COLLATE "C" NOT NULL, -- which key seals it
  degraded_at     timestamptz,
  degraded_reason text COLLATE "C" NOT NULL,
  models          text COLLATE "C", -- JSON
  created_at      timestamptz NOT NULL,
  changed_at      timestamptz NOT NULL,
  revision        bigint NOT NULL
);
