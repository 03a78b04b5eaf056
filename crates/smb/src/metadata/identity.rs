//! The numbers by which clients tell files and volumes apart.
//!
//! A snapshot counts as another volume, and its files as other files: Windows would take a restore over an open file for
//! a change of the file itself.

use vfs::{Attrs, File, FileKey, ViewId, VolumeId};

/// The number of a file that has `attrs`.
pub(crate) fn file_id(file: &File, attrs: &Attrs) -> u64 {
    if attrs.is_live() { attrs.file_id } else { id_of_key(&file.key(), attrs.file_id) }
}

/// The number of an entry with `key`. In the storage its number is `file_id`.
pub(crate) fn id_of_key(key: &FileKey, file_id: u64) -> u64 {
    let view = key.view();
    view.entry_id(file_id).unwrap_or_else(|| view.number(file_id))
}

/// The serial number of a volume as a file of `view` shows it.
pub(crate) fn serial_number(volume: VolumeId, view: ViewId) -> u32 {
    let [a, b, c, d, ..] = view.number(volume.0).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}
