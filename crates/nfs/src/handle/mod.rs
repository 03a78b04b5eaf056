//! The file handle on the wire: export, view, file, and a MAC that only this service can compute.
//!
//! Layout (`docs/formats/file-handle.md`): version, MAC, export, view, key; 61 bytes at most. Handles have no device
//! number, so they survive a restart, a moved data directory and a renumbered disk. A client cannot forge the
//! handle of a file that it has not seen.

pub mod cache;

use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use vfs::{ExportId, FileKey, FsError, FsResult, ViewId};

const VERSION: u8 = 2;
const MAC: std::ops::Range<usize> = 1..9;
const EXPORT: std::ops::Range<usize> = 9..17;
const VIEW: std::ops::Range<usize> = 17..21;
const KEY_START: usize = VIEW.end;

pub const HANDLE_BYTES_MAX: usize = KEY_START + vfs::file_key::KEY_BYTES_MAX;
const _: () = assert!(HANDLE_BYTES_MAX <= nfs_wire::v3::FHSIZE as usize);

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Handle {
    len: u8,
    bytes: [u8; HANDLE_BYTES_MAX],
}

#[derive(Clone)]
pub struct HandleSigner {
    key: [u8; 16],
}

impl Handle {
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Copies a handle; [`FsError::BadHandle`] if it is longer than ours.
    pub fn of(handle: &[u8]) -> FsResult<Self> {
        let mut bytes = [0; HANDLE_BYTES_MAX];
        bytes.get_mut(..handle.len()).ok_or(FsError::BadHandle)?.copy_from_slice(handle);
        Ok(Self { len: u8::try_from(handle.len()).map_err(|_| FsError::BadHandle)?, bytes })
    }
}

impl HandleSigner {
    /// `key` must stay secret, and the same for as long as clients hold handles.
    pub fn new(key: [u8; 16]) -> Self {
        Self { key }
    }

    pub fn sign(&self, export: ExportId, key: &FileKey) -> Handle {
        let mut bytes = [0; HANDLE_BYTES_MAX];
        let end = KEY_START + key.bytes().len();
        bytes[0] = VERSION;
        bytes[EXPORT].copy_from_slice(&export.0.to_be_bytes());
        bytes[VIEW].copy_from_slice(&key.view().0.to_be_bytes());
        bytes[KEY_START..end].copy_from_slice(key.bytes());
        let mac = self.mac(&bytes[EXPORT.start..end]);
        bytes[MAC].copy_from_slice(&mac);
        Handle { len: u8::try_from(end).unwrap_or(u8::MAX), bytes }
    }

    /// The export and the file of a handle; [`FsError::BadHandle`] unless this signer made it.
    pub fn verify(&self, handle: &[u8]) -> FsResult<(ExportId, FileKey)> {
        if handle.len() <= KEY_START || handle[0] != VERSION {
            return Err(FsError::BadHandle);
        }
        let expected = self.mac(&handle[EXPORT.start..]);
        // Constant time: the comparison must not reveal a prefix of the MAC.
        let differs = expected.iter().zip(&handle[MAC]).fold(0, |sum, (a, b)| sum | (a ^ b));
        if differs != 0 {
            return Err(FsError::BadHandle);
        }
        let export = handle[EXPORT].try_into().map_err(|_| FsError::BadHandle)?;
        let view = handle[VIEW].try_into().map_err(|_| FsError::BadHandle)?;
        let key = FileKey::new(&handle[KEY_START..])?.in_view(ViewId(u32::from_be_bytes(view)));
        Ok((ExportId(u64::from_be_bytes(export)), key))
    }

    /// The unverified MAC of a handle as a number; 0 if the handle is too short.
    /// For handles that we signed, the number is uniformly distributed.
    #[inline]
    pub fn claimed_mac(handle: &[u8]) -> u64 {
        handle.get(MAC).and_then(|mac| mac.try_into().ok()).map_or(0, u64::from_be_bytes)
    }

    /// The export that a handle claims, without verifying the handle.
    #[inline]
    pub fn claimed_export(handle: &[u8]) -> Option<ExportId> {
        let export = handle.get(EXPORT)?.try_into().ok()?;
        Some(ExportId(u64::from_be_bytes(export)))
    }

    /// A keyed hash of `text`: the same at every start, unknown outside.
    pub fn number(&self, text: &str) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(b"number:");
        hasher.write(text.as_bytes());
        hasher.finish()
    }

    fn mac(&self, signed: &[u8]) -> [u8; 8] {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(signed);
        hasher.finish().to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_what_it_sealed_and_nothing_else() {
        let signer = HandleSigner::new([7; 16]);
        let key = FileKey::new(&[3; 40]).unwrap().in_view(ViewId(5));
        let handle = signer.sign(ExportId(0xabcd), &key);
        assert_eq!(handle.bytes().len(), HANDLE_BYTES_MAX);
        assert_eq!(signer.verify(handle.bytes()), Ok((ExportId(0xabcd), key)));
        for place in 0..handle.bytes().len() {
            let mut forged = handle.bytes().to_vec();
            forged[place] ^= 1;
            assert_eq!(signer.verify(&forged), Err(FsError::BadHandle), "byte {place}");
        }
        for len in 0..handle.bytes().len() {
            assert_eq!(signer.verify(&handle.bytes()[..len]), Err(FsError::BadHandle), "length {len}");
        }
        assert_eq!(
            HandleSigner::new([8; 16]).verify(handle.bytes()),
            Err(FsError::BadHandle),
            "another service's"
        );
    }
}
