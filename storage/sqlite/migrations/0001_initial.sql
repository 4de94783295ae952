-- Times are microseconds since 1970, durations nanoseconds. NULL is what is not
-- there or not known; a text that is not there is ''.

CREATE TABLE keys (
  id            TEXT PRIMARY KEY,
  hash          BLOB NOT NULL UNIQUE,
  hint          TEXT NOT NULL,
  name          TEXT NOT NULL,
  owner         TEXT NOT NULL,
  models        TEXT, -- JSON; NULL is every model
  band          TEXT NOT NULL,
  rpm           INTEGER,
  tpm           INTEGER,
  concurrency   INTEGER,
  budget_nanos  INTEGER,
  budget_period TEXT,
  budget_zone   TEXT,
  tags          TEXT, -- JSON
  created_at    INTEGER NOT NULL,
  expires_at    INTEGER,
  revoked_at    INTEGER,
  replaces      TEXT NOT NULL,
  revision      INTEGER NOT NULL
) STRICT;
CREATE INDEX keys_by_time ON keys (created_at, id);
CREATE INDEX keys_by_owner ON keys (owner, created_at, id);

CREATE TABLE usage (
  seq            INTEGER PRIMARY KEY, -- in which order rows of one time are listed
  request_id     TEXT NOT NULL UNIQUE,
  key_id         TEXT NOT NULL,
  owner          TEXT NOT NULL,
  asked          TEXT NOT NULL,
  model          TEXT NOT NULL,
  endpoint       TEXT NOT NULL,
  provider       TEXT NOT NULL,
  path           TEXT NOT NULL,
  router         TEXT NOT NULL,
  stream         INTEGER NOT NULL,
  at             INTEGER NOT NULL,
  latency_ns     INTEGER NOT NULL,
  ttft_ns        INTEGER,
  status         INTEGER NOT NULL,
  result         TEXT NOT NULL,
  code           TEXT NOT NULL,
  retries        INTEGER NOT NULL,
  input          INTEGER,
  cached_input   INTEGER,
  output         INTEGER,
  reasoning      INTEGER,
  source         TEXT NOT NULL,
  cost_nanos     INTEGER,
  charged_key    TEXT,
  charged_period TEXT,
  charged_start  INTEGER
) STRICT;
CREATE INDEX usage_by_time ON usage (at, seq);
CREATE INDEX usage_by_key ON usage (key_id, at, seq);

CREATE TABLE usage_hours (
  start        INTEGER NOT NULL,
  key_id       TEXT NOT NULL,
  owner        TEXT NOT NULL,
  model        TEXT NOT NULL,
  requests     INTEGER NOT NULL,
  failed       INTEGER NOT NULL,
  input        INTEGER NOT NULL,
  cached_input INTEGER NOT NULL,
  output       INTEGER NOT NULL,
  reasoning    INTEGER NOT NULL,
  cost_nanos   INTEGER NOT NULL,
  PRIMARY KEY (start, key_id, owner, model)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_hours_by_key ON usage_hours (key_id, start);

CREATE TABLE usage_days (
  start        INTEGER NOT NULL,
  key_id       TEXT NOT NULL,
  owner        TEXT NOT NULL,
  model        TEXT NOT NULL,
  requests     INTEGER NOT NULL,
  failed       INTEGER NOT NULL,
  input        INTEGER NOT NULL,
  cached_input INTEGER NOT NULL,
  output       INTEGER NOT NULL,
  reasoning    INTEGER NOT NULL,
  cost_nanos   INTEGER NOT NULL,
  PRIMARY KEY (start, key_id, owner, model)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_days_by_key ON usage_days (key_id, start);

CREATE TABLE budgets (
  key_id  TEXT NOT NULL,
  period  TEXT NOT NULL,
  start   INTEGER NOT NULL, -- of the year 1 for a total
  granted INTEGER NOT NULL CHECK (granted >= 0),
  settled INTEGER NOT NULL CHECK (settled >= 0), -- what of granted belongs to grants that were given back
  spent   INTEGER NOT NULL,
  PRIMARY KEY (key_id, period, start)
) STRICT, WITHOUT ROWID;

CREATE TABLE grants (
  id          TEXT PRIMARY KEY,
  key_id      TEXT NOT NULL,
  period      TEXT NOT NULL,
  start       INTEGER NOT NULL,
  router      TEXT NOT NULL,
  nanos       INTEGER NOT NULL,
  at          INTEGER NOT NULL,
  returned_at INTEGER,
  FOREIGN KEY (key_id, period, start) REFERENCES budgets
) STRICT, WITHOUT ROWID;
CREATE INDEX grants_by_budget ON grants (key_id, period, start, at, id);
CREATE INDEX grants_returned ON grants (returned_at) WHERE returned_at IS NOT NULL;

CREATE TABLE routers (
  id         TEXT PRIMARY KEY,
  renewed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
  id         TEXT PRIMARY KEY,
  at         INTEGER NOT NULL,
  actor      TEXT NOT NULL,
  action     TEXT NOT NULL,
  target     TEXT NOT NULL,
  before     TEXT, -- JSON
  after      TEXT, -- JSON
  request_id TEXT NOT NULL
) STRICT;
CREATE INDEX audit_by_time ON audit (at, id);
CREATE INDEX audit_by_target ON audit (target, at, id);

-- Up to when something was forgotten: sums after that can be checked.
CREATE TABLE marks (
  name TEXT PRIMARY KEY, -- rows, hours, days, budgets
  at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
