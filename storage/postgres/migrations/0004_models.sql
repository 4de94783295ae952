-- Models that were added while a server ran.
CREATE TABLE models (
  name       text COLLATE "C" PRIMARY KEY,
  definition text COLLATE "C" NOT NULL,
  actor      text COLLATE "C" NOT NULL,
  created_at timestamptz NOT NULL,
  changed_at timestamptz NOT NULL,
  revision   bigint NOT NULL
);
