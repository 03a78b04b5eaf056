//! What a file says of itself (MS-FSA §2.1.5.12).

use super::info::Info;
use super::streams;
use crate::commands::extended_attributes::{self, Listed};
use crate::metadata::file_info::Shown;
use crate::metadata::names::{Naming, stream_to_wire, to_wire};
use crate::metadata::unix;
use crate::request::context::{Ops, Stop};
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

/// Bytes of `FileAllInformation` and `FileNameInformation` that a client must have room for: up to the name's first character,
/// aligned (MS-FSA §2.1.5.12).
const ALL_FIXED: usize = 104;
const NAME_FIXED: usize = 8;
/// Bytes of `FileAlternateNameInformation` that a client must have room for.
const ALTERNATE_NAME_FIXED: u32 = 4;

pub(super) fn query(ops: &mut Ops<'_>, open: &Open, args: &QueryInfoRequest<'_>) -> Result<Info, Stop> {
    let class = FileClass(args.file_info_class);
    ask_before_telling(ops, open, class)?;
    // Whatever tells of attributes needs the right to read them; what else there is, an open is enough for.
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
    // What a message opens and then asks for need not be looked at twice.
    let attrs = ops.told.map_or_else(|| open.file.attrs(ops.blocking), Ok)?;
    let kept =
        if tells_attributes { open.file.extra_attrs(&attrs, ops.blocking)? } else { ExtraAttrs::default() };
    let shown = open.shown_with(&attrs, &kept);
    let room = args.output_buffer_length;
    Ok(match class {
        FileClass::BASIC => Info::fixed(&basic(&shown)),
        FileClass::STANDARD => Info::fixed(&standard(open, &attrs, &shown)),
        FileClass::INTERNAL => Info::fixed(&InternalInformation { index_number: attrs.file_id }),
        FileClass::EA => {
            Info::fixed(&EaInformation { ea_size: extended_attributes::size(ops, open, &attrs)? })
        }
        FileClass::ACCESS => Info::fixed(&AccessInformation { access_flags: open.granted }),
        FileClass::POSITION => Info::fixed(&position(open)),
        FileClass::MODE => Info::fixed(&ModeInformation { mode: open.mode() }),
        FileClass::ALIGNMENT => Info::fixed(&AlignmentInformation::default()),
        FileClass::ALL => all(open, &attrs, &shown, extended_attributes::size(ops, open, &attrs)?)?,
        FileClass::NORMALIZED_NAME if !ops.speaks(Dialect::SMB311) => {
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
        // No file has a second name of eight and three characters.
        FileClass::ALTERNATE_NAME => return Err(NtStatus::OBJECT_NAME_NOT_FOUND.into()),
        FileClass::NETWORK_OPEN => Info::fixed(&network_open(&shown)),
        FileClass::ATTRIBUTE_TAG => Info::fixed(&AttributeTagInformation {
            file_attributes: shown.attributes,
            reparse_tag: shown.reparse_tag.unwrap_or_default(),
        }),
        FileClass::STREAM => streams::query(ops, open, room)?,
        FileClass::COMPRESSION => Info::fixed(&CompressionInformation {
            compressed_file_size: shown.size,
            ..CompressionInformation::default()
        }),
        FileClass::FULL_EA => {
            let Listed { bytes, is_cut } = extended_attributes::query(ops, open, args)?;
            Info { bytes, fixed: 0, is_cut }
        }
        FileClass::POSIX if open.naming == Naming::Posix => {
            Info::fixed(&unix::information(&attrs, &shown, open.disk.serial_number()))
        }
        _ => return Err(NtStatus::INVALID_INFO_CLASS.into()),
    })
}

/// Asks who may have written to a file without saying so, where that would show.
fn ask_before_telling(ops: &mut Ops<'_>, open: &Open, class: FileClass) -> Result<(), Stop> {
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
        Err(FsError::Wait(Wait::Recall)) => Err(ops.wait_for_io(open, IoKind::ReadAttrs, Span::ALL)),
        asked => Ok(asked?),
    }
}

fn basic(shown: &Shown) -> BasicInformation {
    BasicInformation {
        creation_time: shown.created,
        last_access_time: shown.accessed,
        last_write_time: shown.written,
        change_time: shown.changed,
        file_attributes: shown.attributes,
    }
}

fn standard(open: &Open, attrs: &Attrs, shown: &Shown) -> StandardInformation {
    let (delete_pending, goes_by_name) = open.pending_deletion();
    StandardInformation {
        allocation_size: shown.allocation,
        end_of_file: shown.size,
        // The one that is to be deleted counts no more (MS-FSA §2.1.5.12.27).
        number_of_links: attrs.links.saturating_sub(u32::from(goes_by_name)),
        delete_pending,
        directory: open.is_dir(),
    }
}

fn network_open(shown: &Shown) -> NetworkOpenInformation {
    NetworkOpenInformation {
        creation_time: shown.created,
        last_access_time: shown.accessed,
        last_write_time: shown.written,
        change_time: shown.changed,
        allocation_size: shown.allocation,
        end_of_file: shown.size,
        file_attributes: shown.attributes,
    }
}

fn position(open: &Open) -> PositionInformation {
    PositionInformation { current_byte_offset: open.position() }
}

fn all(open: &Open, attrs: &Attrs, shown: &Shown, ea_size: u32) -> Result<Info, Stop> {
    let name = path_of(open, "\\")?;
    let all = AllInformation {
        basic: basic(shown),
        standard: standard(open, attrs, shown),
        internal: InternalInformation { index_number: attrs.file_id },
        ea: EaInformation { ea_size },
        access: AccessInformation { access_flags: open.granted },
        position: position(open),
        mode: ModeInformation { mode: open.mode() },
        alignment: AlignmentInformation::default(),
        file_name: utf16(&name)?,
    };
    Ok(Info::with_name(&all, ALL_FIXED))
}

/// The path of a file from the root of its share, in UTF-16, behind `root`.
fn path_of(open: &Open, root: &str) -> Result<Vec<u8>, NtStatus> {
    let mut units: Vec<u16> = root.encode_utf16().collect();
    let place = open.place();
    for (i, name) in place.path.iter().enumerate() {
        if i > 0 {
            units.push(u16::from(b'\\'));
        }
        units.extend(to_wire(name, Naming::Windows).ok_or(NtStatus::OBJECT_NAME_INVALID)?);
    }
    if let Some(stream) = &place.stream {
        units.push(u16::from(b':'));
        units.extend(stream_to_wire(stream).ok_or(NtStatus::OBJECT_NAME_INVALID)?);
    }
    Ok(units.into_iter().flat_map(u16::to_le_bytes).collect())
}

fn utf16(bytes: &[u8]) -> Result<Utf16<'_>, NtStatus> {
    Utf16::new(bytes).map_err(|_| NtStatus::INTERNAL_ERROR)
}
