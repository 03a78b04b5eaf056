-- Another service, known by its key.
CREATE TABLE peer (
    name TEXT PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    address TEXT,
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL
) STRICT;

-- A peer may replicate a volume of this service. The first destination that asks sets the relation.
CREATE TABLE authorization (
    volume INTEGER NOT NULL REFERENCES volume (id),
    peer TEXT NOT NULL REFERENCES peer (name),
    relation INTEGER UNIQUE,
    next_point INTEGER NOT NULL,
    confirmed_ms INTEGER,
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (volume, peer)
) STRICT;

-- A replication: `volume` follows `source`, or the volume `remote` of a peer. Its points are snapshots of both, named after the
-- relation and their number.
CREATE TABLE replication (
    volume INTEGER PRIMARY KEY REFERENCES volume (id),
    source INTEGER REFERENCES volume (id),
    peer TEXT REFERENCES peer (name),
    remote TEXT,
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
    changed_ms INTEGER NOT NULL,
    CHECK ((source IS NULL) = (peer IS NOT NULL AND remote IS NOT NULL))
) STRICT;
CREATE INDEX replication_of_source ON replication (source);
