-- Durations are nanoseconds. NULL is what is not there or not known; a text that
-- is not there is ''. Texts are compared by their bytes, so that lists have one
-- order whatever the database's locale is.

CREATE TABLE schema_version (
  version integer NOT NULL,
  program text NOT NULL -- always 'llmgw': the schema is ours
);
INSERT INTO schema_version VALUES (1, 'llmgw');

CREATE TABLE keys (
  id            text COLLATE "C" PRIMARY KEY,
  hash          bytea NOT NULL UNIQUE,
  hint          text COLLATE "C" NOT NULL,
  name          text COLLATE "C" NOT NULL,
  owner         text COLLATE "C" NOT NULL,
  models        text COLLATE "C", -- JSON; NULL is every model
  band          text COLLATE "C" NOT NULL,
  rpm           bigint,
  tpm           bigint,
  concurrency   bigint,
  budget_nanos  bigint,
  budget_period text COLLATE "C",
  budget_zone   text COLLATE "C",
  tags          text COLLATE "C", -- JSON
  created_at    timestamptz NOT NULL,
  expires_at    timestamptz,
  revoked_at    timestamptz,
  replaces      text COLLATE "C" NOT NULL,
  revision      bigint NOT NULL
);
CREATE INDEX keys_by_time ON keys (created_at, id);
CREATE INDEX keys_by_owner ON keys (owner, created_at, id);

CREATE TABLE usage (
  seq            bigint NOT NULL GENERATED ALWAYS AS IDENTITY, -- in which order rows of one time are listed
  request_id     text COLLATE "C" PRIMARY KEY,
  key_id         text COLLATE "C" NOT NULL,
  owner          text COLLATE "C" NOT NULL,
  asked          text COLLATE "C" NOT NULL,
  model          text COLLATE "C" NOT NULL,
  endpoint       text COLLATE "C" NOT NULL,
  provider       text COLLATE "C" NOT NULL,
  path           text COLLATE "C" NOT NULL,
  router         text COLLATE "C" NOT NULL,
  stream         boolean NOT NULL,
  at             timestamptz NOT NULL,
  latency_ns     bigint NOT NULL,
  ttft_ns        bigint,
  status         integer NOT NULL,
  result         text COLLATE "C" NOT NULL,
  code           text COLLATE "C" NOT NULL,
  retries        integer NOT NULL,
  input          bigint,
  cached_input   bigint,
  output         bigint,
  reasoning      bigint,
  source         text COLLATE "C" NOT NULL,
  cost_nanos     bigint,
  charged_key    text COLLATE "C",
  charged_period text COLLATE "C",
  charged_start  timestamptz
);
ALTER TABLE usage SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX usage_by_time ON usage (at, seq);
CREATE INDEX usage_by_key ON usage (key_id, at, seq);

CREATE TABLE usage_hours (
  start        timestamptz NOT NULL,
  key_id       text COLLATE "C" NOT NULL,
  owner        text COLLATE "C" NOT NULL,
  model        text COLLATE "C" NOT NULL,
  requests     bigint NOT NULL,
  failed       bigint NOT NULL,
  input        bigint NOT NULL,
  cached_input bigint NOT NULL,
  output       bigint NOT NULL,
  reasoning    bigint NOT NULL,
  cost_nanos   bigint NOT NULL,
  PRIMARY KEY (start, key_id, owner, model)
) WITH (fillfactor = 70); -- updated in place
CREATE INDEX usage_hours_by_key ON usage_hours (key_id, start);

CREATE TABLE usage_days (
  start        timestamptz NOT NULL,
  key_id       text COLLATE "C" NOT NULL,
  owner        text COLLATE "C" NOT NULL,
  model        text COLLATE "C" NOT NULL,
  requests     bigint NOT NULL,
  failed       bigint NOT NULL,
  input        bigint NOT NULL,
  cached_input bigint NOT NULL,
  output       bigint NOT NULL,
  reasoning    bigint NOT NULL,
  cost_nanos   bigint NOT NULL,
  PRIMARY KEY (start, key_id, owner, model)
) WITH (fillfactor = 70); -- updated in place
CREATE INDEX usage_days_by_key ON usage_days (key_id, start);

CREATE TABLE budgets (
  key_id  text COLLATE "C" NOT NULL,
  period  text COLLATE "C" NOT NULL,
  start   timestamptz NOT NULL, -- of the year 1 for a total
  granted bigint NOT NULL CHECK (granted >= 0),
  settled bigint NOT NULL CHECK (settled >= 0), -- what of granted belongs to grants that were given back
  spent   bigint NOT NULL,
  PRIMARY KEY (key_id, period, start)
) WITH (fillfactor = 70);

CREATE TABLE grants (
  id          text COLLATE "C" PRIMARY KEY,
  key_id      text COLLATE "C" NOT NULL,
  period      text COLLATE "C" NOT NULL,
  start       timestamptz NOT NULL,
  router      text COLLATE "C" NOT NULL,
  nanos       bigint NOT NULL,
  at          timestamptz NOT NULL,
  returned_at timestamptz,
  FOREIGN KEY (key_id, period, start) REFERENCES budgets
);
CREATE INDEX grants_by_budget ON grants (key_id, period, start, at, id);
CREATE INDEX grants_returned ON grants (returned_at) WHERE returned_at IS NOT NULL;

CREATE TABLE routers (
  id         text COLLATE "C" PRIMARY KEY,
  renewed_at timestamptz NOT NULL
);

CREATE TABLE audit (
  id         text COLLATE "C" PRIMARY KEY,
  at         timestamptz NOT NULL,
  actor      text COLLATE "C" NOT NULL,
  action     text COLLATE "C" NOT NULL,
  target     text COLLATE "C" NOT NULL,
  before     text COLLATE "C", -- JSON
  after      text COLLATE "C", -- JSON
  request_id text COLLATE "C" NOT NULL
);
CREATE INDEX audit_by_time ON audit (at, id);
CREATE INDEX audit_by_target ON audit (target, at, id);

-- Up to when something was forgotten: sums after that can be checked.
CREATE TABLE marks (
  name text COLLATE "C" PRIMARY KEY, -- rows, hours, days, budgets
  at   timestamptz NOT NULL
);
