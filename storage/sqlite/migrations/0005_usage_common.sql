-- What many rows of usage have in common stands once a day: who called, and what
-- became of it. It goes when the rows of its day are gone.
CREATE TABLE usage_common (
  id   INTEGER PRIMARY KEY,
  day  INTEGER NOT NULL, -- of UTC, since 1970
  text TEXT NOT NULL, -- JSON, in the order of the view: of a caller, or of a kind
  UNIQUE (day, text)
) STRICT;
DROP VIEW usage;
ALTER TABLE usage_rows RENAME TO old_rows;
CREATE VIEW old AS SELECT seq, request_id, at, at / 86400000000 AS day,
  json_array(key_id, rest ->> 0, rest ->> 20, rest ->> 21, rest ->> 22) AS caller,
  json_array(rest ->> 1, rest ->> 2, rest ->> 3, rest ->> 4, rest ->> 5, rest ->> 6, rest ->> 7, rest ->> 10, rest ->> 11, rest ->> 12,
    rest ->> 13, rest ->> 18) AS kind,
  json_array(rest ->> 8, rest ->> 9, rest ->> 14, rest ->> 15, rest ->> 16, rest ->> 17, rest ->> 19) AS rest
FROM old_rows;
INSERT INTO usage_common (day, text) SELECT day, caller FROM old UNION SELECT day, kind FROM old;
CREATE TABLE usage_rows (
  seq        INTEGER PRIMARY KEY, -- in which order rows of one time are listed
  request_id ANY NOT NULL UNIQUE, -- the 16 bytes of an ID that this program made; the text of another
  at         INTEGER NOT NULL,
  caller     INTEGER NOT NULL, -- in usage_common, as the next
  kind       INTEGER NOT NULL,
  rest       TEXT NOT NULL -- JSON, in the order of the view
) STRICT;
INSERT INTO usage_rows SELECT seq, iif(length(request_id) = 36 AND request_id GLOB 'req_*' AND substr(request_id, 5) NOT GLOB '*[^0-9a-f]*',
    unhex(substr(request_id, 5)), request_id), at,
  (SELECT id FROM usage_common c WHERE c.day = old.day AND c.text = old.caller),
  (SELECT id FROM usage_common c WHERE c.day = old.day AND c.text = old.kind), rest
FROM old ORDER BY seq;
DROP VIEW old;
DROP TABLE old_rows;
-- Rows of a key are found by the hours in which usage_hours has it, and in an hour
-- without a look at rows of others.
CREATE INDEX usage_rows_by_time ON usage_rows (at, caller);
-- CROSS JOIN: rows come first, in the order of time.
CREATE VIEW usage AS SELECT r.seq AS seq,
  iif(typeof(r.request_id) = 'blob', 'req_' || lower(hex(r.request_id)), r.request_id) AS request_id,
  r.at AS at,
  c.text ->> 0 AS key_id,
  c.text ->> 1 AS owner,
  coalesce(k.text ->> 0, k.text ->> 1) AS asked,
  k.text ->> 1 AS model,
  k.text ->> 2 AS endpoint,
  k.text ->> 3 AS provider,
  k.text ->> 4 AS path,
  k.text ->> 5 AS router,
  k.text ->> 6 AS stream,
  r.rest ->> 0 AS latency_ns,
  r.rest ->> 1 AS ttft_ns,
  k.text ->> 7 AS status,
  k.text ->> 8 AS result,
  k.text ->> 9 AS code,
  k.text ->> 10 AS retries,
  r.rest ->> 2 AS input,
  r.rest ->> 3 AS cached_input,
  r.rest ->> 4 AS output,
  r.rest ->> 5 AS reasoning,
  k.text ->> 11 AS source,
  r.rest ->> 6 AS cost_nanos,
  iif(c.text ->> 3 IS NULL, NULL, coalesce(c.text ->> 2, c.text ->> 0)) AS charged_key,
  c.text ->> 3 AS charged_period,
  c.text ->> 4 AS charged_start
FROM usage_rows r CROSS JOIN usage_common c ON c.id = r.caller CROSS JOIN usage_common k ON k.id = r.kind;
