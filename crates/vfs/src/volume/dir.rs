//! Names: looking up, listing, making, removing, moving.

use super::{Volume, birth, check_dir_change, check_is_dir};
use crate::access::{self, Access};
use crate::{
    Attrs, Caller, Change, EntrySink, FileType, Found, FsError, FsResult, Made, Name, NodeRef, Owed, Pace,
    SetAttrs, Special, SyncScope, Time,
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
    pub fn open_dir(&self, caller: &Caller, dir: &NodeRef, pace: Pace) -> FsResult<Attrs> {
        let attrs = dir.attrs(pace)?;
        check_is_dir(&attrs)?;
        access::check(&attrs, caller, Access::EXECUTE)?;
        Ok(attrs)
    }

    /// The object of a name in a directory that passed [`Volume::open_dir`]. `.` is the directory, `..` its parent; the
    /// root's parent is the root, so no name leads out of a volume.
    pub fn lookup(&self, dir: &NodeRef, name: &[u8], pace: Pace) -> FsResult<Found> {
        match name {
            b"." => Ok(Found { node: Arc::clone(dir), attrs: dir.attrs(pace)? }),
            b".." if pace == Pace::Now => Err(FsError::WouldWait),
            b".." => dir.parent(),
            _ => dir.lookup(Name::new(name)?, pace),
        }
    }

    /// The target of a symbolic link. It is returned, never followed: its meaning is the client's.
    pub fn read_link(&self, link: &NodeRef) -> FsResult<(Attrs, Vec<u8>)> {
        let attrs = link.attrs(Pace::Wait)?;
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
        let attrs = dir.attrs(Pace::Wait)?;
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
        owed: &mut Owed,
    ) -> FsResult<Made> {
        let (name, attrs) = match self.open_make(caller, dir, name) {
            Ok(opened) => opened,
            Err(refusal @ (FsError::Access | FsError::ReadOnly)) => {
                return self.take_without_change(caller, dir, name, how, owed).unwrap_or(Err(refusal));
            }
            Err(error) => return Err(error),
        };
        let set = match how {
            CreateHow::Unchecked(set) | CreateHow::Guarded(set) => set,
            CreateHow::Exclusive(_) => SetAttrs { mode: Some(0o600), ..SetAttrs::default() },
        };
        if set.size.is_some_and(|size| size > self.limits().file_bytes_max) {
            return Err(FsError::FileTooBig);
        }
        let mut birth = birth(&attrs, caller, &set, 0o644, false);
        if let CreateHow::Exclusive(verifier) = how {
            birth.times = Some(times_of(verifier));
        }
        match dir.create(name, &birth) {
            Ok(made) => {
                self.owe(owed, dir, SyncScope::All);
                self.finish(caller, made, &set, owed)
            }
            Err(FsError::Exists) => self.take_existing(caller, dir, name, how, owed),
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
        owed: &mut Owed,
    ) -> FsResult<Made> {
        let (name, attrs) = self.open_make(caller, dir, name)?;
        let made = dir.make_dir(name, &birth(&attrs, caller, set, 0o755, true))?;
        self.owe(owed, dir, SyncScope::All);
        self.finish(caller, made, &SetAttrs { size: None, ..*set }, owed)
    }

    /// Makes a symbolic link, FIFO, socket or device. Devices are for root.
    pub fn make_special(
        &self,
        caller: &Caller,
        dir: &NodeRef,
        name: &[u8],
        special: Special<'_>,
        set: &SetAttrs,
        owed: &mut Owed,
    ) -> FsResult<Made> {
        let (name, attrs) = self.open_make(caller, dir, name)?;
        let default_mode = match special {
            Special::Symlink(target) => {
                check_target(target)?;
                0o777
            }
            Special::Block(_) | Special::Character(_) if !caller.is_root() => return Err(FsError::NotOwner),
            Special::Block(_) | Special::Character(_) | Special::Fifo | Special::Socket => 0o644,
        };
        // The mode of a symbolic link means nothing on Linux and cannot be changed.
        let mode = if let Special::Symlink(_) = special { None } else { set.mode };
        let set = SetAttrs { mode, size: None, ..*set };
        let made = dir.make_special(name, special, &birth(&attrs, caller, &set, default_mode, false))?;
        self.owe(owed, dir, SyncScope::All);
        self.finish(caller, made, &set, owed)
    }

    /// Gives `target` a further name.
    pub fn link(
        &self,
        caller: &Caller,
        target: &NodeRef,
        dir: &NodeRef,
        name: &[u8],
        owed: &mut Owed,
    ) -> FsResult<Made> {
        let (name, _) = self.open_make(caller, dir, name)?;
        if target.attrs(Pace::Wait)?.file_type == FileType::Directory {
            return Err(FsError::IsDirectory);
        }
        let made = dir.link(name, target)?;
        self.owe(owed, dir, SyncScope::All);
        Ok(made)
    }

    /// Removes the name of anything but a directory.
    pub fn remove(&self, caller: &Caller, dir: &NodeRef, name: &[u8], owed: &mut Owed) -> FsResult<Change> {
        let (name, attrs) = self.open_change(caller, dir, name)?;
        check_removable(caller, dir, &attrs, name)?;
        let change = dir.remove(name)?;
        self.owe(owed, dir, SyncScope::All);
        Ok(change)
    }

    /// Removes an empty directory.
    pub fn remove_dir(
        &self,
        caller: &Caller,
        dir: &NodeRef,
        name: &[u8],
        owed: &mut Owed,
    ) -> FsResult<Change> {
        let (name, attrs) = match self.open_change(caller, dir, name) {
            // It holds this directory at least (RFC 1813 §3.3.13 wants this error).
            Err(FsError::Invalid) if name == b".." => return Err(FsError::Exists),
            opened => opened?,
        };
        check_removable(caller, dir, &attrs, name)?;
        let change = dir.remove_dir(name)?;
        self.owe(owed, dir, SyncScope::All);
        Ok(change)
    }

    /// Moves a name, replacing what has the new one. The changes are of the two directories.
    pub fn rename(
        &self,
        caller: &Caller,
        from: (&NodeRef, &[u8]),
        to: (&NodeRef, &[u8]),
        owed: &mut Owed,
    ) -> FsResult<(Change, Change)> {
        let (from_name, from_attrs) = self.open_change(caller, from.0, from.1)?;
        let (to_name, to_attrs) = self.open_change(caller, to.0, to.1)?;
        let moved = from.0.lookup(from_name, Pace::Wait)?;
        access::check_sticky(&from_attrs, &moved.attrs, caller)?;
        if moved.attrs.file_type == FileType::Directory && from.0.key() != to.0.key() {
            // Its `..` changes, which is a write to the directory itself.
            access::check(&moved.attrs, caller, Access::WRITE)?;
        }
        match to.0.lookup(to_name, Pace::Wait) {
            Ok(replaced) => access::check_sticky(&to_attrs, &replaced.attrs, caller)?,
            Err(FsError::NotFound) => {}
            Err(error) => return Err(error),
        }
        let changes = from.0.rename(from_name, to.0, to_name)?;
        self.owe(owed, from.0, SyncScope::All);
        self.owe(owed, to.0, SyncScope::All);
        Ok(changes)
    }

    /// The checks that every change of a directory's entries begins with.
    fn open_change<'n>(&self, caller: &Caller, dir: &NodeRef, name: &'n [u8]) -> FsResult<(Name<'n>, Attrs)> {
        let attrs = dir.attrs(Pace::Wait)?;
        check_dir_change(&attrs, caller)?;
        Ok((Name::new(name)?, attrs))
    }

    /// As [`Volume::open_change`], for a new name: `.` and `..` exist, always (RFC 1813 §3.3.9).
    fn open_make<'n>(&self, caller: &Caller, dir: &NodeRef, name: &'n [u8]) -> FsResult<(Name<'n>, Attrs)> {
        match self.open_change(caller, dir, name) {
            Err(FsError::Invalid) if matches!(name, b"." | b"..") => Err(FsError::Exists),
            opened => opened,
        }
    }

    /// Sets what a new object was asked to have and could not be born with: size and times.
    fn finish(&self, caller: &Caller, mut made: Made, set: &SetAttrs, owed: &mut Owed) -> FsResult<Made> {
        let rest = SetAttrs { mode: None, uid: None, gid: None, ..*set };
        if !rest.is_empty() {
            made.found.attrs = self.set_attrs(caller, &made.found.node, &rest, None, owed)?.after;
        }
        Ok(made)
    }

    /// Creating where no name may be added: as open(2), that is no matter if the name is there. `None` if it is not, or
    /// if the caller may not even look.
    fn take_without_change(
        &self,
        caller: &Caller,
        dir: &NodeRef,
        name: &[u8],
        how: CreateHow,
        owed: &mut Owed,
    ) -> Option<FsResult<Made>> {
        let name = Name::new(name).ok()?;
        self.open_dir(caller, dir, Pace::Wait).ok()?;
        dir.lookup(name, Pace::Wait).ok()?;
        Some(self.take_existing(caller, dir, name, how, owed))
    }

    /// What creating means where the name is taken.
    fn take_existing(
        &self,
        caller: &Caller,
        dir: &NodeRef,
        name: Name<'_>,
        how: CreateHow,
        owed: &mut Owed,
    ) -> FsResult<Made> {
        let before = dir.attrs(Pace::Wait)?;
        let mut found = dir.lookup(name, Pace::Wait)?;
        let is_file = found.attrs.file_type == FileType::Regular;
        match how {
            CreateHow::Unchecked(set) if is_file => {
                // Only the size counts for a file that is there (RFC 1813 §3.3.8: as open with O_TRUNC).
                let size = SetAttrs { size: set.size, ..SetAttrs::default() };
                if !size.is_empty() {
                    found.attrs = self.set_attrs(caller, &found.node, &size, None, owed)?.after;
                }
            }
            CreateHow::Exclusive(verifier)
                if is_file && (found.attrs.accessed, found.attrs.modified) == times_of(verifier) =>
            {
                // The first call may have died before its flush.
                self.owe(owed, dir, SyncScope::All);
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

/// Looks the object up where the directory is sticky; elsewhere the backend finds out whether it exists.
fn check_removable(caller: &Caller, dir: &NodeRef, attrs: &Attrs, name: Name<'_>) -> FsResult<()> {
    if attrs.mode & crate::attrs::STICKY == 0 {
        return Ok(());
    }
    access::check_sticky(attrs, &dir.lookup(name, Pace::Wait)?.attrs, caller)
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
