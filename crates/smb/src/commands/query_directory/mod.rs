//! QUERY_DIRECTORY (MS-SMB2 §3.3.5.18, MS-FSA §2.1.5.6).

mod apple;
mod frozen;

use frozen::FrozenDir;

use crate::limits::TRANSACT_BYTES_MAX;
use crate::metadata::file_info::FileInfo;
use crate::metadata::identity;
use crate::metadata::names::{Naming, Pattern, component, to_wire};
use crate::metadata::unix;
use crate::request::context::RequestContext;
use crate::request::outcome::{CommandError, CommandResult};
use crate::request::path_lookup::find_name;
use crate::state::open::Open;
use crate::state::open::directory_cursor::{DirectoryCursor, NameFilter};
use smb_wire::apple::{AppleCapabilities, ReadDirAttributes};
use smb_wire::classes::listing::{DirectoryEntry, ListingWriter, is_supported};
use smb_wire::dir::{DirectoryClass, OutputResponse, QueryDirectoryFlags, QueryDirectoryRequest};
use smb_wire::types::AccessMask;
use smb_wire::{Encode, ExternalBuffer, NtStatus, Writer};
use std::ops::ControlFlow;
use vfs::qos::{Kind, Transferred};
use vfs::{Attrs, Blocking, Entry, ExtraAttrs, FileKey, FsError, Resolved, ViewId};

/// The offset of the entries' length in the reply.
const LENGTH_AT: usize = smb_wire::header::HEADER_SIZE + 4;

pub(crate) fn query(cx: &mut RequestContext<'_, '_>, request: &[u8], w: &mut Writer<'_>) -> CommandResult {
    let args: QueryDirectoryRequest<'_> = RequestContext::decode(request)?;
    let open = cx.open(args.file_id)?;
    let is_posix = args.file_information_class == DirectoryClass::POSIX && open.naming == Naming::Posix;
    if !is_supported(args.file_information_class) && !is_posix {
        return Err(NtStatus::INVALID_INFO_CLASS.into());
    }
    if !open.is_dir() {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    open.check(AccessMask::LIST_DIRECTORY)?;
    cx.count_transfer(Kind::Read, Transferred::default());
    // A larger buffer gets the maximum reply.
    let room = usize::try_from(args.output_buffer_length.min(TRANSACT_BYTES_MAX)).unwrap_or(usize::MAX);
    // A nonzero length, since a length of 0 omits the buffer.
    OutputResponse { output: ExternalBuffer { offset: 0, length: 1 } }.encode(w);
    let start = w.position();
    let mut cursor = open.cursor();
    let is_first = start_scan(&mut cursor, &args, open.naming)?;
    let access_based = cx.share_settings(&open.disk).access_based_enumeration;
    let mut page = ReplyPage {
        listing: ListingWriter::new(args.file_information_class, w, room),
        is_single: args.flags.contains(QueryDirectoryFlags::RETURN_SINGLE_ENTRY),
        posix_device: is_posix.then(|| open.serial_number()),
        // The attributes also tell the directory of snapshots from a file of that name.
        needs_attrs: access_based
            || args.file_information_class != DirectoryClass::NAMES
            || open.file.is_root(),
        hides: access_based,
        is_for_apple: args.file_information_class == DirectoryClass::ID_BOTH_DIRECTORY
            && cx.session()?.has_announced(AppleCapabilities::SUPPORTS_READ_DIR_ATTR),
        is_full: false,
    };
    if !cursor.at_end {
        match cursor.filter.clone() {
            Some(NameFilter::Name(name)) => list_single(&open, &mut cursor, &name, &mut page, w)?,
            Some(NameFilter::Pattern(pattern)) => list_matching(&open, &mut cursor, &pattern, &mut page, w)?,
            None => return Err(NtStatus::INTERNAL_ERROR.into()),
        }
    }
    if page.listing.is_empty() {
        return Err(CommandError::Status(match (page.is_full, is_first) {
            (true, _) => NtStatus::INFO_LENGTH_MISMATCH,
            (false, true) => NtStatus::NO_SUCH_FILE,
            (false, false) => NtStatus::NO_MORE_FILES,
        }));
    }
    let bytes = w.position() - start;
    w.patch::<u32>(LENGTH_AT, bytes);
    cx.count_transfer(Kind::Read, Transferred::read(bytes));
    Ok(NtStatus::SUCCESS)
}

/// Applies a request's restart flags and pattern. Returns whether it is the first of its scan.
fn start_scan(
    cursor: &mut DirectoryCursor,
    args: &QueryDirectoryRequest<'_>,
    naming: Naming,
) -> Result<bool, NtStatus> {
    let reopens = args.flags.contains(QueryDirectoryFlags::REOPEN);
    let restarts = reopens || args.flags.contains(QueryDirectoryFlags::RESTART_SCANS);
    if restarts {
        (cursor.cookie, cursor.at_end) = (0, false);
    }
    let is_first = cursor.filter.is_none() || restarts;
    // The pattern stays until the scan restarts.
    if is_first && (!args.file_name.is_empty() || cursor.filter.is_none()) {
        let wire: Vec<u16> = args.file_name.units().collect();
        let wire = if wire.is_empty() { vec![u16::from(b'*')] } else { wire };
        let pattern = Pattern::new(&wire, naming).ok_or(NtStatus::OBJECT_NAME_INVALID)?;
        cursor.filter = Some(match pattern.is_one_name() {
            true => NameFilter::Name(component(&wire, naming).map_err(|_| NtStatus::OBJECT_NAME_INVALID)?),
            false => NameFilter::Pattern(pattern),
        });
    }
    Ok(is_first)
}

struct ReplyPage {
    listing: ListingWriter,
    is_single: bool,
    /// The device id in entries of the POSIX class.
    posix_device: Option<u32>,
    needs_attrs: bool,
    hides: bool,
    is_for_apple: bool,
    is_full: bool,
}

impl ReplyPage {
    /// Appends an entry. Returns whether it was consumed.
    fn push(
        &mut self,
        name: &[u16],
        object: Option<EntryObject<'_>>,
        file_id: u64,
        w: &mut Writer<'_>,
    ) -> bool {
        let is_taken = match self.posix_device {
            Some(device) => {
                let information = match &object {
                    Some(EntryObject { attrs, file_info, .. }) => {
                        unix::information(file_id, attrs, file_info, device)
                    }
                    None => unix::information_of_unknown(file_id, device),
                };
                self.listing.push_posix(&information, name, w)
            }
            None => self.listing.push(&entry(name, object, file_id), w),
        };
        self.is_full |= !is_taken;
        is_taken
    }
}

struct EntryObject<'a> {
    attrs: &'a Attrs,
    file_info: FileInfo,
    apple: Option<ReadDirAttributes>,
}

impl<'a> EntryObject<'a> {
    fn of(
        open: &Open,
        page: &ReplyPage,
        name: &[u8],
        key: &FileKey,
        attrs: &'a Attrs,
        extra: &ExtraAttrs,
    ) -> Self {
        let apple = page.is_for_apple.then(|| apple::attributes(open, name, key, attrs));
        Self { file_info: FileInfo::of(attrs, extra), attrs, apple }
    }
}

fn entry<'a>(file_name: &'a [u16], object: Option<EntryObject<'_>>, file_id: u64) -> DirectoryEntry<'a> {
    let (file_info, apple) = object.map_or_else(Default::default, |object| (object.file_info, object.apple));
    DirectoryEntry {
        creation_time: file_info.created,
        last_access_time: file_info.accessed,
        last_write_time: file_info.written,
        change_time: file_info.changed,
        end_of_file: file_info.size,
        allocation_size: file_info.allocation,
        file_attributes: file_info.attributes,
        ea_size: 0,
        reparse_tag: file_info.reparse_tag.unwrap_or_default(),
        file_id,
        apple,
        file_name,
    }
}

fn list_single(
    open: &Open,
    cursor: &mut DirectoryCursor,
    name: &[u8],
    page: &mut ReplyPage,
    w: &mut Writer<'_>,
) -> Result<(), CommandError> {
    let dir = Resolved { file: open.file.clone(), attrs: open.file.attrs(Blocking::Allowed)? };
    let (stored, found) = match find_name(&dir, &open.disk.caller, name, open.naming) {
        Err(FsError::NotFound) => {
            cursor.at_end = true;
            return Ok(());
        }
        found => found?,
    };
    let disk = &open.disk;
    if page.hides && !disk.export.is_visible(&found.file.key(), &found.attrs, &disk.caller)? {
        cursor.at_end = true;
        return Ok(());
    }
    let wire = to_wire(&stored, open.naming).ok_or(NtStatus::OBJECT_NAME_INVALID)?;
    let extra = found.file.extra_attrs(&found.attrs, Blocking::Allowed)?;
    let object = EntryObject::of(open, page, &stored, &found.file.key(), &found.attrs, &extra);
    // An entry that did not fit is returned by the next query.
    let file_id = identity::file_id(&found.file, &found.attrs);
    cursor.at_end = page.push(&wire, Some(object), file_id, w);
    Ok(())
}

/// Lists as many entries as fit, from the cursor on.
fn list_matching(
    open: &Open,
    cursor: &mut DirectoryCursor,
    pattern: &Pattern,
    page: &mut ReplyPage,
    w: &mut Writer<'_>,
) -> Result<(), CommandError> {
    let (caller, export) = (&open.disk.caller, &open.disk.export);
    // The attributes of the parent are not part of the listing; the parent of the root stays hidden.
    let above: &[u8] = if open.entry_path().path.is_empty() { b"." } else { b".." };
    let parent = match open.file.open_dir(caller, Blocking::Allowed) {
        Ok(dir) if page.needs_attrs => dir.lookup(above, Blocking::Allowed).ok(),
        _ => None,
    };
    let parent = parent.map(|found| (found.file.key(), found.attrs));
    let mut cookie = cursor.cookie;
    let dir = FrozenDir::of(open)?;
    // Entries of a directory of snapshots have attributes without opening their snapshots.
    let needs_attrs = page.needs_attrs && open.file.key().view() != ViewId::DIRECTORY;
    let mut take = |entry: &Entry<'_>| {
        if page.is_single && !page.listing.is_empty() {
            return ControlFlow::Break(());
        }
        if let Some(wire) = to_wire(entry.name, open.naming) {
            let version = dir.as_ref().and_then(|dir| dir.version(entry.name));
            let object = match entry.name {
                b".." => parent.as_ref().map(|(key, attrs)| (key, attrs)),
                _ => entry.object.or(version.as_ref().map(|(key, attrs)| (key, attrs))),
            };
            // The directory of snapshots, which no client sees in a listing.
            if object.is_some_and(|(_, attrs)| attrs.view == ViewId::DIRECTORY) && dir.is_none() {
                cookie = entry.cookie;
                return ControlFlow::Continue(());
            }
            let is_hidden = page.hides
                && !matches!(entry.name, b"." | b"..")
                && !object.is_some_and(|(key, attrs)| export.is_visible(key, attrs, caller).unwrap_or(false));
            if is_hidden {
                cookie = entry.cookie;
                return ControlFlow::Continue(());
            }
            let file_id = match &dir {
                Some(dir) if version.is_none() => dir.file_id_of(entry, object),
                _ => entry.file_id,
            };
            // A file removed meanwhile has no attributes. Those of snapshots are not opened for the listing.
            let object = object.map(|(key, attrs)| match version {
                Some(_) => {
                    EntryObject { file_info: FileInfo::of(attrs, &ExtraAttrs::default()), attrs, apple: None }
                }
                None => {
                    let extra = export.extra_attrs(key, attrs).unwrap_or_default();
                    EntryObject::of(open, page, entry.name, key, attrs, &extra)
                }
            });
            if !page.push(&wire, object, file_id, w) {
                return ControlFlow::Break(());
            }
        }
        cookie = entry.cookie;
        ControlFlow::Continue(())
    };
    // Names are matched before files are opened.
    let is_wanted = |name: &[u8]| to_wire(name, open.naming).is_some_and(|wire| pattern.matches(&wire));
    let listed = match pattern.is_everything() {
        true => open.file.read_dir(caller, cursor.cookie, needs_attrs, &mut take)?,
        false => open.file.read_dir_of(caller, cursor.cookie, needs_attrs, &is_wanted, &mut take)?,
    };
    cursor.cookie = cookie;
    cursor.at_end = listed.at_end;
    Ok(())
}
