//! File keys: names of files that last as long as the files.

use crate::error::{FsError, FsResult};
use std::fmt;
use std::hash::{Hash, Hasher};

/// The longest key of a backend, in bytes: a 64-byte NFSv3 handle has room for it beside the export, the view and the MAC.
pub const KEY_BYTES_MAX: usize = 40;

/// A state of a volume's files: the live one, or a snapshot. A volume never gives a number to a second snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ViewId(pub u32);

impl ViewId {
    /// The files as they are now.
    pub const LIVE: Self = Self(0);
    /// The directory of snapshots that every live directory has.
    pub const DIRECTORY: Self = Self(u32::MAX);
    /// The last number of a snapshot.
    pub const MAX: Self = Self(ENTRY - 2);

    /// The view of a directory that is reached as an entry of a directory of snapshots: its parent is that directory.
    #[must_use]
    pub const fn entry(self) -> Self {
        Self(self.0 | ENTRY)
    }

    /// The snapshot that this view shows; [`ViewId::LIVE`] for live files and directories of snapshots.
    pub const fn snapshot(self) -> Self {
        match self {
            Self::DIRECTORY => Self::LIVE,
            Self(number) => Self(number & !ENTRY),
        }
    }

    /// A number of the live files, or of their volume, as this view has it: another one in each snapshot. It is one to
    /// one, and the same after a restart.
    #[inline]
    pub const fn number(self, live: u64) -> u64 {
        if self.0 == Self::LIVE.0 { live } else { self.number_in_snapshot(live) }
    }

    #[cold]
    const fn number_in_snapshot(self, live: u64) -> u64 {
        // The finalizer of SplitMix64, which leaves 0 as it is.
        let mut mixed = self.snapshot().0 as u64;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        live ^ mixed ^ mixed >> 31
    }

    pub const fn is_entry(self) -> bool {
        self.0 & ENTRY != 0 && self.0 != Self::DIRECTORY.0
    }
}

/// Marks the entries of directories of snapshots.
const ENTRY: u32 = 1 << 31;

/// A file's identity inside its volume: a view, and opaque bytes chosen by the backend. Stable over renames and restarts, never
/// reused for another file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileKey {
    view: ViewId,
    len: u8,
    bytes: [u8; KEY_BYTES_MAX],
}

impl FileKey {
    /// The key of no file.
    pub(crate) const NONE: Self = Self { view: ViewId::LIVE, len: 1, bytes: [0; KEY_BYTES_MAX] };

    /// A key of the live view. [`FsError::BadHandle`] if it has no bytes or more than [`KEY_BYTES_MAX`].
    pub fn new(bytes: &[u8]) -> FsResult<Self> {
        let len = u8::try_from(bytes.len()).map_err(|_| FsError::BadHandle)?;
        if bytes.is_empty() || bytes.len() > KEY_BYTES_MAX {
            return Err(FsError::BadHandle);
        }
        let mut key = Self { view: ViewId::LIVE, len, bytes: [0; KEY_BYTES_MAX] };
        key.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(key)
    }

    pub fn in_view(self, view: ViewId) -> Self {
        Self { view, ..self }
    }

    #[inline]
    pub fn view(&self) -> ViewId {
        self.view
    }

    /// The backend's bytes, without the view.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns the shard of the key. `SHARDS` is a power of two up to 2^16.
    #[inline]
    pub fn shard<const SHARDS: usize>(&self) -> usize {
        const { assert!(SHARDS.is_power_of_two() && SHARDS <= 1 << 16) };
        let mut hasher = KeyHasher::default();
        self.hash(&mut hasher);
        usize::try_from(hasher.finish() >> 40 & (SHARDS as u64 - 1)).unwrap_or(0)
    }
}

impl Hash for FileKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.view.0) << 8 | u64::from(self.len));
        state.write(&self.bytes);
    }
}

/// A quick hash of [`FileKey`]s. The backend makes keys and the protocol seals them, so clients cannot choose keys that
/// collide. A map takes the low bits and the top seven; a shard may come from between ([`FileKey::shard`]).
#[derive(Default)]
pub struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(u64::from(byte));
    }

    fn write_usize(&mut self, _: usize) {
        // The length of a fixed array says nothing.
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }
}

impl fmt::Debug for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.bytes() {
            write!(f, "{byte:02x}")?;
        }
        if self.view == ViewId::LIVE { Ok(()) } else { write!(f, "@{}", self.view.0) }
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

    #[test]
    fn numbers_of_views_differ_and_live_ones_stay() {
        assert_eq!(ViewId::LIVE.number(7), 7);
        assert_eq!(ViewId::DIRECTORY.number(7), 7);
        let mut numbers: Vec<_> = (0..1000).map(|view| ViewId(view).number(7)).collect();
        assert_eq!(ViewId(3).entry().number(7), numbers[3]);
        assert_eq!(numbers[1], 0x5692_161d_100b_05e5 ^ 7, "it must stay");
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 1000);
    }

    #[test]
    fn file_in_two_views_has_two_keys() {
        let live = FileKey::new(&[1, 0xab]).unwrap();
        let seen = live.in_view(ViewId(7));
        assert_eq!((live.view(), seen.view(), seen.bytes()), (ViewId::LIVE, ViewId(7), live.bytes()));
        assert_ne!(live, seen);
        assert_eq!(seen.in_view(ViewId::LIVE), live);
        assert_eq!(format!("{seen:?}"), "01ab@7");
        let hash = |key: &FileKey| {
            let mut hasher = KeyHasher::default();
            key.hash(&mut hasher);
            hasher.finish()
        };
        assert_ne!(hash(&live), hash(&seen));
    }
}
