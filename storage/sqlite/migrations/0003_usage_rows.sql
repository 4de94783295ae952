-- A usage row in a compact form: what rows are found by, and the rest as a JSON
-- array, which costs a third to write of what as many columns do. The view shows
-- rows as they were.
CREATE TABLE usage_rows (
  seq        INTEGER PRIMARY KEY, -- in which order rows of one time are listed
  request_id TEXT NOT NULL UNIQUE,
  at         INTEGER NOT NULL,
  key_id     TEXT NOT NULL,
  rest       TEXT NOT NULL -- JSON, in the order of the view; asked and charged_key are null where they are model and key_id
) STRICT;
INSERT INTO usage_rows SELECT seq, request_id, at, key_id, json_array(owner, nullif(asked, model), model, endpoint, provider, path, router, stream,
  latency_ns, ttft_ns, status, result, code, retries, input, cached_input, output, reasoning, source, cost_nanos,
  nullif(charged_key, key_id), charged_period, charged_start) FROM usage ORDER BY seq;
DROP TABLE usage;
-- Rows of a key are found by the hours in which usage_hours has it.
CREATE INDEX usage_rows_by_time ON usage_rows (at, key_id);
CREATE VIEW usage AS SELECT seq, request_id, at, key_id,
  rest ->> 0 AS owner,
  coalesce(rest ->> 1, rest ->> 2) AS asked,
  rest ->> 2 AS model,
  rest ->> 3 AS endpoint,
  rest ->> 4 AS provider,
  rest ->> 5 AS path,
  rest ->> 6 AS router,
  rest ->> 7 AS stream,
  rest ->> 8 AS latency_ns,
  rest ->> 9 AS ttft_ns,
  rest ->> 10 AS status,
  rest ->> 11 AS result,
  rest ->> 12 AS code,
  rest ->> 13 AS retries,
  rest ->> 14 AS input,
  rest ->> 15 AS cached_input,
  rest ->> 16 AS output,
  rest ->> 17 AS reasoning,
  rest ->> 18 AS source,
  rest ->> 19 AS cost_nanos,
  iif(rest ->> 21 IS NULL, NULL, coalesce(rest ->> 20, key_id)) AS charged_key,
  rest ->> 21 AS charged_period,
  rest ->> 22 AS charged_start
FROM usage_rows;
