-- What else who ordered a replica has to know again: JSON, or nothing.
ALTER TABLE replicas ADD COLUMN detail TEXT;
