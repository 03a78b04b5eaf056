//! READDIR.
//!
//! A cookie is the backend's own and names a place that lasts as long as the directory, so there is nothing
//! for a cookie verifier to protect against: it is always zero, and any value is accepted. The numbers 1 and
//! 2 are no cookies (RFC 8881 §18.23.3), so all are moved by two.

use super::super::attr::{
    AttrSource, FileSystem, check_request, encode, encode_filehandle, encode_unknown, is_known,
};
use super::super::compound_state::{CompoundState, OpError, OpResult};
use super::super::pseudo;
use crate::call::File;
use crate::handle::HandleSigner;
use crate::limits::LISTING_BYTES_MAX;
use crate::status::nfs4::status;
use crate::v4::filehandle::Filehandle;
use nfs_wire::v4::{Bitmap, DirListEnd, ReaddirArgs, ReaddirOkHead, Status, attr};
use std::ops::ControlFlow;
use std::sync::Arc;
use vfs::qos::Transferred;
use vfs::{Attrs, Blocking, Export, FsError};
use xdr::{Encode, Writer};

const RESERVED_COOKIES: u64 = 2;

/// RFC 8881 §18.23.
pub(in crate::v4) fn readdir(
    cx: &mut CompoundState<'_, '_>,
    args: ReaddirArgs,
    w: &mut Writer<'_>,
) -> OpResult {
    cx.may_wait()?;
    let filehandle = cx.current_filehandle()?.clone();
    let after = match args.cookie {
        0 => 0,
        cookie => cookie
            .checked_sub(RESERVED_COOKIES)
            .filter(|&cookie| cookie > 0)
            .ok_or(OpError::Status(Status::BAD_COOKIE))?,
    };
    check_request(&args.attr_request, cx.request.minor)?;
    let start = w.len();
    ReaddirOkHead { cookieverf: [0; 8] }.encode(w);
    let mut page = Page {
        w,
        limit: start + args.maxcount.min(LISTING_BYTES_MAX) as usize,
        names_remaining: if args.dircount == 0 { i64::MAX } else { i64::from(args.dircount) },
        request: args.attr_request,
        entries: 0,
        refused: None,
    };
    let at_end = match filehandle {
        Filehandle::File(dir) => list_dir(cx, &dir, after, &mut page)?,
        Filehandle::Pseudo(dir) => list_pseudo(cx, &dir, after, &mut page)?,
    };
    page.finish(at_end)?;
    cx.count_metadata(Transferred::read(w.len() - start));
    Ok(())
}

/// Lists a directory of a volume after a cookie: whether the last entry was reached.
fn list_dir(
    cx: &mut CompoundState<'_, '_>,
    dir: &File,
    after: u64,
    page: &mut Page<'_, '_>,
) -> Result<bool, OpError> {
    let covering = pseudo::covering_all(cx.call, dir)?;
    let cx = &*cx;
    let entries = Entries {
        system: FileSystem::new(cx.call, cx.request.minor, Some(dir.export())),
        signer: &cx.call.service.signer,
        export: dir.export(),
    };
    let plus = !is_known(&page.request);
    let listing = dir.read_dir(&dir.caller, after, plus, &mut |entry| {
        if matches!(entry.name, b"." | b"..") {
            return ControlFlow::Continue(());
        }
        let covered = covering.iter().find(|(name, _)| **name == *entry.name);
        page.add(entry.name, entry.cookie, |request, w| match covered {
            Some((_, root)) => encode_root(cx, root, entry.file_id, request, w),
            None => entries.encode(request, entry, plus, w),
        })
    })?;
    Ok(listing.at_end)
}

struct Entries<'e> {
    system: FileSystem<'e>,
    signer: &'e HandleSigner,
    export: &'e Arc<Export>,
}

impl Entries<'_> {
    fn encode(&self, request: &Bitmap, entry: &vfs::Entry<'_>, plus: bool, w: &mut Writer<'_>) -> OpResult {
        let Some((key, attrs)) = entry.object else {
            // Without an object in a full listing, the caller may not access it, or a mount covers it.
            let error = if plus { Status::ACCESS } else { Status::OK };
            return encode_unknown(request, error, entry.file_id, w);
        };
        let with_born;
        let attrs = match request.contains(attr::TIME_CREATE) {
            false => attrs,
            true => {
                // An entry removed meanwhile is listed as it was.
                let extra = self.export.extra_attrs(key, attrs).unwrap_or_default();
                with_born = Attrs { born: Some(extra.born_or_modified(attrs)), ..*attrs };
                &with_born
            }
        };
        let handle = request.contains(attr::FILEHANDLE).then(|| self.signer.sign(self.export.id, key));
        let acl = || self.export.file(key, Blocking::Allowed)?.posix_acl(attrs, Blocking::Allowed);
        // An entry of a directory of snapshots is the root of another file system (RFC 8881 §5.8.2.19).
        let mounted_on = if key.view().is_entry() { entry.file_id } else { attrs.file_id };
        let handle = handle.as_ref();
        let source = AttrSource { fs: &self.system, handle, attrs, mounted_on, acl: &acl };
        encode(request, &source, w)
    }
}

/// Lists a directory above the exports after a cookie: whether the last entry was reached.
fn list_pseudo(
    cx: &mut CompoundState<'_, '_>,
    dir: &pseudo::PseudoNode,
    after: u64,
    page: &mut Page<'_, '_>,
) -> Result<bool, OpError> {
    for child in dir.children(cx.call)?.into_iter().filter(|child| child.cookie > after) {
        let filehandle = child.node.resolve(cx.call);
        let number = child.node.number();
        let added = page.add(child.name.as_bytes(), child.cookie, |request, w| match &filehandle {
            Ok(filehandle) => encode_root(cx, filehandle, number, request, w),
            Err(error) => encode_unknown(request, status(*error), number, w),
        });
        if added.is_break() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes the attributes of an export's root in a listing. An error is reported in the entry, so that it does not hide
/// others.
fn encode_root(
    cx: &CompoundState<'_, '_>,
    filehandle: &Filehandle,
    number: u64,
    request: &Bitmap,
    w: &mut Writer<'_>,
) -> OpResult {
    let start = w.len();
    match encode_filehandle(cx, filehandle, request, w) {
        Err(OpError::Status(error)) if error != Status::INVAL => {
            w.truncate(start);
            encode_unknown(request, error, number, w)
        }
        encoded => encoded,
    }
}

/// A listing in progress.
struct Page<'p, 'w> {
    w: &'p mut Writer<'w>,
    /// Offset at which the results must end.
    limit: usize,
    /// The bytes of names and cookies that are still wished for.
    names_remaining: i64,
    request: Bitmap,
    entries: u32,
    /// Why an entry could not be written.
    refused: Option<OpError>,
}

impl Page<'_, '_> {
    fn add(
        &mut self,
        name: &[u8],
        cookie: u64,
        attrs: impl FnOnce(&Bitmap, &mut Writer<'_>) -> OpResult,
    ) -> ControlFlow<()> {
        // Cookie, name and its length: what `dircount` counts.
        self.names_remaining -= 12 + i64::try_from(name.len()).unwrap_or(i64::MAX);
        if self.names_remaining < 0 && self.entries > 0 {
            return ControlFlow::Break(());
        }
        let before = self.w.len();
        self.w.bool(true);
        // File system cookies never reach the last two numbers.
        self.w.u64(cookie.saturating_add(RESERVED_COOKIES));
        self.w.opaque(name);
        let written = attrs(&self.request, self.w);
        if written.is_err() || self.w.len() + DirListEnd::SIZE > self.limit {
            self.refused = written.err();
            self.w.truncate(before);
            return ControlFlow::Break(());
        }
        self.entries += 1;
        ControlFlow::Continue(())
    }

    fn finish(self, at_end: bool) -> OpResult {
        if let Some(stop) = self.refused {
            return Err(stop);
        }
        let nothing_fits = self.entries == 0 && !at_end;
        if nothing_fits || self.w.len() + DirListEnd::SIZE > self.limit {
            return Err(FsError::TooSmall.into());
        }
        DirListEnd { eof: at_end }.encode(self.w);
        Ok(())
    }
}
