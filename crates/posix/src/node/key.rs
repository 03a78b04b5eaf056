//! Encodes file keys. docs/formats/file-key.md draws the bytes.

use crate::sys::Handle;
use vfs::file_key::KEY_BYTES_MAX;
use vfs::{FileKey, FsError, FsResult};

/// Form tag of a key made of the kernel's handle.
const FORM_HANDLE: u8 = 1;
/// Form tag of a key made of inode number and birth time.
const FORM_INODE: u8 = 2;
const INODE_KEY_BYTES: usize = 21;
/// Form tag of a key inside one subvolume of Btrfs.
const FORM_SUBVOLUME: u8 = 3;
const SUBVOLUME_KEY_BYTES: usize = 13;
/// `FILEID_BTRFS_WITHOUT_PARENT`: inode number (8 bytes), subvolume (8) and generation (4).
const BTRFS_HANDLE: i32 = 0x4d;

pub(crate) enum Form {
    Handle(Handle),
    Subvolume(SubvolumeFile),
    /// Inode number and birth time: it can only be compared.
    Inode,
}

/// The number of a subvolume of Btrfs, in the kernel's byte order. Each snapshot has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SubvolumeId([u8; 8]);

/// A file in any subvolume that has it: inode number and generation, in the kernel's byte order. The file has the same in
/// each snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SubvolumeFile {
    inode: [u8; 8],
    generation: [u8; 4],
}

impl SubvolumeId {
    /// The subvolume of a file's handle; `None` if the handle is not of Btrfs.
    pub(crate) fn of(handle: &Handle) -> Option<Self> {
        Some(split(handle)?.0)
    }

    /// The key of a handle. [`FsError::CrossVolume`] if the file is in another subvolume.
    pub(crate) fn key(self, handle: &Handle) -> FsResult<FileKey> {
        let (subvolume, SubvolumeFile { inode, generation }) = split(handle).ok_or(FsError::NotSupported)?;
        if subvolume != self {
            return Err(FsError::CrossVolume);
        }
        FileKey::new(&[&[FORM_SUBVOLUME][..], &inode, &generation].concat())
    }

    /// The key that the file of a handle in this snapshot has in the subvolume `live`.
    pub(crate) fn key_in(self, live: Self, handle: &Handle) -> FsResult<FileKey> {
        let (subvolume, file) = split(handle).ok_or(FsError::NotSupported)?;
        if subvolume != self {
            return Err(FsError::CrossVolume);
        }
        of_handle(&live.handle(file)?).ok_or(FsError::NotSupported)
    }

    /// The handle in this snapshot of the file that has `handle` in the subvolume `live`.
    pub(crate) fn handle_from(self, live: Self, handle: &Handle) -> FsResult<Handle> {
        match split(handle) {
            Some((subvolume, file)) if subvolume == live => self.handle(file),
            _ => Err(FsError::Stale),
        }
    }

    /// The handle of a file in this subvolume.
    pub(crate) fn handle(self, file: SubvolumeFile) -> FsResult<Handle> {
        let bytes = [&file.inode[..], &self.0, &file.generation].concat();
        Handle::new(BTRFS_HANDLE, &bytes).ok_or(FsError::BadHandle)
    }
}

fn split(handle: &Handle) -> Option<(SubvolumeId, SubvolumeFile)> {
    let (inode, rest) = handle.bytes().split_first_chunk()?;
    let (subvolume, generation) = rest.split_first_chunk()?;
    let file = SubvolumeFile { inode: *inode, generation: generation.try_into().ok()? };
    (handle.kind() == BTRFS_HANDLE).then_some((SubvolumeId(*subvolume), file))
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
        [FORM_SUBVOLUME, rest @ ..] if rest.len() == SUBVOLUME_KEY_BYTES - 1 => {
            let (inode, generation) = rest.split_first_chunk().ok_or(FsError::BadHandle)?;
            let generation = generation.try_into().map_err(|_| FsError::BadHandle)?;
            Ok(Form::Subvolume(SubvolumeFile { inode: *inode, generation }))
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
    fn key_of_subvolume_leaves_its_number_out() {
        let handle = |subvolume: u8| {
            let bytes = [[1; 8], [subvolume; 8]].concat();
            Handle::new(0x4d, &[&bytes[..], &[7, 0, 0, 0]].concat()).unwrap()
        };
        let (live, snapshot) = (SubvolumeId::of(&handle(2)).unwrap(), SubvolumeId::of(&handle(3)).unwrap());
        let key = live.key(&handle(2)).unwrap();
        assert_eq!(key.bytes(), [3, 1, 1, 1, 1, 1, 1, 1, 1, 7, 0, 0, 0]);
        assert_eq!(snapshot.key(&handle(3)), Ok(key));
        assert_eq!(live.key(&handle(3)), Err(FsError::CrossVolume));
        let Form::Subvolume(file) = form(&key).unwrap() else { panic!("a file of a subvolume") };
        assert_eq!(snapshot.handle(file).unwrap().bytes(), handle(3).bytes());
        assert!(SubvolumeId::of(&Handle::new(0x81, &[1; 20]).unwrap()).is_none());
    }

    #[test]
    fn key_of_foreign_snapshot_is_that_of_the_live_file() {
        let handle = |subvolume: u8| {
            let bytes = [[1; 8], [subvolume; 8]].concat();
            Handle::new(0x4d, &[&bytes[..], &[7, 0, 0, 0]].concat()).unwrap()
        };
        let (live, snapshot) = (SubvolumeId::of(&handle(2)).unwrap(), SubvolumeId::of(&handle(3)).unwrap());
        assert_eq!(snapshot.key_in(live, &handle(3)), Ok(of_handle(&handle(2)).unwrap()));
        assert_eq!(snapshot.key_in(live, &handle(4)), Err(FsError::CrossVolume));
        assert_eq!(snapshot.handle_from(live, &handle(2)).unwrap().bytes(), handle(3).bytes());
        assert_eq!(snapshot.handle_from(live, &handle(3)).err(), Some(FsError::Stale));
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
        for bytes in [&[0u8][..], &[1], &[1, 1], &[2; 20], &[2; 22], &[3; 12], &[3; 14], &[4, 1, 1]] {
            let key = FileKey::new(bytes).unwrap();
            assert!(matches!(form(&key), Err(FsError::BadHandle)), "{key:?}");
        }
    }
}
