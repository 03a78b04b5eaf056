//! Names: LOOKUP, LOOKUPP, CREATE, REMOVE, RENAME, LINK, READLINK, listing, and SECINFO.

mod listing;
mod secinfo;
#[cfg(test)]
mod tests;

pub(super) use listing::readdir;
pub(super) use secinfo::{secinfo, secinfo_no_name};

use super::attr::{When, attr_request};
use super::compound_state::{CompoundState, OpError, OpResult};
use super::filehandle::Filehandle;
use super::pseudo;
use crate::call::{Call, File};
use nfs_wire::v4::{
    Bitmap, ChangeInfo, CreateArgs, CreateOk, CreateType, LinkArgs, LinkOk, LookupArgs, ReadlinkOk,
    RemoveArgs, RemoveOk, RenameArgs, RenameOk, SpecData, Status, attr,
};
use vfs::qos::Transferred;
use vfs::{Change, Created, Device, FileType, FsError, SetAttrs, Special};
use xdr::{Encode, Writer};

/// RFC 8881 §18.13.
#[inline]
pub(super) fn lookup(cx: &mut CompoundState<'_, '_>, args: LookupArgs<'_>, _: &mut Writer<'_>) -> OpResult {
    cx.current = Some(lookup_name(cx, args.objname)?);
    Ok(())
}

/// RFC 8881 §18.14.
pub(super) fn lookupp(cx: &mut CompoundState<'_, '_>, _: &mut Writer<'_>) -> OpResult {
    cx.current = Some(parent(cx)?);
    Ok(())
}

/// RFC 8881 §18.4.
pub(super) fn create(cx: &mut CompoundState<'_, '_>, args: CreateArgs<'_>, w: &mut Writer<'_>) -> OpResult {
    cx.may_wait()?;
    let dir = cx.file()?;
    check_name(args.objname)?;
    let mut request = attr_request(cx, &args.createattrs, When::Creation)?;
    let device = |spec: SpecData| Device { major: spec.specdata1, minor: spec.specdata2 };
    let special = match args.objtype {
        CreateType::Directory => None,
        CreateType::Symlink(target) => Some(Special::Symlink(target)),
        CreateType::BlockDevice(spec) => Some(Special::Block(device(spec))),
        CreateType::CharDevice(spec) => Some(Special::Character(device(spec))),
        CreateType::Socket => Some(Special::Socket),
        CreateType::Fifo => Some(Special::Fifo),
        CreateType::Other(_) => return Err(FsError::BadType.into()),
    };
    let (caller, name, pending) = (&dir.caller, args.objname, &mut *cx.call.pending);
    let created = match special {
        None => dir.make_dir(caller, name, &request.set, pending),
        Some(special) => dir.make_special(caller, name, special, &request.set, pending),
    }?;
    if let CreateType::Symlink(target) = args.objtype {
        cx.count_metadata(Transferred::written(target.len()));
    }
    request.set_born_of_new(&created.file, caller, cx.call.pending);
    CreateOk { cinfo: change_info(&created.dir), attrset: attrs_set(request.mask, &request.set, &created) }
        .encode(w);
    let cached = cx.call.cache_file(created.file);
    cx.current = Some(Filehandle::File(dir.sibling(cached)));
    Ok(())
}

/// RFC 8881 §18.25: of files and directories alike.
pub(super) fn remove(cx: &mut CompoundState<'_, '_>, args: RemoveArgs<'_>, w: &mut Writer<'_>) -> OpResult {
    cx.may_wait()?;
    check_grace(cx)?;
    let dir = cx.file()?;
    check_name(args.target)?;
    let change = match dir.remove(&dir.caller, args.target, cx.call.pending) {
        // One operation removes files and directories.
        Err(FsError::IsDirectory) => dir.remove_dir(&dir.caller, args.target, cx.call.pending),
        removed => removed,
    }?;
    RemoveOk { cinfo: change_info(&change) }.encode(w);
    Ok(())
}

/// RFC 8881 §18.26: from the saved directory to the current one.
pub(super) fn rename(cx: &mut CompoundState<'_, '_>, args: RenameArgs<'_>, w: &mut Writer<'_>) -> OpResult {
    cx.may_wait()?;
    check_grace(cx)?;
    let (to, from) = (cx.file()?, cx.saved_file()?);
    check_name(args.oldname)?;
    check_name(args.newname)?;
    match from.rename(&from.caller, args.oldname, &to, args.newname, cx.call.pending) {
        Ok((source, target)) => {
            let (source_cinfo, target_cinfo) = (change_info(&source), change_info(&target));
            RenameOk { source_cinfo, target_cinfo }.encode(w);
            Ok(())
        }
        // The target exists with another type.
        Err(FsError::IsDirectory) => Err(OpError::Status(Status::EXIST)),
        Err(FsError::NotDirectory) if is_dir(cx.call, &from) && is_dir(cx.call, &to) => {
            Err(OpError::Status(Status::EXIST))
        }
        Err(error) => Err(error.into()),
    }
}

/// RFC 8881 §18.9: the saved file gets a name in the current directory.
pub(super) fn link(cx: &mut CompoundState<'_, '_>, args: LinkArgs<'_>, w: &mut Writer<'_>) -> OpResult {
    cx.may_wait()?;
    check_grace(cx)?;
    let (dir, target) = (cx.file()?, cx.saved_file()?);
    check_name(args.newname)?;
    let created = dir.link(&dir.caller, &target, args.newname, cx.call.pending)?;
    LinkOk { cinfo: change_info(&created.dir) }.encode(w);
    Ok(())
}

/// RFC 8881 §18.24.
pub(super) fn readlink(cx: &mut CompoundState<'_, '_>, w: &mut Writer<'_>) -> OpResult {
    cx.may_wait()?;
    // 4.0 has no WRONG_TYPE.
    let not_one = if cx.request.minor == 0 { Status::INVAL } else { Status::WRONG_TYPE };
    let Filehandle::File(file) = cx.current_filehandle()? else { return Err(OpError::Status(not_one)) };
    let (_, target) = file.read_link().map_err(|error| match error {
        FsError::Invalid => OpError::Status(not_one),
        error => error.into(),
    })?;
    cx.count_metadata(Transferred::read(target.len()));
    ReadlinkOk { link: &target }.encode(w);
    Ok(())
}

/// Refuses to change names in the grace period: a removed file could not be reclaimed, and delegations are not known
/// yet.
fn check_grace(cx: &CompoundState<'_, '_>) -> OpResult {
    if cx.call.service.v4.are_opens_reclaimed() { Err(OpError::Status(Status::GRACE)) } else { Ok(()) }
}

fn lookup_name(cx: &mut CompoundState<'_, '_>, name: &[u8]) -> Result<Filehandle, OpError> {
    match cx.current_filehandle()?.clone() {
        Filehandle::Pseudo(dir) => {
            check_name(name)?;
            if name.len() > vfs::model::name::NAME_BYTES_MAX {
                return Err(OpError::Status(Status::NAMETOOLONG));
            }
            Ok(pseudo::lookup(cx.call, cx.request.minor, &dir, name)?)
        }
        Filehandle::File(dir) => {
            check_name(name)?;
            if let Some(covering) = pseudo::covering(cx.call, &dir, name)? {
                return Ok(covering);
            }
            match cx.call.lookup(&dir, name) {
                Ok((_, found, _)) => Ok(Filehandle::File(dir.sibling(found))),
                Err(FsError::NotFound) => Ok(pseudo::between(cx.call, &dir, name)?),
                Err(error) => Err(no_dir(cx.call, &dir, error)),
            }
        }
    }
}

fn parent(cx: &mut CompoundState<'_, '_>) -> Result<Filehandle, OpError> {
    match cx.current_filehandle()?.clone() {
        Filehandle::Pseudo(dir) => Ok(pseudo::parent(cx.call, dir.path())?),
        Filehandle::File(dir) if dir.is_root() => Ok(pseudo::parent(cx.call, &dir.export().path)?),
        Filehandle::File(dir) => {
            let found = cx.call.lookup(&dir, b"..");
            let (_, found, _) = found.map_err(|error| no_dir(cx.call, &dir, error))?;
            Ok(Filehandle::File(dir.sibling(found)))
        }
    }
}

/// Checks a component name, RFC 8881 §14.5. Names are bytes; the file system checks the length.
pub(super) fn check_name(name: &[u8]) -> OpResult {
    let bad = match name {
        b"" => Status::INVAL,
        b"." | b".." => Status::BADNAME,
        _ if name.iter().any(|&byte| byte == b'/' || byte == 0) => Status::BADCHAR,
        _ => return Ok(()),
    };
    Err(OpError::Status(bad))
}

/// `change_info4` of a directory, which is atomic: only this change lies between the two values.
pub(super) fn change_info(change: &Change) -> ChangeInfo {
    ChangeInfo { atomic: true, before: change.before.change, after: change.after.change }
}

/// The requested attributes that the new object has: some requests are ignored.
fn attrs_set(mut requested: Bitmap, set: &SetAttrs, created: &Created) -> Bitmap {
    let unheeded = [
        (attr::SIZE, set.size.is_some()),
        (attr::MODE, created.attrs.file_type == FileType::Symlink),
        (attr::MODE_UMASK, created.attrs.file_type == FileType::Symlink),
        (attr::OWNER, set.uid.is_some_and(|uid| uid != created.attrs.uid)),
        (attr::OWNER_GROUP, set.gid.is_some_and(|gid| gid != created.attrs.gid)),
    ];
    unheeded.into_iter().filter(|&(_, unheeded)| unheeded).for_each(|(number, _)| requested.remove(number));
    requested
}

fn is_dir(call: &mut Call<'_>, file: &File) -> bool {
    call.attrs(file).is_ok_and(|attrs| attrs.file_type == FileType::Directory)
}

/// Why no name is looked up in `dir`: a symbolic link has a status of its own, which tells clients to follow
/// it.
fn no_dir(call: &mut Call<'_>, dir: &File, error: FsError) -> OpError {
    let is_link =
        |call: &mut Call<'_>| call.attrs(dir).is_ok_and(|attrs| attrs.file_type == FileType::Symlink);
    match error {
        FsError::NotDirectory if is_link(call) => OpError::Status(Status::SYMLINK),
        error => error.into(),
    }
}
