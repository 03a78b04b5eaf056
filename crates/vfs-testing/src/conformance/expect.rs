//! Checks of the cases, and their messages.

use super::rig::{Failure, Outcome};
use crate::UncheckedNode;
use std::collections::HashSet;
use std::fmt::{Debug, Display};
use std::ops::ControlFlow;
use vfs::{Attrs, Blocking, Change, FileKey, FsError, FsResult, NodeRef};

#[track_caller]
pub(super) fn eq<T: PartialEq + Debug>(what: impl Display, got: T, want: T) -> Outcome {
    if got == want { Ok(()) } else { Err(Failure::new(format!("{what}: got {got:?}, want {want:?}"))) }
}

#[track_caller]
pub(super) fn holds(what: impl Display, truth: bool) -> Outcome {
    if truth { Ok(()) } else { Err(Failure::new(format!("not so: {what}"))) }
}

/// A call was refused with one of `wanted`.
#[track_caller]
pub(super) fn refused<T>(what: impl Display, result: FsResult<T>, wanted: &[FsError]) -> Outcome {
    match result {
        Ok(_) => Err(Failure::new(format!("{what}: done, want {wanted:?}"))),
        Err(error) if wanted.contains(&error) => Ok(()),
        Err(error) => Err(Failure::new(format!("{what}: got {error:?}, want {wanted:?}"))),
    }
}

/// Attributes without what may change on its own: the access time (reads) and the storage in use (late allocation).
pub(super) fn settled(attrs: &Attrs) -> Attrs {
    Attrs { accessed: vfs::Time::default(), used: 0, ..*attrs }
}

/// Two observations of one file are equal.
#[track_caller]
pub(super) fn same(what: impl Display, got: &Attrs, want: &Attrs) -> Outcome {
    eq(what, settled(got), settled(want))
}

/// An observation after a restart is equal, except for the change number, for which each backend has its own rule.
#[track_caller]
pub(super) fn same_again(what: impl Display, got: &Attrs, want: &Attrs) -> Outcome {
    same(format!("{what} after a restart"), &Attrs { change: want.change, ..*got }, want)
}

#[track_caller]
pub(super) fn attrs(node: &NodeRef) -> Outcome<Attrs> {
    node.attrs(Blocking::Allowed).map_err(|error| Failure::new(format!("attributes refused: {error}")))
}

/// Runs a mutation of `node` and checks that its `Change` is what is seen around it. Returns the change.
#[track_caller]
pub(super) fn change(
    what: impl Display,
    node: &NodeRef,
    act: impl FnOnce() -> FsResult<Change>,
) -> Outcome<Change> {
    let before = attrs(node)?;
    let change = act().map_err(|error| Failure::new(format!("{what}: refused: {error}")))?;
    same(format!("{what}: attributes before"), &change.before, &before)?;
    same(format!("{what}: attributes after"), &change.after, &attrs(node)?)?;
    Ok(change)
}

/// A change of a directory's entries, or of a file's contents, moved both of its times.
#[track_caller]
pub(super) fn modified(what: impl Display, change: &Change) -> Outcome {
    let Change { before, after } = change;
    let moved = after.modified > before.modified && after.changed > before.changed;
    holds(format!("{what} moves modification and change time: {before:?} {after:?}"), moved)
}

/// A file is unchanged.
#[track_caller]
pub(super) fn untouched(what: impl Display, node: &NodeRef, before: &Attrs) -> Outcome {
    same(format!("{what} leaves it alone"), &attrs(node)?, before)
}

/// All of a file, read in one go.
#[track_caller]
pub(super) fn contents(node: &NodeRef) -> Outcome<Vec<u8>> {
    let size = usize::try_from(attrs(node)?.size).map_err(|_| Failure::new("too large to read"))?;
    let read = node
        .read_vec(0, size + 1, Blocking::Allowed)
        .map_err(|error| Failure::new(format!("reading refused: {error}")))?;
    eq("bytes read of the whole file", read.len(), size)?;
    Ok(read)
}

/// An entry, copied out of a listing.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) name: Vec<u8>,
    pub(super) file_id: u64,
    pub(super) cookie: u64,
    pub(super) object: Option<(FileKey, Attrs)>,
}

/// Up to `room` entries after `cookie`, and whether that was the end.
pub(super) fn list_some(dir: &NodeRef, cookie: u64, plus: bool, room: usize) -> FsResult<(Vec<Seen>, bool)> {
    let mut seen = Vec::new();
    let end = dir.read_dir(cookie, plus, &mut |entry| {
        if seen.len() == room {
            return ControlFlow::Break(());
        }
        let object = entry.object.map(|(key, attrs)| (*key, *attrs));
        let (file_id, cookie) = (entry.file_id, entry.cookie);
        seen.push(Seen { name: entry.name.to_vec(), file_id, cookie, object });
        ControlFlow::Continue(())
    })?;
    Ok((seen, end))
}

/// All entries after `cookie`, taken by sinks with room for `room`.
#[track_caller]
pub(super) fn list(dir: &NodeRef, mut cookie: u64, plus: bool, room: usize) -> Outcome<Vec<Seen>> {
    let mut all = Vec::new();
    let mut starts = HashSet::new();
    loop {
        holds(format!("cookie {cookie} does not come twice"), starts.insert(cookie))?;
        let (seen, end) = list_some(dir, cookie, plus, room)
            .map_err(|error| Failure::new(format!("listing refused: {error}")))?;
        holds("a listing that is not at its end fills its sink", end || seen.len() == room)?;
        cookie = seen.last().map_or(cookie, |last| last.cookie);
        all.extend(seen);
        if end {
            return Ok(all);
        }
    }
}

/// The names in a directory, sorted, without `.` and `..`.
#[track_caller]
pub(super) fn names(dir: &NodeRef) -> Outcome<Vec<Vec<u8>>> {
    let mut names: Vec<_> = list(dir, 0, false, 1000)?.into_iter().map(|seen| seen.name).collect();
    names.retain(|name| name != b"." && name != b"..");
    names.sort();
    Ok(names)
}
