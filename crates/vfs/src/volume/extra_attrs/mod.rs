//! Attributes for which file systems have no room: those that only Windows knows, and times that a client sets but no
//! file system lets a user set.
//!
//! One extended attribute of this service ([`XattrName::EXTRA_ATTRS`]) stores them, so they follow the file through
//! renames and are the same under every name. docs/formats/kept-xattr.md draws the bytes.
//!
//! [`XattrName::EXTRA_ATTRS`]: crate::XattrName::EXTRA_ATTRS

mod cache;

use crate::model::attrs::{Attrs, Time};

pub(crate) use cache::ExtraAttrsCache;

/// The first byte of a record of this format.
const VERSION: u8 = 1;
const BYTES: usize = 44;
/// The parts that a record contains: flags, creation time, change time.
const HAS_FLAGS: u8 = 1;
const HAS_BORN: u8 = 2;
const HAS_CHANGED: u8 = 4;

/// The slack of a record's change time, in nanoseconds. The change time of the write itself is unknown before the
/// write, so it may be this much later than recorded. A change within this time after a change time was set does not
/// show.
pub(crate) const CHANGED_STEP_NS: i128 = 20_000_000;

/// Extra attributes of a file; the default for a file without a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtraAttrs {
    /// Attributes with the bits of MS-FSCC §2.6; `None` if no client has set any.
    pub flags: Option<u32>,
    /// The creation time that a client has set; `None`: the storage's ([`Attrs::born`]).
    pub born: Option<Time>,
    /// The change time that a client has set, valid until the file changes again ([`ExtraAttrs::changed`]).
    pub set_changed: Option<Time>,
    /// The change time that the storage had, or a little less, when [`ExtraAttrs::set_changed`] was set.
    pub(crate) changed_at: Time,
    /// The stored record is malformed and counts as none. The next change replaces it.
    pub is_damaged: bool,
    /// Whether access control lists rule the volume, so that mode bits do not say who may write. Not stored in the
    /// record.
    pub is_listed: bool,
}

impl ExtraAttrs {
    /// Returns the creation time, if it is known.
    pub fn born(&self, attrs: &Attrs) -> Option<Time> {
        self.born.or(attrs.born)
    }

    /// The creation time, or the modification time if that is unknown.
    pub fn born_or_modified(&self, attrs: &Attrs) -> Time {
        self.born(attrs).unwrap_or(attrs.modified.min(attrs.changed))
    }

    pub fn changed(&self, attrs: &Attrs) -> Time {
        self.set_changed.filter(|_| self.is_change_of(attrs)).unwrap_or(attrs.changed)
    }

    /// Whether the last change of a file with `attrs` was the setting of its change time.
    pub(crate) fn is_change_of(&self, attrs: &Attrs) -> bool {
        let later = attrs.changed.as_nanos() - self.changed_at.as_nanos();
        (0..=CHANGED_STEP_NS).contains(&later)
    }

    /// The record of a copy whose attributes are `copy` now, for a file that had `source`. The copy keeps the creation
    /// time, and a change time that a client had set.
    #[must_use]
    pub fn of_copy(&self, source: &Attrs, copy: &Attrs) -> Self {
        let set_changed = self.set_changed.filter(|_| self.is_change_of(source));
        Self { born: self.born(source), set_changed, changed_at: copy.changed, ..*self }
    }

    /// The bytes of the record.
    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let has = [
            (self.flags.is_some(), HAS_FLAGS),
            (self.born.is_some(), HAS_BORN),
            (self.set_changed.is_some(), HAS_CHANGED),
        ];
        bytes[0] = VERSION;
        bytes[1] = has.into_iter().filter(|(has, _)| *has).fold(0, |all, (_, bit)| all | bit);
        bytes[4..8].copy_from_slice(&self.flags.unwrap_or_default().to_be_bytes());
        let changed_at = self.set_changed.map(|_| self.changed_at);
        let times = [self.born, self.set_changed, changed_at];
        for (place, time) in bytes[8..].as_chunks_mut::<12>().0.iter_mut().zip(times) {
            let time = time.unwrap_or_default();
            place[..8].copy_from_slice(&time.seconds.to_be_bytes());
            place[8..].copy_from_slice(&time.nanos.to_be_bytes());
        }
        bytes
    }

    /// Reads a record; one that is invalid counts as damaged.
    pub fn decode(bytes: &[u8]) -> Self {
        Self::decoded(bytes).unwrap_or(Self { is_damaged: true, ..Self::default() })
    }

    fn decoded(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let [VERSION, has, 0, 0, rest @ ..] = bytes else { return None };
        let (flags, times) = rest.split_first_chunk()?;
        let [born, set_changed, changed_at] = times.as_chunks::<12>().0 else { return None };
        let [born, set_changed, changed_at] = [time(born)?, time(set_changed)?, time(changed_at)?];
        if has & !(HAS_FLAGS | HAS_BORN | HAS_CHANGED) != 0 {
            return None;
        }
        Some(Self {
            flags: (has & HAS_FLAGS != 0).then_some(u32::from_be_bytes(*flags)),
            born: (has & HAS_BORN != 0).then_some(born),
            set_changed: (has & HAS_CHANGED != 0).then_some(set_changed),
            changed_at,
            is_damaged: false,
            is_listed: false,
        })
    }
}

fn time(bytes: &[u8; 12]) -> Option<Time> {
    let (seconds, nanos) = bytes.split_first_chunk()?;
    let nanos = u32::from_be_bytes(nanos.try_into().ok()?);
    (nanos < 1_000_000_000).then_some(Time { seconds: i64::from_be_bytes(*seconds), nanos })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_bytes_are_as_drawn() {
        let extra = ExtraAttrs {
            flags: Some(0x0102_0304),
            born: Some(Time { seconds: -2, nanos: 0x0a0b_0c0d }),
            set_changed: Some(Time { seconds: 5, nanos: 6 }),
            changed_at: Time { seconds: 7, nanos: 8 },
            is_damaged: false,
            is_listed: false,
        };
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&[1, 7, 0, 0, 1, 2, 3, 4]);
        bytes[8..20].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 10, 11, 12, 13]);
        (bytes[27], bytes[31], bytes[39], bytes[43]) = (5, 6, 7, 8);
        assert_eq!(extra.encode(), bytes);
        assert_eq!(ExtraAttrs::decode(&bytes), extra);
        assert_eq!(ExtraAttrs::decode(&ExtraAttrs::default().encode()), ExtraAttrs::default());
    }

    #[test]
    fn malformed_record_counts_as_damaged() {
        let damaged = ExtraAttrs { is_damaged: true, ..ExtraAttrs::default() };
        let good = ExtraAttrs::default().encode();
        let with = |at: usize, byte: u8| {
            let mut bytes = good;
            bytes[at] = byte;
            bytes
        };
        assert_eq!(ExtraAttrs::decode(&with(0, 2)), damaged, "a later version is not guessed at");
        assert_eq!(ExtraAttrs::decode(&with(1, 8)), damaged);
        assert_eq!(ExtraAttrs::decode(&with(3, 1)), damaged);
        for at in [16, 28, 40] {
            assert_eq!(ExtraAttrs::decode(&with(at, 0x40)), damaged, "more nanoseconds than a second has");
        }
        for bytes in [&[][..], &good[..43], &[1; 45], &[0xff; 64 << 10]] {
            assert_eq!(ExtraAttrs::decode(bytes), damaged, "{} bytes", bytes.len());
        }
    }
}
