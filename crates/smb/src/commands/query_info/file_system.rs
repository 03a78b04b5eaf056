//! QUERY_INFO of a file system (MS-FSA §2.1.5.13).

use super::info::Info;
use super::quota;
use crate::limits::IO_BYTES_MAX;
use crate::metadata::file_info::FileInfo;
use crate::metadata::names::Naming;
use crate::request::context::RequestContext;
use crate::request::outcome::CommandError;
use crate::state::open::Open;
use smb_wire::classes::FileSystemClass;
use smb_wire::classes::file_system::{
    AttributeInformation, ControlInformation, DeviceCharacteristics, DeviceInformation, DeviceType,
    FileSystemAttributes, FullSizeInformation, ObjectIdInformation, SectorSizeFlags, SectorSizeInformation,
    SizeInformation, VolumeInformation,
};
use smb_wire::posix::FileSystemPosixInformation;
use smb_wire::quota::QuotaControlFlags;
use smb_wire::{Guid, NtStatus, Utf16};
use vfs::{Blocking, ExtraAttrs, FsStat, QuotaKind, QuotaTarget, Quotas, Volume, Wait};

const SECTOR_BYTES: u32 = 512;
const SECTORS_PER_UNIT: u32 = 8;
const UNIT_BYTES: u64 = PHYSICAL_SECTOR_BYTES as u64;
const PHYSICAL_SECTOR_BYTES: u32 = SECTOR_BYTES * SECTORS_PER_UNIT;
/// Minimum buffer of `FileFsVolumeInformation`, and of `FileFsAttributeInformation`: up to the name's first character,
/// aligned (MS-FSA §2.1.5.13).
const VOLUME_FIXED: usize = 24;
const ATTRIBUTE_FIXED: usize = 16;
/// Clients expect these capabilities under this name.
const FILE_SYSTEM_NAME: &str = "NTFS";

pub(super) fn query(cx: &RequestContext<'_, '_>, open: &Open, class: u8) -> Result<Info, CommandError> {
    let volume = open.file.volume();
    Ok(match FileSystemClass(class) {
        FileSystemClass::VOLUME => {
            let root = open.disk.export.root().attrs(cx.message.blocking)?;
            let label = utf16_bytes(volume.name());
            let volume = VolumeInformation {
                volume_creation_time: FileInfo::of(&root, &ExtraAttrs::default()).created,
                volume_serial_number: open.serial_number(),
                volume_label: Utf16::new(&label)?,
                supports_objects: false,
            };
            Info::with_name(&volume, VOLUME_FIXED)
        }
        FileSystemClass::SIZE => {
            let stat = stat(cx, open)?;
            Info::fixed(&SizeInformation {
                total_allocation_units: stat.bytes_total / UNIT_BYTES,
                available_allocation_units: stat.bytes_available / UNIT_BYTES,
                sectors_per_allocation_unit: SECTORS_PER_UNIT,
                bytes_per_sector: SECTOR_BYTES,
            })
        }
        FileSystemClass::FULL_SIZE => {
            let stat = stat(cx, open)?;
            Info::fixed(&FullSizeInformation {
                total_allocation_units: stat.bytes_total / UNIT_BYTES,
                caller_available_allocation_units: stat.bytes_available / UNIT_BYTES,
                actual_available_allocation_units: stat.bytes_free / UNIT_BYTES,
                sectors_per_allocation_unit: SECTORS_PER_UNIT,
                bytes_per_sector: SECTOR_BYTES,
            })
        }
        FileSystemClass::DEVICE => Info::fixed(&device(open.check_writable().is_err())),
        FileSystemClass::ATTRIBUTE => {
            let name = utf16_bytes(FILE_SYSTEM_NAME);
            let attribute = AttributeInformation {
                file_system_attributes: attributes(volume, open.check_writable().is_err()),
                maximum_component_name_length: volume.limits().name_bytes_max,
                file_system_name: Utf16::new(&name)?,
            };
            Info::with_name(&attribute, ATTRIBUTE_FIXED)
        }
        FileSystemClass::CONTROL => Info::fixed(&control(volume)),
        FileSystemClass::SECTOR_SIZE => Info::fixed(&SectorSizeInformation {
            logical_bytes_per_sector: SECTOR_BYTES,
            physical_bytes_per_sector_for_atomicity: PHYSICAL_SECTOR_BYTES,
            physical_bytes_per_sector_for_performance: PHYSICAL_SECTOR_BYTES,
            effective_physical_bytes_per_sector_for_atomicity: PHYSICAL_SECTOR_BYTES,
            flags: SectorSizeFlags::ALIGNED_DEVICE
                | SectorSizeFlags::PARTITION_ALIGNED_ON_DEVICE
                | trim(volume),
            ..SectorSizeInformation::default()
        }),
        FileSystemClass::OBJECT_ID => {
            let mut object_id = [0; 16];
            object_id[..4].copy_from_slice(&open.serial_number().to_le_bytes());
            Info::fixed(&ObjectIdInformation { object_id: Guid(object_id) })
        }
        FileSystemClass::POSIX if open.naming == Naming::Posix => Info::fixed(&posix(cx, open)?),
        _ => return Err(NtStatus::INVALID_INFO_CLASS.into()),
    })
}

/// The limits of users without a rule of their own.
fn control(volume: &Volume) -> ControlInformation {
    let rules = volume.ruling_quotas().map(Quotas::rules);
    let default = QuotaTarget { kind: QuotaKind::User, id: None };
    let limits = rules.iter().flatten().find(|rule| rule.target == default).map(|rule| rule.limits);
    let limits = limits.unwrap_or_default();
    let is_ruled = QuotaControlFlags::TRACK | QuotaControlFlags::ENFORCE;
    ControlInformation {
        default_quota_threshold: quota::limit(limits.soft_bytes),
        default_quota_limit: quota::limit(limits.bytes),
        file_system_control_flags: rules.map_or(QuotaControlFlags::empty(), |_| is_ruled),
        ..ControlInformation::default()
    }
}

fn posix(cx: &RequestContext<'_, '_>, open: &Open) -> Result<FileSystemPosixInformation, CommandError> {
    let stat = stat(cx, open)?;
    Ok(FileSystemPosixInformation {
        optimal_transfer_size: IO_BYTES_MAX,
        block_size: PHYSICAL_SECTOR_BYTES,
        total_blocks: stat.bytes_total / UNIT_BYTES,
        blocks_available: stat.bytes_free / UNIT_BYTES,
        user_blocks_available: stat.bytes_available / UNIT_BYTES,
        total_file_nodes: stat.files_total,
        free_file_nodes: stat.files_free,
        file_system_identifier: u64::from(open.serial_number()),
    })
}

fn device(is_read_only: bool) -> DeviceInformation {
    let mounted = DeviceCharacteristics::IS_MOUNTED;
    DeviceInformation {
        device_type: DeviceType::DISK,
        characteristics: if is_read_only { mounted | DeviceCharacteristics::READ_ONLY } else { mounted },
    }
}

/// Windows shows and sets ACLs only with FILE_PERSISTENT_ACLS.
fn attributes(volume: &Volume, is_read_only: bool) -> FileSystemAttributes {
    let clones = volume.capabilities().ranges.is_some_and(|ranges| ranges.clone_bytes.is_some());
    let always = FileSystemAttributes::CASE_PRESERVED_NAMES
        | FileSystemAttributes::PERSISTENT_ACLS
        | FileSystemAttributes::UNICODE_ON_DISK
        | FileSystemAttributes::NAMED_STREAMS
        | FileSystemAttributes::SUPPORTS_REPARSE_POINTS
        | FileSystemAttributes::SUPPORTS_HARD_LINKS;
    let is_sparse = volume.capabilities().ranges.is_some() && volume.capabilities().xattrs.is_some();
    let some = [
        (is_sparse, FileSystemAttributes::SUPPORTS_SPARSE_FILES),
        (clones, FileSystemAttributes::SUPPORTS_BLOCK_REFCOUNTING),
        (volume.capabilities().xattrs.is_some(), FileSystemAttributes::SUPPORTS_EXTENDED_ATTRIBUTES),
        (is_read_only, FileSystemAttributes::READ_ONLY_VOLUME),
        (volume.ruling_quotas().is_some(), FileSystemAttributes::VOLUME_QUOTAS),
    ];
    some.into_iter().filter(|(has, _)| *has).fold(always, |all, (_, attribute)| all | attribute)
}

fn trim(volume: &Volume) -> SectorSizeFlags {
    match volume.capabilities().ranges {
        Some(_) => SectorSizeFlags::TRIM_ENABLED,
        None => SectorSizeFlags::empty(),
    }
}

/// State of the volume as its caller may use it: the total and the available space are at most those of the caller's
/// quotas, the free space is the volume's.
fn stat(cx: &RequestContext<'_, '_>, open: &Open) -> Result<FsStat, CommandError> {
    if cx.message.blocking == Blocking::Never {
        return Err(CommandError::Wait(Wait::Storage));
    }
    let (volume, caller) = (open.file.volume(), &open.disk.caller);
    let stat = volume.stat()?;
    let room = volume.quota_room(caller.uid, caller.gid).unwrap_or_default();
    Ok(FsStat {
        bytes_total: stat.bytes_total.min(room.bytes_max.unwrap_or(u64::MAX)),
        bytes_available: stat.bytes_available.min(room.bytes.unwrap_or(u64::MAX)),
        files_available: stat.files_available.min(room.files.unwrap_or(u64::MAX)),
        ..stat
    })
}

fn utf16_bytes(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}
