//! One valid message of every type.

use smb_wire::compound::push;
use smb_wire::create::*;
use smb_wire::dir::*;
use smb_wire::error::*;
use smb_wire::file::*;
use smb_wire::header::*;
use smb_wire::info::*;
use smb_wire::ioctl::*;
use smb_wire::lock::*;
use smb_wire::negotiate::*;
use smb_wire::oplock::*;
use smb_wire::session::*;
use smb_wire::smb1::Smb1Negotiate;
use smb_wire::transform::*;
use smb_wire::tree::*;
use smb_wire::types::*;
use smb_wire::{Encode, NtStatus, Utf16};

pub const NAME: &[u8] = b"d\0i\0r\0\\\0a\0";
pub const FILE_ID: FileId = FileId { persistent: 0x1122_3344_5566_7788, volatile: 0x99aa_bbcc_ddee_ff00 };

pub fn name() -> Utf16<'static> {
    Utf16::new(NAME).unwrap()
}

pub fn contexts() -> Vec<NegotiateContext<'static>> {
    vec![
        NegotiateContext::Preauth { hash_algorithms: vec![HashAlgorithm::SHA_512], salt: &[7; 32] },
        NegotiateContext::Encryption(vec![Cipher::AES_128_GCM, Cipher::AES_128_CCM]),
        NegotiateContext::Compression {
            flags: CompressionFlags::CHAINED,
            algorithms: vec![CompressionAlgorithm::LZ77, CompressionAlgorithm::PATTERN_V1],
        },
        NegotiateContext::Netname(name()),
        NegotiateContext::Transport(TransportFlags::ACCEPT_TRANSPORT_LEVEL_SECURITY),
        NegotiateContext::RdmaTransform(vec![1]),
        NegotiateContext::Signing(vec![SigningAlgorithm::AES_GMAC, SigningAlgorithm::AES_CMAC]),
        NegotiateContext::Other { context_type: ContextType::POSIX_EXTENSIONS_AVAILABLE, data: &[1; 16] },
    ]
}

pub fn negotiate_request() -> NegotiateRequest<'static> {
    NegotiateRequest {
        security_mode: SecurityMode::SIGNING_ENABLED,
        capabilities: Capabilities::LEASING | Capabilities::LARGE_MTU,
        client_guid: Guid([3; 16]),
        dialects: vec![Dialect::SMB210, Dialect::SMB300, Dialect::SMB311],
        contexts: contexts(),
    }
}

pub fn negotiate_response() -> NegotiateResponse<'static> {
    NegotiateResponse {
        security_mode: SecurityMode::SIGNING_ENABLED | SecurityMode::SIGNING_REQUIRED,
        dialect: Dialect::SMB311,
        server_guid: Guid([4; 16]),
        capabilities: Capabilities::LEASING,
        max_transact_size: 1 << 20,
        max_read_size: 8 << 20,
        max_write_size: 8 << 20,
        system_time: FileTime::from_unix(1_700_000_000, 0),
        server_start_time: FileTime::NONE,
        security_buffer: &[0x60, 1, 2],
        contexts: contexts(),
    }
}

pub fn create_contexts() -> CreateContexts<'static> {
    CreateContexts(vec![
        CreateContext { name: b"MxAc", data: &[] },
        CreateContext { name: b"DH2Q", data: &[5; 32] },
        CreateContext { name: &[9; 16], data: &[1, 2, 3] },
    ])
}

pub fn create_request() -> CreateRequest<'static> {
    CreateRequest {
        requested_oplock_level: OplockLevel::LEASE,
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: AccessMask::READ_DATA | AccessMask::READ_ATTRIBUTES,
        file_attributes: FileAttributes::NORMAL,
        share_access: ShareAccess::READ | ShareAccess::DELETE,
        create_disposition: CreateDisposition::OPEN_IF,
        create_options: CreateOptions::NON_DIRECTORY_FILE,
        name: name(),
        contexts: create_contexts(),
    }
}

pub fn create_response() -> CreateResponse<'static> {
    CreateResponse {
        oplock_level: OplockLevel::NONE,
        flags: CreateResponseFlags::empty(),
        create_action: CreateAction::CREATED,
        creation_time: FileTime(1),
        last_access_time: FileTime(2),
        last_write_time: FileTime(3),
        change_time: FileTime(4),
        allocation_size: 4096,
        end_of_file: 5,
        file_attributes: FileAttributes::ARCHIVE,
        file_id: FILE_ID,
        contexts: create_contexts(),
    }
}

/// Two requests, the second related to the first.
pub fn compound() -> Vec<u8> {
    let mut out = Vec::new();
    let first = push(&mut out, &Header::request(Command::CREATE, 7, 1, 2), &create_request());
    smb_wire::compound::link(&mut out, first);
    let header = Header::request(Command::CLOSE, 8, u64::MAX, u32::MAX);
    let header = Header { flags: Flags::RELATED_OPERATIONS, ..header };
    let close = CloseRequest { flags: CloseFlags::POSTQUERY_ATTRIB, file_id: FileId::PREVIOUS };
    push(&mut out, &header, &close);
    out
}

/// Keyed by the name of the decoder in `fuzz::MESSAGES`.
pub fn messages() -> Vec<(&'static str, Vec<u8>)> {
    let header = Header::request(Command::READ, 9, 10, 11);
    let dialects = vec![&b"NT LM 0.12"[..], Smb1Negotiate::SMB202, Smb1Negotiate::SMB2_WILDCARD];
    let mut samples = vec![
        ("header::Header", header.to_bytes()),
        ("header::Header", header.response(NtStatus::PENDING).to_bytes()),
        ("transform::TransformHeader", transform().to_bytes()),
        ("transform::CompressionTransform", compression().to_bytes()),
        ("transform::CompressionPayload", payload().to_bytes()),
        ("transform::PatternPayload", PatternPayload { pattern: 9, repetitions: 100 }.to_bytes()),
        ("smb1::Smb1Negotiate<'_>", Smb1Negotiate { dialects }.to_bytes()),
        ("negotiate::NegotiateRequest<'_>", negotiate_request().to_bytes()),
        ("negotiate::NegotiateResponse<'_>", negotiate_response().to_bytes()),
        ("session::Empty", Empty.to_bytes()),
        ("create::CreateRequest<'_>", create_request().to_bytes()),
        ("create::CreateResponse<'_>", create_response().to_bytes()),
    ];
    samples.extend(sessions());
    samples.extend(files());
    samples.extend(queries());
    samples.extend(others());
    samples
}

fn transform() -> TransformHeader {
    TransformHeader {
        signature: [1; 16],
        nonce: [2; 16],
        original_message_size: 100,
        flags: TransformFlags::ENCRYPTED,
        session_id: 3,
    }
}

fn compression() -> CompressionTransform {
    CompressionTransform {
        protocol_id: ProtocolId::COMPRESSION_TRANSFORM,
        original_compressed_segment_size: 1000,
        compression_algorithm: CompressionAlgorithm::LZ77,
        flags: CompressionTransformFlags::empty(),
        offset: 64,
    }
}

fn payload() -> CompressionPayload {
    CompressionPayload {
        compression_algorithm: CompressionAlgorithm::PATTERN_V1,
        flags: CompressionTransformFlags::CHAINED,
        length: 8,
    }
}

fn sessions() -> Vec<(&'static str, Vec<u8>)> {
    let setup = SessionSetupRequest {
        flags: SessionSetupFlags::empty(),
        security_mode: SessionSecurityMode::SIGNING_ENABLED,
        capabilities: Capabilities::DFS,
        channel: 0,
        security_buffer: b"token",
        previous_session_id: 12,
    };
    let done = SessionSetupResponse { session_flags: SessionFlags::ENCRYPT_DATA, security_buffer: b"done" };
    let tree = TreeConnectResponse {
        share_type: ShareType::DISK,
        share_flags: ShareFlags::MANUAL_CACHING,
        capabilities: ShareCapabilities::empty(),
        maximal_access: AccessMask::FILE_ALL,
    };
    let connect = TreeConnectRequest { flags: TreeConnectFlags::empty(), path: name() };
    vec![
        ("session::SessionSetupRequest<'_>", setup.to_bytes()),
        ("session::SessionSetupResponse<'_>", done.to_bytes()),
        ("tree::TreeConnectRequest<'_>", connect.to_bytes()),
        ("tree::TreeConnectResponse", tree.to_bytes()),
    ]
}

fn files() -> Vec<(&'static str, Vec<u8>)> {
    let read = ReadRequest {
        padding: 80,
        flags: ReadFlags::READ_UNBUFFERED,
        length: 65536,
        offset: 4096,
        file_id: FILE_ID,
        minimum_count: 1,
        channel: Channel::NONE,
        remaining_bytes: 0,
        read_channel_info: &[],
    };
    let write = WriteRequest {
        data: &b"data"[..],
        offset: 4096,
        file_id: FILE_ID,
        channel: Channel::NONE,
        remaining_bytes: 0,
        flags: WriteFlags::WRITE_THROUGH,
    };
    let close = CloseRequest { flags: CloseFlags::POSTQUERY_ATTRIB, file_id: FILE_ID };
    let lock =
        LockElement { offset: 1, length: 2, flags: LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY };
    let locks = LockRequest { lock_sequence: LockSequence(0x21), file_id: FILE_ID, locks: vec![lock; 2] };
    vec![
        ("file::CloseRequest", close.to_bytes()),
        ("file::CloseResponse", CloseResponse { end_of_file: 9, ..CloseResponse::default() }.to_bytes()),
        ("file::FlushRequest", FlushRequest { reserved1: 0xffff, file_id: FILE_ID }.to_bytes()),
        ("file::ReadRequest<'_>", read.to_bytes()),
        (
            "file::ReadResponse<&[u8]>",
            ReadResponse { data: &b"data"[..], data_remaining: 0, flags: 0 }.to_bytes(),
        ),
        ("file::WriteRequest<&[u8]>", write.to_bytes()),
        ("file::WriteResponse", WriteResponse { count: 4, remaining: 0 }.to_bytes()),
        ("lock::LockRequest", locks.to_bytes()),
    ]
}

fn queries() -> Vec<(&'static str, Vec<u8>)> {
    let directory = QueryDirectoryRequest {
        file_information_class: DirectoryClass::ID_BOTH_DIRECTORY,
        flags: QueryDirectoryFlags::RESTART_SCANS,
        file_index: 0,
        file_id: FILE_ID,
        file_name: name(),
        output_buffer_length: 65536,
    };
    let notify = ChangeNotifyRequest {
        flags: ChangeNotifyFlags::WATCH_TREE,
        output_buffer_length: 4096,
        file_id: FILE_ID,
        completion_filter: CompletionFilter::FILE_NAME,
    };
    let query = QueryInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: 18,
        output_buffer_length: 4096,
        input: b"names",
        additional_information: SecurityInformation::OWNER,
        flags: QueryInfoFlags::RESTART_SCAN,
        file_id: FILE_ID,
    };
    let set = SetInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: 20,
        buffer: &[0; 8],
        additional_information: SecurityInformation::empty(),
        file_id: FILE_ID,
    };
    vec![
        ("dir::QueryDirectoryRequest<'_>", directory.to_bytes()),
        ("dir::ChangeNotifyRequest", notify.to_bytes()),
        ("dir::OutputResponse<&[u8]>", OutputResponse { output: &b"entries"[..] }.to_bytes()),
        ("info::QueryInfoRequest<'_>", query.to_bytes()),
        ("info::SetInfoRequest<'_>", set.to_bytes()),
        ("info::SetInfoResponse", SetInfoResponse.to_bytes()),
    ]
}

fn others() -> Vec<(&'static str, Vec<u8>)> {
    let ioctl = IoctlRequest {
        ctl_code: CtlCode::VALIDATE_NEGOTIATE_INFO,
        file_id: FileId::PREVIOUS,
        input: b"input",
        max_input_response: 0,
        output: &[],
        max_output_response: 24,
        flags: IoctlFlags::IS_FSCTL,
    };
    let answer = IoctlResponse {
        ctl_code: CtlCode::VALIDATE_NEGOTIATE_INFO,
        file_id: FileId::PREVIOUS,
        input: &[],
        output: &[1; 24],
        flags: IoctlFlags::empty(),
    };
    let notification = LeaseBreakNotification {
        new_epoch: 2,
        flags: LeaseBreakFlags::ACK_REQUIRED,
        lease_key: LeaseKey([6; 16]),
        current_lease_state: LeaseState(7),
        new_lease_state: LeaseState::READ_CACHING,
        break_reason: BreakReason(0),
        access_mask_hint: 0,
        share_mask_hint: 0,
    };
    let ack = LeaseBreakAck {
        flags: LeaseBreakFlags::empty(),
        lease_key: LeaseKey([6; 16]),
        lease_state: LeaseState::READ_CACHING,
        lease_duration: 0,
    };
    let symlink = SymlinkError {
        unparsed_path_length: 4,
        substitute_name: name(),
        print_name: name(),
        flags: SymlinkFlags::RELATIVE,
    };
    let data = symlink.to_bytes();
    let context = ErrorContext { error_id: ErrorId::DEFAULT, data: &data }.to_bytes();
    vec![
        ("ioctl::IoctlRequest<'_>", ioctl.to_bytes()),
        ("ioctl::IoctlResponse<'_>", answer.to_bytes()),
        ("oplock::OplockBreak", OplockBreak { oplock_level: OplockLevel::II, file_id: FILE_ID }.to_bytes()),
        ("oplock::LeaseBreakNotification", notification.to_bytes()),
        ("oplock::LeaseBreakAck", ack.to_bytes()),
        ("error::ErrorResponse<'_>", ErrorResponse { context_count: 1, data: &context }.to_bytes()),
        ("error::ErrorContext<'_>", context),
        ("error::SymlinkError<'_>", symlink.to_bytes()),
    ]
}
