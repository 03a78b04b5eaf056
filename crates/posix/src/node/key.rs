//! Encodes file keys. docs/formats/file-key.md draws the bytes.

use crate::sys::Handle;
use vfs::file_key::KEY_BYTES_MAX;
use vfs::{FileKey, FsError, FsResult};

/// Form tag of a key made of the kernel's handle.
const FORM_HANDLE: u8 = 1;
/// Form tag of a key made of inode number and birth time.
const FORM_INODE: u8 = 2;
const INODE_KEY_BYTES: usize = 21;

pub(crate) enum Form {
    Handle(Handle),
    /// Inode number and birth time: it can only be compared.
    Inode,
}

/// The key of a kernel handle; `None` if it is too long or if its type exceeds one byte.
pub(crate) fn of_handle(handle: &Handle) -> Option<FileKey> {
    let kind = u8::try_from(handle.kind()).ok()?;
    let parts = handle.bytes();
    let mut bytes = [0; KEY_BYTES_MAX];
    bytes[0] = FORM_HANDLE;
    bytes[1] = kind;
    bytes.get_mut(2..2 + parts.len())?.copy_from_slice(parts);
    FileKey::new(&bytes[..2 + parts.len()]).ok()
}

/// The key of a file on a file system without handles.
pub(crate) fn from_inode(inode: u64, born_seconds: i64, born_nanos: u32) -> FsResult<FileKey> {
    let mut bytes = [0; INODE_KEY_BYTES];
    bytes[0] = FORM_INODE;
    bytes[1..9].copy_from_slice(&inode.to_be_bytes());
    bytes[9..17].copy_from_slice(&born_seconds.to_be_bytes());
    bytes[17..].copy_from_slice(&born_nanos.to_be_bytes());
    FileKey::new(&bytes)
}

/// Decodes a key; [`FsError::BadHandle`] if it is not one of ours.
pub(crate) fn form(key: &FileKey) -> FsResult<Form> {
    match key.bytes() {
        [FORM_HANDLE, kind, parts @ ..] if !parts.is_empty() => {
            Handle::new(i32::from(*kind), parts).map(Form::Handle).ok_or(FsError::BadHandle)
        }
        [FORM_INODE, rest @ ..] if rest.len() == INODE_KEY_BYTES - 1 => Ok(Form::Inode),
        _ => Err(FsError::BadHandle),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_decodes_to_its_parts() {
        let handle = Handle::new(0x81, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let key = of_handle(&handle).unwrap();
        assert_eq!(key.bytes(), [1, 0x81, 1, 2, 3, 4, 5, 6, 7, 8]);
        let Form::Handle(back) = form(&key).unwrap() else { panic!("a handle") };
        assert_eq!((back.kind(), back.bytes()), (handle.kind(), handle.bytes()));

        let key = from_inode(77, -3, 999_999_999).unwrap();
        assert!(matches!(form(&key), Ok(Form::Inode)));
        assert_eq!(key.bytes()[..10], [2, 0, 0, 0, 0, 0, 0, 0, 77, 0xff]);
    }

    #[test]
    fn oversized_handle_has_no_key() {
        assert!(of_handle(&Handle::new(1, &[9; 38]).unwrap()).is_some());
        assert!(of_handle(&Handle::new(1, &[9; 39]).unwrap()).is_none());
        assert!(of_handle(&Handle::new(256, &[9; 8]).unwrap()).is_none());
        assert!(of_handle(&Handle::new(-1, &[9; 8]).unwrap()).is_none());
    }

    #[test]
    fn foreign_key_is_bad_handle() {
        for bytes in [&[0u8][..], &[1], &[1, 1], &[2; 20], &[2; 22], &[3, 1, 1]] {
            let key = FileKey::new(bytes).unwrap();
            assert!(matches!(form(&key), Err(FsError::BadHandle)), "{key:?}");
        }
    }
}
