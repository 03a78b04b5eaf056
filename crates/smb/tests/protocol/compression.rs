//! Compressed messages: negotiation, requests, and attacks.

use crate::rig::{ALICE, Client, OTHER, Offer, Opening, Rig, SHARE, message, name, read, wait_until, write};
use crate::settings::{DEFAULT, set};
use crate::share::{limit, limited};
use smb_wire::compression::Compression;
use smb_wire::create::{CreateDisposition, CreateOptions};
use smb_wire::dir::{DirectoryClass, OutputResponse, QueryDirectoryFlags, QueryDirectoryRequest};
use smb_wire::file::{ReadFlags, ReadRequest, ReadResponse};
use smb_wire::header::Command;
use smb_wire::negotiate::{
    CompressionAlgorithm, CompressionFlags, NegotiateContext, NegotiateResponse, SigningAlgorithm,
};
use smb_wire::session::Empty;
use smb_wire::tree::{ShareFlags, TreeConnectResponse};
use smb_wire::types::AccessMask;
use smb_wire::{FileId, NtStatus, Utf16};
use vfs::ShareSettings;

const COMPRESSED: ShareSettings = ShareSettings { compression: true, ..DEFAULT };
const CHAINED: CompressionFlags = CompressionFlags::CHAINED;
const WHOLE: CompressionFlags = CompressionFlags(0);
/// The longest valid message.
const MOST: usize = smb::limits::MESSAGE_BYTES_MAX;

/// A rig in which [`SHARE`] is compressed and [`OTHER`] is not.
fn compressed() -> Rig {
    let rig = Rig::new();
    set(&rig, COMPRESSED);
    rig
}

fn offer(flags: CompressionFlags) -> Offer {
    let algorithms =
        vec![CompressionAlgorithm::LZ4, CompressionAlgorithm::PATTERN_V1, CompressionAlgorithm::LZ77];
    Offer { compression: Some((flags, algorithms)), ..Offer::default() }
}

/// Alice, with compression negotiated.
fn alice(rig: &Rig) -> Client {
    rig.alice_with(&offer(CHAINED))
}

/// Compressible data.
fn text(len: usize) -> Vec<u8> {
    (0_u32..).flat_map(|i| format!("line {} of a text\n", i % 5000).into_bytes()).take(len).collect()
}

/// Incompressible data.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_le_bytes()[7]
    };
    (0..len).map(|_| next()).collect()
}

/// The compression context of the NEGOTIATE response.
fn told(rig: &Rig, offer: &Offer) -> Option<(CompressionFlags, Vec<CompressionAlgorithm>)> {
    let reply = rig.connect().negotiate(offer);
    let answer: NegotiateResponse<'_> = reply.body();
    answer.contexts.into_iter().find_map(|context| match context {
        NegotiateContext::Compression { flags, algorithms } => Some((flags, algorithms)),
        _ => None,
    })
}

/// A chained message of `size` bytes with these payloads.
fn chained(size: u32, payloads: &[(u16, &[u8])]) -> Vec<u8> {
    let mut out = [&b"\xfcSMB"[..], &size.to_le_bytes()].concat();
    for (i, (algorithm, data)) in payloads.iter().enumerate() {
        let length = u32::try_from(data.len()).unwrap();
        out.extend([algorithm.to_le_bytes(), u16::from(i == 0).to_le_bytes()].concat());
        out.extend(length.to_le_bytes());
        out.extend_from_slice(data);
    }
    out
}

/// A pattern payload.
fn pattern(byte: u8, count: u32) -> Vec<u8> {
    [&[byte, 0, 0, 0][..], &count.to_le_bytes()].concat()
}

#[test]
fn compression_is_negotiated_if_a_share_compresses() {
    let rig = Rig::new();
    assert_eq!(told(&rig, &offer(CHAINED)), None);
    set(&rig, COMPRESSED);
    assert_eq!(told(&rig, &Offer::default()), None);
    let (lz77, pattern) = (CompressionAlgorithm::LZ77, CompressionAlgorithm::PATTERN_V1);
    assert_eq!(told(&rig, &offer(CHAINED)), Some((CHAINED, vec![lz77, pattern])));
    assert_eq!(told(&rig, &offer(WHOLE)), Some((WHOLE, vec![lz77])));
    let unknown = Offer { compression: Some((CHAINED, vec![CompressionAlgorithm::LZ4])), ..Offer::default() };
    assert_eq!(told(&rig, &unknown), Some((WHOLE, vec![CompressionAlgorithm::NONE])));
    let none = Offer { compression: Some((CHAINED, Vec::new())), ..Offer::default() };
    rig.connect().call(Command::NEGOTIATE, &none.request()).assert_refused(NtStatus::INVALID_PARAMETER);
    let flags = |client: &mut Client, share| {
        client
            .tree_connect(share)
            .body::<TreeConnectResponse>()
            .share_flags
            .contains(ShareFlags::COMPRESS_DATA)
    };
    let (mut client, mut other) = (alice(&rig), rig.alice());
    assert!(flags(&mut client, SHARE) && !flags(&mut client, OTHER) && !flags(&mut other, SHARE));
}

#[test]
fn long_replies_of_compressed_share_are_compressed() {
    let rig = compressed();
    let (short, long) = (text(4000), text(60_000));
    for (name, data) in
        [("short", &short), ("long", &long), ("noise", &noise(60_000)), ("zeros", &vec![0; 60_000])]
    {
        rig.alice().put(name, data);
    }
    for (flags, signing, seals) in [
        (CHAINED, SigningAlgorithm::AES_GMAC, false),
        (CHAINED, SigningAlgorithm::AES_CMAC, false),
        (CHAINED, SigningAlgorithm::AES_CMAC, true),
        (WHOLE, SigningAlgorithm::AES_GMAC, false),
        (WHOLE, SigningAlgorithm::AES_GMAC, true),
    ] {
        let mut client = rig.alice_with(&Offer { signing: vec![signing], ..offer(flags) });
        client.seals = seals;
        let mut get = |name: &str, expected: &[u8]| {
            let file = client.open(name, Opening::by(CreateDisposition::OPEN));
            assert_eq!(client.data(file, 0, 1 << 16), expected, "{name} {flags:?} {seals}");
            client.came
        };
        let (is_compressed, len) = get("long", &long);
        assert!(is_compressed && len < long.len() / 3, "{len}");
        let (is_compressed, len) = get("zeros", &[0; 60_000]);
        assert!(is_compressed && len < 130, "{len}");
        assert_eq!(get("short", &short), (false, 4080));
        assert_eq!(get("noise", &noise(60_000)), (false, 60_080));
    }
    // Without negotiation no reply is compressed.
    let mut client = rig.alice();
    assert_eq!((client.get("long"), client.came.0), (long, false));
}

#[test]
fn longest_reply_and_listings_are_compressed() {
    let rig = compressed();
    let mut client = alice(&rig);
    let data = [vec![0; 1000], text((1 << 20) - 1000)].concat();
    let file = client.open("file", Opening::default());
    client.write(file, 0, &data);
    assert_eq!(client.data(file, 0, 1 << 20), data);
    assert!(client.came.0 && client.came.1 < data.len() / 3);
    (0..60).for_each(|i| client.put(&format!("a file with a long name {i}"), b""));
    let (access, options) = (AccessMask::LIST_DIRECTORY, CreateOptions::DIRECTORY_FILE);
    let root = client.open("", Opening { access, options, ..Opening::by(CreateDisposition::OPEN) });
    let wire = name("*");
    let request = QueryDirectoryRequest {
        file_information_class: DirectoryClass::ID_BOTH_DIRECTORY,
        flags: QueryDirectoryFlags(0),
        file_index: 0,
        file_id: root,
        file_name: Utf16::new(&wire).unwrap(),
        output_buffer_length: 1 << 16,
    };
    let reply = client.call(Command::QUERY_DIRECTORY, &request);
    let listed = reply.body::<OutputResponse<&[u8]>>().output.len();
    assert!(client.came.0 && client.came.1 < listed / 2, "{listed} as {:?}", client.came);
}

#[test]
fn read_flag_requests_compression_in_any_share() {
    let rig = compressed();
    let data = text(60_000);
    let asks = |file| ReadRequest { flags: ReadFlags::REQUEST_COMPRESSED, ..read(file, 0, 60_000) };
    for agrees in [true, false] {
        let mut client = if agrees { alice(&rig) } else { rig.alice() };
        client.mount(OTHER);
        client.put("file", &data);
        let file = client.open("file", Opening::default());
        assert_eq!((client.data(file, 0, 60_000), client.came.0), (data.clone(), false));
        let reply = client.call(Command::READ, &asks(file));
        assert_eq!((reply.body::<ReadResponse<&[u8]>>().data, client.came.0), (&data[..], agrees));
    }
}

#[test]
fn compressed_request_equals_plain_one() {
    let rig = compressed();
    // The last is long even when compressed.
    let bodies = [text(5000), vec![0; 1 << 20], text(1 << 20), [noise(700_000), text(300_000)].concat()];
    for (flags, seals) in [(CHAINED, false), (CHAINED, true), (WHOLE, false), (WHOLE, true)] {
        let mut client = rig.alice_with(&offer(flags));
        (client.seals, client.compresses) = (seals, true);
        let file = client.open("file", Opening::by(CreateDisposition::OVERWRITE_IF));
        for data in &bodies {
            assert_eq!(client.write(file, 0, data).status(), NtStatus::SUCCESS);
            let length = u32::try_from(data.len()).unwrap();
            assert!(client.data(file, 0, length) == *data, "{flags:?} {seals} {length}");
        }
        let writes =
            (0..3).map(|i| client.request(Command::WRITE, &write(file, i * 2000, &text(2000)))).collect();
        assert!(client.chain(writes).iter().all(|reply| reply.status() == NtStatus::SUCCESS));
        assert_eq!(client.data(file, 2000, 2000), text(2000));
    }
}

#[test]
fn signature_covers_uncompressed_bytes() {
    let rig = compressed();
    let mut client = alice(&rig);
    let file = client.open("file", Opening::default());
    let mut request = client.signed(Command::WRITE, &write(file, 0, &text(5000)));
    *request.last_mut().unwrap() ^= 1;
    let packed = client.packed(&request).unwrap();
    client.send_packed(packed);
    assert_eq!(client.reply().status(), NtStatus::ACCESS_DENIED);
    client.read(file, 0, 1).assert_refused(NtStatus::END_OF_FILE);
    // A message id is used once, compressed or not.
    let request = client.signed(Command::ECHO, &Empty);
    client.send(&request);
    client.reply();
    client.send(&chained(u32::try_from(request.len()).unwrap(), &[(0, &request)]));
    client.assert_ended();
}

#[test]
fn unnegotiated_compression_ends_the_connection() {
    let rig = compressed();
    let whole = Compression { is_chained: false, lz77: true, pattern: false };
    let chain = Compression { is_chained: true, ..whole };
    // (offered algorithms, sent algorithm, whether it is accepted)
    for (offered, sent, is_taken) in [
        (None, chain, false),
        (None, whole, false),
        (Some(offer(WHOLE)), chain, false),
        (Some(offer(WHOLE)), whole, true),
        (Some(offer(CHAINED)), whole, true),
    ] {
        for seals in [false, true] {
            let mut client = rig.alice_with(&offered.clone().unwrap_or_default());
            client.seals = seals;
            let file = client.open("file", Opening::default());
            let request = client.signed(Command::WRITE, &write(file, 0, &text(5000)));
            client.send_packed(sent.compress(&request, 64).unwrap());
            match is_taken {
                true => assert_eq!(client.reply().status(), NtStatus::SUCCESS),
                false => client.assert_ended(),
            }
        }
    }
}

/// The server decompresses nothing for unauthenticated clients.
#[test]
fn compression_before_login_ends_the_connection() {
    let rig = compressed();
    let mut client = rig.connect();
    let negotiate = message(&client.header(Command::NEGOTIATE, 1), &offer(CHAINED).request());
    let as_it_is = |message: &[u8]| chained(u32::try_from(message.len()).unwrap(), &[(0, message)]);
    client.send(&as_it_is(&negotiate));
    client.assert_ended();
    let mut client = rig.connect();
    client.negotiate(&offer(CHAINED));
    let setup = client.setup_request(b"token", 0, smb_wire::session::SessionSetupFlags::empty());
    client.send(&as_it_is(&setup));
    client.assert_ended();
    // The message is valid in every other respect.
    let mut client = alice(&rig);
    let echo = client.signed(Command::ECHO, &Empty);
    client.send(&as_it_is(&echo));
    assert_eq!(client.reply().status(), NtStatus::SUCCESS);
    client.forget_session();
    client.log_on(ALICE);
}

#[test]
fn contradictory_sizes_end_the_connection() {
    let rig = compressed();
    let most = u32::try_from(MOST).unwrap();
    type Change = fn(&[u8], u32) -> Vec<u8>;
    let changes: [(&str, Change); 14] = [
        ("a byte is missing", |echo, size| chained(size + 1, &[(0, echo)])),
        ("a byte too much", |echo, size| chained(size - 1, &[(0, echo)])),
        ("two payloads are more than the message", |echo, size| {
            chained(size, &[(0, echo), (4, &pattern(0, 1))])
        }),
        ("the nested payload repeats the first", |echo, size| chained(size, &[(0, &echo[..60]), (0, echo)])),
        ("nothing at all", |_, _| chained(0, &[(0, &[])])),
        ("only zeros", |_, _| chained(1000, &[(4, &pattern(0, 1000))])),
        ("no payload but 4 GiB", |_, _| chained(u32::MAX, &[(4, &pattern(0, u32::MAX))])),
        ("repetitions that overflow", |echo, size| chained(size, &[(0, echo), (4, &pattern(0, u32::MAX))])),
        ("in LZ77, less than is said", |echo, size| {
            let data =
                [&(size + 1).to_le_bytes()[..], &[0; 4], &echo[..32], &[0; 4], &echo[32..64], &[0xff; 4]];
            chained(size + 1, &[(2, &data.concat())])
        }),
        ("in LZ77, without a size", |_, size| chained(size, &[(2, &[0; 3])])),
        ("a payload in no algorithm", |echo, size| chained(size, &[(7, echo)])),
        ("a payload that ends behind the message", |echo, size| {
            let mut out = chained(size, &[(0, echo)]);
            out[12] += 1;
            out
        }),
        ("an offset behind the message", |echo, size| {
            [&b"\xfcSMB"[..], &size.to_le_bytes(), &[2, 0, 0, 0, 0xff, 0xff, 0, 0], echo].concat()
        }),
        ("a header cut short", |_, size| [&b"\xfcSMB"[..], &size.to_le_bytes(), &[0, 0, 1, 0]].concat()),
    ];
    let mut sent: Vec<(&str, Client, Vec<u8>)> = Vec::new();
    for seals in [false, true] {
        for (what, change) in changes {
            let mut client = alice(&rig);
            client.seals = seals;
            let echo = client.signed(Command::ECHO, &Empty);
            let changed = change(&echo, u32::try_from(echo.len()).unwrap());
            sent.push((what, client, changed));
        }
        let mut client = alice(&rig);
        client.seals = seals;
        let echo = client.signed(Command::ECHO, &Empty);
        let rest = most + 1 - u32::try_from(echo.len()).unwrap();
        let bomb = chained(most + 1, &[(0, &echo), (4, &pattern(0, rest))]);
        sent.push(("one byte more than a message may have", client, bomb));
    }
    for (what, mut client, bytes) in sent {
        client.send_packed(bytes);
        assert!(client.receive().is_none(), "{what}: the server goes on");
    }
    assert_eq!(alice(&rig).call(Command::ECHO, &Empty).status(), NtStatus::SUCCESS);
}

#[test]
fn nested_transforms_end_the_connection() {
    let rig = compressed();
    for seals in [false, true] {
        for is_sealed_within in [false, true] {
            let mut client = alice(&rig);
            client.seals = seals;
            let inner = match is_sealed_within {
                true => client.sealed(Command::ECHO, &Empty),
                false => {
                    let echo = client.signed(Command::ECHO, &Empty);
                    chained(u32::try_from(echo.len()).unwrap(), &[(0, &echo)])
                }
            };
            client.send_packed(chained(u32::try_from(inner.len()).unwrap(), &[(0, &inner)]));
            client.assert_ended();
        }
    }
}

/// Empty payloads as padding, and a message of the maximum length.
#[test]
fn odd_but_valid_payloads_are_accepted() {
    let rig = compressed();
    let mut client = alice(&rig);
    let echo = client.signed(Command::ECHO, &Empty);
    let size = u32::try_from(echo.len()).unwrap();
    let empty: (u16, &[u8]) = (0, &[]);
    client.send(&chained(
        size,
        &[empty, (0, &echo[..10]), empty, (4, &pattern(9, 0)), (0, &echo[10..]), empty],
    ));
    assert_eq!(client.reply().status(), NtStatus::SUCCESS);
    client.seals = true;
    let most = u32::try_from(MOST).unwrap();
    let echo = client.request(Command::ECHO, &Empty);
    client.send_packed(chained(most, &[(0, &echo), (4, &pattern(0, most - size))]));
    assert_eq!(client.reply().status(), NtStatus::SUCCESS);
}

/// A long compressed message arrives in parts and is checked as a whole.
#[test]
fn long_compressed_message_is_valid_as_a_whole() {
    let rig = compressed();
    for seals in [false, true] {
        for is_changed in [false, true] {
            let mut client = alice(&rig);
            client.seals = seals;
            let file = client.open("file", Opening::default());
            let header = client.header(Command::WRITE, 16);
            let data = [noise(600_000), text(400_000)].concat();
            let mut request = message(&header, &write(file, 0, &data));
            if !seals {
                client.sign(&mut request);
            }
            let mut packed = client.packed(&request).unwrap();
            assert!(packed.len() > 600_000);
            if is_changed {
                packed[4] ^= 1;
            }
            client.send_packed(packed);
            match is_changed {
                true => client.assert_ended(),
                false => assert_eq!(client.reply().status(), NtStatus::SUCCESS),
            }
        }
    }
}

#[test]
fn bytes_after_long_compressed_message_end_the_connection() {
    let rig = compressed();
    let mut client = alice(&rig);
    let echo = client.signed(Command::ECHO, &Empty);
    let packed = chained(u32::try_from(echo.len()).unwrap(), &[(0, &echo)]);
    client.send(&[&packed[..], &[0; 300_000]].concat());
    client.assert_ended();
}

#[test]
fn credits_and_limits_count_uncompressed_bytes() {
    let (rig, gate, _pacer) = limited();
    set(&rig, COMPRESSED);
    let mut client = alice(&rig);
    client.compresses = true;
    let file = client.open("file", Opening::default());
    let zeros = vec![0; 128 << 10];
    client
        .call_charged(Command::WRITE, &write(file, 0, &zeros), 1)
        .assert_refused(NtStatus::INVALID_PARAMETER);
    assert_eq!(client.call_charged(Command::WRITE, &write(file, 0, &zeros), 2).status(), NtStatus::SUCCESS);
    let write_60k = |client: &mut Client, file: FileId| {
        let header = client.header(Command::WRITE, 1);
        client.send_protected(message(&header, &write(file, 0, &zeros[..60_000])));
    };
    let read_60k = |client: &mut Client, file: FileId| {
        let header = client.header(Command::READ, 1);
        client.send_protected(message(&header, &read(file, 0, 60_000)));
    };
    for send in [&write_60k as &dyn Fn(&mut Client, FileId), &read_60k] {
        for seals in [false, true] {
            client.seals = seals;
            limit(&gate, 6000);
            // The limiter lets the first request pass; compressed, it is only a few hundred bytes.
            send(&mut client, file);
            assert_eq!(client.reply().status(), NtStatus::SUCCESS);
            let waiting = gate.throttled().1;
            send(&mut client, file);
            wait_until(|| gate.throttled().1 > waiting);
            limit(&gate, 0);
            assert_eq!(client.reply().status(), NtStatus::SUCCESS);
        }
    }
}
