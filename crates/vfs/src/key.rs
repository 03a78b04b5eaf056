//! What names a file for ever: its key.

use crate::error::{FsError, FsResult};
use std::fmt;

/// The longest [`FileKey`], in bytes: what is left of a 64-byte NFSv3 handle after the volume and the MAC.
pub const KEY_BYTES_MAX: usize = 40;

/// A file's identity inside its volume: opaque bytes chosen by the backend, stable over renames and restarts, never
/// given to another file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey {
    len: u8,
    bytes: [u8; KEY_BYTES_MAX],
}

impl FileKey {
    /// A key of these bytes; [`FsError::BadHandle`] if there are none or more than [`KEY_BYTES_MAX`].
    pub fn new(bytes: &[u8]) -> FsResult<Self> {
        let len = u8::try_from(bytes.len()).map_err(|_| FsError::BadHandle)?;
        if bytes.is_empty() || bytes.len() > KEY_BYTES_MAX {
            return Err(FsError::BadHandle);
        }
        let mut key = Self { len, bytes: [0; KEY_BYTES_MAX] };
        key.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(key)
    }

    /// The bytes of the key.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.bytes() {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_one_to_forty_bytes() {
        assert_eq!(FileKey::new(&[]), Err(FsError::BadHandle));
        assert_eq!(FileKey::new(&[7; 41]), Err(FsError::BadHandle));
        assert_eq!(FileKey::new(&[7; 40]).map(|k| k.bytes().len()), Ok(40));
        assert_eq!(format!("{:?}", FileKey::new(&[1, 0xab]).unwrap()), "01ab");
    }
}
