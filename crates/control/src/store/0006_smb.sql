-- What holds for a volume as a share: the settings that are not the default, as in signing=off,browsable=off.
ALTER TABLE volume ADD COLUMN smb TEXT NOT NULL DEFAULT '';
