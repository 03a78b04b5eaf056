//! What macOS asks with a create context of its own (`AAPL`). Apple publishes the names and numbers with its client; no
//! specification has them.

use crate::sets::bit_set;
use crate::types::AccessMask;
use crate::{Decode, Encode, Malformed, Reader, Utf16, Writer};

/// The name of the create context, of request and response.
pub const NAME: &[u8] = b"AAPL";
/// `kAAPL_SERVER_QUERY`, the one command that is known here.
const SERVER_QUERY: u32 = 1;
/// The stream in which macOS keeps what Finder knows of a file: marks, and in old files type and creator.
pub const AFP_INFO: &[u8] = b"AFP_AfpInfo";
/// The stream that is the resource fork of a file.
pub const AFP_RESOURCE: &[u8] = b"AFP_Resource";
/// Bytes of the stream [`AFP_INFO`].
pub const AFP_INFO_BYTES: usize = 60;
/// What that stream begins with.
const AFP_INFO_MAGIC: &[u8] = b"AFP\0";
/// Where in it the 32 bytes are that Finder knows.
const FINDER_INFO: std::ops::Range<usize> = 16..48;
/// `short_name_len` of an entry with [`ListedAttributes`]: the length of what is there in place of a name. Apple's client does not look at it.
const SHORT_NAME_LENGTH: u16 = 24;

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

/// What an entry of a listing says in place of the size of extended attributes and a short name, to who has asked for that
/// (`ReadDirAttr Support`), so that Finder needs no further request for each file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListedAttributes {
    /// Not told of what has a reparse tag, which is in its place.
    pub max_access: AccessMask,
    pub resource_fork_bytes: u64,
    pub finder_info: FinderInfo,
    /// The mode with the kind of file.
    pub unix_mode: u16,
}

impl ListedAttributes {
    /// Appends what is behind the size of extended attributes and before the number of the file.
    pub(crate) fn encode_short_name(&self, w: &mut Writer<'_>) {
        SHORT_NAME_LENGTH.encode(w);
        self.resource_fork_bytes.encode(w);
        w.bytes(&self.finder_info.0);
        self.unix_mode.encode(w);
    }
}

/// `compressed_finder_info`: type, creator, flags, extended flags and the time when the file came to its folder, in the order of bytes
/// that they are stored in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FinderInfo(pub [u8; 16]);

impl FinderInfo {
    /// What a stream [`AFP_INFO`] says; `None` if it is none. Of folders there are neither type nor creator.
    pub fn of_afp_info(stream: &[u8], is_folder: bool) -> Option<Self> {
        if stream.len() != AFP_INFO_BYTES || !stream.starts_with(AFP_INFO_MAGIC) {
            return None;
        }
        let info = stream.get(FINDER_INFO)?;
        let mut compressed = [0; 16];
        if !is_folder {
            compressed[..8].copy_from_slice(&info[..8]);
        }
        compressed[8..10].copy_from_slice(&info[8..10]);
        compressed[10..12].copy_from_slice(&info[24..26]);
        compressed[12..].copy_from_slice(&info[20..24]);
        Some(Self(compressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finder_knows_is_told_in_short() {
        let mut stream: Vec<u8> = (0..60).collect();
        stream[..4].copy_from_slice(b"AFP\0");
        let told = |stream: &[u8], is_folder| FinderInfo::of_afp_info(stream, is_folder).map(|info| info.0);
        let rest = [24, 25, 40, 41, 36, 37, 38, 39];
        let file = [16, 17, 18, 19, 20, 21, 22, 23];
        assert_eq!(told(&stream, false).unwrap(), *[file, rest].concat());
        assert_eq!(told(&stream, true).unwrap(), *[[0; 8], rest].concat());
        for other in [&stream[..59], b"", &[1; 60], &[0; 100]] {
            assert_eq!(told(other, false), None);
        }
    }

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
