//! FileStreamInformation: the streams of a file (MS-FSA §2.1.5.12.29).

use super::info::Info;
use crate::metadata::names::{DATA, stream_to_wire};
use crate::request::context::RequestContext;
use crate::request::outcome::CommandError;
use crate::state::open::Open;
use smb_wire::chain::ChainWriter;
use smb_wire::classes::file::StreamInformation;
use smb_wire::{Encode, Utf16, Writer};
use vfs::{Blocking, FileType, Wait};

/// The alignment of entries (MS-FSCC §2.4.44).
const ALIGNMENT: usize = 8;

/// The minimum buffer: up to the name of an entry (MS-FSA §2.1.5.12.29).
const FIXED: usize = 24;

/// Lists the data stream, which a directory lacks, and the named streams, as many as fit in `room`.
pub(super) fn query(cx: &RequestContext<'_, '_>, open: &Open, room: u32) -> Result<Info, CommandError> {
    if cx.message.blocking == Blocking::Never {
        return Err(CommandError::Wait(Wait::Storage));
    }
    let file = open.file.of_stream();
    let attrs = file.attrs(Blocking::Allowed)?;
    let (mut bytes, mut is_cut) = (Vec::new(), false);
    let mut w = Writer::new(&mut bytes);
    let mut chain = ChainWriter::new(ALIGNMENT, &w, usize::try_from(room).unwrap_or(usize::MAX));
    let mut push = |name: &[u8], size, used| {
        // A name that is not valid text cannot be encoded.
        let Some(name) = on_wire(name) else { return };
        let Ok(stream_name) = Utf16::new(&name) else { return };
        let entry = StreamInformation { stream_size: size, stream_allocation_size: used, stream_name };
        is_cut = is_cut || !chain.push(&mut w, |w| entry.encode(w));
    };
    if attrs.file_type == FileType::Regular {
        push(b"", attrs.size, attrs.used);
    }
    file.list_streams(&mut push)?;
    Ok(Info { bytes, fixed: FIXED, is_cut })
}

fn on_wire(name: &[u8]) -> Option<Vec<u8>> {
    let units = [vec![u16::from(b':')], stream_to_wire(name)?, format!(":{DATA}").encode_utf16().collect()];
    Some(units.concat().into_iter().flat_map(u16::to_le_bytes).collect())
}
