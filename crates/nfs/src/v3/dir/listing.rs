//! READDIR and READDIRPLUS.
//!
//! A cookie is the backend's own and stays valid as long as the directory. So a cookie verifier is unnecessary: it is
//! always zero, and any value is accepted (RFC 1813 §3.3.16 allows this).

use super::super::attr::post_attrs;
use super::super::convert;
use super::super::reply::refuse;
use crate::call::{Call, CallResult, File};
use crate::handle::HandleSigner;
use crate::limits::LISTING_BYTES_MAX;
use nfs_wire::v3::{
    CookieVerf, DirListEnd, Entry, EntryPlus, Fattr, FileHandle, ReaddirArgs, ReaddirFail, ReaddirOkHead,
    ReaddirplusArgs, Status,
};
use std::ops::ControlFlow;
use vfs::qos::Transferred;
use vfs::{ExportId, FsError, FsResult, VolumeId};
use xdr::{Encode, Writer};

const VERIFIER: CookieVerf = [0; 8];

/// RFC 1813 §3.3.16.
pub(in crate::v3) fn readdir(call: &mut Call<'_>, args: ReaddirArgs<'_>, w: &mut Writer<'_>) -> CallResult {
    let request =
        ListRequest { cookie: args.cookie, bytes_max: args.count, names_max: u32::MAX, plus: false };
    list(call, args.dir.0, &request, w)
}

/// RFC 1813 §3.3.17.
pub(in crate::v3) fn readdirplus(
    call: &mut Call<'_>,
    args: ReaddirplusArgs<'_>,
    w: &mut Writer<'_>,
) -> CallResult {
    let request =
        ListRequest { cookie: args.cookie, bytes_max: args.maxcount, names_max: args.dircount, plus: true };
    list(call, args.dir.0, &request, w)
}

/// A READDIR or READDIRPLUS.
struct ListRequest {
    cookie: u64,
    /// Most bytes of the results.
    bytes_max: u32,
    /// Most bytes of file ids, names and cookies. Treated as a hint, as everywhere: many clients send small values.
    names_max: u32,
    plus: bool,
}

fn list(call: &mut Call<'_>, dir: &[u8], request: &ListRequest, w: &mut Writer<'_>) -> CallResult {
    let dir = match call.file(dir) {
        Ok(dir) => dir,
        Err(error) => return refuse(w, error, ReaddirFail::default()),
    };
    let start = w.len();
    match list_entries(call, &dir, request, w) {
        Ok(()) => {
            call.stats.count_metadata(Transferred::read(w.len() - start));
            Ok(())
        }
        Err(error) => {
            w.truncate(start);
            let dir_attributes = post_attrs(call, &dir);
            refuse(w, error, ReaddirFail { dir_attributes })
        }
    }
}

fn list_entries(call: &mut Call<'_>, dir: &File, request: &ListRequest, w: &mut Writer<'_>) -> FsResult<()> {
    let dir_attrs = call.attrs(dir)?;
    Status::OK.encode(w);
    let results = w.len();
    let own = convert::fattr(dir, &dir_attrs);
    ReaddirOkHead { dir_attributes: Some(own), cookieverf: VERIFIER }.encode(w);
    let limit = results + request.bytes_max.min(LISTING_BYTES_MAX) as usize;
    let mut page = Page {
        w,
        limit,
        names_remaining: i64::from(request.names_max),
        own_id: own.fileid,
        volume: dir.volume_id(),
        export: dir.export_id(),
        signer: &call.service.signer,
        entries: 0,
    };
    let listing =
        dir.read_dir(&dir.caller, request.cookie, request.plus, &mut |entry| page.add(entry, request.plus))?;
    let nothing_fits = page.entries == 0 && !listing.at_end;
    if nothing_fits || w.len() + DirListEnd::SIZE > limit {
        return Err(FsError::TooSmall);
    }
    DirListEnd { eof: listing.at_end }.encode(w);
    Ok(())
}

/// A listing in progress.
struct Page<'p, 'w> {
    w: &'p mut Writer<'w>,
    /// Offset at which the results must end.
    limit: usize,
    names_remaining: i64,
    /// The file id of the directory, which its storage may not know.
    own_id: u64,
    volume: VolumeId,
    export: ExportId,
    signer: &'p HandleSigner,
    entries: u32,
}

impl Page<'_, '_> {
    fn add(&mut self, entry: &vfs::Entry<'_>, plus: bool) -> ControlFlow<()> {
        // File id, name and cookie: what `dircount` counts.
        self.names_remaining -= 24 + i64::try_from(entry.name.len()).unwrap_or(i64::MAX);
        if self.names_remaining < 0 && self.entries > 0 {
            return ControlFlow::Break(());
        }
        let before = self.w.len();
        self.w.bool(true);
        if plus {
            self.encode_plus(entry)
        } else {
            self.encode_name(entry)
        }
        if self.w.len() + DirListEnd::SIZE > self.limit {
            self.w.truncate(before);
            return ControlFlow::Break(());
        }
        self.entries += 1;
        ControlFlow::Continue(())
    }

    fn file_id(&self, entry: &vfs::Entry<'_>) -> u64 {
        if entry.name == b"." { self.own_id } else { entry.file_id }
    }

    fn encode_name(&mut self, entry: &vfs::Entry<'_>) {
        Entry { fileid: self.file_id(entry), name: entry.name, cookie: entry.cookie }.encode(self.w);
    }

    fn encode_plus(&mut self, entry: &vfs::Entry<'_>) {
        let handle = entry.object.map(|(key, _)| self.signer.sign(self.export, key));
        EntryPlus {
            fileid: self.file_id(entry),
            name: entry.name,
            cookie: entry.cookie,
            name_attributes: entry.object.map(|(key, attrs)| match key.view().is_entry() {
                true => Fattr { fileid: entry.file_id, ..convert::fattr_of(self.volume, attrs) },
                false => convert::fattr_of(self.volume, attrs),
            }),
            name_handle: handle.as_ref().map(|handle| FileHandle(handle.bytes())),
        }
        .encode(self.w);
    }
}
