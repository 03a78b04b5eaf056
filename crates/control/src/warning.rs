//! Warnings: conditions that refuse nothing but that the operator should know.

use crate::name::{PoolName, SnapshotName, VolumeName};
use crate::protocol::Protocols;
use crate::rule::{missing_for, protection_word};
use envelope::Bytes;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use vfs::{FsError, Protection, VolumeId};

/// The used part of a volume from which it counts as full.
pub(crate) const VOLUME_FULL_PERCENT: u64 = 95;

/// A condition that works, but perhaps not as the operator expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    DiskFull,
    /// The pools together promise more than the disk has.
    OverDisk {
        /// Bytes of all pools.
        promised: Bytes,
        disk: Bytes,
    },
    /// The volumes of a pool are larger than the pool.
    OverPool {
        pool: PoolName,
        size: Bytes,
        taken: Bytes,
    },
    /// Storage without a row in the store. The service leaves it alone.
    OrphanedStorage {
        /// The id of the volume that the storage belonged to.
        volume: VolumeId,
    },
    /// A volume is not served, because its storage does not open.
    NotOpened {
        volume: VolumeName,
        error: FsError,
    },
    /// A volume can be read but not changed, because what it holds could not be counted after a crash.
    NotCounted {
        volume: VolumeName,
        error: FsError,
    },
    /// A snapshot without a row in the store, which the service deletes.
    StraySnapshot {
        volume: VolumeName,
        /// The number of the snapshot.
        view: u32,
    },
    /// A snapshot that the storage does not have.
    LostSnapshot {
        volume: VolumeName,
        snapshot: SnapshotName,
    },
    /// The snapshots in the storage of a volume cannot be read.
    SnapshotsNotRead {
        volume: VolumeName,
        reason: String,
    },
    /// A change that an earlier run began could not be finished; the next start tries again.
    Unfinished {
        volume: VolumeName,
        reason: String,
    },
    /// A volume has no rule: no client can mount it.
    NoRules {
        volume: VolumeName,
    },
    /// A volume is not served over some of its protocols.
    NotServed {
        volume: VolumeName,
        protocols: Protocols,
    },
    /// A rule asks for more protection than connections have: over these protocols no client can mount by it.
    Unprotected {
        volume: VolumeName,
        clients: String,
        protection: Protection,
        protocols: Protocols,
    },
    /// A rule never applies, because one before it is for the same clients.
    HiddenRule {
        volume: VolumeName,
        /// Number and clients of the rule.
        rule: String,
        by: String,
    },
    /// A volume is nearly full, or full.
    VolumeFull {
        volume: VolumeName,
    },
    /// Calls have failed because of a defect in the program.
    Defects {
        calls: u64,
    },
    /// A volume is not served at one of its endpoints.
    EndpointDown {
        volume: VolumeName,
        address: IpAddr,
        reason: String,
    },
    /// Users cannot log in, because their passwords were sealed with another key.
    UnreadablePasswords {
        users: usize,
        key: PathBuf,
    },
    /// A rule names a host whose addresses could not be looked up.
    UnknownHost {
        volume: VolumeName,
        host: String,
        reason: String,
        /// Whether the addresses of an earlier look-up still apply; if not, the rule matches no client by that name.
        has_addresses: bool,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DiskFull => f.write_str(
                "the disk is full: clients can read and delete, but hardly write. To make room, delete files on the volumes \
                 or elsewhere on the disk, or enlarge the disk",
            ),
            Self::OverDisk { promised, disk } => over_disk(f, *promised, *disk),
            Self::OverPool { pool, size, taken } => {
                write!(f, "the volumes of the pool {pool} have {taken} together, the pool {size}")
            }
            Self::OrphanedStorage { volume } => write!(
                f,
                "the data directory contains a volume {:016x} that the store does not know; plimsoll does not \
                 change it",
                volume.0
            ),
            Self::NotOpened { volume, error } => {
                write!(f, "cannot serve the volume {volume}: its storage does not open: {error}")
            }
            Self::NotCounted { volume, error } => write!(
                f,
                "the volume {volume} is read-only: counting its files after a crash failed ({error}); \
                 plimsoll tries again every minute, see the log"
            ),
            Self::StraySnapshot { volume, view } => stray_snapshot(f, volume, *view),
            Self::LostSnapshot { volume, snapshot } => lost_snapshot(f, volume, snapshot),
            Self::SnapshotsNotRead { volume, reason } => {
                write!(f, "cannot read which snapshots the storage of the volume {volume} has: {reason}")
            }
            Self::Unfinished { volume, reason } => write!(
                f,
                "a change of the volume {volume} did not finish; plimsoll tries again at the next start: {reason}"
            ),
            Self::NoRules { volume } => {
                write!(f, "nobody may mount the volume {volume}: it has no export rule, add one")
            }
            Self::NotServed { volume, protocols } => write!(
                f,
                "the volume {volume} is not served over {protocols}: the service was started without --smb-listen"
            ),
            Self::Unprotected { volume, clients, protection, protocols } => {
                let rule = format!("the volume {volume} over {protocols} by its rule for {clients}");
                unprotected(f, &rule, *protection, *protocols)
            }
            Self::HiddenRule { volume, rule, by } => write!(
                f,
                "rule {rule}, of the volume {volume} never applies: rule {by}, decides before it; move it up or remove it"
            ),
            Self::VolumeFull { volume } => write!(
                f,
                "the volume {volume} is full to {VOLUME_FULL_PERCENT} % or more: enlarge it, or delete files and snapshots"
            ),
            Self::Defects { calls } => defects(f, *calls),
            Self::EndpointDown { volume, address, reason } => write!(
                f,
                "the volume {volume} is not served at its endpoint {address}: {reason}; the service keeps trying"
            ),
            Self::UnreadablePasswords { users, key } => write!(
                f,
                "{users} user{} cannot log in: {} is not the key that their passwords were sealed with. Put that one back \
                 and restart, or set their passwords anew",
                if *users == 1 { "" } else { "s" },
                key.display()
            ),
            Self::UnknownHost { volume, host, reason, has_addresses } => {
                let [stay, none] = ["its last known addresses stay valid", "its rule admits no client"];
                let meanwhile = if *has_addresses { stay } else { none };
                write!(f, "the host {host} in a rule of the volume {volume} was not found, {meanwhile}: {reason}")
            }
        }
    }
}

fn stray_snapshot(f: &mut fmt::Formatter<'_>, volume: &VolumeName, view: u32) -> fmt::Result {
    write!(
        f,
        "the storage of the volume {volume} had a snapshot (number {view}) that the store does not know; "
    )?;
    f.write_str("plimsoll deletes it")
}

fn lost_snapshot(f: &mut fmt::Formatter<'_>, volume: &VolumeName, snapshot: &SnapshotName) -> fmt::Result {
    write!(f, "the snapshot {snapshot} of the volume {volume} is lost: its storage does not have it; ")?;
    f.write_str("delete the snapshot")
}

fn defects(f: &mut fmt::Formatter<'_>, calls: u64) -> fmt::Result {
    let plural = if calls == 1 { "" } else { "s" };
    write!(f, "{calls} call{plural} failed since the start because of a defect in plimsoll: ")?;
    f.write_str("please report the lines with \"a defect:\" in the log")
}

fn over_disk(f: &mut fmt::Formatter<'_>, promised: Bytes, disk: Bytes) -> fmt::Result {
    // The size of a disk is not round; a GiB is exact enough.
    let disk = if disk.0 >> 30 > 0 { Bytes(disk.0 >> 30 << 30) } else { disk };
    write!(f, "the pools have {promised} in total, but the disk has only {disk}: the disk may fill up first")
}

fn unprotected(
    f: &mut fmt::Formatter<'_>,
    rule: &str,
    protection: Protection,
    protocols: Protocols,
) -> fmt::Result {
    write!(f, "nobody can mount {rule}: it asks for {}, and ", protection_word(protection))?;
    if protocols == Protocols::SMB {
        f.write_str("clients of SMB show no certificate")
    } else {
        write!(f, "the service was started without {}", missing_for(protection))
    }
}
