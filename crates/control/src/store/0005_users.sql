-- What the identifiers of this machine begin with, S-1-5-21-a-b-c: no secret, but another on every machine.
CREATE TABLE machine (
    sid BLOB NOT NULL
) STRICT;
INSERT INTO machine VALUES (randomblob(12));

CREATE TABLE user (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    uid INTEGER NOT NULL UNIQUE,
    gid INTEGER NOT NULL,
    nt_hash BLOB,
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE windows_name (
    user INTEGER NOT NULL REFERENCES user (id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (user, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE user_group (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    gid INTEGER NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE member (
    user_group INTEGER NOT NULL REFERENCES user_group (id) ON DELETE CASCADE,
    user INTEGER NOT NULL REFERENCES user (id) ON DELETE CASCADE,
    PRIMARY KEY (user_group, user)
) STRICT, WITHOUT ROWID;
CREATE INDEX groups_of_user ON member (user);
