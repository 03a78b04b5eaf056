//! One valid value of every information class.

use smb_wire::Encode;
use smb_wire::classes::{file, file_system};
use smb_wire::contexts::{AllocationSize, MaximalAccess, OnDiskId};
use smb_wire::fsctl::{ObjectIdBuffer, PipeWait, ValidateNegotiateRequest, ValidateNegotiateResponse};
use smb_wire::negotiate::{Capabilities, SecurityMode};
use smb_wire::types::{AccessMask, Dialect};
use smb_wire::{Guid, NtStatus};

use crate::samples::name;

pub fn all() -> Vec<(&'static str, Vec<u8>)> {
    [file_classes(), named_classes(), file_system_classes(), others()].concat()
}

macro_rules! defaults {
    ($($module:ident::$class:ident),* $(,)?) => {
        vec![$((
            concat!("classes::", stringify!($module), "::", stringify!($class)),
            $module::$class::default().to_bytes(),
        )),*]
    };
}

fn file_classes() -> Vec<(&'static str, Vec<u8>)> {
    defaults![
        file::BasicInformation,
        file::StandardInformation,
        file::InternalInformation,
        file::EaInformation,
        file::AccessInformation,
        file::PositionInformation,
        file::ModeInformation,
        file::AlignmentInformation,
        file::NetworkOpenInformation,
        file::AttributeTagInformation,
        file::CompressionInformation,
        file::SizeInformation,
        file::DispositionInformation,
        file::DispositionInformationEx,
    ]
}

fn named_classes() -> Vec<(&'static str, Vec<u8>)> {
    let file_name = name();
    let all = file::AllInformation { file_name, ..Default::default() };
    let rename = file::RenameInformation { file_name, replace_if_exists: true, root_directory: 0 };
    let rename_ex = file::RenameInformationEx { file_name, ..Default::default() };
    let volume = file_system::VolumeInformation { volume_label: name(), ..Default::default() };
    let attribute = file_system::AttributeInformation { file_system_name: name(), ..Default::default() };
    vec![
        ("classes::file::NameInformation<'_>", file::NameInformation { file_name }.to_bytes()),
        ("classes::file::AllInformation<'_>", all.to_bytes()),
        ("classes::file::RenameInformation<'_>", rename.to_bytes()),
        ("classes::file::RenameInformationEx<'_>", rename_ex.to_bytes()),
        ("classes::file_system::VolumeInformation<'_>", volume.to_bytes()),
        ("classes::file_system::AttributeInformation<'_>", attribute.to_bytes()),
    ]
}

fn file_system_classes() -> Vec<(&'static str, Vec<u8>)> {
    defaults![
        file_system::SizeInformation,
        file_system::FullSizeInformation,
        file_system::DeviceInformation,
        file_system::ControlInformation,
        file_system::SectorSizeInformation,
        file_system::ObjectIdInformation,
    ]
}

fn others() -> Vec<(&'static str, Vec<u8>)> {
    let access = MaximalAccess { query_status: NtStatus::SUCCESS, maximal_access: AccessMask::FILE_ALL };
    let request = ValidateNegotiateRequest {
        capabilities: Capabilities::DFS,
        guid: Guid([3; 16]),
        security_mode: SecurityMode::SIGNING_ENABLED,
        dialects: vec![Dialect::SMB210, Dialect::SMB302],
    };
    let response = ValidateNegotiateResponse {
        capabilities: Capabilities::DFS,
        guid: Guid([4; 16]),
        security_mode: SecurityMode::SIGNING_ENABLED,
        dialect: Dialect::SMB302,
    };
    let wait = PipeWait { timeout: 1, timeout_specified: true, name: name() };
    vec![
        ("contexts::MaximalAccess", access.to_bytes()),
        ("contexts::AllocationSize", AllocationSize { allocation_size: 1 << 20 }.to_bytes()),
        ("contexts::OnDiskId", OnDiskId { disk_file_id: 1, volume_id: 2 }.to_bytes()),
        ("fsctl::ValidateNegotiateRequest", request.to_bytes()),
        ("fsctl::ValidateNegotiateResponse", response.to_bytes()),
        ("fsctl::ObjectIdBuffer", ObjectIdBuffer::default().to_bytes()),
        ("fsctl::PipeWait<'_>", wait.to_bytes()),
    ]
}
