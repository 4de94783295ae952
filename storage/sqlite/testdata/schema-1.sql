-- A database of schema version 1, with some of everything, as version 1 made it.
BEGIN TRANSACTION;
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
INSERT INTO "audit" VALUES('make full',1772409600000000,'cli:root@host','key.change','k',NULL,'{"name":"a<b>"}','');
INSERT INTO "audit" VALUES('key-000',1772409600000000,'cli:root@host','key.change','k',NULL,'{"name":"a<b>"}','');
INSERT INTO "audit" VALUES('key-001',1772409600000000,'cli:root@host','key.change','k',NULL,'{"name":"a<b>"}','');
INSERT INTO "audit" VALUES('key-002',1772409600000000,'cli:root@host','key.change','k',NULL,'{"name":"a<b>"}','');
INSERT INTO "audit" VALUES('rename',1772409600000000,'cli:root@host','key.change','k',NULL,'{"name":"a<b>"}','');
CREATE TABLE budgets (
  key_id  TEXT NOT NULL,
  period  TEXT NOT NULL,
  start   INTEGER NOT NULL, -- of the year 1 for a total
  granted INTEGER NOT NULL CHECK (granted >= 0),
  settled INTEGER NOT NULL CHECK (settled >= 0), -- what of granted belongs to grants that were given back
  spent   INTEGER NOT NULL,
  PRIMARY KEY (key_id, period, start)
) STRICT, WITHOUT ROWID;
INSERT INTO "budgets" VALUES('full','day',1772409600000000,300,0,6000);
INSERT INTO "budgets" VALUES('full','day',1772496000000000,0,0,6000);
INSERT INTO "budgets" VALUES('full','day',1772582400000000,0,0,3000);
INSERT INTO "budgets" VALUES('full','total',-62135596800000000,500,200,15000);
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
INSERT INTO "grants" VALUES('g1','full','total',-62135596800000000,'r1',300,1772409600000000,1772409660000000);
INSERT INTO "grants" VALUES('g2','full','day',1772409600000000,'r1',300,1772409600000000,NULL);
INSERT INTO "grants" VALUES('g3','full','total',-62135596800000000,'r1',300,1772409600000000,NULL);
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
INSERT INTO "keys" VALUES('full',X'0100FF0000000000000000000000000000000000000000000000000000000000','sk-…abcd','näme ''quoted"','team;--','["qwen3","llama/*"]','gold',60,100000,4,1500000000,'month','Europe/Berlin','{"empty":"","env":"prod"}',1772409600123456,1772413200000000,1772411400000000,'old',1);
INSERT INTO "keys" VALUES('key-000',X'686173682D300000000000000000000000000000000000000000000000000000','','','ada',NULL,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1772409600000000,NULL,NULL,'',1);
INSERT INTO "keys" VALUES('key-002',X'686173682D320000000000000000000000000000000000000000000000000000','','','ada',NULL,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1772409720000000,NULL,NULL,'',1);
INSERT INTO "keys" VALUES('key-001',X'686173682D310000000000000000000000000000000000000000000000000000','','renamed','ada',NULL,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1772409660000000,NULL,NULL,'',2);
CREATE TABLE marks (
  name TEXT PRIMARY KEY, -- rows, hours, days, budgets
  at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "marks" VALUES('hours',1772420400000000);
INSERT INTO "marks" VALUES('rows',1772427600000000);
CREATE TABLE routers (
  id         TEXT PRIMARY KEY,
  renewed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "routers" VALUES('r1',1796010607115167);
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
INSERT INTO "usage" VALUES(6,'req-00005','k','ada','näme <&>','m2','','','/v1/chat/completions','',0,1772427600000000,1000000000,1000000,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','day',1772409600000000);
INSERT INTO "usage" VALUES(7,'req-00006','k','ada','näme <&>','m0','','','/v1/chat/completions','',0,1772431200000000,1000000000,NULL,0,'ok','',0,NULL,NULL,NULL,NULL,'none',NULL,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(8,'req-00007','k','ada','näme <&>','m1','','','/v1/chat/completions','',0,1772434800000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(9,'req-00008','k','ada','näme <&>','m2','','','/v1/chat/completions','',0,1772438400000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','total',-62135596800000000);
INSERT INTO "usage" VALUES(10,'req-00009','k','ada','näme <&>','m0','','','/v1/chat/completions','',0,1772442000000000,1000000000,1000000,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','day',1772409600000000);
INSERT INTO "usage" VALUES(11,'req-00010','k','ada','näme <&>','m1','','','/v1/chat/completions','',0,1772445600000000,1000000000,NULL,0,'ok','',0,NULL,NULL,NULL,NULL,'none',NULL,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(12,'req-00011','k','ada','näme <&>','m2','','','/v1/chat/completions','',0,1772449200000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(13,'req-00012','k','ada','näme <&>','m0','','','/v1/chat/completions','',0,1772452800000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','total',-62135596800000000);
INSERT INTO "usage" VALUES(14,'req-00013','k','ada','näme <&>','m1','','','/v1/chat/completions','',0,1772456400000000,1000000000,1000000,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','day',1772409600000000);
INSERT INTO "usage" VALUES(15,'req-00014','k','ada','näme <&>','m2','','','/v1/chat/completions','',0,1772460000000000,1000000000,NULL,0,'ok','',0,NULL,NULL,NULL,NULL,'none',NULL,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(16,'req-00015','k','ada','näme <&>','m0','','','/v1/chat/completions','',0,1772463600000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(17,'req-00016','k','ada','näme <&>','m1','','','/v1/chat/completions','',0,1772467200000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','total',-62135596800000000);
INSERT INTO "usage" VALUES(18,'req-00017','k','ada','näme <&>','m2','','','/v1/chat/completions','',0,1772470800000000,1000000000,1000000,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','day',1772409600000000);
INSERT INTO "usage" VALUES(19,'req-00018','k','ada','näme <&>','m0','','','/v1/chat/completions','',0,1772474400000000,1000000000,NULL,0,'ok','',0,NULL,NULL,NULL,NULL,'none',NULL,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(20,'req-00019','k','ada','näme <&>','m1','','','/v1/chat/completions','',0,1772478000000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(21,'req-00020','k','ada','näme <&>','m2','','','/v1/chat/completions','',0,1772481600000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','total',-62135596800000000);
INSERT INTO "usage" VALUES(22,'req-00021','k','ada','näme <&>','m0','','','/v1/chat/completions','',0,1772485200000000,1000000000,1000000,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','day',1772409600000000);
INSERT INTO "usage" VALUES(23,'req-00022','k','ada','näme <&>','m1','','','/v1/chat/completions','',0,1772488800000000,1000000000,NULL,0,'ok','',0,NULL,NULL,NULL,NULL,'none',NULL,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(24,'req-00023','k','ada','näme <&>','m2','','','/v1/chat/completions','',0,1772492400000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(25,'req-00024','k','ada','näme <&>','m0','','','/v1/chat/completions','',0,1772496000000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','total',-62135596800000000);
INSERT INTO "usage" VALUES(26,'req-00025','k','ada','näme <&>','m1','','','/v1/chat/completions','',0,1772499600000000,1000000000,1000000,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','day',1772496000000000);
INSERT INTO "usage" VALUES(27,'req-00026','k','ada','näme <&>','m2','','','/v1/chat/completions','',0,1772503200000000,1000000000,NULL,0,'ok','',0,NULL,NULL,NULL,NULL,'none',NULL,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(28,'req-00027','k','ada','näme <&>','m0','','','/v1/chat/completions','',0,1772506800000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(29,'req-00028','k','ada','näme <&>','m1','','','/v1/chat/completions','',0,1772510400000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','total',-62135596800000000);
INSERT INTO "usage" VALUES(30,'req-00029','k','ada','näme <&>','m2','','','/v1/chat/completions','',0,1772514000000000,1000000000,1000000,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','day',1772496000000000);
INSERT INTO "usage" VALUES(31,'req-00030','k','ada','näme <&>','m0','','','/v1/chat/completions','',0,1772517600000000,1000000000,NULL,0,'ok','',0,NULL,NULL,NULL,NULL,'none',NULL,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(32,'req-00031','k','ada','näme <&>','m1','','','/v1/chat/completions','',0,1772521200000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(33,'req-00032','k','ada','näme <&>','m2','','','/v1/chat/completions','',0,1772524800000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','total',-62135596800000000);
INSERT INTO "usage" VALUES(34,'req-00033','k','ada','näme <&>','m0','','','/v1/chat/completions','',0,1772528400000000,1000000000,1000000,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','day',1772496000000000);
INSERT INTO "usage" VALUES(35,'req-00034','k','ada','näme <&>','m1','','','/v1/chat/completions','',0,1772532000000000,1000000000,NULL,0,'ok','',0,NULL,NULL,NULL,NULL,'none',NULL,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(36,'req-00035','k','ada','näme <&>','m2','','','/v1/chat/completions','',0,1772535600000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(37,'req-00036','k','ada','näme <&>','m0','','','/v1/chat/completions','',0,1772539200000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','total',-62135596800000000);
INSERT INTO "usage" VALUES(38,'req-00037','k','ada','näme <&>','m1','','','/v1/chat/completions','',0,1772542800000000,1000000000,1000000,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','day',1772496000000000);
INSERT INTO "usage" VALUES(39,'req-00038','k','ada','näme <&>','m2','','','/v1/chat/completions','',0,1772546400000000,1000000000,NULL,0,'ok','',0,NULL,NULL,NULL,NULL,'none',NULL,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(40,'req-00039','k','ada','näme <&>','m0','','','/v1/chat/completions','',0,1772550000000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(41,'req-00040','k','ada','näme <&>','m1','','','/v1/chat/completions','',0,1772553600000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','total',-62135596800000000);
INSERT INTO "usage" VALUES(42,'req-00041','k','ada','näme <&>','m2','','','/v1/chat/completions','',0,1772557200000000,1000000000,1000000,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','day',1772496000000000);
INSERT INTO "usage" VALUES(43,'req-00042','k','ada','näme <&>','m0','','','/v1/chat/completions','',0,1772560800000000,1000000000,NULL,0,'ok','',0,NULL,NULL,NULL,NULL,'none',NULL,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(44,'req-00043','k','ada','näme <&>','m1','','','/v1/chat/completions','',0,1772564400000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(45,'req-00044','k','ada','näme <&>','m2','','','/v1/chat/completions','',0,1772568000000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','total',-62135596800000000);
INSERT INTO "usage" VALUES(46,'req-00045','k','ada','näme <&>','m0','','','/v1/chat/completions','',0,1772571600000000,1000000000,1000000,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','day',1772496000000000);
INSERT INTO "usage" VALUES(47,'req-00046','k','ada','näme <&>','m1','','','/v1/chat/completions','',0,1772575200000000,1000000000,NULL,0,'ok','',0,NULL,NULL,NULL,NULL,'none',NULL,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(48,'req-00047','k','ada','näme <&>','m2','','','/v1/chat/completions','',0,1772578800000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(49,'req-00048','k','ada','näme <&>','m0','','','/v1/chat/completions','',0,1772582400000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','total',-62135596800000000);
INSERT INTO "usage" VALUES(50,'req-00049','k','ada','näme <&>','m1','','','/v1/chat/completions','',0,1772586000000000,1000000000,1000000,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','day',1772582400000000);
INSERT INTO "usage" VALUES(51,'req-00050','k','ada','näme <&>','m2','','','/v1/chat/completions','',0,1772589600000000,1000000000,NULL,0,'ok','',0,NULL,NULL,NULL,NULL,'none',NULL,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(52,'req-00051','k','ada','näme <&>','m0','','','/v1/chat/completions','',0,1772593200000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(53,'req-00052','k','ada','näme <&>','m1','','','/v1/chat/completions','',0,1772596800000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','total',-62135596800000000);
INSERT INTO "usage" VALUES(54,'req-00053','k','ada','näme <&>','m2','','','/v1/chat/completions','',0,1772600400000000,1000000000,1000000,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','day',1772582400000000);
INSERT INTO "usage" VALUES(55,'req-00054','k','ada','näme <&>','m0','','','/v1/chat/completions','',0,1772604000000000,1000000000,NULL,0,'ok','',0,NULL,NULL,NULL,NULL,'none',NULL,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(56,'req-00055','k','ada','näme <&>','m1','','','/v1/chat/completions','',0,1772607600000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(57,'req-00056','k','ada','näme <&>','m2','','','/v1/chat/completions','',0,1772611200000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','total',-62135596800000000);
INSERT INTO "usage" VALUES(58,'req-00057','k','ada','näme <&>','m0','','','/v1/chat/completions','',0,1772614800000000,1000000000,1000000,200,'ok','',0,100,NULL,20,NULL,'engine',1000,'full','day',1772582400000000);
INSERT INTO "usage" VALUES(59,'req-00058','k','ada','näme <&>','m1','','','/v1/chat/completions','',0,1772618400000000,1000000000,NULL,0,'ok','',0,NULL,NULL,NULL,NULL,'none',NULL,NULL,NULL,NULL);
INSERT INTO "usage" VALUES(60,'req-00059','k','ada','näme <&>','m2','','','/v1/chat/completions','',0,1772622000000000,1000000000,NULL,200,'ok','',0,100,NULL,20,NULL,'engine',1000,NULL,NULL,NULL);
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
INSERT INTO "usage_days" VALUES(1772409600000000,'k','ada','m0',8,2,600,0,120,0,6000);
INSERT INTO "usage_days" VALUES(1772409600000000,'k','ada','m1',8,2,600,0,120,0,6000);
INSERT INTO "usage_days" VALUES(1772409600000000,'k','ada','m2',8,2,600,0,120,0,6000);
INSERT INTO "usage_days" VALUES(1772496000000000,'k','ada','m0',8,2,600,0,120,0,6000);
INSERT INTO "usage_days" VALUES(1772496000000000,'k','ada','m1',8,2,600,0,120,0,6000);
INSERT INTO "usage_days" VALUES(1772496000000000,'k','ada','m2',8,2,600,0,120,0,6000);
INSERT INTO "usage_days" VALUES(1772582400000000,'k','ada','m0',4,1,300,0,60,0,3000);
INSERT INTO "usage_days" VALUES(1772582400000000,'k','ada','m1',4,1,300,0,60,0,3000);
INSERT INTO "usage_days" VALUES(1772582400000000,'k','ada','m2',4,1,300,0,60,0,3000);
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
INSERT INTO "usage_hours" VALUES(1772420400000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772424000000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772427600000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772431200000000,'k','ada','m0',1,1,0,0,0,0,0);
INSERT INTO "usage_hours" VALUES(1772434800000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772438400000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772442000000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772445600000000,'k','ada','m1',1,1,0,0,0,0,0);
INSERT INTO "usage_hours" VALUES(1772449200000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772452800000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772456400000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772460000000000,'k','ada','m2',1,1,0,0,0,0,0);
INSERT INTO "usage_hours" VALUES(1772463600000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772467200000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772470800000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772474400000000,'k','ada','m0',1,1,0,0,0,0,0);
INSERT INTO "usage_hours" VALUES(1772478000000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772481600000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772485200000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772488800000000,'k','ada','m1',1,1,0,0,0,0,0);
INSERT INTO "usage_hours" VALUES(1772492400000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772496000000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772499600000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772503200000000,'k','ada','m2',1,1,0,0,0,0,0);
INSERT INTO "usage_hours" VALUES(1772506800000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772510400000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772514000000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772517600000000,'k','ada','m0',1,1,0,0,0,0,0);
INSERT INTO "usage_hours" VALUES(1772521200000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772524800000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772528400000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772532000000000,'k','ada','m1',1,1,0,0,0,0,0);
INSERT INTO "usage_hours" VALUES(1772535600000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772539200000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772542800000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772546400000000,'k','ada','m2',1,1,0,0,0,0,0);
INSERT INTO "usage_hours" VALUES(1772550000000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772553600000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772557200000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772560800000000,'k','ada','m0',1,1,0,0,0,0,0);
INSERT INTO "usage_hours" VALUES(1772564400000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772568000000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772571600000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772575200000000,'k','ada','m1',1,1,0,0,0,0,0);
INSERT INTO "usage_hours" VALUES(1772578800000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772582400000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772586000000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772589600000000,'k','ada','m2',1,1,0,0,0,0,0);
INSERT INTO "usage_hours" VALUES(1772593200000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772596800000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772600400000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772604000000000,'k','ada','m0',1,1,0,0,0,0,0);
INSERT INTO "usage_hours" VALUES(1772607600000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772611200000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772614800000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO "usage_hours" VALUES(1772618400000000,'k','ada','m1',1,1,0,0,0,0,0);
INSERT INTO "usage_hours" VALUES(1772622000000000,'k','ada','m2',1,0,100,0,20,0,1000);
CREATE INDEX keys_by_time ON keys (created_at, id);
CREATE INDEX keys_by_owner ON keys (owner, created_at, id);
CREATE INDEX usage_by_time ON usage (at, seq);
CREATE INDEX usage_by_key ON usage (key_id, at, seq);
CREATE INDEX usage_hours_by_key ON usage_hours (key_id, start);
CREATE INDEX usage_days_by_key ON usage_days (key_id, start);
CREATE INDEX grants_by_budget ON grants (key_id, period, start, at, id);
CREATE INDEX grants_returned ON grants (returned_at) WHERE returned_at IS NOT NULL;
CREATE INDEX audit_by_time ON audit (at, id);
CREATE INDEX audit_by_target ON audit (target, at, id);
COMMIT;
PRAGMA application_id = 1819045223;
PRAGMA user_version = 1;
