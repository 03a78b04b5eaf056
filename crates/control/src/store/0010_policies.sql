CREATE TABLE policy (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    enabled INTEGER NOT NULL,
    zone TEXT NOT NULL,
    schedules TEXT NOT NULL,
    since_ms INTEGER NOT NULL,
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL
) STRICT;

ALTER TABLE volume ADD COLUMN policy INTEGER REFERENCES policy (id);
ALTER TABLE volume ADD COLUMN policy_since_ms INTEGER NOT NULL DEFAULT 0;
CREATE INDEX volume_of_policy ON volume (policy);

-- The due time of the last run of each schedule.
CREATE TABLE policy_run (
    volume INTEGER NOT NULL REFERENCES volume (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    due_ms INTEGER NOT NULL,
    PRIMARY KEY (volume, kind)
) STRICT, WITHOUT ROWID;
