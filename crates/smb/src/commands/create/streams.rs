//! Named streams in CREATE: finding one, making one with its file (MS-FSA §2.1.5.1).

use super::posix::Rules;
use super::resolve::Target;
use super::{Chosen, caching, granted_freely, make, maximal, must_be_there, must_make, take, take_back};
use crate::metadata::names::locks::NameLock;
use crate::metadata::names::{Naming, folded, stream_to_wire};
use crate::metadata::rights::without_generic;
use crate::request::context::{Ops, Stop};
use crate::state::open::Place;
use crate::state::pending::Interim;
use crate::state::service::Service;
use crate::state::tree::Disk;
use smb_wire::NtStatus;
use smb_wire::create::{CreateAction, CreateOptions, CreateRequest};
use smb_wire::types::AccessMask;
use vfs::claims::{Conflict, Io, IoKind, Request, Requester, Span, Verdict};
use vfs::volume::change_notify::ChangeMask;
use vfs::{Blocking, File, FileType, FsError, FsResult};

/// The stream `name` of what is at `target`, made where the request says so. Unix knows no streams.
pub(super) fn choose(
    ops: &mut Ops<'_>,
    args: &CreateRequest<'_>,
    disk: &Disk,
    target: Target<'_>,
    name: &[u8],
) -> Result<Chosen, Stop> {
    if args.create_options.contains(CreateOptions::DIRECTORY_FILE) {
        return Err(NtStatus::NOT_A_DIRECTORY.into());
    }
    let service = ops.service;
    let (place, file, granted, new, base_type, _lock) = match target {
        Target::Found { place, file, attrs } => {
            let base_type = attrs.file_type;
            if attrs.file_type == FileType::Symlink {
                return Err(NtStatus::IO_REPARSE_TAG_NOT_HANDLED.into());
            }
            let lock = (!must_be_there(args)).then(|| lock(service, &file, name));
            match find(&file, name) {
                Ok((stored, stream)) => {
                    let attrs = stream.attrs(Blocking::Allowed)?;
                    let place = Place { stream: Some(stored), ..place };
                    let taken = take((args, Naming::Windows), disk, place, stream, attrs)?;
                    return Ok(Chosen { base_type, ..taken });
                }
                Err(FsError::NotFound) if !must_be_there(args) => {}
                Err(FsError::NotFound) => return Err(NtStatus::OBJECT_NAME_NOT_FOUND.into()),
                Err(error) => return Err(error.into()),
            }
            let place = Place { stream: Some(name.to_vec()), ..place };
            let desired = without_generic(args.desired_access);
            let maximal = maximal(disk, &place, (&file, &attrs), (Naming::Windows, desired))?;
            let asked = desired.without(AccessMask::MAXIMUM_ALLOWED);
            if !maximal.contains(asked | AccessMask::WRITE_DATA) {
                return Err(NtStatus::ACCESS_DENIED.into());
            }
            let granted = if desired == asked { asked } else { maximal };
            (place, file, granted, None, base_type, lock)
        }
        // Who makes another stream of the file finds that by the same name, once this is made.
        Target::Missing(place, lock) => {
            vfs::volume::streams::check_name(name)?;
            let Chosen { place, file, attrs, base_type, .. } =
                make(ops, (args, Rules::Windows), disk, place)?;
            let place = Place { stream: Some(name.to_vec()), ..place };
            (place, file, granted_freely(args), Some(attrs), base_type, lock)
        }
    };
    let stream = match file.make_stream(&disk.caller, name, ops.pending) {
        // Somebody else was faster.
        Err(FsError::Exists) if !must_make(args) => return Err(Stop::Delayed),
        made => {
            if let (Err(_), Some(seen)) = (&made, &new) {
                take_back(ops, args, disk, &place, seen);
            }
            made?
        }
    };
    place.tell_modified(ChangeMask::MODIFIED, caching::listing_of(ops, args));
    let attrs = stream.attrs(Blocking::Allowed)?;
    let (naming, action) = (Naming::Windows, CreateAction::CREATED);
    Ok(Chosen { place, file: stream, attrs, base_type, naming, granted, action })
}

/// Locks the name of a stream of `file`.
pub(crate) fn lock<'l>(service: &'l Service, file: &File, name: &[u8]) -> NameLock<'l> {
    service.name_locks.lock(file, stream_to_wire(name).map(|wire| folded(&wire)))
}

/// Asks who caches streams of a file that is about to be emptied, and waits for that: what was written to them is lost otherwise.
pub(super) fn ask_before_removal(ops: &mut Ops<'_>, disk: &Disk, file: &File) -> Result<(), Stop> {
    for stream in all(file)? {
        let io = replacing(&stream, disk.caller.by);
        if stream.claim(&Request::Io(io)) != Verdict::Refused(Conflict::Recalling) {
            continue;
        }
        let waker = ops.waker(None, NtStatus::CANCELLED, Interim::Always)?;
        if let Verdict::Wait(ticket) = stream.claim(&Request::Io(Io { waits: true, ..io })) {
            return Err(ops.wait_for_claim(disk, &stream, ticket, &waker));
        }
    }
    Ok(())
}

/// Tells who caches streams by now, or keeps others from writing them, that these go with an open of their file. Nobody waits.
pub(super) fn tell_removal(file: &File, by: Requester) -> FsResult<()> {
    for stream in all(file)? {
        stream.claim(&Request::Io(replacing(&stream, by)));
    }
    Ok(())
}

/// The streams of a file.
fn all(file: &File) -> FsResult<Vec<File>> {
    let mut names = Vec::new();
    file.list_streams(&mut |name, _, _| names.push(name.to_vec()))?;
    let found = names.iter().map(|name| file.find_stream(name));
    found.filter(|found| !matches!(found, Err(FsError::NotFound))).collect()
}

fn replacing(stream: &File, by: Requester) -> Io {
    Io { by, stream: stream.stream(), kind: IoKind::Replace, span: Span::ALL, waits: false }
}

/// The stream of a name, and that name as it is stored: spelled like this, or else without case.
pub(crate) fn find(file: &File, name: &[u8]) -> FsResult<(Vec<u8>, File)> {
    match file.find_stream(name) {
        Err(FsError::NotFound) => {}
        found => return Ok((name.to_vec(), found?)),
    }
    let wanted = folded(&stream_to_wire(name).ok_or(FsError::NotFound)?);
    let mut stored = None;
    file.list_streams(&mut |name, _, _| {
        if stream_to_wire(name).is_some_and(|wire| folded(&wire) == wanted) {
            stored = Some(name.to_vec());
        }
    })?;
    let stored = stored.ok_or(FsError::NotFound)?;
    let stream = file.find_stream(&stored)?;
    Ok((stored, stream))
}
