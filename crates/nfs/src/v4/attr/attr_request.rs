//! Attributes that a call wishes to be set, RFC 8881 §5.3 and §18.30.

use super::owner::Naming;
use super::{acl, table};
use crate::id_map::IdKind;
use crate::v4::compound_state::{CompoundState, OpError};
use crate::v4::filehandle::Filehandle;
use nfs_wire::v4::attr::{self, Acl, Acl41, AclFlag, ModeUmask, SetTime};
use nfs_wire::v4::{Bitmap, Fattr, NfsTime, Status, TEXT_MAX};
use vfs::model::attrs::MODE_BITS;
use vfs::{Caller, File, PendingSync, SetAttrs, Time};
use xdr::{Decode, Malformed, Reader};

/// The occasion of setting attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::v4) enum When {
    Creation,
    /// In an exclusive creation, whose key is stored in the times of the file (EXCLUSIVE4_1).
    Once,
    /// In a SETATTR.
    Later,
}

/// Attributes to set.
pub(in crate::v4) struct AttrRequest {
    pub(in crate::v4) set: SetAttrs,
    /// The time at which the object is to have been made.
    pub(in crate::v4) born: Option<Time>,
    pub(in crate::v4) mask: Bitmap,
}

impl AttrRequest {
    /// Sets the creation time of a new object. If that fails, the attribute is removed from the result: macOS sends it
    /// for symbolic links, too.
    pub(in crate::v4) fn set_born_of_new(&mut self, file: &File, caller: &Caller, pending: &mut PendingSync) {
        let Some(born) = self.born else { return };
        if let Err(error) = file.set_born(caller, born, pending) {
            tracing::debug!(%error, "cannot set the creation time of a new file");
            self.mask.remove(attr::TIME_CREATE);
        }
    }
}

/// Decodes the attributes to set.
pub(in crate::v4) fn attr_request(
    cx: &CompoundState<'_, '_>,
    fattr: &Fattr<'_>,
    when: When,
) -> Result<AttrRequest, OpError> {
    let (minor, naming) = (cx.request.minor, Naming::of(&cx.call.service.v4, cx.call.blocking));
    let mask = fattr.attrmask;
    if !table::supported(minor).contains_all(&mask) {
        return Err(OpError::Status(Status::ATTRNOTSUPP));
    }
    let has_both = |one, other| mask.contains(one) && mask.contains(other);
    // Attributes that set the same bits exclude each other.
    let has_two_modes = has_both(attr::MODE, attr::MODE_UMASK) || has_both(attr::ACL, attr::DACL);
    if !table::settable(minor, when).contains_all(&mask) || has_two_modes {
        return Err(OpError::Status(Status::INVAL));
    }
    let mut r = Reader::new(fattr.attr_vals);
    let (mut set, mut born) = (SetAttrs::default(), None);
    for number in mask.iter() {
        match number {
            attr::TIME_CREATE => born = Some(moment(NfsTime::decode(&mut r).map_err(bad_xdr)?)?),
            number => decode(number, naming, &mut r, &mut set)?,
        }
    }
    if born.is_some() && !volume_has_birth_times(cx) {
        return Err(OpError::Status(Status::ATTRNOTSUPP));
    }
    // Values without attributes in the mask: see `Fattr`.
    if r.remaining() > 0 { Err(OpError::Status(Status::BADXDR)) } else { Ok(AttrRequest { set, born, mask }) }
}

/// Whether the storage can store creation times.
fn volume_has_birth_times(cx: &CompoundState<'_, '_>) -> bool {
    matches!(&cx.current, Some(Filehandle::File(file)) if file.volume().capabilities().xattrs.is_some())
}

fn decode(number: u32, naming: Naming<'_>, r: &mut Reader<'_>, set: &mut SetAttrs) -> Result<(), OpError> {
    match number {
        attr::SIZE => set.size = Some(r.u64().map_err(bad_xdr)?),
        attr::ACL => set_acl(&Acl::decode(r).map_err(bad_xdr)?, set)?,
        attr::DACL => {
            let dacl = Acl41::decode(r).map_err(bad_xdr)?;
            if dacl.flag != AclFlag(0) {
                return Err(OpError::Status(Status::ATTRNOTSUPP));
            }
            set_acl(&dacl.aces, set)?;
        }
        attr::MODE => set_mode(r.u32().map_err(bad_xdr)?, set),
        attr::MODE_UMASK => {
            let request = ModeUmask::decode(r).map_err(bad_xdr)?;
            // An ACL sets the mode, so the umask does not apply.
            set.umask = if set.mode.is_some() { 0 } else { request.umask & MODE_BITS };
            set_mode(request.mode, set);
        }
        attr::OWNER => set.uid = Some(naming.id(IdKind::User, r.opaque(TEXT_MAX).map_err(bad_xdr)?)?),
        attr::OWNER_GROUP => set.gid = Some(naming.id(IdKind::Group, r.opaque(TEXT_MAX).map_err(bad_xdr)?)?),
        attr::TIME_ACCESS_SET => set.accessed = Some(set_time(SetTime::decode(r).map_err(bad_xdr)?)?),
        attr::TIME_MODIFY_SET => set.modified = Some(set_time(SetTime::decode(r).map_err(bad_xdr)?)?),
        _ => return Err(OpError::Status(Status::INVAL)),
    }
    Ok(())
}

/// Sets a mode. The permission bits of an earlier ACL take precedence (RFC 8881 §6.4.1.3).
fn set_mode(mode: u32, set: &mut SetAttrs) {
    let mode = mode & MODE_BITS;
    set.mode = Some(set.mode.map_or(mode, |list| list & 0o777 | mode & !0o777));
}

/// Sets the permission bits that a list expresses.
fn set_acl(acl: &Acl<'_>, set: &mut SetAttrs) -> Result<(), OpError> {
    set.mode = Some(set.mode.unwrap_or(0) & !0o777 | acl::to_mode(acl)?);
    Ok(())
}

fn bad_xdr(_: Malformed) -> OpError {
    OpError::Status(Status::BADXDR)
}

fn set_time(how: SetTime) -> Result<vfs::SetTime, OpError> {
    match how {
        SetTime::ServerTime => Ok(vfs::SetTime::Now),
        SetTime::ClientTime(time) => moment(time).map(vfs::SetTime::To),
    }
}

fn moment(NfsTime { seconds, nseconds: nanos }: NfsTime) -> Result<Time, OpError> {
    if nanos < 1_000_000_000 { Ok(Time { seconds, nanos }) } else { Err(OpError::Status(Status::INVAL)) }
}
