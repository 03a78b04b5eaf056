//! Limits of management. Those of a provider are its level's.

/// Threads that run jobs.
pub const JOB_THREADS: usize = 4;
/// The threads of them that jobs with vaults can take.
pub(crate) const VAULT_JOBS_MAX: usize = 2;
/// The shortest pause of a job between two steps, in milliseconds.
pub(crate) const JOB_PAUSE_MS_MIN: u64 = 5;
/// The longest pause of a job between two steps, in milliseconds.
pub(crate) const JOB_PAUSE_MS_MAX: u64 = 200;
/// The time between two records of a job's progress, in milliseconds.
pub(crate) const JOB_RECORD_MS: u64 = 1_000;
/// The time for which a revert waits until no request and no client uses the volume any more, in milliseconds.
pub(crate) const REVERT_WAIT_MS: u64 = 60_000;
/// The time between two attempts of a revert, in milliseconds.
pub(crate) const REVERT_RETRY_MS: u64 = 20;
/// The time for which a restore waits for a client that has to return a file, in milliseconds.
pub(crate) const RESTORE_WAIT_MS: u64 = 60_000;
/// The time between two attempts to replace such a file, in milliseconds.
pub(crate) const RESTORE_RETRY_MS: u64 = 50;
/// Paths of one restore of files.
pub const RESTORE_PATHS_MAX: usize = 10;
/// Characters of such a path.
pub const RESTORE_PATH_CHARS_MAX: usize = 1_024;
/// The clock of locks is behind the time of day if it lacks this time, in milliseconds.
pub(crate) const LOCK_CLOCK_BEHIND_MS: u64 = 60_000;
/// Snapshots of a volume, where its provider sets no lower number.
pub const SNAPSHOTS_PER_VOLUME_MAX: u32 = 255;
/// The greatest reserve for snapshots, in percent of a volume's size: as ONTAP, on which Google Cloud NetApp Volumes runs.
pub const SNAP_RESERVE_PERCENT_MAX: u8 = 90;
/// Characters of a snapshot's description.
pub const DESCRIPTION_CHARS_MAX: usize = 2_048;
/// Characters of a Filestore share's name and the name of its snapshot together.
pub(crate) const FILESTORE_NAMES_MAX: usize = 77;
