//! The snapshots of a file, which Windows shows as previous versions (MS-SMB2 §3.3.5.15.1).

use super::answer::{FsctlReply, output_room};
use crate::limits::ENUMERATION_OPERATIONS;
use crate::request::outcome::CommandError;
use crate::request::path_lookup::root;
use crate::state::open::Open;
use smb_wire::ioctl::{CtlCode, IoctlRequest};
use smb_wire::snapshots::{ARRAY_BYTES_MIN, GmtToken, SnapshotArray};
use smb_wire::{Encode, NtStatus, Utf16};
use vfs::qos::Demand;
use vfs::{Blocking, FsResult, Resolved, Snapshot, ViewId};

/// FSCTL_SRV_ENUMERATE_SNAPSHOTS: the snapshots in which the caller finds a file of this path, the newest first. Without
/// room for all, only their number and the size of their names.
pub(super) fn enumerate(open: &Open, args: &IoctlRequest<'_>) -> Result<FsctlReply, CommandError> {
    let room = output_room(args);
    if room < ARRAY_BYTES_MIN {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let path = open.entry_path().path.clone();
    let snapshots = open.disk.export.volume.snapshots();
    // A token has seconds: it opens the first snapshot of one.
    let is_first =
        |one: &Snapshot| snapshots.by_second(one.created.seconds).is_some_and(|it| it.view == one.view);
    let firsts = snapshots.iter().rev().filter(|snapshot| is_first(snapshot));
    let having = firsts.filter(|snapshot| is_in(open, snapshot.view, &path).is_ok());
    let tokens: Vec<_> = having.map(|snapshot| GmtToken { seconds: snapshot.created.seconds }).collect();
    let fits = SnapshotArray::whole_bytes(tokens.len()) <= room && !tokens.is_empty();
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let count = number(tokens.len());
    let names = if fits { SnapshotArray::names(tokens.into_iter()) } else { Vec::new() };
    let array = SnapshotArray {
        number_of_snapshots: count,
        number_of_snapshots_returned: if fits { count } else { 0 },
        snap_shot_array_size: number(SnapshotArray::names_bytes(
            usize::try_from(count).unwrap_or(usize::MAX),
        )),
        snapshots: Utf16::new(&names)?,
    };
    Ok(FsctlReply { status: NtStatus::SUCCESS, output: array.to_bytes() })
}

/// The price of a lookup in each snapshot, whose number is not known before.
pub(super) fn enumeration_demand(args: &IoctlRequest<'_>) -> Option<Demand> {
    let is_one = args.ctl_code == CtlCode::SRV_ENUMERATE_SNAPSHOTS;
    is_one.then_some(Demand { others: ENUMERATION_OPERATIONS, ..Demand::NOTHING })
}

/// Succeeds if the caller finds the path in a snapshot. The names are looked up as they are stored: a listing of each
/// directory of each snapshot would be much work.
fn is_in(open: &Open, view: ViewId, path: &[Vec<u8>]) -> FsResult<()> {
    let file = root(&open.disk, view)?;
    let attrs = file.attrs(Blocking::Allowed)?;
    let mut found = Resolved { file, attrs };
    for name in path {
        found = found.open_dir(&open.disk.caller, Blocking::Allowed)?.lookup(name, Blocking::Allowed)?;
    }
    Ok(())
}
