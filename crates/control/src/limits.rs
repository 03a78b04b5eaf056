//! Limits of management. Those of a provider are its level's.

/// Threads that run jobs.
pub const JOB_THREADS: usize = 2;
/// The longest pause of a job between two steps, in milliseconds.
pub(crate) const JOB_PAUSE_MS_MAX: u64 = 200;
/// The time between two records of a job's progress, in milliseconds.
pub(crate) const JOB_RECORD_MS: u64 = 1_000;
/// Snapshots of a volume, where its provider sets no lower number.
pub const SNAPSHOTS_PER_VOLUME_MAX: u32 = 255;
/// Characters of a snapshot's description.
pub const DESCRIPTION_CHARS_MAX: usize = 2_048;
/// Characters of a Filestore share's name and the name of its snapshot together.
pub(crate) const FILESTORE_NAMES_MAX: usize = 77;
