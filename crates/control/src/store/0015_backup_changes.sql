-- The view of the snapshot that a backup was made from. The next backup asks the storage what changed since.
ALTER TABLE backup ADD COLUMN made_from INTEGER;
