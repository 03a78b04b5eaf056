//! Network Data Representation of 32 bits, C706 §14: integers at multiples of their size, pointers as numbers, and what they
//! point to behind the structure that they are in.

use crate::security::Sid;
use crate::{Decode, Encode, Malformed, Reader, Utf16, Writer};

/// The first referent; they say nothing but that they are not null.
const REFERENT: u32 = 0x0002_0000;

/// Arguments of a call.
pub(super) struct NdrReader<'a>(Reader<'a>);

impl<'a> NdrReader<'a> {
    pub(super) fn new(stub: &'a [u8]) -> Self {
        Self(Reader::new(stub))
    }

    /// An enumeration of 16 bits.
    pub(super) fn u16(&mut self) -> Result<u16, Malformed> {
        self.0.align(2);
        Decode::decode(&mut self.0)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        self.0.align(4);
        Decode::decode(&mut self.0)
    }

    /// Bytes that are no integer, at a multiple of 4.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.0.align(4);
        self.0.array()
    }

    /// Whether a pointer is not null.
    pub(super) fn pointer(&mut self) -> Result<bool, Malformed> {
        self.u32().map(|referent| referent != 0)
    }

    /// A conformant and varying text: units up to a maximum, of which some are there (C706 §14.3.4.2).
    pub(super) fn text(&mut self) -> Result<Utf16<'a>, Malformed> {
        let [most, offset, actual] = [self.u32()?, self.u32()?, self.u32()?];
        if offset != 0 || actual > most {
            return Err(Malformed("a text that does not start at its start, or is longer than it can be"));
        }
        let units = usize::try_from(actual).unwrap_or(usize::MAX);
        Utf16::new(self.0.bytes(units.saturating_mul(2))?)
    }

    /// The same without the zero that ends it.
    pub(super) fn string(&mut self) -> Result<Utf16<'a>, Malformed> {
        let text = self.text()?;
        match text.bytes().split_last_chunk() {
            Some((text, [0, 0])) => Utf16::new(text),
            _ => Err(Malformed("a string without its end")),
        }
    }

    /// A string behind a pointer.
    pub(super) fn optional_string(&mut self) -> Result<Option<Utf16<'a>>, Malformed> {
        if self.pointer()? { self.string().map(Some) } else { Ok(None) }
    }

    /// As many `RPC_UNICODE_STRING` (MS-DTYP §2.3.10), and what their pointers point to. A null one is empty.
    pub(super) fn unicode_strings(&mut self, count: usize) -> Result<Vec<Utf16<'a>>, Malformed> {
        let mut is_there = Vec::new();
        for _ in 0..count {
            // `Length` and `MaximumLength`, which the text behind says again.
            self.u32()?;
            is_there.push(self.pointer()?);
        }
        is_there.into_iter().map(|is_there| if is_there { self.text() } else { Ok(Utf16::EMPTY) }).collect()
    }

    /// A count, and a pointer to as many pointers to `RPC_SID`: `LSAPR_SID_ENUM_BUFFER` (MS-LSAT §2.2.18) and `SAMPR_PSID_ARRAY`
    /// (MS-SAMR §2.2.7.6).
    pub(super) fn sids(&mut self, most: usize) -> Result<Vec<Sid>, Malformed> {
        let entries = self.u32()?;
        if !self.pointer()? {
            return if entries == 0 { Ok(Vec::new()) } else { Err(Malformed("a list that is not there")) };
        }
        let count = self.list_length(entries, most)?;
        for _ in 0..count {
            if !self.pointer()? {
                return Err(Malformed("a list without one of its SIDs"));
            }
        }
        (0..count).map(|_| self.sid()).collect()
    }

    /// The count in front of a list, which is also that of its structure, and at most `most`.
    pub(super) fn list_length(&mut self, entries: u32, most: usize) -> Result<usize, Malformed> {
        let count = self.u32()?;
        if count != entries {
            return Err(Malformed("a list of another length than it says"));
        }
        let count = usize::try_from(count).ok().filter(|count| *count <= most);
        count.ok_or(Malformed("more to look up than any client asks"))
    }

    /// `RPC_SID`, MS-DTYP §2.4.2.3.
    pub(super) fn sid(&mut self) -> Result<Sid, Malformed> {
        let count = self.u32()?;
        let sid = Sid::decode(&mut self.0)?;
        if u32::try_from(sid.sub_authorities().len()) != Ok(count) {
            return Err(Malformed("a SID of another length than it says"));
        }
        Ok(sid)
    }
}

/// Results of a call.
pub(super) struct NdrWriter<'b> {
    w: Writer<'b>,
    referents: u32,
}

impl NdrWriter<'_> {
    /// The results that `body` writes.
    pub(super) fn stub(body: impl FnOnce(&mut NdrWriter<'_>)) -> Vec<u8> {
        let mut out = Vec::new();
        body(&mut NdrWriter { w: Writer::new(&mut out), referents: 0 });
        out
    }

    /// Goes on at a multiple, as a structure does whose members need it (C706 §14.3.2).
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

    /// Bytes that are no integer, at a multiple of 4.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.w.align(4);
        self.w.bytes(bytes);
    }

    pub(super) fn count(&mut self, count: usize) {
        self.w.align(4);
        self.w.length::<u32>(count);
    }

    /// A pointer that is not null. What it points to follows the outermost structure.
    pub(super) fn pointer(&mut self) {
        self.u32(REFERENT + 4 * self.referents);
        self.referents += 1;
    }

    pub(super) fn null(&mut self) {
        self.u32(0);
    }

    /// A conformant and varying string, with the zero that ends it.
    pub(super) fn string(&mut self, text: &str) {
        self.units(text, &[0]);
    }

    /// What the pointer of an `RPC_UNICODE_STRING` points to: units without an end.
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

    /// Conformant and varying bytes, of which there can be as many as `most`.
    pub(super) fn varying_bytes(&mut self, most: usize, bytes: &[u8]) {
        for number in [most, 0, bytes.len()] {
            self.count(number);
        }
        self.w.bytes(bytes);
    }

    /// `RPC_UNICODE_STRING`, MS-DTYP §2.3.10, without what its pointer points to.
    pub(super) fn unicode_string(&mut self, text: &str) {
        let bytes = 2 * text.encode_utf16().count();
        self.w.align(4);
        self.w.length::<u16>(bytes);
        self.w.length::<u16>(bytes);
        self.pointer();
    }

    /// `RPC_STRING`, MS-SAMR §2.2.2.1, of as many bytes as the text has characters, without what its pointer points to.
    pub(super) fn oem_string(&mut self, text: &str) {
        self.w.align(4);
        let bytes = text.chars().count();
        self.w.length::<u16>(bytes);
        self.w.length::<u16>(bytes);
        self.pointer();
    }

    /// What the pointer of an `RPC_STRING` points to: characters of ASCII, and question marks for others.
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
