-- A replication: `volume` follows `source`. Its points are snapshots of both, named after the relation and their number.
CREATE TABLE replication (
    volume INTEGER PRIMARY KEY REFERENCES volume (id),
    source INTEGER NOT NULL REFERENCES volume (id),
    relation INTEGER NOT NULL UNIQUE,
    schedule TEXT,
    phase TEXT NOT NULL,
    next_point INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    healthy INTEGER NOT NULL,
    last_error TEXT NOT NULL,
    last_ended_ms INTEGER,
    last_duration_ms INTEGER NOT NULL DEFAULT 0,
    last_bytes INTEGER NOT NULL DEFAULT 0,
    last_point_ms INTEGER NOT NULL DEFAULT 0,
    total_bytes INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX replication_of_source ON replication (source);
