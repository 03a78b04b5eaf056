//! QUERY_INFO of a security descriptor.

use super::info::Info;
use crate::metadata::acl;
use crate::metadata::mode_descriptor::Classes;
use crate::metadata::unix;
use crate::request::context::RequestContext;
use crate::request::outcome::CommandError;
use crate::state::open::Open;
use smb_wire::NtStatus;
use smb_wire::apple::AppleCapabilities;
use smb_wire::info::SecurityInformation;
use smb_wire::security::{Acl, Control, SecurityDescriptor};
use smb_wire::types::AccessMask;

/// The parts that need READ_CONTROL. A request for no part returns an empty descriptor.
const READ: SecurityInformation = SecurityInformation(
    SecurityInformation::OWNER.0 | SecurityInformation::GROUP.0 | SecurityInformation::DACL.0,
);

/// MS-FSA §2.1.5.14.
pub(super) fn query(
    cx: &RequestContext<'_, '_>,
    open: &Open,
    requested: SecurityInformation,
) -> Result<Info, CommandError> {
    if requested.contains(SecurityInformation::SACL) {
        // No client has the privilege to read audit entries.
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    if requested.intersects(READ) {
        open.check(AccessMask::READ_CONTROL)?;
    }
    let attrs = open.file.attrs(cx.message.blocking)?;
    let list = open.file.acl(&attrs, cx.message.blocking)?;
    let classes = Classes::of(&*cx.message.service.resolver, attrs.uid, attrs.gid)?;
    let (control, dacl) = match list {
        _ if !requested.contains(SecurityInformation::DACL) => (Control::empty(), None),
        Some(list) => acl::to_wire(&*cx.message.service.resolver, &list)?,
        None => {
            let mut entries = match open.file.posix_acl(&attrs, cx.message.blocking)? {
                Some(acl) => classes.entries_of_list(&*cx.message.service.resolver, &attrs, &acl)?,
                None => classes.entries(&attrs),
            };
            if cx.session()?.has_announced(AppleCapabilities::SUPPORTS_NFS_ACE) {
                entries.extend(unix::entries_of(&attrs));
            }
            (Control::DACL_PROTECTED, Acl::new(entries))
        }
    };
    Ok(Info::fixed(&SecurityDescriptor {
        control,
        owner: requested.contains(SecurityInformation::OWNER).then_some(classes.owner),
        group: requested.contains(SecurityInformation::GROUP).then_some(classes.group),
        sacl: None,
        dacl,
    }))
}
