-- By what limits and budgets are counted: the first of the keys that follow each
-- other. A key that was rotated before goes on with what was counted of it. '' is
-- the key's own id: a process of the version before may still write one.
ALTER TABLE keys ADD COLUMN lineage text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE keys ADD COLUMN may_explain boolean NOT NULL DEFAULT false;
