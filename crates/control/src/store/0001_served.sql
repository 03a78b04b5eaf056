CREATE TABLE pool (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    level TEXT NOT NULL,
    size INTEGER NOT NULL,
    settings TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE volume (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    share TEXT NOT NULL UNIQUE,
    pool INTEGER NOT NULL REFERENCES pool (id),
    level TEXT,
    size INTEGER NOT NULL,
    size_lowest INTEGER NOT NULL,
    settings TEXT NOT NULL,
    protocols TEXT NOT NULL,
    root_mode INTEGER NOT NULL,
    root_uid INTEGER NOT NULL,
    root_gid INTEGER NOT NULL,
    root_due INTEGER NOT NULL,
    durability TEXT NOT NULL,
    state TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX volume_of_pool ON volume (pool);

CREATE TABLE rule (
    volume INTEGER NOT NULL REFERENCES volume (id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    clients TEXT NOT NULL,
    access TEXT NOT NULL,
    squash TEXT NOT NULL,
    anonymous_uid INTEGER NOT NULL,
    anonymous_gid INTEGER NOT NULL,
    protocols TEXT NOT NULL,
    PRIMARY KEY (volume, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE pool_label (
    owner INTEGER NOT NULL REFERENCES pool (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE volume_label (
    owner INTEGER NOT NULL REFERENCES volume (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE operation (
    id INTEGER PRIMARY KEY,
    actor TEXT NOT NULL,
    verb TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    detail TEXT NOT NULL,
    started_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    outcome TEXT NOT NULL,
    reason TEXT NOT NULL
) STRICT;
CREATE INDEX operation_of_thing ON operation (kind, name);
