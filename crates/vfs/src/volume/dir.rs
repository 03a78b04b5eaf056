//! Names: looking up, listing, making, removing, moving.

use super::{Volume, check_dir_change, check_is_dir, new_inode};
use crate::access::{self, Access};
use crate::attrs::STICKY;
use crate::{
    Attrs, Blocking, Caller, Change, EntryRef, EntrySink, FileType, Found, FsError, FsResult, Made, Name,
    NewInode, NodeRef, PendingSync, SetAttrs, Special, SyncScope, Time,
};
use std::sync::Arc;

/// How a file is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateHow {
    /// Take a file that is there already, setting its size if one is given.
    Unchecked(SetAttrs),
    /// [`FsError::Exists`] if the name is taken.
    Guarded(SetAttrs),
    /// As guarded, but a repetition with the same verifier finds the file it made, even after a restart: the verifier
    /// lives in the file's times until the client sets them (RFC 1813 §3.3.8).
    Exclusive([u8; 8]),
}

/// What a listing starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The directory's attributes, from before the entries.
    pub dir: Attrs,
    /// Whether the last entry was reached.
    pub at_end: bool,
}

impl Volume {
    /// Checks that `caller` may look names up in `dir`; its attributes.
    #[inline]
    pub fn open_dir(&self, caller: &Caller, dir: &NodeRef, blocking: Blocking) -> FsResult<Attrs> {
        let attrs = dir.attrs(blocking)?;
        check_is_dir(&attrs)?;
        access::check(&attrs, caller, Access::EXECUTE)?;
        Ok(attrs)
    }

    /// The object of a name in a directory that passed [`Volume::open_dir`]. `.` is the directory, `..` its parent; the
    /// root's parent is the root, so no name leads out of a volume.
    pub fn lookup(&self, dir: &NodeRef, name: &[u8], blocking: Blocking) -> FsResult<Found> {
        match name {
            b"." => Ok(Found { node: Arc::clone(dir), attrs: dir.attrs(blocking)? }),
            b".." if blocking == Blocking::Never => Err(FsError::WouldWait),
            b".." => dir.parent(),
            _ => dir.lookup(Name::new(name)?, blocking),
        }
    }

    /// The target of a symbolic link. It is returned, never followed: its meaning is the client's.
    pub fn read_link(&self, link: &NodeRef) -> FsResult<(Attrs, Vec<u8>)> {
        let attrs = link.attrs(Blocking::Allowed)?;
        Ok((attrs, link.read_link()?))
    }

    /// Lists entries after `cookie` into `sink`.
    pub fn read_dir(
        &self,
        caller: &Caller,
        dir: &NodeRef,
        cookie: u64,
        plus: bool,
        sink: &mut EntrySink<'_>,
    ) -> FsResult<Listing> {
        let attrs = dir.attrs(Blocking::Allowed)?;
        check_is_dir(&attrs)?;
        access::check(&attrs, caller, Access::READ)?;
        // Attributes of entries are what a look-up would give: without `x` on the directory there are none.
        let plus = plus && access::check(&attrs, caller, Access::EXECUTE).is_ok();
        Ok(Listing { dir: attrs, at_end: dir.read_dir(cookie, plus, sink)? })
    }

    /// Makes a regular file, or takes the one that is there if `how` allows.
    pub fn create(
        &self,
        caller: &Caller,
        dir: &NodeRef,
        name: &[u8],
        how: CreateHow,
        pending: &mut PendingSync,
    ) -> FsResult<Made> {
        let name = new_name(caller, dir, name)?;
        let set = match how {
            CreateHow::Unchecked(set) | CreateHow::Guarded(set) => set,
            CreateHow::Exclusive(_) => SetAttrs { mode: Some(0o600), ..SetAttrs::default() },
        };
        set.check_ids()?;
        let times = if let CreateHow::Exclusive(verifier) = how { Some(times_of(verifier)) } else { None };
        let authorize = |attrs: &Attrs| {
            check_dir_change(attrs, caller)?;
            match set.size {
                Some(size) if size > self.limits().file_bytes_max => Err(FsError::FileTooBig),
                _ => Ok(NewInode { times, ..new_inode(attrs, caller, &set, 0o644, false) }),
            }
        };
        match dir.create(name, &authorize) {
            Ok(made) => {
                self.require_sync(pending, dir, SyncScope::All);
                self.finish(caller, made, &set, pending)
            }
            Err(FsError::Exists) => self.take_existing(caller, dir, name, how, pending),
            Err(refusal @ (FsError::Access | FsError::ReadOnly)) => {
                self.take_without_change(caller, dir, name, how, pending).unwrap_or(Err(refusal))
            }
            Err(error) => Err(error),
        }
    }

    /// Makes a directory.
    pub fn make_dir(
        &self,
        caller: &Caller,
        dir: &NodeRef,
        name: &[u8],
        set: &SetAttrs,
        pending: &mut PendingSync,
    ) -> FsResult<Made> {
        let name = new_name(caller, dir, name)?;
        set.check_ids()?;
        let made = dir.make_dir(name, &|attrs| {
            check_dir_change(attrs, caller)?;
            Ok(new_inode(attrs, caller, set, 0o755, true))
        })?;
        self.require_sync(pending, dir, SyncScope::All);
        self.finish(caller, made, set, pending)
    }

    /// Makes a symbolic link, FIFO, socket or device. Devices are for root.
    pub fn make_special(
        &self,
        caller: &Caller,
        dir: &NodeRef,
        name: &[u8],
        special: Special<'_>,
        set: &SetAttrs,
        pending: &mut PendingSync,
    ) -> FsResult<Made> {
        let name = new_name(caller, dir, name)?;
        set.check_ids()?;
        // The mode of a symbolic link means nothing on Linux and cannot be changed.
        let mode = if let Special::Symlink(_) = special { None } else { set.mode };
        let set = SetAttrs { mode, size: None, ..*set };
        let made = dir.make_special(name, special, &|attrs| {
            check_dir_change(attrs, caller)?;
            let default_mode = match special {
                Special::Symlink(target) => {
                    check_target(target)?;
                    0o777
                }
                Special::Block(_) | Special::Character(_) if !caller.is_root() => {
                    return Err(FsError::NotOwner);
                }
                Special::Block(_) | Special::Character(_) | Special::Fifo | Special::Socket => 0o644,
            };
            Ok(new_inode(attrs, caller, &set, default_mode, false))
        })?;
        self.require_sync(pending, dir, SyncScope::All);
        self.finish(caller, made, &set, pending)
    }

    /// Gives `target` a further name.
    pub fn link(
        &self,
        caller: &Caller,
        target: &NodeRef,
        dir: &NodeRef,
        name: &[u8],
        pending: &mut PendingSync,
    ) -> FsResult<Made> {
        let name = new_name(caller, dir, name)?;
        // A type never changes. What there is to say against the target is said after what there is against the caller.
        let target_type = target.attrs(Blocking::Allowed).map(|attrs| attrs.file_type);
        let made = dir.link(name, target, &|attrs| {
            check_dir_change(attrs, caller)?;
            if target_type? == FileType::Directory { Err(FsError::IsDirectory) } else { Ok(()) }
        })?;
        self.require_sync(pending, dir, SyncScope::All);
        Ok(made)
    }

    /// Removes the name of anything but a directory.
    pub fn remove(
        &self,
        caller: &Caller,
        dir: &NodeRef,
        name: &[u8],
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        let name = old_name(caller, dir, name)?;
        let change = dir.remove(name, &|entry| check_removal(caller, entry))?;
        self.require_sync(pending, dir, SyncScope::All);
        Ok(change)
    }

    /// Removes an empty directory.
    pub fn remove_dir(
        &self,
        caller: &Caller,
        dir: &NodeRef,
        name: &[u8],
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        let name = match old_name(caller, dir, name) {
            // It holds this directory at least (RFC 1813 §3.3.13 wants this error).
            Err(FsError::Invalid) if name == b".." => return Err(FsError::Exists),
            named => named?,
        };
        let change = dir.remove_dir(name, &|entry| check_removal(caller, entry))?;
        self.require_sync(pending, dir, SyncScope::All);
        Ok(change)
    }

    /// Moves a name, replacing what has the new one. The changes are of the two directories.
    pub fn rename(
        &self,
        caller: &Caller,
        from: (&NodeRef, &[u8]),
        to: (&NodeRef, &[u8]),
        pending: &mut PendingSync,
    ) -> FsResult<(Change, Change)> {
        let from_name = old_name(caller, from.0, from.1)?;
        let to_name = Name::new(to.1).or_else(|bad| {
            check_place(caller, from.0)?;
            check_place(caller, to.0)?;
            Err(bad)
        })?;
        let across = from.0.key() != to.0.key();
        let authorize = |from: &EntryRef<'_>, to: &EntryRef<'_>| check_move(caller, from, to, across);
        let changes = from.0.rename(from_name, to.0, to_name, &authorize)?;
        self.require_sync(pending, from.0, SyncScope::All);
        self.require_sync(pending, to.0, SyncScope::All);
        Ok(changes)
    }

    /// Sets what a new object was asked to have and could not be created with: times.
    fn finish(
        &self,
        caller: &Caller,
        mut made: Made,
        set: &SetAttrs,
        pending: &mut PendingSync,
    ) -> FsResult<Made> {
        let rest = SetAttrs { accessed: set.accessed, modified: set.modified, ..SetAttrs::default() };
        if !rest.is_empty() {
            made.found.attrs = self.set_attrs(caller, &made.found.node, &rest, None, pending)?.after;
        }
        Ok(made)
    }

    /// Creating where no name may be added: as open(2), that is no matter if the name is there. `None` if it is not, or
    /// if the caller may not even look.
    fn take_without_change(
        &self,
        caller: &Caller,
        dir: &NodeRef,
        name: Name<'_>,
        how: CreateHow,
        pending: &mut PendingSync,
    ) -> Option<FsResult<Made>> {
        self.open_dir(caller, dir, Blocking::Allowed).ok()?;
        dir.lookup(name, Blocking::Allowed).ok()?;
        Some(self.take_existing(caller, dir, name, how, pending))
    }

    /// What creating means where the name is taken.
    fn take_existing(
        &self,
        caller: &Caller,
        dir: &NodeRef,
        name: Name<'_>,
        how: CreateHow,
        pending: &mut PendingSync,
    ) -> FsResult<Made> {
        let before = dir.attrs(Blocking::Allowed)?;
        let mut found = dir.lookup(name, Blocking::Allowed)?;
        let is_file = found.attrs.file_type == FileType::Regular;
        match how {
            CreateHow::Unchecked(set) if is_file => {
                // Only the size counts for a file that is there (RFC 1813 §3.3.8: as open with O_TRUNC).
                let size = SetAttrs { size: set.size, ..SetAttrs::default() };
                if !size.is_empty() {
                    found.attrs = self.set_attrs(caller, &found.node, &size, None, pending)?.after;
                }
            }
            CreateHow::Exclusive(verifier)
                if is_file && (found.attrs.accessed, found.attrs.modified) == times_of(verifier) =>
            {
                // The first call may have died before its flush.
                self.require_sync(pending, dir, SyncScope::All);
            }
            CreateHow::Unchecked(_) | CreateHow::Guarded(_) | CreateHow::Exclusive(_) => {
                return Err(FsError::Exists);
            }
        }
        Ok(Made { found, dir: Change { before, after: before } })
    }
}

/// The two times that carry the verifier of an exclusive create: 31 bits each, which every file system can hold.
fn times_of(verifier: [u8; 8]) -> (Time, Time) {
    let [a, b, c, d, e, f, g, h] = verifier;
    let seconds = |bytes| i64::from(u32::from_be_bytes(bytes) & 0x7fff_ffff);
    // The two bits that do not fit as seconds go where nanoseconds are kept; a second's step costs nothing there.
    let nanos = |byte: u8| u32::from(byte >> 7) * 1000;
    (
        Time { seconds: seconds([a, b, c, d]), nanos: nanos(a) },
        Time { seconds: seconds([e, f, g, h]), nanos: nanos(e) },
    )
}

fn check_target(target: &[u8]) -> FsResult<()> {
    match target.len() {
        _ if target.contains(&0) => Err(FsError::Invalid),
        0 => Err(FsError::Invalid),
        n if n > crate::name::LINK_BYTES_MAX => Err(FsError::NameTooLong),
        _ => Ok(()),
    }
}

/// The name of an entry to be changed in `dir`. A bad one is told only to those who may change the directory.
fn old_name<'n>(caller: &Caller, dir: &NodeRef, name: &'n [u8]) -> FsResult<Name<'n>> {
    Name::new(name).or_else(|bad| {
        check_place(caller, dir)?;
        Err(bad)
    })
}

/// As [`old_name`], for an entry to be made: `.` and `..` exist, always (RFC 1813 §3.3.9).
fn new_name<'n>(caller: &Caller, dir: &NodeRef, name: &'n [u8]) -> FsResult<Name<'n>> {
    match old_name(caller, dir, name) {
        Err(FsError::Invalid) if matches!(name, b"." | b"..") => Err(FsError::Exists),
        named => named,
    }
}

/// Checks that `caller` may change the entries of `dir` as it is now.
fn check_place(caller: &Caller, dir: &NodeRef) -> FsResult<()> {
    check_dir_change(&dir.attrs(Blocking::Allowed)?, caller)
}

/// Looks at the object where the directory is sticky; elsewhere the backend finds out whether it exists.
fn check_removal(caller: &Caller, entry: &EntryRef<'_>) -> FsResult<()> {
    check_dir_change(entry.dir, caller)?;
    if is_sticky(entry.dir) { access::check_sticky(entry.dir, &(entry.object)()?, caller) } else { Ok(()) }
}

/// As [`check_removal`], for a name that is given up and one that is taken, in another directory if `across`.
fn check_move(caller: &Caller, from: &EntryRef<'_>, to: &EntryRef<'_>, across: bool) -> FsResult<()> {
    check_dir_change(from.dir, caller)?;
    check_dir_change(to.dir, caller)?;
    if across || is_sticky(from.dir) {
        let moved = (from.object)()?;
        access::check_sticky(from.dir, &moved, caller)?;
        if across && moved.file_type == FileType::Directory {
            // Its `..` changes, which is a write to the directory itself.
            access::check(&moved, caller, Access::WRITE)?;
        }
    }
    if !is_sticky(to.dir) {
        return Ok(());
    }
    match (to.object)() {
        Ok(replaced) => access::check_sticky(to.dir, &replaced, caller),
        Err(FsError::NotFound) => Ok(()),
        Err(error) => Err(error),
    }
}

fn is_sticky(dir: &Attrs) -> bool {
    dir.mode & STICKY != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verifiers_that_differ_in_any_bit_give_different_times() {
        let base = times_of([0; 8]);
        for bit in 0..64 {
            let verifier = (1u64 << bit).to_be_bytes();
            assert_ne!(times_of(verifier), base, "bit {bit}");
        }
    }
}
