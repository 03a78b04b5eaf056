//! Effects of a rename on other opens: of the file itself, and below a directory.

use crate::metadata::names::Naming;
use crate::request::context::RequestContext;
use crate::request::outcome::CommandError;
use crate::state::open::{EntryPath, Open};
use crate::state::persistent::record;
use smb_wire::NtStatus;
use smb_wire::apple::AppleCapabilities;
use std::sync::Arc;
use vfs::claims::{Conflict, Request, Requester, Verdict};

/// Refuses to rename a directory with SMB opens below it (MS-FSA §2.1.5.15.11), except with rename(2) semantics. Breaks
/// handle leases first.
pub(super) fn check_no_opens_below(cx: &mut RequestContext<'_, '_>, dir: &Open) -> Result<(), CommandError> {
    let below = recall_below(cx, dir)?;
    if below.is_empty() || renames_as_unix(cx, dir)? { Ok(()) } else { Err(NtStatus::ACCESS_DENIED.into()) }
}

/// Whether a client expects rename(2) semantics, which ignore opens below a directory. POSIX opens do, and Apple's
/// clients that negotiated a Unix server.
fn renames_as_unix(cx: &RequestContext<'_, '_>, dir: &Open) -> Result<bool, NtStatus> {
    Ok(dir.naming == Naming::Posix || cx.session()?.has_announced(AppleCapabilities::UNIX_BASED))
}

/// Lists the opens below a directory after their handle leases are released.
fn recall_below(cx: &mut RequestContext<'_, '_>, dir: &Open) -> Result<Vec<Arc<Open>>, CommandError> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let path = dir.entry_path().path.clone();
    let below = opens_below(cx, dir, &path);
    let request = Request::Unlink { by: Requester::Open(dir.claim()), waits: false };
    for open in &below {
        if let Verdict::Refused(Conflict::Recalling) = open.file.claim(&request) {
            return Err(cx.wait_for_name(dir, &open.file));
        }
    }
    Ok(below)
}

fn opens_below(cx: &RequestContext<'_, '_>, dir: &Open, path: &[Vec<u8>]) -> Vec<Arc<Open>> {
    let is_below = |open: &Open| {
        let entry_path = open.entry_path();
        is_of_volume(open, dir) && entry_path.path.len() > path.len() && entry_path.path.starts_with(path)
    };
    cx.message.service.find_opens(is_below)
}

/// Updates the path of other opens of this name, and of opens below a directory.
pub(super) fn update_opens(cx: &RequestContext<'_, '_>, open: &Arc<Open>, from: &EntryPath, to: &EntryPath) {
    let is_other = |other: &Open| is_of_volume(other, open) && other.file.key() == open.file.key();
    for other in cx.message.service.find_opens(is_other) {
        let mut entry_path = other.entry_path();
        // The file may also be open by other names.
        if Arc::ptr_eq(&other, open) || entry_path.link(None) != from.link(None) {
            continue;
        }
        *entry_path = EntryPath { stream: entry_path.stream.take(), ..to.clone() };
        drop(entry_path);
        _ = record::save(&other);
    }
    if !open.is_dir() {
        return;
    }
    for below in opens_below(cx, open, &from.path) {
        let mut entry_path = below.entry_path();
        let Some(rest) = entry_path.path.strip_prefix(&from.path[..]) else { continue };
        entry_path.path = [&to.path[..], rest].concat();
        drop(entry_path);
        _ = record::save(&below);
    }
}

fn is_of_volume(open: &Open, other: &Open) -> bool {
    Arc::ptr_eq(&open.disk.export.volume, &other.disk.export.volume)
}
