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

    pub(super) fn u16(&mut self, value: u16) {
        self.w.align(2);
        self.w.u16(value);
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.w.align(4);
        self.w.u32(value);
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

    /// `RPC_UNICODE_STRING`, MS-DTYP §2.3.10, without what its pointer points to.
    pub(super) fn unicode_string(&mut self, text: &str) {
        let bytes = 2 * text.encode_utf16().count();
        self.w.align(4);
        self.w.length::<u16>(bytes);
        self.w.length::<u16>(bytes);
        self.pointer();
    }

    /// `RPC_SID`, MS-DTYP §2.4.2.3.
    pub(super) fn sid(&mut self, sid: &Sid) {
        self.count(sid.sub_authorities().len());
        sid.encode(&mut self.w);
    }
}
