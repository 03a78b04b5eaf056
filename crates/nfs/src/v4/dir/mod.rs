//! Names: LOOKUP, LOOKUPP, CREATE, REMOVE, RENAME, LINK, READLINK, listing, and SECINFO.

mod listing;
mod secinfo;
#[cfg(test)]
mod tests;

pub(super) use listing::readdir;
pub(super) use secinfo::{secinfo, secinfo_no_name};

use super::attr::{When, wished};
use super::filehandle::Place;
use super::ops::{Done, Ops, Stop};
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
pub(super) fn lookup(ops: &mut Ops<'_, '_>, args: LookupArgs<'_>, _: &mut Writer<'_>) -> Done {
    ops.current = Some(find(ops, args.objname)?);
    Ok(())
}

/// RFC 8881 §18.14.
pub(super) fn lookupp(ops: &mut Ops<'_, '_>, _: &mut Writer<'_>) -> Done {
    ops.current = Some(parent(ops)?);
    Ok(())
}

/// RFC 8881 §18.4.
pub(super) fn create(ops: &mut Ops<'_, '_>, args: CreateArgs<'_>, w: &mut Writer<'_>) -> Done {
    ops.may_wait()?;
    let dir = ops.file()?;
    check_name(args.objname)?;
    let mut wish = wished(ops, &args.createattrs, When::Creation)?;
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
    let (caller, name, pending) = (&dir.caller, args.objname, &mut *ops.call.pending);
    let made = match special {
        None => dir.make_dir(caller, name, &wish.set, pending),
        Some(special) => dir.make_special(caller, name, special, &wish.set, pending),
    }?;
    if let CreateType::Symlink(target) = args.objtype {
        ops.count_listed(Transferred::written(target.len()));
    }
    wish.set_born_of_new(&made.file, caller, ops.call.pending);
    CreateOk { cinfo: change_info(&made.dir), attrset: done(wish.mask, &wish.set, &made) }.encode(w);
    let cached = ops.call.remember(made.file);
    ops.current = Some(Place::File(dir.beside(cached)));
    Ok(())
}

/// RFC 8881 §18.25: of files and directories alike.
pub(super) fn remove(ops: &mut Ops<'_, '_>, args: RemoveArgs<'_>, w: &mut Writer<'_>) -> Done {
    ops.may_wait()?;
    check_grace(ops)?;
    let dir = ops.file()?;
    check_name(args.target)?;
    let change = match dir.remove(&dir.caller, args.target, ops.call.pending) {
        Err(FsError::IsDirectory) => dir.remove_dir(&dir.caller, args.target, ops.call.pending),
        removed => removed,
    }?;
    RemoveOk { cinfo: change_info(&change) }.encode(w);
    Ok(())
}

/// RFC 8881 §18.26: from the saved directory to the current one.
pub(super) fn rename(ops: &mut Ops<'_, '_>, args: RenameArgs<'_>, w: &mut Writer<'_>) -> Done {
    ops.may_wait()?;
    check_grace(ops)?;
    let (to, from) = (ops.file()?, ops.saved_file()?);
    check_name(args.oldname)?;
    check_name(args.newname)?;
    match from.rename(&from.caller, args.oldname, &to, args.newname, ops.call.pending) {
        Ok((source, target)) => {
            let (source_cinfo, target_cinfo) = (change_info(&source), change_info(&target));
            RenameOk { source_cinfo, target_cinfo }.encode(w);
            Ok(())
        }
        // What has the new name is not of the same kind.
        Err(FsError::IsDirectory) => Err(Stop::Status(Status::EXIST)),
        Err(FsError::NotDirectory) if is_dir(ops.call, &from) && is_dir(ops.call, &to) => {
            Err(Stop::Status(Status::EXIST))
        }
        Err(error) => Err(error.into()),
    }
}

/// RFC 8881 §18.9: the saved file gets a name in the current directory.
pub(super) fn link(ops: &mut Ops<'_, '_>, args: LinkArgs<'_>, w: &mut Writer<'_>) -> Done {
    ops.may_wait()?;
    check_grace(ops)?;
    let (dir, target) = (ops.file()?, ops.saved_file()?);
    check_name(args.newname)?;
    let made = dir.link(&dir.caller, &target, args.newname, ops.call.pending)?;
    LinkOk { cinfo: change_info(&made.dir) }.encode(w);
    Ok(())
}

/// RFC 8881 §18.24.
pub(super) fn readlink(ops: &mut Ops<'_, '_>, w: &mut Writer<'_>) -> Done {
    ops.may_wait()?;
    let not_one = if ops.minor == 0 { Status::INVAL } else { Status::WRONG_TYPE };
    let Place::File(file) = ops.place()? else { return Err(Stop::Status(not_one)) };
    let (_, target) = file.read_link().map_err(|error| match error {
        FsError::Invalid => Stop::Status(not_one),
        error => error.into(),
    })?;
    ops.count_listed(Transferred::read(target.len()));
    ReadlinkOk { link: &target }.encode(w);
    Ok(())
}

/// While opens are claimed again after a restart, names stay: a file that loses its last one could not be claimed, and who holds a
/// delegation of it is not known yet.
fn check_grace(ops: &Ops<'_, '_>) -> Done {
    if ops.call.service.v4.are_opens_reclaimed() { Err(Stop::Status(Status::GRACE)) } else { Ok(()) }
}

/// What a name in the current directory means.
fn find(ops: &mut Ops<'_, '_>, name: &[u8]) -> Result<Place, Stop> {
    match ops.place()?.clone() {
        Place::Pseudo(dir) => {
            check_name(name)?;
            if name.len() > vfs::model::name::NAME_BYTES_MAX {
                return Err(Stop::Status(Status::NAMETOOLONG));
            }
            Ok(pseudo::lookup(ops.call, &dir, name)?)
        }
        Place::File(dir) => {
            check_name(name)?;
            if let Some(covering) = pseudo::covering(ops.call, &dir, name)? {
                return Ok(covering);
            }
            match ops.call.find(&dir, name) {
                Ok((_, found, _)) => Ok(Place::File(dir.beside(found))),
                Err(FsError::NotFound) => Ok(pseudo::between(ops.call, &dir, name)?),
                Err(error) => Err(no_dir(ops.call, &dir, error)),
            }
        }
    }
}

/// The directory that holds the current one.
fn parent(ops: &mut Ops<'_, '_>) -> Result<Place, Stop> {
    match ops.place()?.clone() {
        Place::Pseudo(dir) => Ok(pseudo::parent(ops.call, dir.path())?),
        Place::File(dir) if dir.is_root() => Ok(pseudo::parent(ops.call, &dir.export().path)?),
        Place::File(dir) => {
            let found = ops.call.find(&dir, b"..");
            let (_, found, _) = found.map_err(|error| no_dir(ops.call, &dir, error))?;
            Ok(Place::File(dir.beside(found)))
        }
    }
}

/// Checks what LOOKUP and the makers of names are asked for, RFC 8881 §14.5. Names are bytes; what is too
/// long, the file system says.
pub(super) fn check_name(name: &[u8]) -> Done {
    let bad = match name {
        b"" => Status::INVAL,
        b"." | b".." => Status::BADNAME,
        _ if name.iter().any(|&byte| byte == b'/' || byte == 0) => Status::BADCHAR,
        _ => return Ok(()),
    };
    Err(Stop::Status(bad))
}

/// `change_info4` of a directory. What lies between the two is this change alone.
pub(super) fn change_info(change: &Change) -> ChangeInfo {
    ChangeInfo { atomic: true, before: change.before.change, after: change.after.change }
}

/// Of the attributes wished for a new object, those that it was given: some wishes are left unheeded.
fn done(mut wished: Bitmap, set: &SetAttrs, made: &Created) -> Bitmap {
    let unheeded = [
        (attr::SIZE, set.size.is_some()),
        (attr::MODE, made.attrs.file_type == FileType::Symlink),
        (attr::MODE_UMASK, made.attrs.file_type == FileType::Symlink),
        (attr::OWNER, set.uid.is_some_and(|uid| uid != made.attrs.uid)),
        (attr::OWNER_GROUP, set.gid.is_some_and(|gid| gid != made.attrs.gid)),
    ];
    unheeded.into_iter().filter(|&(_, unheeded)| unheeded).for_each(|(number, _)| wished.remove(number));
    wished
}

fn is_dir(call: &mut Call<'_>, file: &File) -> bool {
    call.attrs(file).is_ok_and(|attrs| attrs.file_type == FileType::Directory)
}

/// Why no name is looked up in `dir`: a symbolic link has a status of its own, which tells clients to follow
/// it.
fn no_dir(call: &mut Call<'_>, dir: &File, error: FsError) -> Stop {
    let is_link =
        |call: &mut Call<'_>| call.attrs(dir).is_ok_and(|attrs| attrs.file_type == FileType::Symlink);
    match error {
        FsError::NotDirectory if is_link(call) => Stop::Status(Status::SYMLINK),
        error => error.into(),
    }
}
