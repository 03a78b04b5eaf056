-- The size of the volume at the time of a snapshot; 0 if it was not recorded.
ALTER TABLE snapshot ADD COLUMN volume_size INTEGER NOT NULL DEFAULT 0;
-- The snapshot that a volume was made from, with the names of then, as in `v1/s1`. Neither needs to exist any more.
ALTER TABLE volume ADD COLUMN clone_of TEXT;

-- The files that a job still has to restore, in their order: the path in the snapshot, and the directory for the file.
CREATE TABLE restored_file (
    operation INTEGER NOT NULL,
    place INTEGER NOT NULL,
    path TEXT NOT NULL,
    dir TEXT NOT NULL,
    PRIMARY KEY (operation, place)
) STRICT, WITHOUT ROWID;
