//! What a new name means for what others have open: the file itself, and what lies below a directory.

use crate::open::{Open, Place};
use crate::ops::{Ops, Stop};
use crate::persistent::record;
use smb_wire::NtStatus;
use std::sync::Arc;
use vfs::claims::{By, Conflict, Request, Verdict};

/// A directory keeps its name while anything below it is open over SMB (MS-FSA §2.1.5.15.11); who keeps that open for later alone
/// is asked to close it first.
pub(super) fn check_nothing_below(ops: &mut Ops<'_>, dir: &Open) -> Result<(), Stop> {
    if !dir.is_dir() {
        return Ok(());
    }
    let path = dir.place().path.clone();
    let is_below = |open: &Open| {
        let place = open.place();
        is_of_volume(open, dir) && place.path.len() > path.len() && place.path.starts_with(&path)
    };
    let below = ops.service.opens_where(is_below);
    let request = Request::Unlink { by: By::Open(dir.claim()), waits: false };
    for open in &below {
        if let Verdict::Refused(Conflict::Recalling) = open.file.claim(&request) {
            return Err(ops.wait_for_name(dir, &open.file));
        }
    }
    if below.is_empty() { Ok(()) } else { Err(NtStatus::ACCESS_DENIED.into()) }
}

/// Tells all other opens of a file that had this name where it is now.
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
}

fn is_of_volume(open: &Open, other: &Open) -> bool {
    Arc::ptr_eq(&open.disk.export.volume, &other.disk.export.volume)
}
