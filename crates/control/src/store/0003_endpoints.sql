CREATE TABLE endpoint (
    volume INTEGER NOT NULL REFERENCES volume (id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    address TEXT NOT NULL,
    PRIMARY KEY (volume, place)
) STRICT, WITHOUT ROWID;
