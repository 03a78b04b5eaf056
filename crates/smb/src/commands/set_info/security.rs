//! SET_INFO of a security descriptor (MS-FSA §2.1.5.17). A volume with NTFS rules stores the descriptor whole; other
//! volumes map it to owner, group and mode bits. POSIX opens and macOS encode a mode in it.

use crate::metadata::acl;
use crate::metadata::mode_descriptor::Classes;
use crate::metadata::names::Naming;
use crate::metadata::unix;
use crate::request::context::RequestContext;
use crate::request::outcome::CommandError;
use crate::state::open::Open;
use identity::{Id, Sid as OurSid};
use smb_wire::apple::AppleCapabilities;
use smb_wire::info::SecurityInformation;
use smb_wire::security::{Acl, SecurityDescriptor, Sid};
use smb_wire::types::AccessMask;
use smb_wire::{Decode, NtStatus};
use vfs::acl::Rights;
use vfs::file::SetSecurity;
use vfs::model::attrs::MODE_BITS;
use vfs::volume::change_notify::ChangeMask;
use vfs::{Attrs, Blocking, Change, FsError, SecurityStyle, SetAttrs};

/// The settable parts; the others need a privilege that the server never grants.
const SETTABLE: SecurityInformation = SecurityInformation(
    SecurityInformation::OWNER.0 | SecurityInformation::GROUP.0 | SecurityInformation::DACL.0,
);

pub(super) fn set(
    cx: &mut RequestContext<'_, '_>,
    open: &Open,
    parts: SecurityInformation,
    bytes: &[u8],
) -> Result<(), CommandError> {
    if !parts.without(SETTABLE).is_empty() {
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    if parts.intersects(SecurityInformation::OWNER | SecurityInformation::GROUP) {
        open.check(AccessMask::WRITE_OWNER)?;
    }
    if parts.contains(SecurityInformation::DACL) {
        open.check(AccessMask::WRITE_DAC)?;
    }
    let mut descriptor =
        SecurityDescriptor::from_bytes(bytes).map_err(|_| NtStatus::INVALID_SECURITY_DESCR)?;
    let attrs = open.file.attrs(Blocking::Allowed)?;
    let uid = match parts.contains(SecurityInformation::OWNER) {
        true => Some(match id_of(cx, open, descriptor.owner)? {
            Some(Id::User(uid)) => uid,
            _ => return Err(NtStatus::INVALID_OWNER.into()),
        }),
        false => None,
    };
    let gid = match parts.contains(SecurityInformation::GROUP) {
        true => Some(match id_of(cx, open, descriptor.group)? {
            Some(Id::Group(gid)) => gid,
            _ => return Err(NtStatus::INVALID_PRIMARY_GROUP.into()),
        }),
        false => None,
    };
    let (uid, gid) = (uid.filter(|uid| *uid != attrs.uid), gid.filter(|gid| *gid != attrs.gid));
    let sets_list = parts.contains(SecurityInformation::DACL);
    let mode = if sets_list { requested_mode(cx, open, &attrs, &mut descriptor.dacl)? } else { None };
    let set = match (open.file.volume().security_style(), mode) {
        // Like chmod over NFS, which is refused on volumes with NTFS rules.
        (_, Some(mode)) => {
            let mode = Some(mode).filter(|mode| *mode != attrs.mode);
            let set = SetAttrs { uid, gid, mode, ..SetAttrs::default() };
            open.file.set_attrs(&open.disk.caller, &set, None, cx.message.pending)
        }
        (SecurityStyle::Ntfs, None) => {
            let resolver = &*cx.message.service.resolver;
            let acl = sets_list.then(|| acl::from_wire(resolver, &descriptor)).transpose()?;
            let set = SetSecurity { uid, gid, acl };
            open.file.set_security(&open.disk.caller, Rights(open.granted.0), &set, cx.message.pending)
        }
        (SecurityStyle::Unix, None) => {
            // The ACL refers to the owner and group after the change.
            let (owner, group) = (uid.unwrap_or(attrs.uid), gid.unwrap_or(attrs.gid));
            let mode = match sets_list {
                // The mode would become the mask of the POSIX ACL and grant rights to its named users and groups.
                true if open.file.posix_acl(&attrs, Blocking::Allowed)?.is_some() => {
                    return Err(NtStatus::NOT_SUPPORTED.into());
                }
                true => Some(mode_of(cx, open, &attrs, owner, group, descriptor.dacl.as_ref())?),
                false => None,
            };
            let mode = mode.filter(|mode| *mode != attrs.mode);
            let set = SetAttrs { uid, gid, mode, ..SetAttrs::default() };
            open.file.set_attrs(&open.disk.caller, &set, None, cx.message.pending)
        }
    };
    match set {
        // Ownership cannot be given away or taken (MS-FSA §2.1.5.17).
        Err(FsError::NotOwner) if uid.is_some() => Err(NtStatus::INVALID_OWNER.into()),
        set => {
            open.notify_modified(changed_parts(&set?));
            Ok(())
        }
    }
}

/// A change of write permission also changes the read-only attribute.
fn changed_parts(change: &Change) -> ChangeMask {
    if change.before.mode == change.after.mode {
        ChangeMask::SECURITY
    } else {
        ChangeMask::SECURITY | ChangeMask::ATTRIBUTES
    }
}

/// The mode that a client encodes in an entry. macOS sends back the mode it has read; if the mode is unchanged, the
/// other entries apply.
fn requested_mode(
    cx: &RequestContext<'_, '_>,
    open: &Open,
    attrs: &Attrs,
    list: &mut Option<Acl>,
) -> Result<Option<u32>, NtStatus> {
    let mode = unix::mode_of(list.as_ref());
    if open.naming == Naming::Posix {
        return Ok(mode);
    }
    let Some(list) = list else { return Ok(None) };
    if !cx.session()?.has_announced(AppleCapabilities::SUPPORTS_NFS_ACE) {
        return Ok(None);
    }
    list.retain(|ace| !unix::is_number(ace));
    let says_more = !list.aces().is_empty();
    Ok(mode.filter(|mode| !says_more || *mode != attrs.mode & MODE_BITS))
}

fn mode_of(
    cx: &RequestContext<'_, '_>,
    open: &Open,
    attrs: &Attrs,
    uid: u32,
    gid: u32,
    list: Option<&Acl>,
) -> Result<u32, NtStatus> {
    Classes::of(&*cx.message.service.resolver, uid, gid)?.mode(list, open.file_type, attrs.mode)
}

fn id_of(cx: &RequestContext<'_, '_>, open: &Open, sid: Option<Sid>) -> Result<Option<Id>, NtStatus> {
    let Some(sid) = sid else { return Ok(None) };
    if open.naming == Naming::Posix
        && let Some(id) = unix::id_of(&sid)
    {
        return Ok(Some(id));
    }
    let (ours, _) = OurSid::from_bytes(sid.as_bytes()).ok_or(NtStatus::INVALID_SID)?;
    Ok(cx.message.service.resolver.id_of(&ours))
}
