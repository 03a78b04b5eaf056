//! Extended attributes: the information class, and the create context `ExtA`.

use crate::chain::{self, ChainWriter};
use crate::reader::SHORT;
use crate::sets::bit_set;
use crate::{Decode, Encode, Malformed, Reader, Writer};

/// `SMB2_CREATE_EA_BUFFER`, MS-SMB2 §2.2.13.2.1: the name of the create context that carries a list of [`FullEa`].
pub const EA_BUFFER: &[u8] = b"ExtA";
/// Each attribute begins at a multiple of this.
const ALIGNMENT: usize = 4;

bit_set! {
    /// `Flags` of an attribute, MS-FSCC §2.4.15.
    pub struct EaFlags: u8 {
        NEED_EA = 0x80,
    }
}

/// `FILE_FULL_EA_INFORMATION`, MS-FSCC §2.4.15, without the offset of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FullEa<'a> {
    pub flags: EaFlags,
    /// At most 255 bytes, none of which is 0.
    pub name: &'a [u8],
    /// At most 64 KiB; an attribute without one is removed.
    pub value: &'a [u8],
}

impl Encode for FullEa<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        self.flags.encode(w);
        w.length::<u8>(self.name.len());
        w.length::<u16>(self.value.len());
        w.bytes(self.name);
        w.zeros(1);
        w.bytes(self.value);
    }
}

impl<'a> Decode<'a> for FullEa<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let flags = Decode::decode(r)?;
        let name_length = u8::decode(r)?;
        let value_length = u16::decode(r)?;
        let name = ended_name(r, name_length)?;
        Ok(Self { flags, name, value: r.bytes(usize::from(value_length))? })
    }
}

/// A name and the zero that ends it.
fn ended_name<'a>(r: &mut Reader<'a>, length: u8) -> Result<&'a [u8], Malformed> {
    let name = r.bytes(usize::from(length))?;
    if u8::decode(r)? != 0 || name.contains(&0) {
        return Err(Malformed("a name of an attribute that does not end where it says"));
    }
    Ok(name)
}

/// Appends attributes to a bounded buffer.
#[derive(Debug)]
pub struct EaWriter(ChainWriter);

impl EaWriter {
    /// Attributes from where `w` is, at most `bytes_max` bytes of them.
    pub fn new(w: &Writer<'_>, bytes_max: usize) -> Self {
        Self(ChainWriter::new(ALIGNMENT, w, bytes_max))
    }

    /// Appends an attribute. `false`: it does not fit, and nothing has changed.
    ///
    /// # Panics
    /// If its name is longer than 255 bytes, or its value than 65,535.
    pub fn push(&mut self, attribute: &FullEa<'_>, w: &mut Writer<'_>) -> bool {
        self.0.push(w, |w| attribute.encode(w))
    }
}

/// The attributes that a client sets.
pub fn full_eas(bytes: &[u8]) -> impl Iterator<Item = Result<FullEa<'_>, Malformed>> {
    chain::entries(ALIGNMENT, bytes).map(|entry| FullEa::from_bytes(behind_offset(entry?)?))
}

/// The names of `FILE_GET_EA_INFORMATION` (MS-FSCC §2.4.15.1): what a client asks for.
pub fn asked_names(bytes: &[u8]) -> impl Iterator<Item = Result<&[u8], Malformed>> {
    chain::entries(ALIGNMENT, bytes).map(|entry| {
        let mut r = Reader::new(behind_offset(entry?)?);
        let length = Decode::decode(&mut r)?;
        ended_name(&mut r, length)
    })
}

fn behind_offset(entry: &[u8]) -> Result<&[u8], Malformed> {
    entry.split_first_chunk::<4>().map(|(_, entry)| entry).ok_or(SHORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_back() {
        let all = [
            FullEa { flags: EaFlags::NEED_EA, name: b"ONE", value: b"value" },
            FullEa { flags: EaFlags::empty(), name: b"TWO", value: b"" },
        ];
        let mut out = Vec::new();
        let mut w = Writer::new(&mut out);
        let mut writer = EaWriter::new(&w, 32);
        assert!(all.iter().all(|attribute| writer.push(attribute, &mut w)));
        assert!(!writer.push(&all[0], &mut w));
        assert_eq!(out[..12], [20, 0, 0, 0, 0x80, 3, 5, 0, b'O', b'N', b'E', 0]);
        assert_eq!(out[12..], *b"value\0\0\0\0\0\0\0\0\x03\0\0TWO\0");
        assert_eq!(full_eas(&out).collect::<Result<Vec<_>, _>>(), Ok(all.to_vec()));
        for length in 1..out.len() {
            assert!(full_eas(&out[..length]).any(|attribute| attribute.is_err()), "{length} bytes");
        }
        out[11] = 1;
        assert!(full_eas(&out).next().unwrap().is_err(), "a name without its end");
    }

    #[test]
    fn names_are_asked_for() {
        let bytes = *b"\x0c\0\0\0\x03ONE\0\0\0\0\0\0\0\0\x01T\0";
        assert_eq!(asked_names(&bytes).collect::<Result<Vec<_>, _>>(), Ok(vec![&b"ONE"[..], b"T"]));
        assert!(asked_names(&bytes[..18]).any(|name| name.is_err()));
    }
}
