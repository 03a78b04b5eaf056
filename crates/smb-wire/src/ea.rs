//! Extended attributes: the information class, and the create context `ExtA`.

use crate::chain::{self, ChainWriter};
use crate::reader::SHORT;
use crate::sets::bit_set;
use crate::{Decode, Encode, Malformed, Reader, Writer};

/// `SMB2_CREATE_EA_BUFFER`, MS-SMB2 §2.2.13.2.1: the create context with a list of [`FullEa`].
pub const EA_BUFFER: &[u8] = b"ExtA";
const ALIGNMENT: usize = 4;

bit_set! {
    /// `Flags` of an attribute, MS-FSCC §2.4.15.
    pub struct EaFlags: u8 {
        NEED_EA = 0x80,
    }
}

/// `FILE_FULL_EA_INFORMATION`, MS-FSCC §2.4.15, without `NextEntryOffset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FullEa<'a> {
    pub flags: EaFlags,
    /// At most 255 bytes, without a zero byte.
    pub name: &'a [u8],
    /// At most 64 KiB. An empty value removes the attribute.
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
        let name = terminated_name(r, name_length)?;
        Ok(Self { flags, name, value: r.bytes(usize::from(value_length))? })
    }
}

fn terminated_name<'a>(r: &mut Reader<'a>, length: u8) -> Result<&'a [u8], Malformed> {
    let name = r.bytes(usize::from(length))?;
    if u8::decode(r)? != 0 || name.contains(&0) {
        return Err(Malformed("an attribute name without its terminating zero"));
    }
    Ok(name)
}

#[derive(Debug)]
pub struct EaWriter(ChainWriter);

impl EaWriter {
    /// Begins at the position of `w` and writes at most `bytes_max` bytes.
    pub fn new(w: &Writer<'_>, bytes_max: usize) -> Self {
        Self(ChainWriter::new(ALIGNMENT, w, bytes_max))
    }

    /// Appends an attribute. Returns `false` without a change if it does not fit.
    ///
    /// # Panics
    /// If its name is longer than 255 bytes, or its value than 65,535.
    pub fn push(&mut self, attribute: &FullEa<'_>, w: &mut Writer<'_>) -> bool {
        self.0.push(w, |w| attribute.encode(w))
    }
}

/// Parses the attributes of a SET_INFO or CREATE request.
pub fn full_eas(bytes: &[u8]) -> impl Iterator<Item = Result<FullEa<'_>, Malformed>> {
    chain::entries(ALIGNMENT, bytes).map(|entry| FullEa::from_bytes(after_next_offset(entry?)?))
}

/// Parses the requested names of a `FILE_GET_EA_INFORMATION` (MS-FSCC §2.4.15.1).
pub fn requested_names(bytes: &[u8]) -> impl Iterator<Item = Result<&[u8], Malformed>> {
    chain::entries(ALIGNMENT, bytes).map(|entry| {
        let mut r = Reader::new(after_next_offset(entry?)?);
        let length = Decode::decode(&mut r)?;
        terminated_name(&mut r, length)
    })
}

fn after_next_offset(entry: &[u8]) -> Result<&[u8], Malformed> {
    entry.split_first_chunk::<4>().map(|(_, entry)| entry).ok_or(SHORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_round_trip() {
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
    fn requested_names_are_parsed() {
        let bytes = *b"\x0c\0\0\0\x03ONE\0\0\0\0\0\0\0\0\x01T\0";
        assert_eq!(requested_names(&bytes).collect::<Result<Vec<_>, _>>(), Ok(vec![&b"ONE"[..], b"T"]));
        assert!(requested_names(&bytes[..18]).any(|name| name.is_err()));
    }
}
