-- People who sign in on the pages, their browsers, and the links that they are sent.
CREATE TABLE accounts (
  id           TEXT PRIMARY KEY,
  address      TEXT NOT NULL UNIQUE,
  password     TEXT NOT NULL, -- its hash
  state        TEXT NOT NULL,
  admin        INTEGER NOT NULL,
  allowance    TEXT NOT NULL, -- JSON
  created_at   INTEGER NOT NULL,
  approved_at  INTEGER,
  signed_in_at INTEGER,
  revision     INTEGER NOT NULL
) STRICT;
CREATE INDEX accounts_by_state ON accounts (state, address);

CREATE TABLE sessions (
  id         TEXT PRIMARY KEY,
  hash       BLOB NOT NULL UNIQUE,
  form       BLOB NOT NULL,
  account    TEXT NOT NULL REFERENCES accounts ON DELETE CASCADE,
  agent      TEXT NOT NULL,
  came_from  TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  seen_at    INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_by_account ON sessions (account, created_at, id);
CREATE INDEX sessions_by_end ON sessions (expires_at);
CREATE INDEX sessions_by_use ON sessions (seen_at);

CREATE TABLE links (
  id         TEXT PRIMARY KEY,
  hash       BLOB NOT NULL UNIQUE,
  kind       TEXT NOT NULL,
  spec       TEXT, -- JSON: the key that it makes
  account    TEXT REFERENCES accounts ON DELETE CASCADE, -- whose password it sets
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  used_at    INTEGER,
  key_id     TEXT NOT NULL -- that it made
) STRICT;
CREATE INDEX links_by_account ON links (account) WHERE account IS NOT NULL;
CREATE INDEX links_by_end ON links (expires_at);

-- What was tried to sign in, by addresses that share a bucket.
CREATE TABLE attempts (
  bucket INTEGER PRIMARY KEY,
  count  INTEGER NOT NULL,
  last   INTEGER NOT NULL
) STRICT;
CREATE INDEX attempts_by_time ON attempts (last);

-- NULL is an operator's.
ALTER TABLE keys ADD COLUMN account TEXT REFERENCES accounts;
CREATE INDEX keys_by_account ON keys (account, created_at, id) WHERE account IS NOT NULL;
-- What is asked by lineage is asked for all keys of an account.
CREATE INDEX keys_by_lineage ON keys (lineage);
