//! The job set of `eda-blend` as data: operations, their number and size, and their files.
//!
//! **Transfers.** A set moves 7,263 KiB/s, 52.5 % of it reads. Small files contribute a fixed part: 30 whole-file
//! writes a second of 16 KiB are 480 KiB/s, 21 whole-file reads 336 KiB/s. Multiples of 4 KiB make up the rest:
//!
//! ```text
//!           whole files   random                              sequential                       sum      wanted
//! read         336     +  24/s ×  8 KiB            = 192   +  75/s × 43.95 KiB = 3,296     = 3,824    3,813 KiB/s
//! written      480     +  45/s × (4 or 8, so 6) KiB = 270   +  75/s × 35.93 KiB = 2,695     = 3,445    3,450 KiB/s
//! ```
//!
//! A sequential transfer is of 44 KiB (36 written); the last one of each 10 MiB file is shorter, hence the
//! means. Together 7,269 KiB/s, 52.6 % read.

use report::result::Direction;

const KIB: u32 = 1 << 10;
pub(crate) const SMALL_FILE: u64 = 16 << 10;
pub(crate) const LARGE_FILE: u64 = 10 << 20;
/// Percentage of writing operations that end with COMMIT.
pub(crate) const COMMIT_PERCENT: u64 = 15;
pub(crate) const TRANSFER_MAX: u32 = 44 * KIB;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Operation {
    Stat,
    Access,
    RandomWrite,
    WriteFile,
    RandomRead,
    ReadFile,
    Create,
    Mkdir,
    Unlink,
    UnlinkFull,
    Chmod,
    SequentialRead,
    SequentialWrite,
}

impl Operation {
    pub(crate) const ALL: [Self; 13] = [
        Self::Stat,
        Self::Access,
        Self::RandomWrite,
        Self::WriteFile,
        Self::RandomRead,
        Self::ReadFile,
        Self::Create,
        Self::Mkdir,
        Self::Unlink,
        Self::UnlinkFull,
        Self::Chmod,
        Self::SequentialRead,
        Self::SequentialWrite,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::Access => "access",
            Self::RandomWrite => "random-write",
            Self::WriteFile => "write-file",
            Self::RandomRead => "random-read",
            Self::ReadFile => "read-file",
            Self::Create => "create",
            Self::Mkdir => "mkdir",
            Self::Unlink => "unlink",
            Self::UnlinkFull => "unlink-full",
            Self::Chmod => "chmod",
            Self::SequentialRead => "sequential-read",
            Self::SequentialWrite => "sequential-write",
        }
    }

    pub(crate) fn direction(self) -> Direction {
        match self {
            Self::RandomRead | Self::ReadFile | Self::SequentialRead => Direction::Read,
            Self::RandomWrite | Self::WriteFile | Self::SequentialWrite => Direction::Write,
            Self::Stat
            | Self::Access
            | Self::Create
            | Self::Mkdir
            | Self::Unlink
            | Self::UnlinkFull
            | Self::Chmod => Direction::Other,
        }
    }

    /// The highest bit of `draw` must be pseudo-random. A sequential operation ends at the end of the file.
    pub(crate) fn bytes(self, draw: u64) -> u32 {
        match self {
            Self::RandomWrite if draw >> 63 == 0 => 4 * KIB,
            Self::RandomWrite | Self::RandomRead => 8 * KIB,
            Self::WriteFile | Self::ReadFile => 16 * KIB,
            Self::SequentialRead => TRANSFER_MAX,
            Self::SequentialWrite => 36 * KIB,
            Self::Stat
            | Self::Access
            | Self::Create
            | Self::Mkdir
            | Self::Unlink
            | Self::UnlinkFull
            | Self::Chmod => 0,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Role {
    /// Precedes the process number in directory names.
    pub letter: char,
    pub processes: usize,
    pub rate: u32,
    /// The number of each operation in a hundred.
    pub mix: &'static [(Operation, usize)],
    pub file_bytes: u64,
    pub directories: usize,
    /// Files of each process at a `file_scale` of 1.
    pub files: usize,
    /// The mix needs at least this many files.
    files_min: usize,
}

pub(crate) static FRONTEND: Role = Role {
    letter: 'f',
    processes: 3,
    rate: 100,
    mix: &[
        (Operation::Stat, 39),
        (Operation::Access, 15),
        (Operation::RandomWrite, 15),
        (Operation::WriteFile, 10),
        (Operation::RandomRead, 8),
        (Operation::ReadFile, 7),
        (Operation::Create, 2),
        (Operation::Mkdir, 1),
        (Operation::Unlink, 1),
        (Operation::UnlinkFull, 1),
        (Operation::Chmod, 1),
    ],
    file_bytes: SMALL_FILE,
    directories: 10,
    files: 1000,
    files_min: 10,
};

pub(crate) static BACKEND: Role = Role {
    letter: 'b',
    processes: 2,
    rate: 75,
    mix: &[(Operation::SequentialRead, 50), (Operation::SequentialWrite, 50)],
    file_bytes: LARGE_FILE,
    directories: 5,
    files: 500,
    files_min: 2,
};

/// Processes of a job set: first those of the frontend, then those of the backend.
pub(crate) const PROCESSES: usize = 5;

/// The role of a process in its set, and the index in the role.
pub(crate) fn role_of(process: usize) -> (&'static Role, usize) {
    match process.checked_sub(FRONTEND.processes) {
        None => (&FRONTEND, process),
        Some(number) => (&BACKEND, number),
    }
}

impl Role {
    /// Files of each process; the scale is in thousandths.
    pub(crate) fn files_at(&self, scale_thousandths: u32) -> usize {
        let scaled = self.files as u64 * u64::from(scale_thousandths) / 1000;
        usize::try_from(scaled).unwrap_or(usize::MAX).max(self.files_min)
    }
}

/// Bytes of a job set's files: 9.81 GiB at a scale of 1000 thousandths. The 11.05 GiB of the method are the
/// space to reserve.
pub(crate) fn bytes_per_set(scale_thousandths: u32) -> u64 {
    let bytes = |role: &Role| (role.processes * role.files_at(scale_thousandths)) as u64 * role.file_bytes;
    bytes(&FRONTEND) + bytes(&BACKEND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_is_as_the_method_says() {
        for (role, rate) in [(&FRONTEND, 300), (&BACKEND, 150)] {
            assert_eq!(role.mix.iter().map(|(_, share)| share).sum::<usize>(), 100);
            assert_eq!(role.processes * usize::try_from(role.rate).unwrap(), rate);
        }
        assert_eq!(FRONTEND.processes + BACKEND.processes, PROCESSES);
        assert_eq!(report::curve::SET_RATE, 300 + 150);
        assert_eq!(3 * FRONTEND.files_at(1000) + 2 * BACKEND.files_at(1000), 4000);
        assert_eq!([0, 2, 3, 4].map(|process| role_of(process).1), [0, 2, 0, 1]);
    }

    #[test]
    fn scale_shrinks_the_number_of_files_down_to_what_the_mix_needs() {
        assert_eq!(bytes_per_set(1000), 3000 * SMALL_FILE + 1000 * LARGE_FILE);
        assert_eq!(bytes_per_set(100), 300 * SMALL_FILE + 100 * LARGE_FILE);
        assert_eq!(bytes_per_set(1), 30 * SMALL_FILE + 4 * LARGE_FILE);
    }

    #[test]
    fn operations_know_their_place() {
        for (index, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, index);
            assert_eq!(operation.bytes(1) > 0, operation.direction() != Direction::Other);
            assert!(operation.bytes(0).is_multiple_of(4096) && operation.bytes(0) <= TRANSFER_MAX);
        }
    }
}
