-- The access of clients to .snapshot. The number of the volume's next snapshot and the time of its last one: neither is used
-- again, also after a deletion.
ALTER TABLE volume ADD COLUMN snapshot_directory TEXT NOT NULL DEFAULT 'reachable';
ALTER TABLE volume ADD COLUMN view_next INTEGER NOT NULL DEFAULT 1;
ALTER TABLE volume ADD COLUMN snapshot_last_ms INTEGER NOT NULL DEFAULT 0;

CREATE TABLE snapshot (
    volume INTEGER NOT NULL REFERENCES volume (id) ON DELETE CASCADE,
    view INTEGER NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    description TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    locked_until_ms INTEGER,
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,
    PRIMARY KEY (volume, view),
    UNIQUE (volume, name),
    UNIQUE (volume, created_ms)
) STRICT, WITHOUT ROWID;
CREATE INDEX snapshot_in_error ON snapshot (volume) WHERE state = 'error';
CREATE INDEX locked_snapshot ON snapshot (locked_until_ms) WHERE locked_until_ms IS NOT NULL;

-- The time by which snapshots are locked.
CREATE TABLE lock_clock (
    now_ms INTEGER NOT NULL
) STRICT;
INSERT INTO lock_clock VALUES (0);

-- An operation with a spec is a job: it goes on after a restart.
ALTER TABLE operation ADD COLUMN spec TEXT;
ALTER TABLE operation ADD COLUMN done INTEGER;
ALTER TABLE operation ADD COLUMN total INTEGER;
ALTER TABLE operation ADD COLUMN cancels INTEGER NOT NULL DEFAULT 0;
