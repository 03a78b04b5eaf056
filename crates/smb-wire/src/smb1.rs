//! The only SMB1 message that the server reads: the multi-protocol NEGOTIATE, MS-SMB2 §3.3.5.3.1.

use crate::header::ProtocolId;
use crate::{Decode, Encode, Malformed, Reader, Writer};

/// Bytes of SMB1's header, MS-CIFS §2.2.3.1.
const HEADER_SIZE: usize = 32;
/// `SMB_COM_NEGOTIATE`, MS-CIFS §2.2.4.52.
const NEGOTIATE: u8 = 0x72;
/// `BufferFormat` of a dialect, MS-CIFS §2.2.4.52.1.
const DIALECT_FORMAT: u8 = 2;

/// `SMB_COM_NEGOTIATE` request, MS-CIFS §2.2.4.52.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Smb1Negotiate<'a> {
    /// The dialect names without their terminating zeros.
    pub dialects: Vec<&'a [u8]>,
}

impl Smb1Negotiate<'_> {
    /// Offered by a client that supports some version of SMB2. The response has the dialect
    /// [`Dialect::SMB2_WILDCARD`](crate::types::Dialect).
    pub const SMB2_WILDCARD: &'static [u8] = b"SMB 2.???";
    /// Offered by a client that supports 2.0.2.
    pub const SMB202: &'static [u8] = b"SMB 2.002";

    pub fn offers(&self, dialect: &[u8]) -> bool {
        self.dialects.contains(&dialect)
    }
}

impl Encode for Smb1Negotiate<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        ProtocolId::SMB1.encode(w);
        NEGOTIATE.encode(w);
        w.zeros(HEADER_SIZE - 5 + 1);
        let count = w.position();
        w.zeros(2);
        for dialect in &self.dialects {
            DIALECT_FORMAT.encode(w);
            w.bytes(dialect);
            w.zeros(1);
        }
        w.patch::<u16>(count, w.position() - count - 2);
    }
}

impl<'a> Decode<'a> for Smb1Negotiate<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        if ProtocolId::decode(r)? != ProtocolId::SMB1 || u8::decode(r)? != NEGOTIATE {
            return Err(Malformed("not a NEGOTIATE of SMB1"));
        }
        r.skip(HEADER_SIZE - 5)?;
        if u8::decode(r)? != 0 {
            return Err(Malformed("a NEGOTIATE of SMB1 has no parameter words"));
        }
        let count = u16::decode(r)?;
        let mut rest = r.bytes(usize::from(count))?;
        let mut dialects = Vec::new();
        while let Some((&format, text)) = rest.split_first() {
            let end = text.iter().position(|&byte| byte == 0).ok_or(Malformed("an unterminated dialect"))?;
            if format != DIALECT_FORMAT {
                return Err(Malformed("a dialect of another format"));
            }
            dialects.push(&text[..end]);
            rest = &text[end + 1..];
        }
        Ok(Self { dialects })
    }
}
