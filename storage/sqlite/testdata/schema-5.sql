-- A database of schema version 5, with some of everything, as version 5 made it.
BEGIN TRANSACTION;
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
, lineage TEXT NOT NULL DEFAULT '', may_explain INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO keys VALUES('full',X'0100ff0000000000000000000000000000000000000000000000000000000000','sk-…abcd','näme ''quoted"','team;--','["qwen3","llama/*"]','gold',60,100000,4,1500000000,'month','Europe/Berlin','{"empty":"","env":"prod"}',1772409600123456,1772413200000000,1772411400000000,'old',1,'oldest',1);
INSERT INTO keys VALUES('key-000',X'686173682d300000000000000000000000000000000000000000000000000000','','','ada',NULL,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1772409600000000,NULL,NULL,'',1,'key-000',0);
INSERT INTO keys VALUES('key-002',X'686173682d320000000000000000000000000000000000000000000000000000','','','ada',NULL,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1772409720000000,NULL,NULL,'',1,'key-002',0);
INSERT INTO keys VALUES('key-001',X'686173682d310000000000000000000000000000000000000000000000000000','','renamed','ada',NULL,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1772409660000000,NULL,NULL,'',2,'key-001',0);
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
INSERT INTO usage_hours VALUES(1772420400000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772424000000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772427600000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772431200000000,'k','ada','m0',1,1,0,0,0,0,0);
INSERT INTO usage_hours VALUES(1772434800000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772438400000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772442000000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772445600000000,'k','ada','m1',1,1,0,0,0,0,0);
INSERT INTO usage_hours VALUES(1772449200000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772452800000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772456400000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772460000000000,'k','ada','m2',1,1,0,0,0,0,0);
INSERT INTO usage_hours VALUES(1772463600000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772467200000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772470800000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772474400000000,'k','ada','m0',1,1,0,0,0,0,0);
INSERT INTO usage_hours VALUES(1772478000000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772481600000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772485200000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772488800000000,'k','ada','m1',1,1,0,0,0,0,0);
INSERT INTO usage_hours VALUES(1772492400000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772496000000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772499600000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772503200000000,'k','ada','m2',1,1,0,0,0,0,0);
INSERT INTO usage_hours VALUES(1772506800000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772510400000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772514000000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772517600000000,'k','ada','m0',1,1,0,0,0,0,0);
INSERT INTO usage_hours VALUES(1772521200000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772524800000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772528400000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772532000000000,'k','ada','m1',1,1,0,0,0,0,0);
INSERT INTO usage_hours VALUES(1772535600000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772539200000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772542800000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772546400000000,'k','ada','m2',1,1,0,0,0,0,0);
INSERT INTO usage_hours VALUES(1772550000000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772553600000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772557200000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772560800000000,'k','ada','m0',1,1,0,0,0,0,0);
INSERT INTO usage_hours VALUES(1772564400000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772568000000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772571600000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772575200000000,'k','ada','m1',1,1,0,0,0,0,0);
INSERT INTO usage_hours VALUES(1772578800000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772582400000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772586000000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772589600000000,'k','ada','m2',1,1,0,0,0,0,0);
INSERT INTO usage_hours VALUES(1772593200000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772596800000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772600400000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772604000000000,'k','ada','m0',1,1,0,0,0,0,0);
INSERT INTO usage_hours VALUES(1772607600000000,'k','ada','m1',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772611200000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772614800000000,'k','ada','m0',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772618400000000,'k','ada','m1',1,1,0,0,0,0,0);
INSERT INTO usage_hours VALUES(1772622000000000,'k','ada','m2',1,0,100,0,20,0,1000);
INSERT INTO usage_hours VALUES(1772661600000000,'k','ada','m',3,0,0,0,0,0,3);
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
INSERT INTO usage_days VALUES(1772409600000000,'k','ada','m0',8,2,600,0,120,0,6000);
INSERT INTO usage_days VALUES(1772409600000000,'k','ada','m1',8,2,600,0,120,0,6000);
INSERT INTO usage_days VALUES(1772409600000000,'k','ada','m2',8,2,600,0,120,0,6000);
INSERT INTO usage_days VALUES(1772496000000000,'k','ada','m0',8,2,600,0,120,0,6000);
INSERT INTO usage_days VALUES(1772496000000000,'k','ada','m1',8,2,600,0,120,0,6000);
INSERT INTO usage_days VALUES(1772496000000000,'k','ada','m2',8,2,600,0,120,0,6000);
INSERT INTO usage_days VALUES(1772582400000000,'k','ada','m',3,0,0,0,0,0,3);
INSERT INTO usage_days VALUES(1772582400000000,'k','ada','m0',4,1,300,0,60,0,3000);
INSERT INTO usage_days VALUES(1772582400000000,'k','ada','m1',4,1,300,0,60,0,3000);
INSERT INTO usage_days VALUES(1772582400000000,'k','ada','m2',4,1,300,0,60,0,3000);
CREATE TABLE budgets (
  key_id  TEXT NOT NULL,
  period  TEXT NOT NULL,
  start   INTEGER NOT NULL, -- of the year 1 for a total
  granted INTEGER NOT NULL CHECK (granted >= 0),
  settled INTEGER NOT NULL CHECK (settled >= 0), -- what of granted belongs to grants that were given back
  spent   INTEGER NOT NULL,
  PRIMARY KEY (key_id, period, start)
) STRICT, WITHOUT ROWID;
INSERT INTO budgets VALUES('full','day',1772409600000000,300,0,6000);
INSERT INTO budgets VALUES('full','day',1772496000000000,0,0,6000);
INSERT INTO budgets VALUES('full','day',1772582400000000,0,0,3000);
INSERT INTO budgets VALUES('full','total',-62135596800000000,500,200,15000);
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
INSERT INTO grants VALUES('g1','full','total',-62135596800000000,'r1',300,1772409600000000,1772409660000000);
INSERT INTO grants VALUES('g2','full','day',1772409600000000,'r1',300,1772409600000000,NULL);
INSERT INTO grants VALUES('g3','full','total',-62135596800000000,'r1',300,1772409600000000,NULL);
CREATE TABLE routers (
  id         TEXT PRIMARY KEY,
  renewed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO routers VALUES('r1',1796071709462965);
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
INSERT INTO audit VALUES('make full',1772409600000000,'cli:root@host','key.change','k',NULL,'{"name":"a<b>"}','');
INSERT INTO audit VALUES('key-000',1772409600000000,'cli:root@host','key.change','k',NULL,'{"name":"a<b>"}','');
INSERT INTO audit VALUES('key-001',1772409600000000,'cli:root@host','key.change','k',NULL,'{"name":"a<b>"}','');
INSERT INTO audit VALUES('key-002',1772409600000000,'cli:root@host','key.change','k',NULL,'{"name":"a<b>"}','');
INSERT INTO audit VALUES('rename',1772409600000000,'cli:root@host','key.change','k',NULL,'{"name":"a<b>"}','');
INSERT INTO audit VALUES('drain',1772409600000000,'cli:root@host','key.change','k',NULL,'{"name":"a<b>"}','');
CREATE TABLE marks (
  name TEXT PRIMARY KEY, -- rows, hours, days, budgets
  at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO marks VALUES('hours',1772420400000000);
INSERT INTO marks VALUES('rows',1772427600000000);
CREATE TABLE term (
  one      INTEGER PRIMARY KEY CHECK (one = 1), -- there is one row at most
  cluster  TEXT NOT NULL,
  number   INTEGER NOT NULL,
  holder   TEXT NOT NULL,
  begun_at INTEGER NOT NULL
) STRICT;
INSERT INTO term VALUES(1,'c-1',1,'cp-1',1772409600000000);
CREATE TABLE nodes (
  id            TEXT PRIMARY KEY,
  instance      TEXT NOT NULL,
  address       TEXT NOT NULL,
  agent_version TEXT NOT NULL,
  boot          TEXT NOT NULL,
  labels        TEXT, -- JSON
  registration     TEXT, -- JSON
  first_seen    INTEGER NOT NULL,
  last_seen     INTEGER NOT NULL
) STRICT;
INSERT INTO nodes VALUES('gpu07.rack-3','i-1','10.0.0.7','v1.2.3','0b5e0f1c-2f62-4b7e-9d0e-0c2d6f0f4a11','{"zone":"ä b"}','{"gpus":[{"uuid":"GPU-1","memory_bytes":85899345920}]}',1772409600000000,1772409600123456);
INSERT INTO nodes VALUES('node-001','','','','',NULL,NULL,1772409660000000,1772413200000000);
CREATE TABLE cordons (
  node   TEXT PRIMARY KEY,
  target TEXT NOT NULL,
  reason TEXT NOT NULL,
  at     INTEGER NOT NULL
) STRICT;
INSERT INTO cordons VALUES('node-001','drained','fan',1772409600000000);
CREATE TABLE replicas (
  id         TEXT PRIMARY KEY,
  model      TEXT NOT NULL,
  command    TEXT NOT NULL,
  generation INTEGER NOT NULL,
  state      TEXT NOT NULL,
  reason     TEXT NOT NULL,
  shards     TEXT NOT NULL, -- JSON
  created_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL
) STRICT;
INSERT INTO replicas VALUES('llama-1','llama/70b','abc',4611686018427387904,'starting','näme ''quoted"','[{"node":"node-001","cards":["GPU-1","GPU-2"],"ports":{"http":20000,"rendezvous":20010}},{"node":"node-002","cards":["GPU-9","GPU-0"]}]',1772409600000000,1772409601000000);
INSERT INTO replicas VALUES('r-001','m1','',1,'placed','','[{"node":"node-001"}]',1772409660000000,1772413200000000);
CREATE TABLE usage_common (
  id   INTEGER PRIMARY KEY,
  day  INTEGER NOT NULL, -- of UTC, since 1970
  text TEXT NOT NULL, -- JSON, in the order of the view: of a caller, or of a kind
  UNIQUE (day, text)
) STRICT;
INSERT INTO usage_common VALUES(1,20514,'["k","ada","full","total",-62135596800000000]');
INSERT INTO usage_common VALUES(2,20514,'["näme <&>","m0","","","/v1/chat/completions","",0,200,"ok","",0,"engine"]');
INSERT INTO usage_common VALUES(3,20514,'["k","ada","full","day",1772409600000000]');
INSERT INTO usage_common VALUES(4,20514,'["näme <&>","m1","","","/v1/chat/completions","",0,200,"ok","",0,"engine"]');
INSERT INTO usage_common VALUES(5,20514,'["k","ada",null,null,null]');
INSERT INTO usage_common VALUES(6,20514,'["näme <&>","m2","","","/v1/chat/completions","",0,0,"ok","",0,"none"]');
INSERT INTO usage_common VALUES(7,20514,'["näme <&>","m2","","","/v1/chat/completions","",0,200,"ok","",0,"engine"]');
INSERT INTO usage_common VALUES(8,20514,'["näme <&>","m0","","","/v1/chat/completions","",0,0,"ok","",0,"none"]');
INSERT INTO usage_common VALUES(9,20514,'["näme <&>","m1","","","/v1/chat/completions","",0,0,"ok","",0,"none"]');
INSERT INTO usage_common VALUES(10,20515,'["k","ada","full","total",-62135596800000000]');
INSERT INTO usage_common VALUES(11,20515,'["näme <&>","m0","","","/v1/chat/completions","",0,200,"ok","",0,"engine"]');
INSERT INTO usage_common VALUES(12,20515,'["k","ada","full","day",1772496000000000]');
INSERT INTO usage_common VALUES(13,20515,'["näme <&>","m1","","","/v1/chat/completions","",0,200,"ok","",0,"engine"]');
INSERT INTO usage_common VALUES(14,20515,'["k","ada",null,null,null]');
INSERT INTO usage_common VALUES(15,20515,'["näme <&>","m2","","","/v1/chat/completions","",0,0,"ok","",0,"none"]');
INSERT INTO usage_common VALUES(16,20515,'["näme <&>","m2","","","/v1/chat/completions","",0,200,"ok","",0,"engine"]');
INSERT INTO usage_common VALUES(17,20515,'["näme <&>","m0","","","/v1/chat/completions","",0,0,"ok","",0,"none"]');
INSERT INTO usage_common VALUES(18,20515,'["näme <&>","m1","","","/v1/chat/completions","",0,0,"ok","",0,"none"]');
INSERT INTO usage_common VALUES(19,20516,'["k","ada","full","total",-62135596800000000]');
INSERT INTO usage_common VALUES(20,20516,'["näme <&>","m0","","","/v1/chat/completions","",0,200,"ok","",0,"engine"]');
INSERT INTO usage_common VALUES(21,20516,'["k","ada","full","day",1772582400000000]');
INSERT INTO usage_common VALUES(22,20516,'["näme <&>","m1","","","/v1/chat/completions","",0,200,"ok","",0,"engine"]');
INSERT INTO usage_common VALUES(23,20516,'["k","ada",null,null,null]');
INSERT INTO usage_common VALUES(24,20516,'["näme <&>","m2","","","/v1/chat/completions","",0,0,"ok","",0,"none"]');
INSERT INTO usage_common VALUES(25,20516,'["näme <&>","m2","","","/v1/chat/completions","",0,200,"ok","",0,"engine"]');
INSERT INTO usage_common VALUES(26,20516,'["näme <&>","m0","","","/v1/chat/completions","",0,0,"ok","",0,"none"]');
INSERT INTO usage_common VALUES(27,20516,'["näme <&>","m1","","","/v1/chat/completions","",0,0,"ok","",0,"none"]');
INSERT INTO usage_common VALUES(28,20516,'[null,"m","e-x","","","",0,200,"","",0,"engine"]');
CREATE TABLE usage_rows (
  seq        INTEGER PRIMARY KEY, -- in which order rows of one time are listed
  request_id ANY NOT NULL UNIQUE, -- the 16 bytes of an ID that this program made; the text of another
  at         INTEGER NOT NULL,
  caller     INTEGER NOT NULL, -- in usage_common, as the next
  kind       INTEGER NOT NULL,
  rest       TEXT NOT NULL -- JSON, in the order of the view
) STRICT;
INSERT INTO usage_rows VALUES(6,'req-00005',1772427600000000,3,7,'[1000000000,1000000,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(7,'req-00006',1772431200000000,5,8,'[1000000000,null,null,null,null,null,null]');
INSERT INTO usage_rows VALUES(8,'req-00007',1772434800000000,5,4,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(9,'req-00008',1772438400000000,1,7,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(10,'req-00009',1772442000000000,3,2,'[1000000000,1000000,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(11,'req-00010',1772445600000000,5,9,'[1000000000,null,null,null,null,null,null]');
INSERT INTO usage_rows VALUES(12,'req-00011',1772449200000000,5,7,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(13,'req-00012',1772452800000000,1,2,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(14,'req-00013',1772456400000000,3,4,'[1000000000,1000000,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(15,'req-00014',1772460000000000,5,6,'[1000000000,null,null,null,null,null,null]');
INSERT INTO usage_rows VALUES(16,'req-00015',1772463600000000,5,2,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(17,'req-00016',1772467200000000,1,4,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(18,'req-00017',1772470800000000,3,7,'[1000000000,1000000,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(19,'req-00018',1772474400000000,5,8,'[1000000000,null,null,null,null,null,null]');
INSERT INTO usage_rows VALUES(20,'req-00019',1772478000000000,5,4,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(21,'req-00020',1772481600000000,1,7,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(22,'req-00021',1772485200000000,3,2,'[1000000000,1000000,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(23,'req-00022',1772488800000000,5,9,'[1000000000,null,null,null,null,null,null]');
INSERT INTO usage_rows VALUES(24,'req-00023',1772492400000000,5,7,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(25,'req-00024',1772496000000000,10,11,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(26,'req-00025',1772499600000000,12,13,'[1000000000,1000000,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(27,'req-00026',1772503200000000,14,15,'[1000000000,null,null,null,null,null,null]');
INSERT INTO usage_rows VALUES(28,'req-00027',1772506800000000,14,11,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(29,'req-00028',1772510400000000,10,13,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(30,'req-00029',1772514000000000,12,16,'[1000000000,1000000,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(31,'req-00030',1772517600000000,14,17,'[1000000000,null,null,null,null,null,null]');
INSERT INTO usage_rows VALUES(32,'req-00031',1772521200000000,14,13,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(33,'req-00032',1772524800000000,10,16,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(34,'req-00033',1772528400000000,12,11,'[1000000000,1000000,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(35,'req-00034',1772532000000000,14,18,'[1000000000,null,null,null,null,null,null]');
INSERT INTO usage_rows VALUES(36,'req-00035',1772535600000000,14,16,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(37,'req-00036',1772539200000000,10,11,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(38,'req-00037',1772542800000000,12,13,'[1000000000,1000000,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(39,'req-00038',1772546400000000,14,15,'[1000000000,null,null,null,null,null,null]');
INSERT INTO usage_rows VALUES(40,'req-00039',1772550000000000,14,11,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(41,'req-00040',1772553600000000,10,13,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(42,'req-00041',1772557200000000,12,16,'[1000000000,1000000,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(43,'req-00042',1772560800000000,14,17,'[1000000000,null,null,null,null,null,null]');
INSERT INTO usage_rows VALUES(44,'req-00043',1772564400000000,14,13,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(45,'req-00044',1772568000000000,10,16,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(46,'req-00045',1772571600000000,12,11,'[1000000000,1000000,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(47,'req-00046',1772575200000000,14,18,'[1000000000,null,null,null,null,null,null]');
INSERT INTO usage_rows VALUES(48,'req-00047',1772578800000000,14,16,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(49,'req-00048',1772582400000000,19,20,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(50,'req-00049',1772586000000000,21,22,'[1000000000,1000000,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(51,'req-00050',1772589600000000,23,24,'[1000000000,null,null,null,null,null,null]');
INSERT INTO usage_rows VALUES(52,'req-00051',1772593200000000,23,20,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(53,'req-00052',1772596800000000,19,22,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(54,'req-00053',1772600400000000,21,25,'[1000000000,1000000,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(55,'req-00054',1772604000000000,23,26,'[1000000000,null,null,null,null,null,null]');
INSERT INTO usage_rows VALUES(56,'req-00055',1772607600000000,23,22,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(57,'req-00056',1772611200000000,19,25,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(58,'req-00057',1772614800000000,21,20,'[1000000000,1000000,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(59,'req-00058',1772618400000000,23,27,'[1000000000,null,null,null,null,null,null]');
INSERT INTO usage_rows VALUES(60,'req-00059',1772622000000000,23,25,'[1000000000,null,100,null,20,null,1000]');
INSERT INTO usage_rows VALUES(61,X'019cab3f00b80123456789abcdef0123',1772661600000000,23,28,'[0,null,null,null,null,null,1]');
INSERT INTO usage_rows VALUES(62,X'019cab3f00b80123456789abcdef0124',1772661601000000,23,28,'[0,null,null,null,null,null,1]');
INSERT INTO usage_rows VALUES(63,'req_019cab3f00b80123456789abcdef0124.mine',1772661602000000,23,28,'[0,null,null,null,null,null,1]');
CREATE INDEX keys_by_time ON keys (created_at, id);
CREATE INDEX keys_by_owner ON keys (owner, created_at, id);
CREATE INDEX usage_hours_by_key ON usage_hours (key_id, start);
CREATE INDEX usage_days_by_key ON usage_days (key_id, start);
CREATE INDEX grants_by_budget ON grants (key_id, period, start, at, id);
CREATE INDEX grants_returned ON grants (returned_at) WHERE returned_at IS NOT NULL;
CREATE INDEX audit_by_time ON audit (at, id);
CREATE INDEX audit_by_target ON audit (target, at, id);
CREATE INDEX nodes_by_time ON nodes (first_seen, id);
CREATE INDEX replicas_by_time ON replicas (created_at, id);
CREATE INDEX replicas_by_model ON replicas (model, created_at, id);
CREATE INDEX usage_rows_by_time ON usage_rows (at, caller);
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
COMMIT;
PRAGMA application_id = 1819045223;
PRAGMA user_version = 5;
