-- People who sign in on the pages, their browsers, and the links that they are sent.
CREATE TABLE accounts (
  id           text COLLATE "C" PRIMARY KEY,
  address      text COLLATE "C" NOT NULL UNIQUE,
  password     text COLLATE "C" NOT NULL, -- its hash
  state        text COLLATE "C" NOT NULL,
  admin        boolean NOT NULL,
  allowance    text COLLATE "C" NOT NULL, -- JSON
  created_at   timestamptz NOT NULL,
  approved_at  timestamptz,
  signed_in_at timestamptz,
  revision     bigint NOT NULL
);
CREATE INDEX accounts_by_state ON accounts (state, address);

CREATE TABLE sessions (
  id         text COLLATE "C" PRIMARY KEY,
  hash       bytea NOT NULL UNIQUE,
  form       bytea NOT NULL,
  account    text COLLATE "C" NOT NULL REFERENCES accounts ON DELETE CASCADE,
  agent      text COLLATE "C" NOT NULL,
  came_from  text COLLATE "C" NOT NULL,
  created_at timestamptz NOT NULL,
  seen_at    timestamptz NOT NULL,
  expires_at timestamptz NOT NULL
);
CREATE INDEX sessions_by_account ON sessions (account, created_at, id);
CREATE INDEX sessions_by_end ON sessions (expires_at);
CREATE INDEX sessions_by_use ON sessions (seen_at);

CREATE TABLE links (
  id         text COLLATE "C" PRIMARY KEY,
  hash       bytea NOT NULL UNIQUE,
  kind       text COLLATE "C" NOT NULL,
  spec       text COLLATE "C", -- JSON: the key that it makes
  account    text COLLATE "C" REFERENCES accounts ON DELETE CASCADE, -- whose password it sets
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  used_at    timestamptz,
  key_id     text COLLATE "C" NOT NULL -- that it made
);
CREATE INDEX links_by_account ON links (account) WHERE account IS NOT NULL;
CREATE INDEX links_by_end ON links (expires_at);

-- What was tried to sign in, by addresses that share a bucket.
CREATE TABLE attempts (
  bucket bigint PRIMARY KEY,
  count  bigint NOT NULL,
  last   timestamptz NOT NULL
);
CREATE INDEX attempts_by_time ON attempts (last);

-- NULL is an operator's.
ALTER TABLE keys ADD COLUMN account text COLLATE "C" REFERENCES accounts;
CREATE INDEX keys_by_account ON keys (account, created_at, id) WHERE account IS NOT NULL;
-- What is asked by lineage is asked for all keys of an account.
CREATE INDEX keys_by_lineage ON keys (lineage);
