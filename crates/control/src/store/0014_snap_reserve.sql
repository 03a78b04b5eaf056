-- The part of a volume that files leave to its snapshots, in percent of its size.
ALTER TABLE volume ADD COLUMN snap_reserve INTEGER NOT NULL DEFAULT 0;
