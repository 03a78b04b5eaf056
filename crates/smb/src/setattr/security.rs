//! SET_INFO of a descriptor (MS-FSA §2.1.5.17), as far as owner, group and mode bits can say it.

use crate::descriptor::Classes;
use crate::open::Open;
use crate::ops::{Ops, Stop};
use identity::{Id, Sid as OurSid};
use smb_wire::info::SecurityInformation;
use smb_wire::security::{SecurityDescriptor, Sid};
use smb_wire::types::AccessMask;
use smb_wire::{Decode, NtStatus};
use vfs::{Blocking, FsError, SetAttrs};

/// What is set here: other parts need a privilege that nobody has.
const SETTABLE: SecurityInformation = SecurityInformation(
    SecurityInformation::OWNER.0 | SecurityInformation::GROUP.0 | SecurityInformation::DACL.0,
);

pub(super) fn set(
    ops: &mut Ops<'_>,
    open: &Open,
    parts: SecurityInformation,
    bytes: &[u8],
) -> Result<(), Stop> {
    if !parts.without(SETTABLE).is_empty() {
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    if parts.intersects(SecurityInformation::OWNER | SecurityInformation::GROUP) {
        open.check(AccessMask::WRITE_OWNER)?;
    }
    if parts.contains(SecurityInformation::DACL) {
        open.check(AccessMask::WRITE_DAC)?;
    }
    let descriptor = SecurityDescriptor::from_bytes(bytes).map_err(|_| NtStatus::INVALID_SECURITY_DESCR)?;
    let attrs = open.file.attrs(Blocking::Allowed)?;
    let mut set = SetAttrs::default();
    if parts.contains(SecurityInformation::OWNER) {
        let uid = match id_of(ops, descriptor.owner)? {
            Some(Id::User(uid)) => uid,
            _ => return Err(NtStatus::INVALID_OWNER.into()),
        };
        set.uid = (uid != attrs.uid).then_some(uid);
    }
    if parts.contains(SecurityInformation::GROUP) {
        let gid = match id_of(ops, descriptor.group)? {
            Some(Id::Group(gid)) => gid,
            _ => return Err(NtStatus::INVALID_PRIMARY_GROUP.into()),
        };
        set.gid = (gid != attrs.gid).then_some(gid);
    }
    if parts.contains(SecurityInformation::DACL) {
        // The list is about those who own the file afterwards.
        let (uid, gid) = (set.uid.unwrap_or(attrs.uid), set.gid.unwrap_or(attrs.gid));
        let classes = Classes::of(&*ops.service.resolver, uid, gid)?;
        let mode = classes.mode(descriptor.dacl.as_ref(), open.file_type, attrs.mode)?;
        set.mode = (mode != attrs.mode).then_some(mode);
    }
    match open.file.set_attrs(&open.disk.caller, &set, None, ops.pending) {
        // Nobody gives files away, or takes those of others (MS-FSA §2.1.5.17).
        Err(FsError::NotOwner) if set.uid.is_some() => Err(NtStatus::INVALID_OWNER.into()),
        set => Ok(set.map(drop)?),
    }
}

/// Whom files know by this identifier.
fn id_of(ops: &Ops<'_>, sid: Option<Sid>) -> Result<Option<Id>, NtStatus> {
    let Some(sid) = sid else { return Ok(None) };
    let (ours, _) = OurSid::from_bytes(sid.as_bytes()).ok_or(NtStatus::INVALID_SID)?;
    Ok(ops.service.resolver.id_of(&ours))
}
