//! MOUNT: handles for the paths of exports (RFC 1813 Appendix I), and the list of mounts.
//!
//! The handle that MNT returns is not a permission: every later call checks the export's rules.
//! So the table of mounts is only informative, and losing it at a restart costs nothing.

pub(crate) mod path;
#[cfg(test)]
mod tests;

pub use crate::state::mounts::MountTable;

use crate::call::{Attempt, Call, CallResult, Outcome};
use crate::records::reply::Records;
use crate::status::mount::status;
use nfs_wire::mount::{
    DirPath, ExportNode, FhStatus, GroupNode, MountBody, MountOk, MountReply, Procedure, Status, VERSION_1,
};
use nfs_wire::rpc::AuthFlavor;
use std::sync::Arc;
use transport::Outbox;
use vfs::{Export, ExportRule, File, FileType, FsError, FsResult, Origin, Protection, Wait};
use xdr::{Decode, Encode, List, Reader, Writer};

/// The result of MNT in version 1. Its handles have 32 bytes, ours are longer, and NFS version 2 is not served.
/// The number is Linux's `EOPNOTSUPP`; RFC 1094 Appendix A.5 leaves the choice.
const VERSION_1_REFUSAL: FhStatus = FhStatus::Err(95);

pub(crate) fn answer(
    call: &mut Call<'_>,
    version: u32,
    procedure: Procedure,
    args: &[u8],
    out: &mut Outbox,
) -> Attempt {
    let mut r = Reader::new(args);
    let w = &mut out.writer();
    match procedure {
        Procedure::NULL => {}
        Procedure::MNT => {
            let path = DirPath::decode(&mut r)?;
            if version == VERSION_1 {
                VERSION_1_REFUSAL.encode(w);
            } else {
                return Ok(mnt(call, path, w).into());
            }
        }
        Procedure::DUMP => dump(call, w),
        Procedure::UMNT => umnt(call, DirPath::decode(&mut r)?),
        Procedure::UMNTALL => call.service.mounts.remove_all(call.client()),
        Procedure::EXPORT => exports(call, w),
        _ => return Ok(Outcome::NoProcedure),
    }
    Ok(Outcome::Replied)
}

/// RFC 1813 §5.2.1.
fn mnt(call: &mut Call<'_>, path: DirPath<'_>, w: &mut Writer<'_>) -> CallResult {
    let path = match path::normal(path.0) {
        Ok(path) => path,
        Err(status) => return refuse(w, status),
    };
    // Names below an export may be any bytes; the export's own path is text.
    let found = path::resolve(call.namespace, &path).filter(|(export, _)| export.is_at(call.endpoint));
    let refused = |export: Option<&Export>| {
        call.service.log_refusal(call.origin(), "3", &String::from_utf8_lossy(&path), export);
        if export.is_some() { Status::ACCES } else { Status::NOENT }
    };
    let Some((export, below)) = found else { return refuse(w, refused(None)) };
    // Kernels call MNT in clear even for an encrypted mount. They get the root's handle, which is unusable in clear,
    // and learn nothing about paths below it.
    let Some(rule) = export.rule(Origin { protection: Protection::Verified, ..call.origin() }) else {
        return refuse(w, refused(Some(&**export)));
    };
    if call.protection < rule.protection && path::names(below).next().is_some() {
        return refuse(w, refused(Some(&**export)));
    }
    match walk(call, export, rule, below) {
        Ok(file) => {
            let mounted = call.cache_file(file);
            call.service.mounts.add(call.service.networks, call.client(), &path);
            let (fhandle, auth_flavors) = (mounted.handle.bytes(), vec![AuthFlavor::SYS]);
            MountReply::Ok(MountOk { fhandle, auth_flavors }).encode(w);
            Ok(())
        }
        Err(FsError::Wait(Wait::Storage)) => Err(Wait::Storage),
        Err(error) => refuse(w, status(error)),
    }
}

/// Finds the directory `below` the root of `export`.
/// The caller needs search permission only on the directories above it. Symbolic links are not followed.
pub(crate) fn walk(call: &Call<'_>, export: &Arc<Export>, rule: &ExportRule, below: &[u8]) -> FsResult<File> {
    export.volume.check_open()?;
    let caller = rule.caller(call.credential);
    let mut dir = export.root();
    for name in path::names(below) {
        let found = dir.open_dir(&caller, call.blocking)?.lookup(name, call.blocking)?;
        if found.attrs.file_type != FileType::Directory {
            return Err(FsError::NotDirectory);
        }
        dir = found.file;
    }
    Ok(dir)
}

/// RFC 1813 §5.2.2. At an endpoint, mounts of exports not served there are omitted.
fn dump(call: &Call<'_>, w: &mut Writer<'_>) {
    let is_here = |path: &[u8]| {
        path::resolve(call.namespace, path).is_some_and(|(export, _)| export.is_at(call.endpoint))
    };
    for mount in call.service.mounts.list() {
        if call.endpoint.is_some() && !is_here(&mount.path) {
            continue;
        }
        let hostname = mount.client.to_string();
        Some(MountBody { hostname: hostname.as_bytes(), directory: &mount.path }).encode(w);
    }
    w.bool(false);
}

/// RFC 1813 §5.2.3. UMNT has no results, so an unmounted path is not an error.
fn umnt(call: &Call<'_>, path: DirPath<'_>) {
    if let Ok(path) = path::normal(path.0) {
        call.service.mounts.remove(call.client(), &path);
    }
}

/// RFC 1813 §5.2.5. An export without rules is omitted: a list without groups means that it admits everyone.
/// An export not served at the client's endpoint is omitted, too.
fn exports(call: &Call<'_>, w: &mut Writer<'_>) {
    for export in call.namespace.exports().iter().filter(|export| export.is_at(call.endpoint)) {
        let Some(admitted) = admitted(export) else { continue };
        let groups = List(admitted.iter().map(|range| GroupNode(range.as_bytes())).collect());
        Some(ExportNode { dir: export.path.as_bytes(), groups }).encode(w);
    }
    w.bool(false);
}

/// The ranges that an export's rules admit, empty for all clients; `None` if no client is admitted.
fn admitted(export: &Export) -> Option<Vec<String>> {
    let is_for = |rule: &&ExportRule| !rule.no_access && rule.protocols.contains(crate::v3::PROTOCOL);
    let mut admitting = export.rules.iter().filter(is_for).peekable();
    admitting.peek()?;
    let mut admitted: Vec<String> = Vec::new();
    for rule in admitting {
        if rule.clients.is_empty() {
            return Some(Vec::new());
        }
        for range in rule.clients.iter().map(ToString::to_string) {
            if !admitted.contains(&range) {
                admitted.push(range);
            }
        }
    }
    Some(admitted)
}

fn refuse(w: &mut Writer<'_>, status: Status) -> CallResult {
    MountReply::Err(status).encode(w);
    Ok(())
}
