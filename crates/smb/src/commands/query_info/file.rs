//! QUERY_INFO of a file (MS-FSA §2.1.5.12).

use super::info::Info;
use super::streams;
use crate::commands::extended_attributes::{self, EaList};
use crate::metadata::file_info::FileInfo;
use crate::metadata::names::{Naming, stream_to_wire, to_wire};
use crate::metadata::unix;
use crate::request::context::RequestContext;
use crate::request::outcome::CommandError;
use crate::state::open::Open;
use smb_wire::classes::FileClass;
use smb_wire::classes::file::{
    AccessInformation, AlignmentInformation, AllInformation, AttributeTagInformation, BasicInformation,
    CompressionInformation, EaInformation, InternalInformation, ModeInformation, NameInformation,
    NetworkOpenInformation, PositionInformation, StandardInformation,
};
use smb_wire::info::QueryInfoRequest;
use smb_wire::types::{AccessMask, Dialect};
use smb_wire::{NtStatus, Utf16};
use vfs::claims::{IoKind, Span};
use vfs::{Attrs, ExtraAttrs, FsError, Wait};

/// Minimum buffer of `FileAllInformation`, and of `FileNameInformation`: up to the name's first character, aligned
/// (MS-FSA §2.1.5.12).
const ALL_FIXED: usize = 104;
const NAME_FIXED: usize = 8;
/// Minimum buffer of `FileAlternateNameInformation`.
const ALTERNATE_NAME_FIXED: u32 = 4;

pub(super) fn query(
    cx: &mut RequestContext<'_, '_>,
    open: &Open,
    args: &QueryInfoRequest<'_>,
) -> Result<Info, CommandError> {
    let class = FileClass(args.file_info_class);
    recall_writers(cx, open, class)?;
    // Classes with attributes need FILE_READ_ATTRIBUTES; the others need only an open.
    let tells_attributes = matches!(
        class,
        FileClass::BASIC
            | FileClass::ALL
            | FileClass::NETWORK_OPEN
            | FileClass::ATTRIBUTE_TAG
            | FileClass::POSIX
    );
    if tells_attributes {
        open.check(AccessMask::READ_ATTRIBUTES)?;
    }
    // A compound that opens a file and queries it reads the attributes once.
    let attrs = cx.related.attrs_at_open.map_or_else(|| open.file.attrs(cx.message.blocking), Ok)?;
    let extra = if tells_attributes {
        open.file.extra_attrs(&attrs, cx.message.blocking)?
    } else {
        ExtraAttrs::default()
    };
    let file_info = open.file_info_with(&attrs, &extra);
    let room = args.output_buffer_length;
    Ok(match class {
        FileClass::BASIC => Info::fixed(&basic(&file_info)),
        FileClass::STANDARD => Info::fixed(&standard(open, &attrs, &file_info)),
        FileClass::INTERNAL => Info::fixed(&InternalInformation { index_number: open.file_number(&attrs) }),
        FileClass::EA => {
            Info::fixed(&EaInformation { ea_size: extended_attributes::size(cx, open, &attrs)? })
        }
        FileClass::ACCESS => Info::fixed(&AccessInformation { access_flags: open.granted }),
        FileClass::POSITION => Info::fixed(&position(open)),
        FileClass::MODE => Info::fixed(&ModeInformation { mode: open.mode() }),
        FileClass::ALIGNMENT => Info::fixed(&AlignmentInformation::default()),
        FileClass::ALL => all(open, &attrs, &file_info, extended_attributes::size(cx, open, &attrs)?)?,
        FileClass::NORMALIZED_NAME if !cx.has_dialect(Dialect::SMB311) => {
            // MS-SMB2 §3.3.5.20.1.
            return Err(NtStatus::NOT_SUPPORTED.into());
        }
        FileClass::NORMALIZED_NAME => {
            let name = path_of(open, "")?;
            Info::with_name(&NameInformation { file_name: utf16(&name)? }, NAME_FIXED)
        }
        FileClass::ALTERNATE_NAME if room < ALTERNATE_NAME_FIXED => {
            return Err(NtStatus::INFO_LENGTH_MISMATCH.into());
        }
        // There are no 8.3 names.
        FileClass::ALTERNATE_NAME => return Err(NtStatus::OBJECT_NAME_NOT_FOUND.into()),
        FileClass::NETWORK_OPEN => Info::fixed(&network_open(&file_info)),
        FileClass::ATTRIBUTE_TAG => Info::fixed(&AttributeTagInformation {
            file_attributes: file_info.attributes,
            reparse_tag: file_info.reparse_tag.unwrap_or_default(),
        }),
        FileClass::STREAM => streams::query(cx, open, room)?,
        FileClass::COMPRESSION => Info::fixed(&CompressionInformation {
            compressed_file_size: file_info.size,
            ..CompressionInformation::default()
        }),
        FileClass::FULL_EA => {
            let EaList { bytes, is_cut } = extended_attributes::query(cx, open, args)?;
            Info { bytes, fixed: 0, is_cut }
        }
        FileClass::POSIX if open.naming == Naming::Posix => Info::fixed(&unix::information(
            open.file_number(&attrs),
            &attrs,
            &file_info,
            open.serial_number(),
        )),
        _ => return Err(NtStatus::INVALID_INFO_CLASS.into()),
    })
}

/// Recalls delegations of unreported writers for classes that show sizes or times.
fn recall_writers(
    cx: &mut RequestContext<'_, '_>,
    open: &Open,
    class: FileClass,
) -> Result<(), CommandError> {
    let shows = matches!(
        class,
        FileClass::BASIC
            | FileClass::STANDARD
            | FileClass::ALL
            | FileClass::NETWORK_OPEN
            | FileClass::STREAM
            | FileClass::COMPRESSION
            | FileClass::POSIX
    );
    if !shows {
        return Ok(());
    }
    match open.file.recall_writers(open.disk.caller.by) {
        Err(FsError::Wait(Wait::Recall)) => Err(cx.wait_for_io(open, IoKind::ReadAttrs, Span::ALL)),
        recalled => Ok(recalled?),
    }
}

fn basic(file_info: &FileInfo) -> BasicInformation {
    BasicInformation {
        creation_time: file_info.created,
        last_access_time: file_info.accessed,
        last_write_time: file_info.written,
        change_time: file_info.changed,
        file_attributes: file_info.attributes,
    }
}

fn standard(open: &Open, attrs: &Attrs, file_info: &FileInfo) -> StandardInformation {
    let (delete_pending, goes_by_name) = open.pending_deletion();
    StandardInformation {
        allocation_size: file_info.allocation,
        end_of_file: file_info.size,
        // A delete-pending link no longer counts (MS-FSA §2.1.5.12.27).
        number_of_links: attrs.links.saturating_sub(u32::from(goes_by_name)),
        delete_pending,
        directory: open.is_dir(),
    }
}

fn network_open(file_info: &FileInfo) -> NetworkOpenInformation {
    NetworkOpenInformation {
        creation_time: file_info.created,
        last_access_time: file_info.accessed,
        last_write_time: file_info.written,
        change_time: file_info.changed,
        allocation_size: file_info.allocation,
        end_of_file: file_info.size,
        file_attributes: file_info.attributes,
    }
}

fn position(open: &Open) -> PositionInformation {
    PositionInformation { current_byte_offset: open.position() }
}

fn all(open: &Open, attrs: &Attrs, file_info: &FileInfo, ea_size: u32) -> Result<Info, CommandError> {
    let name = path_of(open, "\\")?;
    let all = AllInformation {
        basic: basic(file_info),
        standard: standard(open, attrs, file_info),
        internal: InternalInformation { index_number: open.file_number(attrs) },
        ea: EaInformation { ea_size },
        access: AccessInformation { access_flags: open.granted },
        position: position(open),
        mode: ModeInformation { mode: open.mode() },
        alignment: AlignmentInformation::default(),
        file_name: utf16(&name)?,
    };
    Ok(Info::with_name(&all, ALL_FIXED))
}

/// Returns the path from the root of the share, in UTF-16, after the prefix `root`.
fn path_of(open: &Open, root: &str) -> Result<Vec<u8>, NtStatus> {
    let mut units: Vec<u16> = root.encode_utf16().collect();
    let entry_path = open.entry_path();
    for (i, name) in entry_path.path.iter().enumerate() {
        if i > 0 {
            units.push(u16::from(b'\\'));
        }
        units.extend(to_wire(name, Naming::Windows).ok_or(NtStatus::OBJECT_NAME_INVALID)?);
    }
    if let Some(stream) = &entry_path.stream {
        units.push(u16::from(b':'));
        units.extend(stream_to_wire(stream).ok_or(NtStatus::OBJECT_NAME_INVALID)?);
    }
    Ok(units.into_iter().flat_map(u16::to_le_bytes).collect())
}

fn utf16(bytes: &[u8]) -> Result<Utf16<'_>, NtStatus> {
    Utf16::new(bytes).map_err(|_| NtStatus::INTERNAL_ERROR)
}
