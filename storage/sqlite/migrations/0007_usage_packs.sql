-- Usage rows stand many to a pack, which costs a fifth to write of what as many rows
-- do. What is in usage_rows is moved by the program between this step and the next.
CREATE TABLE usage_packs (
  seq   INTEGER PRIMARY KEY,
  first INTEGER NOT NULL, -- when the earliest of its rows came
  last  INTEGER NOT NULL, -- and the latest, in the same minute
  rows  BLOB NOT NULL
) STRICT;
CREATE INDEX usage_packs_by_time ON usage_packs (first);
-- The identities of rows that this program made: those of a second (1024 ms) by their
-- own clock stand together, sorted, 12 bytes each.
CREATE TABLE usage_ids (
  bucket INTEGER PRIMARY KEY,
  ids    BLOB NOT NULL
) STRICT;
-- Other identities.
CREATE TABLE usage_other_ids (
  id TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
