-- What was in them stands in usage_packs.
DROP VIEW usage;
DROP TABLE usage_rows;
