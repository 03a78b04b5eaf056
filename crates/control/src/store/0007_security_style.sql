ALTER TABLE volume ADD COLUMN security_style TEXT NOT NULL DEFAULT 'unix';
