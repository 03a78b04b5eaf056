//! Messages byte by byte, after the figures of MS-SMB2 §2.2.

use smb_wire::compound::messages;
use smb_wire::compression::lz77;
use smb_wire::create::{CreateContexts, CreateRequest};
use smb_wire::dir::OutputResponse;
use smb_wire::error::ErrorResponse;
use smb_wire::file::{CloseRequest, READ_HEADER_SIZE, ReadResponse, WRITE_HEADER_SIZE, WriteRequest};
use smb_wire::header::{Command, Flags, Header, NEXT_COMMAND_OFFSET, Routing, SIGNATURE_OFFSET};
use smb_wire::ioctl::IoctlResponse;
use smb_wire::negotiate::{NegotiateContext, NegotiateRequest, NegotiateResponse};
use smb_wire::oplock::BreakAck;
use smb_wire::smb1::Smb1Negotiate;
use smb_wire::types::Dialect;
use smb_wire::{Decode, Encode, ExternalBuffer, FileId, Malformed, NtStatus, Reader, Writer};

mod samples;

/// A message behind a zero header, so that offsets are as on the wire.
fn message(body: &impl Encode) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes);
    w.zeros(64);
    body.encode(&mut w);
    bytes
}

fn body(bytes: &[u8]) -> Reader<'_> {
    Reader::starting_at(bytes, 64)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

#[test]
fn headers() {
    let header = Header {
        credit_charge: 0x0201,
        status: NtStatus::MORE_PROCESSING_REQUIRED,
        command: Command::SESSION_SETUP,
        credits: 0x0403,
        flags: Flags::SERVER_TO_REDIR | Flags::SIGNED,
        next_command: 0x0c0b_0a09,
        message_id: 0x1817_1615_1413_1211,
        routing: Routing::Sync { process_id: 0xfeff, tree_id: 0x2423_2221 },
        session_id: 0x3837_3635_3433_3231,
        signature: *b"signature 16 byt",
    };
    let bytes = [
        0xfe, b'S', b'M', b'B', 64, 0, 1, 2, 0x16, 0, 0, 0xc0, 1, 0, 3, 4, 9, 0, 0, 0, 9, 0xa, 0xb, 0xc,
        0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0xff, 0xfe, 0, 0, 0x21, 0x22, 0x23, 0x24, 0x31, 0x32,
        0x33, 0x34, 0x35, 0x36, 0x37, 0x38,
    ];
    let encoded = header.to_bytes();
    assert_eq!(encoded[..SIGNATURE_OFFSET], bytes);
    assert_eq!(encoded[SIGNATURE_OFFSET..], *b"signature 16 byt");
    assert_eq!(Header::from_bytes(&encoded), Ok(header));
    let later = Header { routing: Routing::Async { async_id: 0x2827_2625_2423_2221 }, ..header };
    let encoded = later.to_bytes();
    assert_eq!((encoded[16], &encoded[32..40]), (11, &[0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28][..]));
    assert_eq!(Header::from_bytes(&encoded), Ok(later));
    assert_eq!((later.tree_id(), later.async_id()), (0, Some(0x2827_2625_2423_2221)));
    assert_eq!((header.tree_id(), header.channel_sequence()), (0x2423_2221, 0x16));
}

#[test]
fn response_header_copies_request_ids() {
    let flags = Flags::RELATED_OPERATIONS | Flags::SIGNED | Flags::DFS_OPERATIONS;
    let request =
        Header { flags, next_command: 72, signature: [1; 16], ..Header::request(Command::READ, 5, 6, 7) };
    let response = request.response(NtStatus::END_OF_FILE);
    assert_eq!(response.flags, Flags::RELATED_OPERATIONS | Flags::SERVER_TO_REDIR);
    assert_eq!((response.message_id, response.session_id, response.tree_id()), (5, 6, 7));
    assert_eq!((response.next_command, response.credits, response.signature), (0, 0, [0; 16]));
}

#[test]
fn negotiate_request() {
    let bytes = message(&samples::negotiate_request());
    assert_eq!(bytes[64..68], [36, 0, 3, 0]);
    // Three dialects end at 64 + 36 + 6 = 106; contexts start at a multiple of 8.
    assert_eq!((u32_at(&bytes, 64 + 28), u16_at(&bytes, 64 + 32)), (112, 8));
    assert_eq!(bytes[100..112], [0x10, 2, 0, 3, 0x11, 3, 0, 0, 0, 0, 0, 0]);
    let preauth = [1, 0, 38, 0, 0, 0, 0, 0, 1, 0, 32, 0, 1, 0, 7, 7];
    assert_eq!(bytes[112..128], preauth);
    let encryption = [0, 0, 2, 0, 6, 0, 0, 0, 0, 0, 2, 0, 2, 0, 1, 0, 0, 0, 3, 0];
    assert_eq!(bytes[158..178], encryption);
    assert_eq!(NegotiateRequest::decode(&mut body(&bytes)), Ok(samples::negotiate_request()));
}

#[test]
fn contexts_need_dialect_311() {
    let dialects = vec![Dialect::SMB202, Dialect::SMB302];
    let request = NegotiateRequest { dialects, contexts: vec![], ..samples::negotiate_request() };
    let mut bytes = message(&request);
    assert_eq!(bytes.len(), 64 + 36 + 4);
    // ClientStartTime takes the place of the context offset, which must be ignored.
    bytes[64 + 28..64 + 36].fill(0xff);
    assert_eq!(NegotiateRequest::decode(&mut body(&bytes)), Ok(request));
}

#[test]
fn negotiate_contexts_follow_dialects() {
    let bytes = message(&samples::negotiate_request());
    let with = |offset: u32| {
        let mut bytes = bytes.clone();
        bytes[64 + 28..64 + 32].copy_from_slice(&offset.to_le_bytes());
        NegotiateRequest::decode(&mut body(&bytes)).map(|_| ())
    };
    assert_eq!(with(100), Err(Malformed("a buffer overlaps what precedes it")));
    assert_eq!(with(u32::MAX), Err(Malformed("message ends early")));
    let mut more = bytes.clone();
    more[64 + 32] = 9;
    assert_eq!(NegotiateRequest::decode(&mut body(&more)), Err(Malformed("message ends early")));
}

#[test]
fn negotiate_response() {
    let bytes = message(&samples::negotiate_response());
    assert_eq!(bytes[64..72], [65, 0, 3, 0, 0x11, 3, 8, 0]);
    assert_eq!((u16_at(&bytes, 64 + 56), u16_at(&bytes, 64 + 58)), (128, 3));
    assert_eq!(u32_at(&bytes, 64 + 60), 136);
    let response = NegotiateResponse::decode(&mut body(&bytes)).unwrap();
    assert_eq!(response, samples::negotiate_response());
    assert!(matches!(response.contexts[6], NegotiateContext::Signing(_)));
    let older = NegotiateResponse { dialect: Dialect::SMB302, contexts: vec![], ..response };
    assert_eq!(u32_at(&message(&older), 64 + 60), 0);
}

#[test]
fn multi_protocol_negotiate() {
    let mut bytes = vec![0xff, b'S', b'M', b'B', 0x72];
    bytes.extend([0; 28]);
    bytes.extend([23, 0]);
    bytes.extend(b"\x02NT LM 0.12\0\x02SMB 2.???\0");
    let negotiate = Smb1Negotiate::from_bytes(&bytes).unwrap();
    assert!(negotiate.offers(Smb1Negotiate::SMB2_WILDCARD) && !negotiate.offers(Smb1Negotiate::SMB202));
    assert_eq!(negotiate.to_bytes(), bytes);
    bytes[33] = 22;
    assert_eq!(Smb1Negotiate::from_bytes(&bytes), Err(Malformed("an unterminated dialect")));
    bytes[32] = 1;
    let words = Err(Malformed("a NEGOTIATE of SMB1 has no parameter words"));
    assert_eq!(Smb1Negotiate::from_bytes(&bytes), words);
}

#[test]
fn create_request() {
    let bytes = message(&samples::create_request());
    assert_eq!(bytes[64..72], [57, 0, 0, 0xff, 2, 0, 0, 0]);
    assert_eq!((u16_at(&bytes, 64 + 44), u16_at(&bytes, 64 + 46)), (120, 10));
    assert_eq!(bytes[120..130], *samples::NAME);
    // Contexts start at multiples of 8, each with its name at 16 and its data at a multiple of 8.
    assert_eq!((u32_at(&bytes, 64 + 48), u32_at(&bytes, 64 + 52)), (136, 24 + 56 + 35));
    assert_eq!(bytes[136..156], [24, 0, 0, 0, 16, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, b'M', b'x', b'A', b'c']);
    assert_eq!(bytes[160..180], [56, 0, 0, 0, 16, 0, 4, 0, 0, 0, 24, 0, 32, 0, 0, 0, b'D', b'H', b'2', b'Q']);
    let request = CreateRequest::decode(&mut body(&bytes)).unwrap();
    assert_eq!(request, samples::create_request());
    assert_eq!(request.contexts.find(b"DH2Q"), Some(&[5; 32][..]));
    assert_eq!(request.contexts.find(b"RqLs"), None);
    let plain = CreateRequest { contexts: CreateContexts::default(), ..request };
    assert_eq!(message(&plain)[64 + 48..64 + 56], [0; 8]);
}

#[test]
fn create_context_offsets_stay_in_chain() {
    let good = message(&samples::create_request());
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        CreateRequest::decode(&mut body(&bytes)).map(|_| ())
    };
    assert_eq!(with(136, 20), Err(Malformed("an unaligned entry")));
    assert_eq!(with(136, 0xf8), Err(Malformed("an entry past the end")));
    assert_eq!(with(136, 8), Err(Malformed("message ends early")));
    assert_eq!(with(140, 15), Err(Malformed("a buffer overlaps what precedes it")));
    assert_eq!(with(160 + 10, 16), Err(Malformed("a buffer overlaps what precedes it")));
    assert_eq!(with(160 + 12, 33), Err(Malformed("message ends early")), "data of the next context");
}

#[test]
fn create_contexts_are_limited() {
    let mut request = samples::create_request();
    request.contexts.0 = vec![request.contexts.0[0]; 32];
    assert!(CreateRequest::decode(&mut body(&message(&request))).is_ok());
    request.contexts.0.push(request.contexts.0[0]);
    let many = CreateRequest::decode(&mut body(&message(&request))).map(|_| ());
    assert_eq!(many, Err(Malformed("too many create contexts")));
}

#[test]
fn read_and_write_data_follows_fixed_part() {
    let read = message(&ReadResponse { data: &b"abc"[..], data_remaining: 0, flags: 0 });
    assert_eq!(read[64..READ_HEADER_SIZE], [17, 0, 80, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(read[READ_HEADER_SIZE..], *b"abc");
    let ahead = ReadResponse { data: ExternalBuffer { offset: 0, length: 3 }, data_remaining: 0, flags: 0 };
    assert_eq!(message(&ahead)[..READ_HEADER_SIZE], read[..READ_HEADER_SIZE]);
    let write = samples::messages().into_iter().find(|(name, _)| name.starts_with("file::Write")).unwrap().1;
    let head = WriteRequest::<ExternalBuffer>::from_bytes(&write[..48]).unwrap();
    assert_eq!(head.data, ExternalBuffer { offset: 48, length: 4 });
    assert_eq!(WriteRequest::<&[u8]>::from_bytes(&write[..48]), Err(Malformed("message ends early")));
    assert_eq!(message(&head).len(), WRITE_HEADER_SIZE);
}

#[test]
fn output_offset_matches_clients() {
    let output = message(&OutputResponse { output: &b"abc"[..] });
    assert_eq!(output[64..], [9, 0, 72, 0, 3, 0, 0, 0, b'a', b'b', b'c']);
    let error = message(&ErrorResponse::default());
    assert_eq!(error[64..], [9, 0, 0, 0, 0, 0, 0, 0, 0]);
    let ioctl =
        samples::messages().into_iter().find(|(name, _)| name.starts_with("ioctl::IoctlRes")).unwrap().1;
    let ioctl = IoctlResponse::from_bytes(&ioctl).unwrap();
    let bytes = message(&ioctl);
    assert_eq!((u32_at(&bytes, 64 + 24), u32_at(&bytes, 64 + 28)), (112, 0));
    assert_eq!((u32_at(&bytes, 64 + 32), u32_at(&bytes, 64 + 36)), (112, 24));
}

#[test]
fn break_kind_follows_structure_size() {
    for (name, bytes) in samples::messages() {
        match name {
            "oplock::OplockBreak" => assert!(matches!(BreakAck::from_bytes(&bytes), Ok(BreakAck::Oplock(_)))),
            "oplock::LeaseBreakAck" => {
                assert!(matches!(BreakAck::from_bytes(&bytes), Ok(BreakAck::Lease(_))))
            }
            "oplock::LeaseBreakNotification" => assert!(BreakAck::from_bytes(&bytes).is_err()),
            _ => (),
        }
    }
}

#[test]
fn compound_splits_into_messages() {
    let bytes = samples::compound();
    let parts: Vec<_> = messages(&bytes).map(Result::unwrap).collect();
    assert_eq!(parts.len(), 2);
    assert_eq!(CreateRequest::decode(&mut parts[0].body()), Ok(samples::create_request()));
    assert_eq!(CloseRequest::decode(&mut parts[1].body()).unwrap().file_id, FileId::PREVIOUS);
    assert!(parts[1].header.flags.contains(Flags::RELATED_OPERATIONS));
    assert_eq!(usize::try_from(parts[0].header.next_command).unwrap(), parts[0].bytes.len());
}

#[test]
fn next_command_out_of_bounds_is_malformed() {
    let bytes = samples::compound();
    let with = |next: u32| {
        let mut bytes = bytes.clone();
        bytes[NEXT_COMMAND_OFFSET..NEXT_COMMAND_OFFSET + 4].copy_from_slice(&next.to_le_bytes());
        let found: Vec<_> = messages(&bytes).collect();
        (found.len(), found.last().unwrap().map(|_| ()))
    };
    assert_eq!(with(56), (1, Err(Malformed("NextCommand points into a message"))));
    assert_eq!(with(68), (1, Err(Malformed("NextCommand points into a message"))));
    assert_eq!(with(0xffff_fff8), (1, Err(Malformed("NextCommand points past the end"))));
    assert_eq!(with(64), (2, Err(Malformed("not an SMB2 header"))));
    assert_eq!(bytes.len() % 8, 0);
    assert_eq!(with(u32::try_from(bytes.len()).unwrap()), (2, Err(Malformed("message ends early"))));
}

/// Compressed by Samba 4.22 (`samba.compression.plain_compress`): near and far matches, every length encoding, both
/// nibbles.
#[test]
fn samba_compressed_data_decompresses() {
    #[rustfmt::skip]
    let packed = [
        0x1b, 0x00, 0x84, 0x12, 0x61, 0x62, 0x63, 0x17, 0x00, 0xd8, 0x2d, 0x2d, 0xb7, 0x00, 0x00,
        0x07, 0x00, 0xff, 0x0e, 0x78, 0x79, 0x7a, 0x51, 0x07, 0x00, 0xff, 0x1e, 0x01, 0x74, 0x68,
        0x65, 0x20, 0x65, 0x6e, 0x64, 0x20, 0x6f, 0x66, 0x20, 0x69, 0x74, 0x77, 0x09, 0xff, 0xff,
        0x1f, 0x01, 0x0f, 0x09, 0xff, 0xff, 0xff, 0x51, 0x07, 0x00, 0x0f, 0x92,
    ];
    let near = b"abcabcabcabcabcabcabc--".repeat(2);
    let parts = [&near[..], &[0; 40], b"xyz", &[b'Q'; 290], b"the end of it", &[b'Q'; 66_000]];
    let plain = parts.concat();
    let mut out = Vec::new();
    assert_eq!(lz77::decompress(&packed, &mut out, plain.len()), Ok(()));
    assert!(out == plain);
}
