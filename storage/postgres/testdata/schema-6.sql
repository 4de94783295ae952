-- A database of schema version 6, with some of everything, as version 6 made it.
-- The schema has the name llmgw_fixture.
CREATE SCHEMA llmgw_fixture;
CREATE TABLE llmgw_fixture.accounts (
    id text NOT NULL COLLATE pg_catalog."C",
    address text NOT NULL COLLATE pg_catalog."C",
    password text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL COLLATE pg_catalog."C",
    admin boolean NOT NULL,
    allowance text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL,
    approved_at timestamp with time zone,
    signed_in_at timestamp with time zone,
    revision bigint NOT NULL
);
CREATE TABLE llmgw_fixture.attempts (
    bucket bigint NOT NULL,
    count bigint NOT NULL,
    last timestamp with time zone NOT NULL
);
CREATE TABLE llmgw_fixture.audit (
    id text NOT NULL COLLATE pg_catalog."C",
    at timestamp with time zone NOT NULL,
    actor text NOT NULL COLLATE pg_catalog."C",
    action text NOT NULL COLLATE pg_catalog."C",
    target text NOT NULL COLLATE pg_catalog."C",
    before text COLLATE pg_catalog."C",
    after text COLLATE pg_catalog."C",
    request_id text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE llmgw_fixture.budgets (
    key_id text NOT NULL COLLATE pg_catalog."C",
    period text NOT NULL COLLATE pg_catalog."C",
    start timestamp with time zone NOT NULL,
    granted bigint NOT NULL,
    settled bigint NOT NULL,
    spent bigint NOT NULL,
    CONSTRAINT budgets_granted_check CHECK ((granted >= 0)),
    CONSTRAINT budgets_settled_check CHECK ((settled >= 0))
)
WITH (fillfactor='70');
CREATE TABLE llmgw_fixture.cordons (
    node text NOT NULL COLLATE pg_catalog."C",
    target text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    at timestamp with time zone NOT NULL
);
CREATE TABLE llmgw_fixture.grants (
    id text NOT NULL COLLATE pg_catalog."C",
    key_id text NOT NULL COLLATE pg_catalog."C",
    period text NOT NULL COLLATE pg_catalog."C",
    start timestamp with time zone NOT NULL,
    router text NOT NULL COLLATE pg_catalog."C",
    nanos bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    returned_at timestamp with time zone
);
CREATE TABLE llmgw_fixture.keys (
    id text NOT NULL COLLATE pg_catalog."C",
    hash bytea NOT NULL,
    hint text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL COLLATE pg_catalog."C",
    models text COLLATE pg_catalog."C",
    band text NOT NULL COLLATE pg_catalog."C",
    rpm bigint,
    tpm bigint,
    concurrency bigint,
    budget_nanos bigint,
    budget_period text COLLATE pg_catalog."C",
    budget_zone text COLLATE pg_catalog."C",
    tags text COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    replaces text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    lineage text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    may_explain boolean DEFAULT false NOT NULL,
    account text COLLATE pg_catalog."C"
);
CREATE TABLE llmgw_fixture.links (
    id text NOT NULL COLLATE pg_catalog."C",
    hash bytea NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    spec text COLLATE pg_catalog."C",
    account text COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    used_at timestamp with time zone,
    key_id text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE llmgw_fixture.marks (
    name text NOT NULL COLLATE pg_catalog."C",
    at timestamp with time zone NOT NULL
);
CREATE TABLE llmgw_fixture.models (
    name text NOT NULL COLLATE pg_catalog."C",
    definition text NOT NULL COLLATE pg_catalog."C",
    actor text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    revision bigint NOT NULL
);
CREATE TABLE llmgw_fixture.nodes (
    id text NOT NULL COLLATE pg_catalog."C",
    instance text NOT NULL COLLATE pg_catalog."C",
    address text NOT NULL COLLATE pg_catalog."C",
    agent_version text NOT NULL COLLATE pg_catalog."C",
    boot text NOT NULL COLLATE pg_catalog."C",
    labels text COLLATE pg_catalog."C",
    registration text COLLATE pg_catalog."C",
    first_seen timestamp with time zone NOT NULL,
    last_seen timestamp with time zone NOT NULL
);
CREATE TABLE llmgw_fixture.replicas (
    id text NOT NULL COLLATE pg_catalog."C",
    model text NOT NULL COLLATE pg_catalog."C",
    command text NOT NULL COLLATE pg_catalog."C",
    generation bigint NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    shards text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    detail text COLLATE pg_catalog."C"
);
CREATE TABLE llmgw_fixture.routers (
    id text NOT NULL COLLATE pg_catalog."C",
    renewed_at timestamp with time zone NOT NULL
);
CREATE TABLE llmgw_fixture.schema_version (
    version integer NOT NULL,
    program text NOT NULL
);
CREATE TABLE llmgw_fixture.sessions (
    id text NOT NULL COLLATE pg_catalog."C",
    hash bytea NOT NULL,
    form bytea NOT NULL,
    account text NOT NULL COLLATE pg_catalog."C",
    agent text NOT NULL COLLATE pg_catalog."C",
    came_from text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL
);
CREATE TABLE llmgw_fixture.term (
    one integer NOT NULL,
    cluster text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL,
    holder text NOT NULL COLLATE pg_catalog."C",
    begun_at timestamp with time zone NOT NULL,
    CONSTRAINT term_one_check CHECK ((one = 1))
);
CREATE TABLE llmgw_fixture.usage (
    seq bigint NOT NULL,
    request_id text NOT NULL COLLATE pg_catalog."C",
    key_id text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL COLLATE pg_catalog."C",
    asked text NOT NULL COLLATE pg_catalog."C",
    model text NOT NULL COLLATE pg_catalog."C",
    endpoint text NOT NULL COLLATE pg_catalog."C",
    provider text NOT NULL COLLATE pg_catalog."C",
    path text NOT NULL COLLATE pg_catalog."C",
    router text NOT NULL COLLATE pg_catalog."C",
    stream boolean NOT NULL,
    at timestamp with time zone NOT NULL,
    latency_ns bigint NOT NULL,
    ttft_ns bigint,
    status integer NOT NULL,
    result text NOT NULL COLLATE pg_catalog."C",
    code text NOT NULL COLLATE pg_catalog."C",
    retries integer NOT NULL,
    input bigint,
    cached_input bigint,
    output bigint,
    reasoning bigint,
    source text NOT NULL COLLATE pg_catalog."C",
    cost_nanos bigint,
    charged_key text COLLATE pg_catalog."C",
    charged_period text COLLATE pg_catalog."C",
    charged_start timestamp with time zone
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.02');
CREATE TABLE llmgw_fixture.usage_days (
    start timestamp with time zone NOT NULL,
    key_id text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL COLLATE pg_catalog."C",
    model text NOT NULL COLLATE pg_catalog."C",
    requests bigint NOT NULL,
    failed bigint NOT NULL,
    input bigint NOT NULL,
    cached_input bigint NOT NULL,
    output bigint NOT NULL,
    reasoning bigint NOT NULL,
    cost_nanos bigint NOT NULL
)
WITH (fillfactor='70');
CREATE TABLE llmgw_fixture.usage_hours (
    start timestamp with time zone NOT NULL,
    key_id text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL COLLATE pg_catalog."C",
    model text NOT NULL COLLATE pg_catalog."C",
    requests bigint NOT NULL,
    failed bigint NOT NULL,
    input bigint NOT NULL,
    cached_input bigint NOT NULL,
    output bigint NOT NULL,
    reasoning bigint NOT NULL,
    cost_nanos bigint NOT NULL
)
WITH (fillfactor='70');
ALTER TABLE llmgw_fixture.usage ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME llmgw_fixture.usage_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
INSERT INTO llmgw_fixture.accounts VALUES ('acct-full', 'o''hara+"x"@exämple.org', '$argon2id$other', 'suspended', true, '{"models":["qwen3","llama/*"],"band":"gold","limits":{"requests_per_minute":60,"tokens_per_minute":100000,"concurrency":4},"budget":{"nanos":1500000000,"period":"month","zone":"Europe/Berlin"},"keys":10000}', '2026-03-02 00:00:00.123456+00', '2026-03-02 01:00:00+00', '2026-03-02 02:00:00+00', 1);
INSERT INTO llmgw_fixture.accounts VALUES ('acct-009', 'p009@example.org', '$argon2id$v=19$m=8,t=1,p=1$c2FsdA$aGFzaA', 'pending', false, '{"models":null,"limits":{},"keys":3}', '2026-03-02 00:09:00+00', NULL, NULL, 1);
INSERT INTO llmgw_fixture.accounts VALUES ('acct-002', 'p002@example.org', '$argon2id$v=19$m=8,t=1,p=1$c2FsdA$aGFzaA', 'suspended', false, '{"models":null,"limits":{},"keys":3}', '2026-03-02 00:02:00+00', NULL, NULL, 2);
INSERT INTO llmgw_fixture.accounts VALUES ('acct-001', 'p001@example.org', '$argon2id$v=19$m=8,t=1,p=1$c2FsdA$aGFzaA', 'approved', false, '{"models":null,"limits":{},"keys":3}', '2026-03-02 00:01:00+00', NULL, '2026-03-02 00:00:01+00', 1);
INSERT INTO llmgw_fixture.attempts VALUES (7, 1, '2026-03-02 00:00:00+00');
INSERT INTO llmgw_fixture.audit VALUES ('make full', '2026-03-02 00:00:00+00', 'cli:root@host', 'key.change', 'k', NULL, '{"name":"a<b>"}', '');
INSERT INTO llmgw_fixture.audit VALUES ('key-000', '2026-03-02 00:00:00+00', 'cli:root@host', 'key.change', 'k', NULL, '{"name":"a<b>"}', '');
INSERT INTO llmgw_fixture.audit VALUES ('key-001', '2026-03-02 00:00:00+00', 'cli:root@host', 'key.change', 'k', NULL, '{"name":"a<b>"}', '');
INSERT INTO llmgw_fixture.audit VALUES ('key-002', '2026-03-02 00:00:00+00', 'cli:root@host', 'key.change', 'k', NULL, '{"name":"a<b>"}', '');
INSERT INTO llmgw_fixture.audit VALUES ('rename', '2026-03-02 00:00:00+00', 'cli:root@host', 'key.change', 'k', NULL, '{"name":"a<b>"}', '');
INSERT INTO llmgw_fixture.audit VALUES ('drain', '2026-03-02 00:00:00+00', 'cli:root@host', 'key.change', 'k', NULL, '{"name":"a<b>"}', '');
INSERT INTO llmgw_fixture.audit VALUES ('model-1', '2026-03-02 00:00:00+00', 'cli:root@host', 'key.change', 'k', NULL, '{"name":"a<b>"}', '');
INSERT INTO llmgw_fixture.audit VALUES ('model-2', '2026-03-02 00:00:00+00', 'cli:root@host', 'key.change', 'k', NULL, '{"name":"a<b>"}', '');
INSERT INTO llmgw_fixture.audit VALUES ('model-3', '2026-03-02 00:00:00+00', 'cli:root@host', 'key.change', 'k', NULL, '{"name":"a<b>"}', '');
INSERT INTO llmgw_fixture.audit VALUES ('acct-full', '2026-03-02 00:00:00+00', 'cli:root@host', 'key.change', 'k', NULL, '{"name":"a<b>"}', '');
INSERT INTO llmgw_fixture.audit VALUES ('make acct-001', '2026-03-02 00:00:00+00', 'cli:root@host', 'key.change', 'k', NULL, '{"name":"a<b>"}', '');
INSERT INTO llmgw_fixture.audit VALUES ('make acct-002', '2026-03-02 00:00:00+00', 'cli:root@host', 'key.change', 'k', NULL, '{"name":"a<b>"}', '');
INSERT INTO llmgw_fixture.audit VALUES ('sign up', '2026-03-02 00:00:00+00', 'cli:root@host', 'key.change', 'k', NULL, '{"name":"a<b>"}', '');
INSERT INTO llmgw_fixture.audit VALUES ('suspend', '2026-03-02 00:00:00+00', 'cli:root@host', 'key.change', 'k', NULL, '{"name":"a<b>"}', '');
INSERT INTO llmgw_fixture.audit VALUES ('account key', '2026-03-02 00:00:00+00', 'cli:root@host', 'key.change', 'k', NULL, '{"name":"a<b>"}', '');
INSERT INTO llmgw_fixture.audit VALUES ('link-001', '2026-03-02 00:00:00+00', 'cli:root@host', 'key.change', 'k', NULL, '{"name":"a<b>"}', '');
INSERT INTO llmgw_fixture.audit VALUES ('link-002', '2026-03-02 00:00:00+00', 'cli:root@host', 'key.change', 'k', NULL, '{"name":"a<b>"}', '');
INSERT INTO llmgw_fixture.audit VALUES ('link-003', '2026-03-02 00:00:00+00', 'cli:root@host', 'key.change', 'k', NULL, '{"name":"a<b>"}', '');
INSERT INTO llmgw_fixture.audit VALUES ('open', '2026-03-02 00:00:00+00', 'cli:root@host', 'key.change', 'k', NULL, '{"name":"a<b>"}', '');
INSERT INTO llmgw_fixture.budgets VALUES ('full', 'day', '2026-03-03 00:00:00+00', 0, 0, 6000);
INSERT INTO llmgw_fixture.budgets VALUES ('full', 'day', '2026-03-04 00:00:00+00', 0, 0, 3000);
INSERT INTO llmgw_fixture.budgets VALUES ('full', 'day', '2026-03-02 00:00:00+00', 300, 0, 6000);
INSERT INTO llmgw_fixture.budgets VALUES ('full', 'total', '0001-01-01 00:00:00+00', 500, 200, 15000);
INSERT INTO llmgw_fixture.cordons VALUES ('node-001', 'drained', 'fan', '2026-03-02 00:00:00+00');
INSERT INTO llmgw_fixture.grants VALUES ('g2', 'full', 'day', '2026-03-02 00:00:00+00', 'r1', 300, '2026-03-02 00:00:00+00', NULL);
INSERT INTO llmgw_fixture.grants VALUES ('g3', 'full', 'total', '0001-01-01 00:00:00+00', 'r1', 300, '2026-03-02 00:00:00+00', NULL);
INSERT INTO llmgw_fixture.grants VALUES ('g1', 'full', 'total', '0001-01-01 00:00:00+00', 'r1', 300, '2026-03-02 00:00:00+00', '2026-03-02 00:01:00+00');
INSERT INTO llmgw_fixture.keys VALUES ('full', '\x0100ff0000000000000000000000000000000000000000000000000000000000', 'sk-…abcd', 'näme ''quoted"', 'team;--', '["qwen3","llama/*"]', 'gold', 60, 100000, 4, 1500000000, 'month', 'Europe/Berlin', '{"empty":"","env":"prod"}', '2026-03-02 00:00:00.123456+00', '2026-03-02 01:00:00+00', '2026-03-02 00:30:00+00', 'old', 1, 'oldest', true, NULL);
INSERT INTO llmgw_fixture.keys VALUES ('key-000', '\x686173682d300000000000000000000000000000000000000000000000000000', '', '', 'ada', NULL, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-03-02 00:00:00+00', NULL, NULL, '', 1, 'key-000', false, NULL);
INSERT INTO llmgw_fixture.keys VALUES ('key-002', '\x686173682d320000000000000000000000000000000000000000000000000000', '', '', 'ada', NULL, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-03-02 00:02:00+00', NULL, NULL, '', 1, 'key-002', false, NULL);
INSERT INTO llmgw_fixture.keys VALUES ('key-001', '\x686173682d310000000000000000000000000000000000000000000000000000', '', 'renamed', 'ada', NULL, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-03-02 00:01:00+00', NULL, NULL, '', 2, 'key-001', false, NULL);
INSERT INTO llmgw_fixture.keys VALUES ('acct-001/001', '\x616363742d3030312f3030310000000000000000000000000000000000000000', '', '', 'ada', NULL, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-03-02 00:01:00+00', NULL, NULL, '', 1, 'acct-001', false, 'acct-001');
INSERT INTO llmgw_fixture.keys VALUES ('key-050', '\x686173682d353000000000000000000000000000000000000000000000000000', '', '', 'ada', NULL, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-03-02 00:50:00+00', NULL, NULL, '', 1, 'key-050', false, NULL);
INSERT INTO llmgw_fixture.links VALUES ('link-001', '\x6c696e6b20310000000000000000000000000000000000000000000000000000', 'key', '{"owner":"<ada & bob>","n":[1,2]}', NULL, '2026-03-02 00:00:00+00', '2026-03-02 01:00:00+00', NULL, '');
INSERT INTO llmgw_fixture.links VALUES ('link-003', '\x6c696e6b20330000000000000000000000000000000000000000000000000000', 'reset', NULL, 'acct-001', '2026-03-02 00:00:00+00', '2026-03-02 01:00:00+00', NULL, '');
INSERT INTO llmgw_fixture.links VALUES ('link-002', '\x6c696e6b20320000000000000000000000000000000000000000000000000000', 'key', '{"owner":"<ada & bob>","n":[1,2]}', NULL, '2026-03-02 00:00:00+00', '2026-03-02 01:00:00+00', '2026-03-02 00:00:00+00', 'key-050');
INSERT INTO llmgw_fixture.marks VALUES ('rows', '2026-03-02 05:00:00+00');
INSERT INTO llmgw_fixture.marks VALUES ('hours', '2026-03-02 03:00:00+00');
INSERT INTO llmgw_fixture.models VALUES ('qwen/72b ''ä''', 'name: other
', 'cli:root@host', '2026-03-02 00:00:00.123456+00', '2026-03-02 01:00:00+00', 2);
INSERT INTO llmgw_fixture.models VALUES ('model-001', 'name: x
', '', '2026-03-02 00:01:00+00', '2026-03-02 00:01:00+00', 1);
INSERT INTO llmgw_fixture.nodes VALUES ('gpu07.rack-3', 'i-1', '10.0.0.7', 'v1.2.3', '0b5e0f1c-2f62-4b7e-9d0e-0c2d6f0f4a11', '{"zone":"ä b"}', '{"gpus":[{"uuid":"GPU-1","memory_bytes":85899345920}]}', '2026-03-02 00:00:00+00', '2026-03-02 00:00:00.123456+00');
INSERT INTO llmgw_fixture.nodes VALUES ('node-001', '', '', '', '', NULL, NULL, '2026-03-02 00:01:00+00', '2026-03-02 01:00:00+00');
INSERT INTO llmgw_fixture.replicas VALUES ('llama-1', 'llama/70b', 'abc', 4611686018427387904, 'starting', 'näme ''quoted"', '[{"node":"node-001","cards":["GPU-1","GPU-2"],"ports":{"http":20000,"rendezvous":20010}},{"node":"node-002","cards":["GPU-9","GPU-0"]}]', '2026-03-02 00:00:00+00', '2026-03-02 00:00:01+00', '{"profile":{"engine":"vllm"},"fabric":"ä b"}');
INSERT INTO llmgw_fixture.replicas VALUES ('r-001', 'm1', '', 1, 'placed', '', '[{"node":"node-001"}]', '2026-03-02 00:01:00+00', '2026-03-02 01:00:00+00', NULL);
INSERT INTO llmgw_fixture.routers VALUES ('r1', '2026-12-01 12:14:58.616649+00');
INSERT INTO llmgw_fixture.schema_version VALUES (6, 'llmgw');
INSERT INTO llmgw_fixture.sessions VALUES ('sess-001', '\x73657373696f6e20310000000000000000000000000000000000000000000000', '\x666f726d20310000000000000000000000000000000000000000000000000000', 'acct-001', 'Mözilla "5"', '192.0.2.1', '2026-03-02 00:00:01+00', '2026-03-02 00:00:01+00', '2026-03-02 08:00:01+00');
INSERT INTO llmgw_fixture.term VALUES (1, 'c-1', 1, 'cp-1', '2026-03-02 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (6, 'req-00005', 'k', 'ada', 'näme <&>', 'm2', '', '', '/v1/chat/completions', '', false, '2026-03-02 05:00:00+00', 1000000000, 1000000, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'day', '2026-03-02 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (7, 'req-00006', 'k', 'ada', 'näme <&>', 'm0', '', '', '/v1/chat/completions', '', false, '2026-03-02 06:00:00+00', 1000000000, NULL, 0, 'ok', '', 0, NULL, NULL, NULL, NULL, 'none', NULL, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (8, 'req-00007', 'k', 'ada', 'näme <&>', 'm1', '', '', '/v1/chat/completions', '', false, '2026-03-02 07:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (9, 'req-00008', 'k', 'ada', 'näme <&>', 'm2', '', '', '/v1/chat/completions', '', false, '2026-03-02 08:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'total', '0001-01-01 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (10, 'req-00009', 'k', 'ada', 'näme <&>', 'm0', '', '', '/v1/chat/completions', '', false, '2026-03-02 09:00:00+00', 1000000000, 1000000, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'day', '2026-03-02 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (11, 'req-00010', 'k', 'ada', 'näme <&>', 'm1', '', '', '/v1/chat/completions', '', false, '2026-03-02 10:00:00+00', 1000000000, NULL, 0, 'ok', '', 0, NULL, NULL, NULL, NULL, 'none', NULL, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (12, 'req-00011', 'k', 'ada', 'näme <&>', 'm2', '', '', '/v1/chat/completions', '', false, '2026-03-02 11:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (13, 'req-00012', 'k', 'ada', 'näme <&>', 'm0', '', '', '/v1/chat/completions', '', false, '2026-03-02 12:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'total', '0001-01-01 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (14, 'req-00013', 'k', 'ada', 'näme <&>', 'm1', '', '', '/v1/chat/completions', '', false, '2026-03-02 13:00:00+00', 1000000000, 1000000, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'day', '2026-03-02 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (15, 'req-00014', 'k', 'ada', 'näme <&>', 'm2', '', '', '/v1/chat/completions', '', false, '2026-03-02 14:00:00+00', 1000000000, NULL, 0, 'ok', '', 0, NULL, NULL, NULL, NULL, 'none', NULL, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (16, 'req-00015', 'k', 'ada', 'näme <&>', 'm0', '', '', '/v1/chat/completions', '', false, '2026-03-02 15:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (17, 'req-00016', 'k', 'ada', 'näme <&>', 'm1', '', '', '/v1/chat/completions', '', false, '2026-03-02 16:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'total', '0001-01-01 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (18, 'req-00017', 'k', 'ada', 'näme <&>', 'm2', '', '', '/v1/chat/completions', '', false, '2026-03-02 17:00:00+00', 1000000000, 1000000, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'day', '2026-03-02 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (19, 'req-00018', 'k', 'ada', 'näme <&>', 'm0', '', '', '/v1/chat/completions', '', false, '2026-03-02 18:00:00+00', 1000000000, NULL, 0, 'ok', '', 0, NULL, NULL, NULL, NULL, 'none', NULL, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (20, 'req-00019', 'k', 'ada', 'näme <&>', 'm1', '', '', '/v1/chat/completions', '', false, '2026-03-02 19:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (21, 'req-00020', 'k', 'ada', 'näme <&>', 'm2', '', '', '/v1/chat/completions', '', false, '2026-03-02 20:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'total', '0001-01-01 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (22, 'req-00021', 'k', 'ada', 'näme <&>', 'm0', '', '', '/v1/chat/completions', '', false, '2026-03-02 21:00:00+00', 1000000000, 1000000, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'day', '2026-03-02 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (23, 'req-00022', 'k', 'ada', 'näme <&>', 'm1', '', '', '/v1/chat/completions', '', false, '2026-03-02 22:00:00+00', 1000000000, NULL, 0, 'ok', '', 0, NULL, NULL, NULL, NULL, 'none', NULL, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (24, 'req-00023', 'k', 'ada', 'näme <&>', 'm2', '', '', '/v1/chat/completions', '', false, '2026-03-02 23:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (25, 'req-00024', 'k', 'ada', 'näme <&>', 'm0', '', '', '/v1/chat/completions', '', false, '2026-03-03 00:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'total', '0001-01-01 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (26, 'req-00025', 'k', 'ada', 'näme <&>', 'm1', '', '', '/v1/chat/completions', '', false, '2026-03-03 01:00:00+00', 1000000000, 1000000, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'day', '2026-03-03 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (27, 'req-00026', 'k', 'ada', 'näme <&>', 'm2', '', '', '/v1/chat/completions', '', false, '2026-03-03 02:00:00+00', 1000000000, NULL, 0, 'ok', '', 0, NULL, NULL, NULL, NULL, 'none', NULL, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (28, 'req-00027', 'k', 'ada', 'näme <&>', 'm0', '', '', '/v1/chat/completions', '', false, '2026-03-03 03:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (29, 'req-00028', 'k', 'ada', 'näme <&>', 'm1', '', '', '/v1/chat/completions', '', false, '2026-03-03 04:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'total', '0001-01-01 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (30, 'req-00029', 'k', 'ada', 'näme <&>', 'm2', '', '', '/v1/chat/completions', '', false, '2026-03-03 05:00:00+00', 1000000000, 1000000, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'day', '2026-03-03 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (31, 'req-00030', 'k', 'ada', 'näme <&>', 'm0', '', '', '/v1/chat/completions', '', false, '2026-03-03 06:00:00+00', 1000000000, NULL, 0, 'ok', '', 0, NULL, NULL, NULL, NULL, 'none', NULL, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (32, 'req-00031', 'k', 'ada', 'näme <&>', 'm1', '', '', '/v1/chat/completions', '', false, '2026-03-03 07:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (33, 'req-00032', 'k', 'ada', 'näme <&>', 'm2', '', '', '/v1/chat/completions', '', false, '2026-03-03 08:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'total', '0001-01-01 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (34, 'req-00033', 'k', 'ada', 'näme <&>', 'm0', '', '', '/v1/chat/completions', '', false, '2026-03-03 09:00:00+00', 1000000000, 1000000, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'day', '2026-03-03 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (35, 'req-00034', 'k', 'ada', 'näme <&>', 'm1', '', '', '/v1/chat/completions', '', false, '2026-03-03 10:00:00+00', 1000000000, NULL, 0, 'ok', '', 0, NULL, NULL, NULL, NULL, 'none', NULL, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (36, 'req-00035', 'k', 'ada', 'näme <&>', 'm2', '', '', '/v1/chat/completions', '', false, '2026-03-03 11:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (37, 'req-00036', 'k', 'ada', 'näme <&>', 'm0', '', '', '/v1/chat/completions', '', false, '2026-03-03 12:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'total', '0001-01-01 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (38, 'req-00037', 'k', 'ada', 'näme <&>', 'm1', '', '', '/v1/chat/completions', '', false, '2026-03-03 13:00:00+00', 1000000000, 1000000, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'day', '2026-03-03 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (39, 'req-00038', 'k', 'ada', 'näme <&>', 'm2', '', '', '/v1/chat/completions', '', false, '2026-03-03 14:00:00+00', 1000000000, NULL, 0, 'ok', '', 0, NULL, NULL, NULL, NULL, 'none', NULL, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (40, 'req-00039', 'k', 'ada', 'näme <&>', 'm0', '', '', '/v1/chat/completions', '', false, '2026-03-03 15:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (41, 'req-00040', 'k', 'ada', 'näme <&>', 'm1', '', '', '/v1/chat/completions', '', false, '2026-03-03 16:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'total', '0001-01-01 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (42, 'req-00041', 'k', 'ada', 'näme <&>', 'm2', '', '', '/v1/chat/completions', '', false, '2026-03-03 17:00:00+00', 1000000000, 1000000, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'day', '2026-03-03 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (43, 'req-00042', 'k', 'ada', 'näme <&>', 'm0', '', '', '/v1/chat/completions', '', false, '2026-03-03 18:00:00+00', 1000000000, NULL, 0, 'ok', '', 0, NULL, NULL, NULL, NULL, 'none', NULL, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (44, 'req-00043', 'k', 'ada', 'näme <&>', 'm1', '', '', '/v1/chat/completions', '', false, '2026-03-03 19:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (45, 'req-00044', 'k', 'ada', 'näme <&>', 'm2', '', '', '/v1/chat/completions', '', false, '2026-03-03 20:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'total', '0001-01-01 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (46, 'req-00045', 'k', 'ada', 'näme <&>', 'm0', '', '', '/v1/chat/completions', '', false, '2026-03-03 21:00:00+00', 1000000000, 1000000, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'day', '2026-03-03 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (47, 'req-00046', 'k', 'ada', 'näme <&>', 'm1', '', '', '/v1/chat/completions', '', false, '2026-03-03 22:00:00+00', 1000000000, NULL, 0, 'ok', '', 0, NULL, NULL, NULL, NULL, 'none', NULL, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (48, 'req-00047', 'k', 'ada', 'näme <&>', 'm2', '', '', '/v1/chat/completions', '', false, '2026-03-03 23:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (49, 'req-00048', 'k', 'ada', 'näme <&>', 'm0', '', '', '/v1/chat/completions', '', false, '2026-03-04 00:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'total', '0001-01-01 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (50, 'req-00049', 'k', 'ada', 'näme <&>', 'm1', '', '', '/v1/chat/completions', '', false, '2026-03-04 01:00:00+00', 1000000000, 1000000, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'day', '2026-03-04 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (51, 'req-00050', 'k', 'ada', 'näme <&>', 'm2', '', '', '/v1/chat/completions', '', false, '2026-03-04 02:00:00+00', 1000000000, NULL, 0, 'ok', '', 0, NULL, NULL, NULL, NULL, 'none', NULL, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (52, 'req-00051', 'k', 'ada', 'näme <&>', 'm0', '', '', '/v1/chat/completions', '', false, '2026-03-04 03:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (53, 'req-00052', 'k', 'ada', 'näme <&>', 'm1', '', '', '/v1/chat/completions', '', false, '2026-03-04 04:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'total', '0001-01-01 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (54, 'req-00053', 'k', 'ada', 'näme <&>', 'm2', '', '', '/v1/chat/completions', '', false, '2026-03-04 05:00:00+00', 1000000000, 1000000, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'day', '2026-03-04 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (55, 'req-00054', 'k', 'ada', 'näme <&>', 'm0', '', '', '/v1/chat/completions', '', false, '2026-03-04 06:00:00+00', 1000000000, NULL, 0, 'ok', '', 0, NULL, NULL, NULL, NULL, 'none', NULL, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (56, 'req-00055', 'k', 'ada', 'näme <&>', 'm1', '', '', '/v1/chat/completions', '', false, '2026-03-04 07:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (57, 'req-00056', 'k', 'ada', 'näme <&>', 'm2', '', '', '/v1/chat/completions', '', false, '2026-03-04 08:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'total', '0001-01-01 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (58, 'req-00057', 'k', 'ada', 'näme <&>', 'm0', '', '', '/v1/chat/completions', '', false, '2026-03-04 09:00:00+00', 1000000000, 1000000, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, 'full', 'day', '2026-03-04 00:00:00+00');
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (59, 'req-00058', 'k', 'ada', 'näme <&>', 'm1', '', '', '/v1/chat/completions', '', false, '2026-03-04 10:00:00+00', 1000000000, NULL, 0, 'ok', '', 0, NULL, NULL, NULL, NULL, 'none', NULL, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage OVERRIDING SYSTEM VALUE VALUES (60, 'req-00059', 'k', 'ada', 'näme <&>', 'm2', '', '', '/v1/chat/completions', '', false, '2026-03-04 11:00:00+00', 1000000000, NULL, 200, 'ok', '', 0, 100, NULL, 20, NULL, 'engine', 1000, NULL, NULL, NULL);
INSERT INTO llmgw_fixture.usage_days VALUES ('2026-03-02 00:00:00+00', 'k', 'ada', 'm0', 8, 2, 600, 0, 120, 0, 6000);
INSERT INTO llmgw_fixture.usage_days VALUES ('2026-03-02 00:00:00+00', 'k', 'ada', 'm1', 8, 2, 600, 0, 120, 0, 6000);
INSERT INTO llmgw_fixture.usage_days VALUES ('2026-03-02 00:00:00+00', 'k', 'ada', 'm2', 8, 2, 600, 0, 120, 0, 6000);
INSERT INTO llmgw_fixture.usage_days VALUES ('2026-03-03 00:00:00+00', 'k', 'ada', 'm0', 8, 2, 600, 0, 120, 0, 6000);
INSERT INTO llmgw_fixture.usage_days VALUES ('2026-03-03 00:00:00+00', 'k', 'ada', 'm1', 8, 2, 600, 0, 120, 0, 6000);
INSERT INTO llmgw_fixture.usage_days VALUES ('2026-03-03 00:00:00+00', 'k', 'ada', 'm2', 8, 2, 600, 0, 120, 0, 6000);
INSERT INTO llmgw_fixture.usage_days VALUES ('2026-03-04 00:00:00+00', 'k', 'ada', 'm0', 4, 1, 300, 0, 60, 0, 3000);
INSERT INTO llmgw_fixture.usage_days VALUES ('2026-03-04 00:00:00+00', 'k', 'ada', 'm1', 4, 1, 300, 0, 60, 0, 3000);
INSERT INTO llmgw_fixture.usage_days VALUES ('2026-03-04 00:00:00+00', 'k', 'ada', 'm2', 4, 1, 300, 0, 60, 0, 3000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 03:00:00+00', 'k', 'ada', 'm0', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 04:00:00+00', 'k', 'ada', 'm1', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 05:00:00+00', 'k', 'ada', 'm2', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 06:00:00+00', 'k', 'ada', 'm0', 1, 1, 0, 0, 0, 0, 0);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 07:00:00+00', 'k', 'ada', 'm1', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 08:00:00+00', 'k', 'ada', 'm2', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 09:00:00+00', 'k', 'ada', 'm0', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 10:00:00+00', 'k', 'ada', 'm1', 1, 1, 0, 0, 0, 0, 0);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 11:00:00+00', 'k', 'ada', 'm2', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 12:00:00+00', 'k', 'ada', 'm0', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 13:00:00+00', 'k', 'ada', 'm1', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 14:00:00+00', 'k', 'ada', 'm2', 1, 1, 0, 0, 0, 0, 0);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 15:00:00+00', 'k', 'ada', 'm0', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 16:00:00+00', 'k', 'ada', 'm1', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 17:00:00+00', 'k', 'ada', 'm2', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 18:00:00+00', 'k', 'ada', 'm0', 1, 1, 0, 0, 0, 0, 0);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 19:00:00+00', 'k', 'ada', 'm1', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 20:00:00+00', 'k', 'ada', 'm2', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 21:00:00+00', 'k', 'ada', 'm0', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 22:00:00+00', 'k', 'ada', 'm1', 1, 1, 0, 0, 0, 0, 0);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-02 23:00:00+00', 'k', 'ada', 'm2', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 00:00:00+00', 'k', 'ada', 'm0', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 01:00:00+00', 'k', 'ada', 'm1', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 02:00:00+00', 'k', 'ada', 'm2', 1, 1, 0, 0, 0, 0, 0);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 03:00:00+00', 'k', 'ada', 'm0', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 04:00:00+00', 'k', 'ada', 'm1', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 05:00:00+00', 'k', 'ada', 'm2', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 06:00:00+00', 'k', 'ada', 'm0', 1, 1, 0, 0, 0, 0, 0);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 07:00:00+00', 'k', 'ada', 'm1', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 08:00:00+00', 'k', 'ada', 'm2', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 09:00:00+00', 'k', 'ada', 'm0', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 10:00:00+00', 'k', 'ada', 'm1', 1, 1, 0, 0, 0, 0, 0);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 11:00:00+00', 'k', 'ada', 'm2', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 12:00:00+00', 'k', 'ada', 'm0', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 13:00:00+00', 'k', 'ada', 'm1', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 14:00:00+00', 'k', 'ada', 'm2', 1, 1, 0, 0, 0, 0, 0);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 15:00:00+00', 'k', 'ada', 'm0', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 16:00:00+00', 'k', 'ada', 'm1', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 17:00:00+00', 'k', 'ada', 'm2', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 18:00:00+00', 'k', 'ada', 'm0', 1, 1, 0, 0, 0, 0, 0);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 19:00:00+00', 'k', 'ada', 'm1', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 20:00:00+00', 'k', 'ada', 'm2', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 21:00:00+00', 'k', 'ada', 'm0', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 22:00:00+00', 'k', 'ada', 'm1', 1, 1, 0, 0, 0, 0, 0);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-03 23:00:00+00', 'k', 'ada', 'm2', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-04 00:00:00+00', 'k', 'ada', 'm0', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-04 01:00:00+00', 'k', 'ada', 'm1', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-04 02:00:00+00', 'k', 'ada', 'm2', 1, 1, 0, 0, 0, 0, 0);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-04 03:00:00+00', 'k', 'ada', 'm0', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-04 04:00:00+00', 'k', 'ada', 'm1', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-04 05:00:00+00', 'k', 'ada', 'm2', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-04 06:00:00+00', 'k', 'ada', 'm0', 1, 1, 0, 0, 0, 0, 0);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-04 07:00:00+00', 'k', 'ada', 'm1', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-04 08:00:00+00', 'k', 'ada', 'm2', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-04 09:00:00+00', 'k', 'ada', 'm0', 1, 0, 100, 0, 20, 0, 1000);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-04 10:00:00+00', 'k', 'ada', 'm1', 1, 1, 0, 0, 0, 0, 0);
INSERT INTO llmgw_fixture.usage_hours VALUES ('2026-03-04 11:00:00+00', 'k', 'ada', 'm2', 1, 0, 100, 0, 20, 0, 1000);
SELECT pg_catalog.setval('llmgw_fixture.usage_seq_seq', 60, true);
ALTER TABLE ONLY llmgw_fixture.accounts
    ADD CONSTRAINT accounts_address_key UNIQUE (address);
ALTER TABLE ONLY llmgw_fixture.accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (id);
ALTER TABLE ONLY llmgw_fixture.attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (bucket);
ALTER TABLE ONLY llmgw_fixture.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);
ALTER TABLE ONLY llmgw_fixture.budgets
    ADD CONSTRAINT budgets_pkey PRIMARY KEY (key_id, period, start);
ALTER TABLE ONLY llmgw_fixture.cordons
    ADD CONSTRAINT cordons_pkey PRIMARY KEY (node);
ALTER TABLE ONLY llmgw_fixture.grants
    ADD CONSTRAINT grants_pkey PRIMARY KEY (id);
ALTER TABLE ONLY llmgw_fixture.keys
    ADD CONSTRAINT keys_hash_key UNIQUE (hash);
ALTER TABLE ONLY llmgw_fixture.keys
    ADD CONSTRAINT keys_pkey PRIMARY KEY (id);
ALTER TABLE ONLY llmgw_fixture.links
    ADD CONSTRAINT links_hash_key UNIQUE (hash);
ALTER TABLE ONLY llmgw_fixture.links
    ADD CONSTRAINT links_pkey PRIMARY KEY (id);
ALTER TABLE ONLY llmgw_fixture.marks
    ADD CONSTRAINT marks_pkey PRIMARY KEY (name);
ALTER TABLE ONLY llmgw_fixture.models
    ADD CONSTRAINT models_pkey PRIMARY KEY (name);
ALTER TABLE ONLY llmgw_fixture.nodes
    ADD CONSTRAINT nodes_pkey PRIMARY KEY (id);
ALTER TABLE ONLY llmgw_fixture.replicas
    ADD CONSTRAINT replicas_pkey PRIMARY KEY (id);
ALTER TABLE ONLY llmgw_fixture.routers
    ADD CONSTRAINT routers_pkey PRIMARY KEY (id);
ALTER TABLE ONLY llmgw_fixture.sessions
    ADD CONSTRAINT sessions_hash_key UNIQUE (hash);
ALTER TABLE ONLY llmgw_fixture.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY llmgw_fixture.term
    ADD CONSTRAINT term_pkey PRIMARY KEY (one);
ALTER TABLE ONLY llmgw_fixture.usage_days
    ADD CONSTRAINT usage_days_pkey PRIMARY KEY (start, key_id, owner, model);
ALTER TABLE ONLY llmgw_fixture.usage_hours
    ADD CONSTRAINT usage_hours_pkey PRIMARY KEY (start, key_id, owner, model);
ALTER TABLE ONLY llmgw_fixture.usage
    ADD CONSTRAINT usage_pkey PRIMARY KEY (request_id);
CREATE INDEX accounts_by_state ON llmgw_fixture.accounts USING btree (state, address);
CREATE INDEX attempts_by_time ON llmgw_fixture.attempts USING btree (last);
CREATE INDEX audit_by_target ON llmgw_fixture.audit USING btree (target, at, id);
CREATE INDEX audit_by_time ON llmgw_fixture.audit USING btree (at, id);
CREATE INDEX grants_by_budget ON llmgw_fixture.grants USING btree (key_id, period, start, at, id);
CREATE INDEX grants_returned ON llmgw_fixture.grants USING btree (returned_at) WHERE (returned_at IS NOT NULL);
CREATE INDEX keys_by_account ON llmgw_fixture.keys USING btree (account, created_at, id) WHERE (account IS NOT NULL);
CREATE INDEX keys_by_lineage ON llmgw_fixture.keys USING btree (lineage);
CREATE INDEX keys_by_owner ON llmgw_fixture.keys USING btree (owner, created_at, id);
CREATE INDEX keys_by_time ON llmgw_fixture.keys USING btree (created_at, id);
CREATE INDEX links_by_account ON llmgw_fixture.links USING btree (account) WHERE (account IS NOT NULL);
CREATE INDEX links_by_end ON llmgw_fixture.links USING btree (expires_at);
CREATE INDEX nodes_by_time ON llmgw_fixture.nodes USING btree (first_seen, id);
CREATE INDEX replicas_by_model ON llmgw_fixture.replicas USING btree (model, created_at, id);
CREATE INDEX replicas_by_time ON llmgw_fixture.replicas USING btree (created_at, id);
CREATE INDEX sessions_by_account ON llmgw_fixture.sessions USING btree (account, created_at, id);
CREATE INDEX sessions_by_end ON llmgw_fixture.sessions USING btree (expires_at);
CREATE INDEX sessions_by_use ON llmgw_fixture.sessions USING btree (seen_at);
CREATE INDEX usage_by_key ON llmgw_fixture.usage USING btree (key_id, at, seq);
CREATE INDEX usage_by_time ON llmgw_fixture.usage USING btree (at, seq);
CREATE INDEX usage_days_by_key ON llmgw_fixture.usage_days USING btree (key_id, start);
CREATE INDEX usage_hours_by_key ON llmgw_fixture.usage_hours USING btree (key_id, start);
ALTER TABLE ONLY llmgw_fixture.grants
    ADD CONSTRAINT grants_key_id_period_start_fkey FOREIGN KEY (key_id, period, start) REFERENCES llmgw_fixture.budgets(key_id, period, start);
ALTER TABLE ONLY llmgw_fixture.keys
    ADD CONSTRAINT keys_account_fkey FOREIGN KEY (account) REFERENCES llmgw_fixture.accounts(id);
ALTER TABLE ONLY llmgw_fixture.links
    ADD CONSTRAINT links_account_fkey FOREIGN KEY (account) REFERENCES llmgw_fixture.accounts(id) ON DELETE CASCADE;
ALTER TABLE ONLY llmgw_fixture.sessions
    ADD CONSTRAINT sessions_account_fkey FOREIGN KEY (account) REFERENCES llmgw_fixture.accounts(id) ON DELETE CASCADE;
