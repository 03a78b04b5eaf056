//! The changes of a directory in a CHANGE_NOTIFY response, MS-FSCC §2.7.

use crate::chain::{self, ChainWriter};
use crate::sets::open_set;
use crate::{Decode, Encode, Malformed, Utf16, Wire, Writer};

open_set! {
    /// `Action`, MS-FSCC §2.7.1.
    pub struct NotifyAction: u32 {
        ADDED = 0x1,
        REMOVED = 0x2,
        MODIFIED = 0x3,
        RENAMED_OLD_NAME = 0x4,
        RENAMED_NEW_NAME = 0x5,
        ADDED_STREAM = 0x6,
        REMOVED_STREAM = 0x7,
        MODIFIED_STREAM = 0x8,
    }
}

/// `FILE_NOTIFY_INFORMATION`, MS-FSCC §2.7.1, without `NextEntryOffset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct NotifyInformation<'a> {
    pub action: NotifyAction,
    /// A path relative to the watched directory.
    #[wire(length = u32)]
    pub file_name: Utf16<'a>,
}

const ALIGNMENT: usize = 4;

#[derive(Debug)]
pub struct NotifyWriter(ChainWriter);

impl NotifyWriter {
    /// Begins at the position of `w` and writes at most `bytes_max` bytes.
    pub fn new(w: &Writer<'_>, bytes_max: usize) -> Self {
        Self(ChainWriter::new(ALIGNMENT, w, bytes_max))
    }

    /// Appends a change. Returns `false` if it does not fit; the client must then list the directory
    /// (`NOTIFY_ENUM_DIR`).
    pub fn push(&mut self, change: &NotifyInformation<'_>, w: &mut Writer<'_>) -> bool {
        self.0.push(w, |w| change.encode(w))
    }
}

/// Parses the changes of a response.
pub fn changes(bytes: &[u8]) -> impl Iterator<Item = Result<NotifyInformation<'_>, Malformed>> {
    chain::entries(ALIGNMENT, bytes).map(|entry| {
        let (_, change) = entry?.split_first_chunk::<4>().ok_or(crate::reader::SHORT)?;
        NotifyInformation::from_bytes(change)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_round_trip() {
        let change =
            |action, file_name| NotifyInformation { action, file_name: Utf16::new(file_name).unwrap() };
        let all = [
            change(NotifyAction::RENAMED_OLD_NAME, b"a\0"),
            change(NotifyAction::RENAMED_NEW_NAME, b"b\0c\0"),
            change(NotifyAction::REMOVED, b""),
        ];
        let mut out = Vec::new();
        let mut w = Writer::new(&mut out);
        let mut writer = NotifyWriter::new(&w, 44);
        assert!(all.iter().all(|change| writer.push(change, &mut w)));
        assert!(!writer.push(&all[0], &mut w), "the buffer is full");
        assert_eq!(out.len(), 44);
        assert_eq!(out[..16], [16, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, b'a', 0, 0, 0]);
        assert_eq!(changes(&out).collect::<Result<Vec<_>, _>>(), Ok(all.to_vec()));
        out[8] = 6;
        assert!(changes(&out).next().unwrap().is_err(), "a name into the next change");
    }
}
