//! Information classes of file systems, MS-FSCC §2.5.

use crate::quota::QuotaControlFlags;
use crate::sets::{bit_set, open_set};
use crate::{FileTime, Guid, Utf16, Wire};

/// `FileFsVolumeInformation`, MS-FSCC §2.5.9.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
#[wire(end = 1)]
pub struct VolumeInformation<'a> {
    pub volume_creation_time: FileTime,
    pub volume_serial_number: u32,
    #[wire(length = u32)]
    pub volume_label: Utf16<'a>,
    pub supports_objects: bool,
}

/// `FileFsSizeInformation`, MS-FSCC §2.5.8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct SizeInformation {
    pub total_allocation_units: u64,
    pub available_allocation_units: u64,
    pub sectors_per_allocation_unit: u32,
    pub bytes_per_sector: u32,
}

/// `FileFsFullSizeInformation`, MS-FSCC §2.5.4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct FullSizeInformation {
    pub total_allocation_units: u64,
    pub caller_available_allocation_units: u64,
    pub actual_available_allocation_units: u64,
    pub sectors_per_allocation_unit: u32,
    pub bytes_per_sector: u32,
}

open_set! {
    /// `DeviceType`, MS-FSCC §2.5.10.
    pub struct DeviceType: u32 {
        DISK = 0x07,
        NAMED_PIPE = 0x11,
    }
}

bit_set! {
    /// `Characteristics`, MS-FSCC §2.5.10.
    pub struct DeviceCharacteristics: u32 {
        READ_ONLY = 0x2,
        REMOTE = 0x10,
        IS_MOUNTED = 0x20,
    }

    /// `FileSystemAttributes`, MS-FSCC §2.5.1.
    pub struct FileSystemAttributes: u32 {
        CASE_SENSITIVE_SEARCH = 0x1,
        CASE_PRESERVED_NAMES = 0x2,
        UNICODE_ON_DISK = 0x4,
        PERSISTENT_ACLS = 0x8,
        FILE_COMPRESSION = 0x10,
        VOLUME_QUOTAS = 0x20,
        SUPPORTS_SPARSE_FILES = 0x40,
        SUPPORTS_REPARSE_POINTS = 0x80,
        SUPPORTS_OBJECT_IDS = 0x1_0000,
        NAMED_STREAMS = 0x4_0000,
        READ_ONLY_VOLUME = 0x8_0000,
        SUPPORTS_HARD_LINKS = 0x40_0000,
        SUPPORTS_EXTENDED_ATTRIBUTES = 0x80_0000,
        SUPPORTS_OPEN_BY_FILE_ID = 0x100_0000,
        SUPPORTS_BLOCK_REFCOUNTING = 0x800_0000,
    }

    /// `Flags` of `FileFsSectorSizeInformation`, MS-FSCC §2.5.7.
    pub struct SectorSizeFlags: u32 {
        ALIGNED_DEVICE = 0x1,
        PARTITION_ALIGNED_ON_DEVICE = 0x2,
        NO_SEEK_PENALTY = 0x4,
        TRIM_ENABLED = 0x8,
    }
}

/// `FileFsControlInformation`, MS-FSCC §2.5.2. Signed on the wire; -1 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
#[wire(end = 4)]
pub struct ControlInformation {
    pub free_space_start_filtering: i64,
    pub free_space_threshold: i64,
    pub free_space_stop_filtering: i64,
    pub default_quota_threshold: i64,
    pub default_quota_limit: i64,
    pub file_system_control_flags: QuotaControlFlags,
}

/// `FileFsDeviceInformation`, MS-FSCC §2.5.10.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct DeviceInformation {
    pub device_type: DeviceType,
    pub characteristics: DeviceCharacteristics,
}

/// `FileFsAttributeInformation`, MS-FSCC §2.5.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct AttributeInformation<'a> {
    pub file_system_attributes: FileSystemAttributes,
    pub maximum_component_name_length: u32,
    #[wire(length = u32)]
    pub file_system_name: Utf16<'a>,
}

/// `FileFsSectorSizeInformation`, MS-FSCC §2.5.7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct SectorSizeInformation {
    pub logical_bytes_per_sector: u32,
    pub physical_bytes_per_sector_for_atomicity: u32,
    pub physical_bytes_per_sector_for_performance: u32,
    pub effective_physical_bytes_per_sector_for_atomicity: u32,
    pub flags: SectorSizeFlags,
    pub byte_offset_for_sector_alignment: u32,
    pub byte_offset_for_partition_alignment: u32,
}

/// `FileFsObjectIdInformation`, MS-FSCC §2.5.6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
#[wire(end = 48)]
pub struct ObjectIdInformation {
    pub object_id: Guid,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Encode;

    #[test]
    fn fixed_classes_have_specified_length() {
        assert_eq!(SizeInformation::default().to_bytes().len(), 24);
        assert_eq!(FullSizeInformation::default().to_bytes().len(), 32);
        assert_eq!(DeviceInformation::default().to_bytes().len(), 8);
        assert_eq!(SectorSizeInformation::default().to_bytes().len(), 28);
        assert_eq!(ObjectIdInformation::default().to_bytes().len(), 64);
        assert_eq!(AttributeInformation::default().to_bytes().len(), 12);
    }

    #[test]
    fn volume_label_is_last() {
        let label = [0x61, 0];
        let volume_label = Utf16::new(&label).unwrap();
        let bytes =
            VolumeInformation { volume_label, supports_objects: true, ..Default::default() }.to_bytes();
        assert_eq!(bytes[12..], [2, 0, 0, 0, 1, 0, 0x61, 0]);
    }
}
