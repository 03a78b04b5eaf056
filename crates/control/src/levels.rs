//! The catalog of levels applied to pools and volumes.
//!
//! Sizes, counts, names, settings and limits are `envelope`'s. This file has the allowed level changes
//! and each provider's default for a volume without rules.

use crate::error::{Error, Result};

use crate::limits::{FILESTORE_NAMES_MAX, SNAP_RESERVE_PERCENT_MAX, SNAPSHOTS_PER_VOLUME_MAX};
use crate::name::SnapshotName;
use crate::pool::Pool;
use crate::pool_totals::Totals;
use crate::protocol::Protocols;
use crate::rule::{Access, ExportRule};
use crate::volume::Volume;
use envelope::{Bytes, Ceilings, Iops, Level, Owner, Protocol, Provider};
use std::num::NonZeroU64;
use vfs::qos::{Limits, PoolLimits, VolumeLimits};
use vfs::{Capacity, Root, SecurityStyle, Squash};

/// Rules of a volume, where its provider sets no number.
pub const RULES_MAX: usize = 256;

/// The largest number of bytes or files: the store and the kernel's quotas use signed integers.
const COUNT_MAX: u64 = i64::MAX.unsigned_abs();

/// Refuses a pool that its level does not permit, independent of its volumes.
pub(crate) fn check_pool(pool: &Pool) -> Result<()> {
    if pool.size.0 > COUNT_MAX {
        return Err(Error::invalid(
            format!("a pool of {}", pool.size.for_people()),
            format!("at most {}", Bytes(COUNT_MAX)),
        ));
    }
    Ok(pool.declared().limits().map(drop)?)
}

/// Returns the limits of a pool's meter; none if its volumes have their own limits.
pub(crate) fn pool_limits(pool: &Pool) -> Result<PoolLimits> {
    let limits = pool.declared().limits()?;
    Ok(match limits.owner {
        Owner::Pool => PoolLimits {
            all: ceilings(&limits.total, limits.write_cost_thousandths),
            per_client: ceilings(&limits.per_client, limits.write_cost_thousandths),
        },
        Owner::Volume => PoolLimits::default(),
    })
}

impl Pool {
    /// Returns the pool's limits with their origins.
    pub fn limits(&self) -> Result<envelope::Limits> {
        Ok(self.declared().limits()?)
    }
}

impl Volume {
    /// Returns the volume's limits with their origins; `pool` must be the volume's pool.
    pub fn limits(&self, pool: &Pool) -> Result<envelope::Limits> {
        Ok(home(pool, self).volume_limits(&self.declared())?)
    }
}

pub(crate) fn volume_limits(pool: &Pool, volume: &Volume) -> Result<VolumeLimits> {
    let limits = volume.limits(pool)?;
    let all = match limits.owner {
        Owner::Pool => Limits::NONE,
        Owner::Volume => ceilings(&limits.total, limits.write_cost_thousandths),
    };
    let per_client = ceilings(&limits.per_client, limits.write_cost_thousandths);
    Ok(VolumeLimits { all, per_client, mix: limits.shape.map(crate::shape::mix) })
}

pub(crate) fn capacity(pool: &Pool, volume: &Volume) -> Capacity {
    let files = home(pool, volume).inodes(&volume.declared()).unwrap_or(COUNT_MAX);
    Capacity { bytes: volume.size.0, files }
}

/// The bytes that the files of a volume leave to its snapshots: whole blocks, as clients count.
pub(crate) fn reserve(volume: &Volume) -> u64 {
    let bytes = u128::from(volume.size.0) * u128::from(volume.snap_reserve) / 100;
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    bytes - bytes % vfs::backend::charge::BLOCK_BYTES
}

/// Refuses a reserve for snapshots that the provider does not offer. Google Cloud NetApp Volumes has `snapReserve`; the
/// volumes of Azure NetApp Files and the instances of Filestore have none.
fn check_snap_reserve(level: Level, percent: u8) -> Result<()> {
    let what = || format!("{level}: a reserve of {percent} % for snapshots");
    match level.info().provider {
        _ if percent == 0 => Ok(()),
        Provider::Anf | Provider::Filestore => {
            Err(Error::invalid(what(), "0 %: snapshots use the space of the volume at this level"))
        }
        Provider::Gcnv | Provider::Plimsoll if percent > SNAP_RESERVE_PERCENT_MAX => {
            Err(Error::invalid(what(), format!("0 to {SNAP_RESERVE_PERCENT_MAX} %")))
        }
        Provider::Gcnv | Provider::Plimsoll => Ok(()),
    }
}

/// Whether volumes in `pool` can have a reserve for snapshots.
pub(crate) fn has_snap_reserve(pool: &Pool, level: Option<Level>) -> bool {
    check_snap_reserve(level.unwrap_or(pool.level), 1).is_ok()
}

/// The pool as the catalog sees it for `volume`: at the volume's own level, if it has one.
fn home(pool: &Pool, volume: &Volume) -> envelope::Pool {
    match volume.level {
        None => pool.declared(),
        Some(level) => envelope::Pool::new(level, pool.size),
    }
}

fn ceilings(ceilings: &Ceilings, write_op_milli: u32) -> Limits {
    let rate = |rate: Option<envelope::BytesPerSecond>| rate.and_then(|rate| NonZeroU64::new(rate.0));
    let ops = |ops: Option<Iops>| ops.and_then(|ops| NonZeroU64::new(ops.0));
    Limits {
        read_bytes: rate(ceilings.read),
        write_bytes: rate(ceilings.write),
        bytes: rate(ceilings.combined),
        read_ops: ops(ceilings.read_iops),
        write_ops: ops(ceilings.write_iops),
        ops: ops(ceilings.combined_iops),
        write_op_milli,
    }
}

/// Refuses a volume that its level does not permit, independent of other volumes.
pub(crate) fn check_volume(pool: &Pool, volume: &Volume) -> Result<()> {
    let level = level_of(pool, volume)?;
    let info = level.info();
    info.volume_name.map_or(Ok(()), |rule| rule.check(volume.name.as_str()))?;
    info.share_name.map_or(Ok(()), |rule| rule.check(volume.share.as_str()))?;
    home(pool, volume).volume_limits(&volume.declared())?;
    check_protocols(level, volume.protocols)?;
    check_security_style(volume)?;
    check_snap_reserve(level, volume.snap_reserve)?;
    check_rules(level, volume)
}

/// Refuses a name for a snapshot that the volume's provider does not permit.
pub(crate) fn check_snapshot_name(pool: &Pool, volume: &Volume, name: &SnapshotName) -> Result<()> {
    name.check_new()?;
    let info = level_of(pool, volume)?.info();
    info.snapshot_name.map_or(Ok(()), |rule| rule.check(name.as_str()))?;
    let chars = volume.share.as_str().len() + name.as_str().len();
    if info.provider == Provider::Filestore && chars > FILESTORE_NAMES_MAX {
        return Err(Error::invalid(
            format!(
                "{}: the share {} with a snapshot {name}, {chars} characters together",
                info.name, volume.share
            ),
            format!("at most {FILESTORE_NAMES_MAX} characters together"),
        ));
    }
    Ok(())
}

/// Refuses a number of snapshots above the limit of the volume's level.
pub(crate) fn check_snapshots(pool: &Pool, volume: &Volume, count: usize) -> Result<()> {
    let level = level_of(pool, volume)?;
    let most = level.info().counts.snapshots_per_volume.unwrap_or(SNAPSHOTS_PER_VOLUME_MAX);
    let most = most.min(SNAPSHOTS_PER_VOLUME_MAX);
    let what = format!("snapshot number {count} of the volume {} ({level})", volume.name);
    match usize::try_from(most).unwrap_or(usize::MAX) {
        0 => Err(Error::invalid(what, "none: this level has no snapshots")),
        most if count > most => {
            Err(Error::invalid(what, format!("at most {most} snapshots of a volume; delete some first")))
        }
        _ => Ok(()),
    }
}

pub(crate) fn level_of(pool: &Pool, volume: &Volume) -> Result<Level> {
    let Some(level) = volume.level else { return Ok(pool.level) };
    if pool.level.info().provider != Provider::Plimsoll {
        let what = format!("a separate level {level} for a volume in a pool of {}", pool.level);
        return Err(Error::invalid(what, "no level: the volume uses the pool's level"));
    }
    let info = level.info();
    if info.owner == Owner::Pool || info.is_instance {
        let what = format!("{level} as the level of a single volume: its limits are a pool's");
        return Err(Error::invalid(what, format!("a pool of {level}")));
    }
    Ok(level)
}

fn check_protocols(level: Level, protocols: Protocols) -> Result<()> {
    let info = level.info();
    let possible: Protocols = info.protocols.iter().copied().collect();
    if protocols.is_empty() || !possible.include(protocols) {
        let what = format!("{level}: a volume with the protocols \"{protocols}\"");
        return Err(Error::invalid(what, format!("one or more of {possible}")));
    }
    let has_smb = protocols.contains(Protocol::Smb);
    if has_smb && protocols.iter().count() > 1 && !info.smb_with_nfs {
        return Err(Error::invalid(format!("{level}: SMB and NFS together ({protocols})"), "one of them"));
    }
    Ok(())
}

/// Requires SMB for access control lists: clients read and change them over SMB alone.
fn check_security_style(volume: &Volume) -> Result<()> {
    match volume.security_style {
        SecurityStyle::Ntfs if !volume.protocols.contains(Protocol::Smb) => Err(Error::invalid(
            format!(
                "the security style ntfs for a volume with the protocols \"{}\": only SMB clients can change \
                 access control lists",
                volume.protocols
            ),
            "the security style unix, or SMB among the protocols",
        )),
        SecurityStyle::Unix | SecurityStyle::Ntfs => Ok(()),
    }
}

/// Refuses protocols that this process does not serve: such a volume cannot be mounted.
pub(crate) fn check_served(protocols: Protocols, served: Protocols) -> Result<()> {
    if served.include(protocols) {
        return Ok(());
    }
    let missing = protocols.without(served);
    let what = format!(
        "a volume over \"{missing}\", which is not served (SMB is, if \"plimsoll serve\" has --smb-listen)"
    );
    Err(Error::invalid(what, served.to_string()))
}

fn check_rules(level: Level, volume: &Volume) -> Result<()> {
    let info = level.info();
    let counted = info.counts.export_rules_per_volume.and_then(|most| usize::try_from(most).ok());
    let most = counted.unwrap_or(RULES_MAX);
    let rules = &volume.rules;
    if rules.len() > most {
        return Err(Error::invalid(
            format!("{level}: {} export rules", rules.len()),
            format!("at most {most}"),
        ));
    }
    if let Some(rule) = rules.iter().find(|rule| rule.protocols.and(volume.protocols).is_empty()) {
        let what = format!("a rule for {} over the protocols \"{}\"", rule.clients, rule.protocols);
        return Err(Error::invalid(what, format!("some of the volume's, {}", volume.protocols)));
    }
    rules.iter().try_for_each(ExportRule::check_ids)?;
    let mut all_squashed = rules.iter().filter(|rule| rule.squash == Squash::All);
    let first = all_squashed.next();
    let cannot_write = first.is_some_and(|rule| rule.access != Access::ReadWrite);
    if info.provider == Provider::Gcnv && (cannot_write || all_squashed.next().is_some()) {
        let what = format!("{level}: rules that squash all users");
        return Err(Error::invalid(what, "one such rule, for reading and writing"));
    }
    Ok(())
}

/// Refuses totals that the pool does not permit. `force` permits volumes to exceed the pool's bytes.
pub(crate) fn check_totals(pool: &Pool, sum: &Totals, force: bool) -> Result<()> {
    let wanted = sum.bytes();
    if wanted > pool.size.0 {
        let refusal = Error::PoolFull { pool: pool.name.to_string(), size: pool.size.0, wanted };
        return if force { Ok(()) } else { Err(refusal) };
    }
    Ok(pool.declared().check_totals(&sum.of_level())?)
}

/// Refuses a change of a pool's level that its provider does not offer.
pub(crate) fn check_pool_level(from: Level, to: Level) -> Result<()> {
    let ours = |level: Level| level.info().provider == Provider::Plimsoll;
    if from == to || (ours(from) && ours(to)) {
        return Ok(());
    }
    let allowed = "a pool keeps its level: make another pool and move the volumes there";
    Err(Error::invalid(format!("changing a pool from {from} to {to}"), allowed))
}

/// Refuses a move between pools whose levels do not permit it.
pub(crate) fn check_move(from: Level, to: Level) -> Result<()> {
    let (provider, other) = (from.info().provider, to.info().provider);
    let allowed = match provider {
        _ if provider != other => "a pool of the same provider".to_owned(),
        Provider::Anf | Provider::Plimsoll => return Ok(()),
        // By moving the volume, and between these two alone
        // (cloud.google.com/netapp/volumes/docs/discover/service-levels, 2026-04-10).
        Provider::Gcnv => match (from, to) {
            (Level::GcnvPremium | Level::GcnvExtreme, Level::GcnvPremium | Level::GcnvExtreme) => {
                return Ok(());
            }
            _ => "between gcnv/premium and gcnv/extreme".to_owned(),
        },
        Provider::Filestore => "an instance stays in its own pool".to_owned(),
    };
    Err(Error::invalid(format!("moving a volume from a pool of {from} to one of {to}"), allowed))
}

/// Whether pool and volume of this level are one object.
pub(crate) fn is_instance(level: Level) -> bool {
    level.info().is_instance
}

/// Returns the export rules of a volume without explicit ones (`docs/decisions/0016-control.md`).
pub(crate) fn default_rules(level: Level) -> Vec<ExportRule> {
    let everybody = || "0.0.0.0/0,::/0".parse().ok().map(ExportRule::for_clients).into_iter().collect();
    match level.info().provider {
        // Filestore's share without options, and the rule that Azure's own tools write where none is given.
        Provider::Filestore | Provider::Anf => everybody(),
        Provider::Gcnv | Provider::Plimsoll => Vec::new(),
    }
}

/// The default root directory: owned by root, with the provider's mode. Default rules squash no user:
/// Azure NetApp Files gives root access, and Google's `squashMode` is `NO_ROOT_SQUASH` by default.
/// So root of an admitted client can write, and can change the owner.
pub fn default_root(level: Level) -> Root {
    let mode = match level.info().provider {
        // learn.microsoft.com/azure/azure-netapp-files/configure-unix-permissions-change-ownership-mode: 0770; the same
        // for GCNV's `unixPermissions`.
        Provider::Anf | Provider::Gcnv => 0o770,
        // cloud.google.com/filestore/docs/access-control: rwxr-xr-x.
        Provider::Filestore | Provider::Plimsoll => 0o755,
    };
    Root { mode, uid: 0, gid: 0 }
}

/// The protocols of a volume that names none: NFSv3, and the latest NFSv4 that the level has.
pub(crate) fn default_protocols(level: Level) -> Protocols {
    let all: Protocols = level.info().protocols.iter().copied().collect();
    let latest = [Protocol::NfsV42, Protocol::NfsV41].into_iter().find(|&nfs4| all.contains(nfs4));
    latest.into_iter().chain([Protocol::NfsV3]).collect()
}

/// Refuses a new size of a pool with these volumes. `force` permits volumes to exceed the pool's bytes.
pub(crate) fn check_pool_size(pool: &Pool, to: Bytes, volumes: &[Volume], force: bool) -> Result<()> {
    check_totals(&Pool { size: to, ..pool.clone() }, &Totals::of_all(volumes), force)?;
    let declared: Vec<_> = if force { Vec::new() } else { volumes.iter().map(Volume::declared).collect() };
    Ok(pool.declared().check_resize(to, &declared)?)
}

/// Refuses a new size of a volume that holds `used` bytes.
pub(crate) fn check_volume_size(pool: &Pool, volume: &Volume, to: Bytes, used: u64) -> Result<()> {
    // The caller has already decided whether the size may be below the use.
    let resize = envelope::Resize { to, used: Bytes(used.min(to.0)), lowest: volume.size_lowest };
    Ok(home(pool, volume).check_volume_resize(&volume.declared(), &resize)?)
}
