//! What a new name means for what others have open: the file itself, and what lies below a directory.

use crate::metadata::names::Naming;
use crate::request::context::{Ops, Stop};
use crate::state::open::{Open, Place};
use crate::state::persistent::record;
use smb_wire::NtStatus;
use smb_wire::apple::AppleCapabilities;
use std::sync::Arc;
use vfs::claims::{Conflict, Request, Requester, Verdict};

/// A directory keeps its name while anything below it is open over SMB (MS-FSA §2.1.5.15.11), unless its client renames as Unix does;
/// who keeps that open for later alone is asked to close it first.
pub(super) fn check_nothing_below(ops: &mut Ops<'_>, dir: &Open) -> Result<(), Stop> {
    let below = ask_below(ops, dir)?;
    if below.is_empty() || renames_as_unix(ops, dir)? { Ok(()) } else { Err(NtStatus::ACCESS_DENIED.into()) }
}

/// Whether a client expects rename(2): opens below a directory are no matter. Clients of Apple's do that were told that this is a Unix,
/// and so do opens of the POSIX extensions.
fn renames_as_unix(ops: &Ops<'_>, dir: &Open) -> Result<bool, NtStatus> {
    Ok(dir.naming == Naming::Posix || ops.session()?.has_promised(AppleCapabilities::UNIX_BASED))
}

/// The opens below a directory, once nobody keeps one for later alone.
fn ask_below(ops: &mut Ops<'_>, dir: &Open) -> Result<Vec<Arc<Open>>, Stop> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let path = dir.place().path.clone();
    let below = opens_below(ops, dir, &path);
    let request = Request::Unlink { by: Requester::Open(dir.claim()), waits: false };
    for open in &below {
        if let Verdict::Refused(Conflict::Recalling) = open.file.claim(&request) {
            return Err(ops.wait_for_name(dir, &open.file));
        }
    }
    Ok(below)
}

fn opens_below(ops: &Ops<'_>, dir: &Open, path: &[Vec<u8>]) -> Vec<Arc<Open>> {
    let is_below = |open: &Open| {
        let place = open.place();
        is_of_volume(open, dir) && place.path.len() > path.len() && place.path.starts_with(path)
    };
    ops.service.opens_where(is_below)
}

/// Tells all other opens of a file that had this name where it is now, and those below a directory.
pub(super) fn follow(ops: &Ops<'_>, open: &Arc<Open>, from: &Place, to: &Place) {
    let is_other = |other: &Open| is_of_volume(other, open) && other.file.key() == open.file.key();
    for other in ops.service.opens_where(is_other) {
        let mut place = other.place();
        // The file may have other names, by which others have it open.
        if Arc::ptr_eq(&other, open) || place.link(None) != from.link(None) {
            continue;
        }
        *place = Place { stream: place.stream.take(), ..to.clone() };
        drop(place);
        _ = record::save(&other);
    }
    if !open.is_dir() {
        return;
    }
    for below in opens_below(ops, open, &from.path) {
        let mut place = below.place();
        let Some(rest) = place.path.strip_prefix(&from.path[..]) else { continue };
        place.path = [&to.path[..], rest].concat();
        drop(place);
        _ = record::save(&below);
    }
}

fn is_of_volume(open: &Open, other: &Open) -> bool {
    Arc::ptr_eq(&open.disk.export.volume, &other.disk.export.volume)
}
