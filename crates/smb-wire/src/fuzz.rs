//! Entry points for the fuzzers and the smoke test: every decoder under one selector. Not part of the public interface.

use crate::compression::Compression;
use crate::crypto::Preauth;
use crate::crypto::kdf::KeySource;
use crate::crypto::sealing::{Opener, Sealer};
use crate::negotiate::Cipher;
use crate::types::Dialect;
use crate::{
    Decode, Encode, apple, chain, classes, compound, contexts, copy, create, dir, durable, ea, error,
};
use crate::{
    file, fsctl, header, info, ioctl, lease, lock, negotiate, notify, oplock, posix, ranges, reparse,
};
use crate::{quota, rpc, security, session, smb1, snapshots, transform, tree};

/// Decodes arbitrary bytes. Returns `false` if they are malformed.
///
/// # Panics
/// If a decoded value does not round-trip.
pub type Decoder = fn(&[u8]) -> bool;

macro_rules! decoders {
    ($($type:ty),* $(,)?) => {
        &[$((stringify!($type), |bytes| {
            let Ok(value) = <$type>::from_bytes(bytes) else { return false };
            let encoded = value.to_bytes();
            let again = <$type>::from_bytes(&encoded).expect("an encoded value decodes");
            assert_eq!(again, value);
            assert_eq!(again.to_bytes(), encoded);
            true
        })),*]
    };
}

/// Messages, in both directions.
pub const MESSAGES: &[(&str, Decoder)] = decoders![
    header::Header,
    transform::TransformHeader,
    transform::CompressionTransform,
    transform::CompressionPayload,
    transform::PatternPayload,
    smb1::Smb1Negotiate<'_>,
    negotiate::NegotiateRequest<'_>,
    negotiate::NegotiateResponse<'_>,
    session::SessionSetupRequest<'_>,
    session::SessionSetupResponse<'_>,
    session::Empty,
    tree::TreeConnectRequest<'_>,
    tree::TreeConnectResponse,
    create::CreateRequest<'_>,
    create::CreateResponse<'_>,
    file::CloseRequest,
    file::CloseResponse,
    file::FlushRequest,
    file::ReadRequest<'_>,
    file::ReadResponse<&[u8]>,
    file::WriteRequest<&[u8]>,
    file::WriteResponse,
    lock::LockRequest,
    dir::QueryDirectoryRequest<'_>,
    dir::ChangeNotifyRequest,
    dir::OutputResponse<&[u8]>,
    info::QueryInfoRequest<'_>,
    info::SetInfoRequest<'_>,
    info::SetInfoResponse,
    ioctl::IoctlRequest<'_>,
    ioctl::IoctlResponse<'_>,
    oplock::OplockBreak,
    oplock::LeaseBreakNotification,
    oplock::LeaseBreakAck,
    error::ErrorResponse<'_>,
    error::ErrorContext<'_>,
    error::SymlinkError<'_>,
];

/// Create contexts, IOCTL data, chained entries, and security descriptors.
pub const CONTEXTS: &[(&str, Decoder)] = decoders![
    lease::Lease,
    durable::DurableRequest,
    durable::DurableResponse,
    durable::DurableReconnect,
    durable::DurableRequestV2,
    durable::DurableResponseV2,
    durable::DurableReconnectV2,
    durable::AppInstanceId,
    durable::AppInstanceVersion,
    security::SecurityDescriptor,
    posix::PosixRequest,
    posix::PosixInformation,
    posix::FileSystemPosixInformation,
    apple::ServerQuery,
    apple::ServerQueryResponse<'_>,
    reparse::ReparseData<'_>,
    ranges::ZeroData,
    ranges::AllocatedRange,
    ranges::FileLevelTrim,
    ranges::RegionRequest,
    ranges::FileRegion,
    copy::ResumeKeyResponse,
    copy::CopyChunkCopy,
    copy::CopyChunkResponse,
    copy::DuplicateExtents,
    copy::DuplicateExtentsEx,
    snapshots::SnapshotArray<'_>,
    snapshots::TimewarpToken,
    ea::FullEa<'_>,
    notify::NotifyInformation<'_>,
    quota::QueryQuota,
    quota::QuotaInformation,
];

/// Information classes, the simplest create contexts, and IOCTL negotiation.
pub const CLASSES: &[(&str, Decoder)] = decoders![
    classes::file::BasicInformation,
    classes::file::StandardInformation,
    classes::file::InternalInformation,
    classes::file::EaInformation,
    classes::file::AccessInformation,
    classes::file::PositionInformation,
    classes::file::ModeInformation,
    classes::file::AlignmentInformation,
    classes::file::NameInformation<'_>,
    classes::file::AllInformation<'_>,
    classes::file::NetworkOpenInformation,
    classes::file::AttributeTagInformation,
    classes::file::CompressionInformation,
    classes::file::SizeInformation,
    classes::file::DispositionInformation,
    classes::file::DispositionInformationEx,
    classes::file::RenameInformation<'_>,
    classes::file::RenameInformationEx<'_>,
    classes::file_system::VolumeInformation<'_>,
    classes::file_system::SizeInformation,
    classes::file_system::FullSizeInformation,
    classes::file_system::DeviceInformation,
    classes::file_system::ControlInformation,
    classes::file_system::AttributeInformation<'_>,
    classes::file_system::SectorSizeInformation,
    classes::file_system::ObjectIdInformation,
    contexts::AllocationSize,
    contexts::MaximalAccess,
    contexts::OnDiskId,
    fsctl::ValidateNegotiateRequest,
    fsctl::ValidateNegotiateResponse,
    fsctl::ObjectIdBuffer,
    fsctl::PipeWait<'_>,
];

/// Iterates over arbitrary bytes as a compound. Returns `false` if they are malformed.
pub fn compound(bytes: &[u8]) -> bool {
    let mut length = 0;
    for message in compound::messages(bytes) {
        let Ok(message) = message else { return false };
        assert!(message.bytes.len() >= header::HEADER_SIZE, "a message holds its header");
        length += message.bytes.len();
    }
    assert_eq!(length, bytes.len(), "the messages are all of the bytes");
    true
}

/// Iterates over arbitrary bytes as any chain. Returns `false` if they are malformed.
pub fn chains(bytes: &[u8]) -> bool {
    let changes = notify::changes(bytes).all(|change| change.is_ok());
    let attributes = ea::full_eas(bytes).all(|attribute| attribute.is_ok());
    let names = ea::requested_names(bytes).all(|name| name.is_ok());
    let entries = chain::entries(8, bytes).map_while(Result::ok).map(<[u8]>::len).sum::<usize>();
    assert!(entries <= bytes.len(), "entries do not overlap");
    let quotas = quota::entries(bytes).all(|entry| entry.is_ok());
    changes || attributes || names || quotas
}

/// Writes arbitrary bytes, in two parts, to a pipe that offers every interface. Decodes the arguments of each call and
/// reads the replies. Returns `false` if a client would not send the bytes.
pub fn pipe(bytes: &[u8]) -> bool {
    const OFFERED: &[rpc::Syntax] =
        &[rpc::srvsvc::INTERFACE, rpc::wkssvc::INTERFACE, rpc::lsarpc::INTERFACE, rpc::samr::INTERFACE];
    let mut association = rpc::Association::new("\\PIPE\\fuzz", OFFERED);
    let answer = |call: rpc::Call<'_>| {
        match call.interface {
            rpc::srvsvc::INTERFACE => rpc::srvsvc::Call::decode(call.opnum, call.stub).map(drop)?,
            rpc::wkssvc::INTERFACE => rpc::wkssvc::Call::decode(call.opnum, call.stub).map(drop)?,
            rpc::lsarpc::INTERFACE => rpc::lsarpc::Call::decode(call.opnum, call.stub).map(drop)?,
            _ => rpc::samr::Call::decode(call.opnum, call.stub).map(drop)?,
        }
        Ok(call.stub.to_vec())
    };
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let is_taken = [first, second].into_iter().all(|part| association.write(part, answer).is_ok());
    let mut max = rpc::UNREAD_MAX + rpc::REQUEST_MAX + bytes.len();
    while let Some(part) = association.read(1000) {
        assert!(!part.bytes.is_empty() && part.bytes.len() <= max, "replies are read to their end");
        max -= part.bytes.len();
    }
    is_taken
}

/// Opens arbitrary bytes as an encrypted message. Then encrypts the bytes behind the first two, which select the cipher
/// and a byte to corrupt. Returns `false` if there are too few.
///
/// # Panics
/// If an invalid message opens, or a valid one does not.
pub fn sealed(bytes: &[u8]) -> bool {
    const CIPHERS: [Cipher; 4] =
        [Cipher::AES_128_GCM, Cipher::AES_128_CCM, Cipher::AES_256_GCM, Cipher::AES_256_CCM];
    let Some((&[cipher, index], text)) = bytes.split_first_chunk() else { return false };
    let preauth = Preauth::default();
    let source = KeySource { dialect: Dialect::SMB311, session_key: &[7; 16], preauth: &preauth };
    let key = || source.client_to_server(CIPHERS[usize::from(cipher) % 4]).expect("a cipher that is there");
    let (sealer, opener) = (Sealer::new(key()), Opener::new(key()));
    assert!(opener.open(&mut bytes.to_vec()).is_err(), "a random key opens nothing");
    let mut message = [&[0; transform::TRANSFORM_SIZE], text].concat();
    sealer.seal(1, &mut message).expect("the first nonce");
    let mut changed = message.clone();
    let index = usize::from(index) % changed.len();
    changed[index] ^= 1;
    assert!(opener.open(&mut changed).is_err(), "a changed byte is found");
    assert_eq!(opener.open(&mut message).expect("an unchanged message opens"), text);
    true
}

/// Decompresses the bytes behind the first, which selects the negotiated algorithms; then compresses them. Returns
/// `false` if they are not a compressed message.
///
/// # Panics
/// If a message exceeds its declared size, or compression does not round-trip.
pub fn compressed(bytes: &[u8]) -> bool {
    const MOST: usize = 10_000;
    let Some((&agreed, bytes)) = bytes.split_first() else { return false };
    let has = |bit: u8| agreed & bit != 0;
    let agreed = Compression { is_chained: has(1), lz77: has(2), pattern: has(4) };
    let plain = agreed.decompress(bytes, MOST);
    assert!(plain.as_ref().is_ok_and(|plain| plain.len() <= MOST) || plain.is_err());
    if let Some(packed) = agreed.compress(bytes, 64) {
        assert!(packed.len() < bytes.len(), "a message that does not shrink is not compressed");
        assert_eq!(
            agreed.decompress(&packed, bytes.len()).expect("a compressed message decompresses"),
            bytes
        );
    }
    plain.is_ok()
}

/// Runs the decoder of `table` that the first byte selects on the remaining bytes.
pub fn decode(table: &[(&str, Decoder)], input: &[u8]) -> bool {
    let Some((selector, bytes)) = input.split_first() else { return false };
    let (_, decoder) = table[usize::from(*selector) % table.len()];
    decoder(bytes)
}
