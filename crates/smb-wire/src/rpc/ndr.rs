//! Network Data Representation of 32 bits, C706 §14: integers aligned to their size, pointers as numbers, and referents
//! behind the structure that contains the pointer.

use crate::security::Sid;
use crate::{Decode, Encode, Malformed, Reader, Utf16, Writer};

/// The first referent id. Its value means only that the pointer is not null.
const REFERENT: u32 = 0x0002_0000;

pub(super) struct NdrReader<'a>(Reader<'a>);

impl<'a> NdrReader<'a> {
    pub(super) fn new(stub: &'a [u8]) -> Self {
        Self(Reader::new(stub))
    }

    pub(super) fn u16(&mut self) -> Result<u16, Malformed> {
        self.0.align(2);
        Decode::decode(&mut self.0)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        self.0.align(4);
        Decode::decode(&mut self.0)
    }

    /// Reads bytes aligned to a multiple of 4.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.0.align(4);
        self.0.array()
    }

    /// Reads a pointer and returns whether it is not null.
    pub(super) fn pointer(&mut self) -> Result<bool, Malformed> {
        self.u32().map(|referent| referent != 0)
    }

    /// Reads a conformant and varying text: a maximum count, then the actual units (C706 §14.3.4.2).
    pub(super) fn text(&mut self) -> Result<Utf16<'a>, Malformed> {
        let [max, offset, actual] = [self.u32()?, self.u32()?, self.u32()?];
        if offset != 0 || actual > max {
            return Err(Malformed("a text with an offset, or longer than its maximum"));
        }
        let units = usize::try_from(actual).unwrap_or(usize::MAX);
        Utf16::new(self.0.bytes(units.saturating_mul(2))?)
    }

    /// Reads a text and removes its terminating zero.
    pub(super) fn string(&mut self) -> Result<Utf16<'a>, Malformed> {
        let text = self.text()?;
        match text.bytes().split_last_chunk() {
            Some((text, [0, 0])) => Utf16::new(text),
            _ => Err(Malformed("an unterminated string")),
        }
    }

    /// Reads a pointer, and the string behind it.
    pub(super) fn optional_string(&mut self) -> Result<Option<Utf16<'a>>, Malformed> {
        if self.pointer()? { self.string().map(Some) } else { Ok(None) }
    }

    /// Reads `count` entries of `RPC_UNICODE_STRING` (MS-DTYP §2.3.10), and their referents. A null pointer is an empty
    /// text.
    pub(super) fn unicode_strings(&mut self, count: usize) -> Result<Vec<Utf16<'a>>, Malformed> {
        let mut is_there = Vec::new();
        for _ in 0..count {
            // `Length` and `MaximumLength`, which the referent repeats.
            self.u32()?;
            is_there.push(self.pointer()?);
        }
        is_there.into_iter().map(|is_there| if is_there { self.text() } else { Ok(Utf16::EMPTY) }).collect()
    }

    /// Reads a count, and a pointer to as many pointers to `RPC_SID`: `LSAPR_SID_ENUM_BUFFER` (MS-LSAT §2.2.18) and
    /// `SAMPR_PSID_ARRAY` (MS-SAMR §2.2.7.6).
    pub(super) fn sids(&mut self, max: usize) -> Result<Vec<Sid>, Malformed> {
        let entries = self.u32()?;
        if !self.pointer()? {
            return if entries == 0 { Ok(Vec::new()) } else { Err(Malformed("a missing list")) };
        }
        let count = self.list_length(entries, max)?;
        for _ in 0..count {
            if !self.pointer()? {
                return Err(Malformed("a list with a missing SID"));
            }
        }
        (0..count).map(|_| self.sid()).collect()
    }

    /// Reads the conformance of a list, which must match the count of its structure and be at most `max`.
    pub(super) fn list_length(&mut self, entries: u32, max: usize) -> Result<usize, Malformed> {
        let count = self.u32()?;
        if count != entries {
            return Err(Malformed("a list whose length does not match its count"));
        }
        let count = usize::try_from(count).ok().filter(|count| *count <= max);
        count.ok_or(Malformed("too many entries to look up"))
    }

    /// `RPC_SID`, MS-DTYP §2.4.2.3.
    pub(super) fn sid(&mut self) -> Result<Sid, Malformed> {
        let count = self.u32()?;
        let sid = Sid::decode(&mut self.0)?;
        if u32::try_from(sid.sub_authorities().len()) != Ok(count) {
            return Err(Malformed("a SID whose length does not match its count"));
        }
        Ok(sid)
    }
}

pub(super) struct NdrWriter<'b> {
    w: Writer<'b>,
    referents: u32,
}

impl NdrWriter<'_> {
    /// Collects the results that `body` writes.
    pub(super) fn stub(body: impl FnOnce(&mut NdrWriter<'_>)) -> Vec<u8> {
        let mut out = Vec::new();
        body(&mut NdrWriter { w: Writer::new(&mut out), referents: 0 });
        out
    }

    /// Aligns a structure to its most demanding member (C706 §14.3.2).
    pub(super) fn align(&mut self, alignment: usize) {
        self.w.align(alignment);
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.w.bytes(&[value]);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.w.align(2);
        self.w.u16(value);
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.w.align(4);
        self.w.u32(value);
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.w.align(8);
        self.w.bytes(&value.to_le_bytes());
    }

    /// Writes bytes aligned to a multiple of 4.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.w.align(4);
        self.w.bytes(bytes);
    }

    pub(super) fn count(&mut self, count: usize) {
        self.w.align(4);
        self.w.length::<u32>(count);
    }

    /// Writes a pointer that is not null. Its referent follows the outermost structure.
    pub(super) fn pointer(&mut self) {
        self.u32(REFERENT + 4 * self.referents);
        self.referents += 1;
    }

    pub(super) fn null(&mut self) {
        self.u32(0);
    }

    /// Writes a conformant and varying string with a terminating zero.
    pub(super) fn string(&mut self, text: &str) {
        self.units(text, &[0]);
    }

    /// Writes the referent of an `RPC_UNICODE_STRING`, without a terminating zero.
    pub(super) fn text(&mut self, text: &str) {
        self.units(text, &[]);
    }

    fn units(&mut self, text: &str, end: &[u16]) {
        let count = text.encode_utf16().count() + end.len();
        for number in [count, 0, count] {
            self.count(number);
        }
        text.encode_utf16().chain(end.iter().copied()).for_each(|unit| self.w.u16(unit));
    }

    /// Writes conformant and varying bytes with the maximum count `max`.
    pub(super) fn varying_bytes(&mut self, max: usize, bytes: &[u8]) {
        for number in [max, 0, bytes.len()] {
            self.count(number);
        }
        self.w.bytes(bytes);
    }

    /// `RPC_UNICODE_STRING`, MS-DTYP §2.3.10, without its referent.
    pub(super) fn unicode_string(&mut self, text: &str) {
        let bytes = 2 * text.encode_utf16().count();
        self.w.align(4);
        self.w.length::<u16>(bytes);
        self.w.length::<u16>(bytes);
        self.pointer();
    }

    /// `RPC_STRING`, MS-SAMR §2.2.2.1, with a byte for each character, without its referent.
    pub(super) fn oem_string(&mut self, text: &str) {
        self.w.align(4);
        let bytes = text.chars().count();
        self.w.length::<u16>(bytes);
        self.w.length::<u16>(bytes);
        self.pointer();
    }

    /// Writes the referent of an `RPC_STRING`: ASCII, with question marks for other characters.
    pub(super) fn oem_text(&mut self, text: &str) {
        let in_ascii = |c: char| u8::try_from(c).ok().filter(u8::is_ascii).unwrap_or(b'?');
        let bytes: Vec<u8> = text.chars().map(in_ascii).collect();
        self.varying_bytes(bytes.len(), &bytes);
    }

    /// `RPC_SID`, MS-DTYP §2.4.2.3.
    pub(super) fn sid(&mut self, sid: &Sid) {
        self.count(sid.sub_authorities().len());
        sid.encode(&mut self.w);
    }
}
