//! Apple's create context `AAPL`. Apple publishes the names and numbers in the source of its client; there is no
//! specification.

use crate::sets::bit_set;
use crate::types::AccessMask;
use crate::{Decode, Encode, Malformed, Reader, Utf16, Writer};

/// The name of the create context, of request and response.
pub const NAME: &[u8] = b"AAPL";
/// `kAAPL_SERVER_QUERY`, the only supported command.
const SERVER_QUERY: u32 = 1;
/// The stream with Finder's metadata: flags, and in old files type and creator.
pub const AFP_INFO: &[u8] = b"AFP_AfpInfo";
/// The stream with the resource fork of a file.
pub const AFP_RESOURCE: &[u8] = b"AFP_Resource";
/// Bytes of the stream [`AFP_INFO`].
pub const AFP_INFO_BYTES: usize = 60;
const AFP_INFO_MAGIC: &[u8] = b"AFP\0";
/// The range of Finder's 32 bytes in that stream.
const FINDER_INFO: std::ops::Range<usize> = 16..48;
/// `short_name_len` of an entry with [`ReadDirAttributes`]: the length of the bytes in place of the short name. Apple's
/// client ignores it.
const SHORT_NAME_LENGTH: u16 = 24;

bit_set! {
    /// The parts of the response that a client requests and the server returns.
    pub struct QueryBitmap: u64 {
        SERVER_CAPS = 0x1,
        VOLUME_CAPS = 0x2,
        MODEL_INFO = 0x4,
    }

    /// The capabilities of client and server.
    pub struct AppleCapabilities: u64 {
        SUPPORTS_READ_DIR_ATTR = 0x1,
        SUPPORTS_OSX_COPYFILE = 0x2,
        UNIX_BASED = 0x4,
        SUPPORTS_NFS_ACE = 0x8,
    }

    /// The capabilities of the volume.
    pub struct AppleVolumeCapabilities: u64 {
        SUPPORT_RESOLVE_ID = 0x1,
        CASE_SENSITIVE = 0x2,
        SUPPORTS_FULL_SYNC = 0x4,
    }
}

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
            return Err(Malformed("an unknown Apple command"));
        }
        r.skip(4)?;
        Ok(Self { request_bitmap: Decode::decode(r)?, client_capabilities: Decode::decode(r)? })
    }
}

/// The response, with the requested parts that exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerQueryResponse<'a> {
    pub server_capabilities: Option<AppleCapabilities>,
    pub volume_capabilities: Option<AppleVolumeCapabilities>,
    /// Finder picks an icon by this model (`MacSamba`).
    pub model: Option<Utf16<'a>>,
}

impl Encode for ServerQueryResponse<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        let bits = [
            (self.server_capabilities.is_some(), QueryBitmap::SERVER_CAPS),
            (self.volume_capabilities.is_some(), QueryBitmap::VOLUME_CAPS),
            (self.model.is_some(), QueryBitmap::MODEL_INFO),
        ];
        let present = bits.iter().filter(|(is_there, _)| *is_there);
        w.u32(SERVER_QUERY);
        w.zeros(4);
        present.fold(QueryBitmap::empty(), |all, (_, bit)| all | *bit).encode(w);
        self.server_capabilities.iter().for_each(|capabilities| capabilities.encode(w));
        self.volume_capabilities.iter().for_each(|capabilities| capabilities.encode(w));
        for model in self.model.iter() {
            w.zeros(4);
            w.length::<u32>(model.bytes().len());
            w.bytes(model.bytes());
        }
    }
}

impl<'a> Decode<'a> for ServerQueryResponse<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        if u32::decode(r)? != SERVER_QUERY {
            return Err(Malformed("a response to an unknown Apple command"));
        }
        r.skip(4)?;
        let present = QueryBitmap::decode(r)?;
        let mut answer = Self::default();
        if present.contains(QueryBitmap::SERVER_CAPS) {
            answer.server_capabilities = Some(Decode::decode(r)?);
        }
        if present.contains(QueryBitmap::VOLUME_CAPS) {
            answer.volume_capabilities = Some(Decode::decode(r)?);
        }
        if present.contains(QueryBitmap::MODEL_INFO) {
            r.skip(4)?;
            let length = u32::decode(r)?;
            let model = r.bytes(usize::try_from(length).unwrap_or(usize::MAX))?;
            answer.model = Some(Utf16::new(model)?);
        }
        Ok(answer)
    }
}

/// Attributes in place of the EA size and the short name of a directory entry, for clients that negotiated `ReadDirAttr
/// Support`. Finder then needs no further request per file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadDirAttributes {
    /// Absent from an entry with a reparse tag, which takes its place.
    pub max_access: AccessMask,
    pub resource_fork_bytes: u64,
    pub finder_info: FinderInfo,
    /// The mode including the file type.
    pub unix_mode: u16,
}

impl ReadDirAttributes {
    /// Appends the bytes between the EA size and the file number.
    pub(crate) fn encode_short_name(&self, w: &mut Writer<'_>) {
        SHORT_NAME_LENGTH.encode(w);
        self.resource_fork_bytes.encode(w);
        w.bytes(&self.finder_info.0);
        self.unix_mode.encode(w);
    }
}

/// `compressed_finder_info`: type, creator, flags, extended flags, and the time at which the file was added to its
/// folder. The byte order is that of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FinderInfo(pub [u8; 16]);

impl FinderInfo {
    /// Parses a stream [`AFP_INFO`]; `None` if it is malformed. Folders have neither type nor creator.
    pub fn from_afp_info(stream: &[u8], is_folder: bool) -> Option<Self> {
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
    fn read_dir_attributes_encode_finder_info() {
        let mut stream: Vec<u8> = (0..60).collect();
        stream[..4].copy_from_slice(b"AFP\0");
        let decoded =
            |stream: &[u8], is_folder| FinderInfo::from_afp_info(stream, is_folder).map(|info| info.0);
        let rest = [24, 25, 40, 41, 36, 37, 38, 39];
        let file = [16, 17, 18, 19, 20, 21, 22, 23];
        assert_eq!(decoded(&stream, false).unwrap(), *[file, rest].concat());
        assert_eq!(decoded(&stream, true).unwrap(), *[[0; 8], rest].concat());
        for other in [&stream[..59], b"", &[1; 60], &[0; 100]] {
            assert_eq!(decoded(other, false), None);
        }
    }

    #[test]
    fn server_query_is_24_bytes() {
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
    fn response_encodes_present_parts() {
        let all = ServerQueryResponse {
            server_capabilities: Some(AppleCapabilities::UNIX_BASED),
            volume_capabilities: Some(AppleVolumeCapabilities::SUPPORTS_FULL_SYNC),
            model: Some(Utf16::new(b"M\0").unwrap()),
        };
        let bytes = all.to_bytes();
        assert_eq!(bytes[8..17], [7, 0, 0, 0, 0, 0, 0, 0, 4]);
        assert_eq!(bytes[32..], [0, 0, 0, 0, 2, 0, 0, 0, b'M', 0]);
        for answer in [
            all,
            ServerQueryResponse { volume_capabilities: None, ..all },
            ServerQueryResponse { model: None, ..all },
            ServerQueryResponse::default(),
        ] {
            assert_eq!(ServerQueryResponse::from_bytes(&answer.to_bytes()), Ok(answer));
        }
        assert!(ServerQueryResponse::from_bytes(&bytes[..41]).is_err());
    }
}
