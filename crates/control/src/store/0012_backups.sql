-- Places of backups. The number is that in the header of the vault, so that no other one passes for it.
CREATE TABLE vault (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    number BLOB NOT NULL UNIQUE,
    place TEXT NOT NULL,
    key_file TEXT,
    lock_days INTEGER NOT NULL,
    bytes_per_s INTEGER,
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL
) STRICT;

-- The secret by which vaults know this service again.
CREATE TABLE vault_owner (
    token BLOB NOT NULL
) STRICT;

-- The number of the volume outlives the volume. A view is that of a snapshot that the backup needs.
CREATE TABLE backup (
    vault INTEGER NOT NULL REFERENCES vault (id) ON DELETE CASCADE,
    id INTEGER NOT NULL,
    name TEXT NOT NULL,
    volume TEXT NOT NULL,
    volume_id INTEGER NOT NULL,
    snapshot TEXT NOT NULL,
    kind TEXT NOT NULL,
    view INTEGER,
    previous INTEGER,
    taken_ms INTEGER NOT NULL,
    finished_ms INTEGER,
    files INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    sent_bytes INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    verified_ms INTEGER,
    damage TEXT NOT NULL,
    locked_until_ms INTEGER,
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,
    PRIMARY KEY (vault, id),
    UNIQUE (vault, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX backup_of_volume ON backup (volume_id);
CREATE INDEX locked_backup ON backup (locked_until_ms) WHERE locked_until_ms IS NOT NULL;

-- Files to restore, for their job.
CREATE TABLE file_restore (
    id INTEGER PRIMARY KEY,
    request TEXT NOT NULL
) STRICT;

-- A policy with a vault makes backups.
ALTER TABLE policy ADD COLUMN vault INTEGER REFERENCES vault (id);
ALTER TABLE volume ADD COLUMN backup_policy INTEGER REFERENCES policy (id);
ALTER TABLE volume ADD COLUMN backup_policy_since_ms INTEGER NOT NULL DEFAULT 0;
CREATE INDEX volume_of_backup_policy ON volume (backup_policy);

-- The due time of the last backup of each schedule.
CREATE TABLE backup_run (
    volume INTEGER NOT NULL REFERENCES volume (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    due_ms INTEGER NOT NULL,
    PRIMARY KEY (volume, kind)
) STRICT, WITHOUT ROWID;
