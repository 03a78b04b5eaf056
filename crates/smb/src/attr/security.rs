//! The descriptor of a file, as QUERY_INFO tells it.

use super::info::Info;
use crate::descriptor::Classes;
use crate::open::Open;
use crate::ops::{Ops, Stop};
use smb_wire::NtStatus;
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
    let classes = Classes::of(&*ops.service.resolver, attrs.uid, attrs.gid)?;
    let dacl = wanted.contains(SecurityInformation::DACL);
    Ok(Info::fixed(&SecurityDescriptor {
        control: if dacl { Control::DACL_PROTECTED } else { Control::empty() },
        owner: wanted.contains(SecurityInformation::OWNER).then_some(classes.owner),
        group: wanted.contains(SecurityInformation::GROUP).then_some(classes.group),
        sacl: None,
        dacl: if dacl { Acl::new(classes.entries(&attrs)) } else { None },
    }))
}
