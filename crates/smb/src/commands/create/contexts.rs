//! What is answered to the contexts of a CREATE that ask something (MS-SMB2 §3.3.5.9.5, §3.3.5.9.9).

use super::maximal;
use crate::metadata::file_info::shown_time;
use crate::state::open::Open;
use crate::status::of_fs_error;
use smb_wire::contexts::{MaximalAccess, OnDiskId};
use smb_wire::create::{CreateContext, CreateContexts};
use smb_wire::types::AccessMask;
use smb_wire::{Encode, NtStatus};
use vfs::Attrs;

/// Answers, each with the name of its context.
pub(super) struct Answers(Vec<(&'static [u8], Vec<u8>)>);

impl Answers {
    pub(super) fn to(
        asked: &CreateContexts<'_>,
        open: &Open,
        attrs: &Attrs,
        more: [Option<(&'static [u8], Vec<u8>)>; 4],
    ) -> Self {
        let maximal = asked.find(MaximalAccess::NAME).map(|data| {
            let answer = maximal_access(data, open, attrs);
            (MaximalAccess::NAME, answer.to_bytes())
        });
        let id = asked.find(OnDiskId::NAME).map(|_| {
            let volume_id = u64::from(open.disk.serial_number());
            let answer = OnDiskId { disk_file_id: attrs.file_id, volume_id };
            (OnDiskId::NAME, answer.to_bytes())
        });
        Self(maximal.into_iter().chain(id).chain(more.into_iter().flatten()).collect())
    }

    pub(super) fn on_wire(&self) -> CreateContexts<'_> {
        CreateContexts(self.0.iter().map(|(name, data)| CreateContext { name, data }).collect())
    }
}

/// MS-SMB2 §3.3.5.9.5: a client that knows the rights of a file says since when, and is told only if it has changed.
fn maximal_access(data: &[u8], open: &Open, attrs: &Attrs) -> MaximalAccess {
    let none = |query_status| MaximalAccess { query_status, maximal_access: AccessMask::empty() };
    if data == shown_time(attrs.modified).0.to_le_bytes() {
        return none(NtStatus::NONE_MAPPED);
    }
    match maximal(&open.disk, &open.place(), (&open.file, attrs), (open.naming, AccessMask::MAXIMUM_ALLOWED))
    {
        Ok(maximal_access) => MaximalAccess { query_status: NtStatus::SUCCESS, maximal_access },
        Err(error) => none(of_fs_error(error)),
    }
}
