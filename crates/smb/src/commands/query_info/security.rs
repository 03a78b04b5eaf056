//! The descriptor of a file, as QUERY_INFO tells it.

use super::info::Info;
use crate::metadata::acl;
use crate::metadata::mode_descriptor::Classes;
use crate::metadata::unix;
use crate::request::context::{Ops, Stop};
use crate::state::open::Open;
use smb_wire::NtStatus;
use smb_wire::apple::AppleCapabilities;
use smb_wire::info::SecurityInformation;
use smb_wire::security::{Acl, Control, SecurityDescriptor};
use smb_wire::types::AccessMask;

/// What needs the right to read a descriptor; who asks for none of it is told that there is one.
const READ: SecurityInformation = SecurityInformation(
    SecurityInformation::OWNER.0 | SecurityInformation::GROUP.0 | SecurityInformation::DACL.0,
);

/// MS-FSA §2.1.5.14.
pub(super) fn query(ops: &Ops<'_>, open: &Open, wanted: SecurityInformation) -> Result<Info, Stop> {
    if wanted.contains(SecurityInformation::SACL) {
        // Nobody here has the privilege to see what is recorded.
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    if wanted.intersects(READ) {
        open.check(AccessMask::READ_CONTROL)?;
    }
    let attrs = open.file.attrs(ops.blocking)?;
    let list = open.file.acl(&attrs, ops.blocking)?;
    let classes = Classes::of(&*ops.service.resolver, attrs.uid, attrs.gid)?;
    let (control, dacl) = match list {
        _ if !wanted.contains(SecurityInformation::DACL) => (Control::empty(), None),
        Some(list) => acl::to_wire(&*ops.service.resolver, &list)?,
        None => {
            let mut entries = match open.file.posix_acl(&attrs, ops.blocking)? {
                Some(acl) => classes.entries_of_list(&*ops.service.resolver, &attrs, &acl)?,
                None => classes.entries(&attrs),
            };
            if ops.session()?.has_promised(AppleCapabilities::SUPPORTS_NFS_ACE) {
                entries.extend(unix::entries_of(&attrs));
            }
            (Control::DACL_PROTECTED, Acl::new(entries))
        }
    };
    Ok(Info::fixed(&SecurityDescriptor {
        control,
        owner: wanted.contains(SecurityInformation::OWNER).then_some(classes.owner),
        group: wanted.contains(SecurityInformation::GROUP).then_some(classes.group),
        sacl: None,
        dacl,
    }))
}
