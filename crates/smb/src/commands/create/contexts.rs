//! Responses to create contexts with queries (MS-SMB2 §3.3.5.9.5, §3.3.5.9.9).

use super::{frozen, maximal_access};
use crate::metadata::file_info::file_time;
use crate::state::open::Open;
use crate::status::from_fs_error;
use smb_wire::contexts::{MaximalAccess, OnDiskId};
use smb_wire::create::{CreateContext, CreateContexts};
use smb_wire::types::AccessMask;
use smb_wire::{Encode, NtStatus};
use vfs::Attrs;

pub(super) struct ResponseContexts(Vec<(&'static [u8], Vec<u8>)>);

impl ResponseContexts {
    pub(super) fn build(
        contexts: &CreateContexts<'_>,
        open: &Open,
        attrs: &Attrs,
        more: [Option<(&'static [u8], Vec<u8>)>; 4],
    ) -> Self {
        let maximal = contexts.find(MaximalAccess::NAME).map(|data| {
            let answer = maximal_access_response(data, open, attrs);
            (MaximalAccess::NAME, answer.to_bytes())
        });
        let id = contexts.find(OnDiskId::NAME).map(|_| {
            let volume_id = u64::from(open.serial_number());
            let answer = OnDiskId { disk_file_id: open.file_number(attrs), volume_id };
            (OnDiskId::NAME, answer.to_bytes())
        });
        Self(maximal.into_iter().chain(id).chain(more.into_iter().flatten()).collect())
    }

    pub(super) fn to_wire(&self) -> CreateContexts<'_> {
        CreateContexts(self.0.iter().map(|(name, data)| CreateContext { name, data }).collect())
    }
}

/// MS-SMB2 §3.3.5.9.5: a client that cached the rights sends their timestamp, and gets the rights only if the file has
/// changed since.
fn maximal_access_response(data: &[u8], open: &Open, attrs: &Attrs) -> MaximalAccess {
    let none = |query_status| MaximalAccess { query_status, maximal_access: AccessMask::empty() };
    if data == file_time(attrs.modified).0.to_le_bytes() {
        return none(NtStatus::NONE_MAPPED);
    }
    let (disk, entry_path, file) = (&open.disk, open.entry_path().clone(), &open.file);
    let maximal = match attrs.is_live() {
        true => maximal_access(disk, &entry_path, file, attrs, open.naming, AccessMask::MAXIMUM_ALLOWED),
        false => frozen::rights_at_its_time(disk, &entry_path, file, attrs),
    };
    match maximal {
        Ok(maximal_access) => MaximalAccess { query_status: NtStatus::SUCCESS, maximal_access },
        Err(error) => none(from_fs_error(error)),
    }
}
