//! What macOS asks with a create context of its own (`AAPL`). Apple publishes the names and numbers with its client; no
//! specification has them.
#![allow(missing_docs, reason = "the fields keep the names that Apple's client gives them")]

use crate::sets::bit_set;
use crate::{Decode, Encode, Malformed, Reader, Utf16, Writer};

/// The name of the create context, of request and response.
pub const NAME: &[u8] = b"AAPL";
/// `kAAPL_SERVER_QUERY`, the one command that clients use.
const SERVER_QUERY: u32 = 1;

bit_set! {
    /// Which of the answers a client wants, and the server gives.
    pub struct QueryBitmap: u64 {
        SERVER_CAPS = 0x1,
        VOLUME_CAPS = 0x2,
        MODEL_INFO = 0x4,
    }

    /// What client and server can do.
    pub struct AppleCapabilities: u64 {
        SUPPORTS_READ_DIR_ATTR = 0x1,
        SUPPORTS_OSX_COPYFILE = 0x2,
        UNIX_BASED = 0x4,
        SUPPORTS_NFS_ACE = 0x8,
    }

    /// What the volume can do.
    pub struct AppleVolumeCapabilities: u64 {
        SUPPORT_RESOLVE_ID = 0x1,
        CASE_SENSITIVE = 0x2,
        SUPPORTS_FULL_SYNC = 0x4,
    }
}

/// A query of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerQuery {
    pub request_bitmap: QueryBitmap,
    pub client_capabilities: AppleCapabilities,
}

impl Encode for ServerQuery {
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(SERVER_QUERY);
        w.zeros(4);
        self.request_bitmap.encode(w);
        self.client_capabilities.encode(w);
    }
}

impl Decode<'_> for ServerQuery {
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        if u32::decode(r)? != SERVER_QUERY {
            return Err(Malformed("a command of Apple's that nobody knows"));
        }
        r.skip(4)?;
        Ok(Self { request_bitmap: Decode::decode(r)?, client_capabilities: Decode::decode(r)? })
    }
}

/// The answer: what is there of what was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerAnswer<'a> {
    pub server_capabilities: Option<AppleCapabilities>,
    pub volume_capabilities: Option<AppleVolumeCapabilities>,
    /// By which Finder picks an icon (`MacSamba`).
    pub model: Option<Utf16<'a>>,
}

impl Encode for ServerAnswer<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        let bits = [
            (self.server_capabilities.is_some(), QueryBitmap::SERVER_CAPS),
            (self.volume_capabilities.is_some(), QueryBitmap::VOLUME_CAPS),
            (self.model.is_some(), QueryBitmap::MODEL_INFO),
        ];
        let given = bits.iter().filter(|(is_there, _)| *is_there);
        w.u32(SERVER_QUERY);
        w.zeros(4);
        given.fold(QueryBitmap::empty(), |all, (_, bit)| all | *bit).encode(w);
        self.server_capabilities.iter().for_each(|capabilities| capabilities.encode(w));
        self.volume_capabilities.iter().for_each(|capabilities| capabilities.encode(w));
        for model in self.model.iter() {
            w.zeros(4);
            w.length::<u32>(model.bytes().len());
            w.bytes(model.bytes());
        }
    }
}

impl<'a> Decode<'a> for ServerAnswer<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        if u32::decode(r)? != SERVER_QUERY {
            return Err(Malformed("an answer to a command of Apple's that nobody knows"));
        }
        r.skip(4)?;
        let given = QueryBitmap::decode(r)?;
        let mut answer = Self::default();
        if given.contains(QueryBitmap::SERVER_CAPS) {
            answer.server_capabilities = Some(Decode::decode(r)?);
        }
        if given.contains(QueryBitmap::VOLUME_CAPS) {
            answer.volume_capabilities = Some(Decode::decode(r)?);
        }
        if given.contains(QueryBitmap::MODEL_INFO) {
            r.skip(4)?;
            let length = u32::decode(r)?;
            let model = r.bytes(usize::try_from(length).unwrap_or(usize::MAX))?;
            answer.model = Some(Utf16::new(model)?);
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_24_bytes() {
        let query = ServerQuery {
            request_bitmap: QueryBitmap::SERVER_CAPS | QueryBitmap::MODEL_INFO,
            client_capabilities: AppleCapabilities::SUPPORTS_READ_DIR_ATTR,
        };
        let mut bytes = query.to_bytes();
        assert_eq!(bytes, [1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(ServerQuery::from_bytes(&bytes), Ok(query));
        bytes[0] = 2;
        assert!(ServerQuery::from_bytes(&bytes).is_err());
    }

    #[test]
    fn an_answer_says_what_it_has() {
        let all = ServerAnswer {
            server_capabilities: Some(AppleCapabilities::UNIX_BASED),
            volume_capabilities: Some(AppleVolumeCapabilities::SUPPORTS_FULL_SYNC),
            model: Some(Utf16::new(b"M\0").unwrap()),
        };
        let bytes = all.to_bytes();
        assert_eq!(bytes[8..17], [7, 0, 0, 0, 0, 0, 0, 0, 4]);
        assert_eq!(bytes[32..], [0, 0, 0, 0, 2, 0, 0, 0, b'M', 0]);
        for answer in [
            all,
            ServerAnswer { volume_capabilities: None, ..all },
            ServerAnswer { model: None, ..all },
            ServerAnswer::default(),
        ] {
            assert_eq!(ServerAnswer::from_bytes(&answer.to_bytes()), Ok(answer));
        }
        assert!(ServerAnswer::from_bytes(&bytes[..41]).is_err());
    }
}
