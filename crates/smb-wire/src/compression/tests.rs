use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

const ALL: Compression = Compression { is_chained: true, lz77: true, pattern: true };
const UNCHAINED: Compression = Compression { is_chained: false, lz77: true, pattern: false };
const PATTERN: Compression = Compression { lz77: false, ..ALL };
const MOST: usize = 1 << 20;

/// Text that repeats, but not byte by byte.
fn text(len: usize) -> Vec<u8> {
    b"all work and no play makes jack a dull boy. ".iter().copied().cycle().take(len).collect()
}

fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_le_bytes()[7]
    };
    (0..len).map(|_| next()).collect()
}

fn chained(size: u32, payloads: &[(u16, &[u8])]) -> Vec<u8> {
    let mut out = [&b"\xfcSMB"[..], &size.to_le_bytes()].concat();
    for (i, (algorithm, data)) in payloads.iter().enumerate() {
        out.extend(algorithm.to_le_bytes());
        out.extend(u16::from(i == 0).to_le_bytes());
        out.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
        out.extend_from_slice(data);
    }
    out
}

#[test]
fn shared_algorithms_are_negotiated() {
    use CompressionAlgorithm as A;
    let (chained, plain) = (CompressionFlags::CHAINED, CompressionFlags::empty());
    let offered = [A::LZ77_HUFFMAN, A::PATTERN_V1, A::LZ77, A::LZ4];
    assert_eq!(Compression::choose(chained, &offered), Some(ALL));
    assert_eq!(ALL.algorithms(), [A::LZ77, A::PATTERN_V1]);
    assert_eq!(ALL.flags(), chained);
    assert_eq!(Compression::choose(plain, &offered), Some(UNCHAINED));
    assert_eq!((UNCHAINED.algorithms(), UNCHAINED.flags()), (vec![A::LZ77], plain));
    assert_eq!(Compression::choose(chained, &[A::PATTERN_V1]), Some(PATTERN));
    for (flags, offered) in [(plain, A::PATTERN_V1), (chained, A::LZNT1), (plain, A::NONE)] {
        assert_eq!(Compression::choose(flags, &[offered]), None);
    }
}

#[test]
fn chained_message_matches_figures() {
    let plain = [&b"head"[..], &[0; 100], &[7; 64]].concat();
    let packed = PATTERN.compress(&plain, 4).unwrap();
    let expected = [
        &[0xfc, b'S', b'M', b'B', 168, 0, 0, 0][..],
        &[0, 0, 1, 0, 4, 0, 0, 0, b'h', b'e', b'a', b'd'],
        &[4, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0],
        &[4, 0, 0, 0, 8, 0, 0, 0, 7, 0, 0, 0, 64, 0, 0, 0],
    ];
    assert_eq!(packed, expected.concat());
    assert_eq!(ALL.decompress(&packed, MOST), Ok(plain));
    // A single payload in LZ77, with its original size.
    let abc = [0xff, 0xff, 0xff, 0x1f, 0x61, 0x62, 0x63, 0x17, 0x00, 0x0f, 0xff, 0x26, 0x01];
    let message = chained(300, &[(2, &[&[0x2c, 1, 0, 0][..], &abc].concat())]);
    assert_eq!(ALL.decompress(&message, MOST), Ok(b"abc".repeat(100)));
    // Unchained: a header, uncompressed bytes, and LZ77.
    let header = [&b"\xfcSMB"[..], &[0x2c, 1, 0, 0], &[2, 0, 0, 0, 2, 0, 0, 0]].concat();
    let message = [&header[..], b"xy", &abc].concat();
    let plain = [b"xy".to_vec(), b"abc".repeat(100)].concat();
    assert_eq!(UNCHAINED.decompress(&message, MOST).as_ref(), Ok(&plain));
    assert_eq!(UNCHAINED.compress(&plain, 2), Some(message));
}

#[test]
fn compressed_messages_are_shorter_and_round_trip() {
    let zeros = |len| vec![0; len];
    let bodies = [
        (text(5000), 3),
        ([zeros(4096), text(3000), zeros(64 << 10)].concat(), 3),
        ([noise(1000), text(5000)].concat(), 3),
        (zeros(1 << 20), 3),
        // A pattern alone, between random bytes.
        ([noise(4096), zeros(200)].concat(), 2),
    ];
    for (i, (body, ways)) in bodies.into_iter().enumerate() {
        let plain = [&b"\xfeSMB"[..], &[9; 76], &body].concat();
        let mut packs = 0;
        for agreed in [ALL, UNCHAINED, PATTERN] {
            let Some(packed) = agreed.compress(&plain, 80) else { continue };
            assert!(packed.len() < plain.len(), "{i} {agreed:?}");
            assert_eq!(agreed.decompress(&packed, 2 * MOST).as_ref(), Ok(&plain), "{i} {agreed:?}");
            packs += 1;
        }
        assert!(packs >= ways - 1, "{i}: {packs}");
    }
}

#[test]
fn incompressible_message_is_not_compressed() {
    for plain in [noise(64 << 10), noise(100), text(90), Vec::new(), vec![1]] {
        for agreed in [ALL, UNCHAINED, PATTERN] {
            assert_eq!(agreed.compress(&plain, 80), None, "{} {agreed:?}", plain.len());
        }
    }
}

#[test]
fn payload_beyond_declared_size_is_refused() {
    let pattern = |count: u32| [&[1, 0xaa, 0xbb, 0xcc][..], &count.to_le_bytes()].concat();
    let lz77 =
        |size: u32| [&size.to_le_bytes()[..], &[0xff, 0xff, 0xff, 0x7f, b'x', 7, 0, 0xf, 0xfe]].concat();
    let length = 1 + 3 + 7 + 15 + 254;
    let good = chained(10 + 20 + length, &[(0, &[5; 10]), (4, &pattern(20)), (2, &lz77(length)), (0, &[])]);
    let plain = ALL.decompress(&good, MOST).unwrap();
    assert_eq!(plain, [vec![5; 10], vec![1; 20], vec![b'x'; length as usize]].concat());
    // Stale flags that Windows leaves in a later payload are ignored.
    let mut odd = good.clone();
    odd[8 + 8 + 10 + 2] = 0xff;
    assert_eq!(ALL.decompress(&odd, MOST), Ok(plain.clone()));
    assert_eq!(ALL.decompress(&good, plain.len()), Ok(plain.clone()));
    assert!(ALL.decompress(&good, plain.len() - 1).is_err(), "the message is too long");
    for end in 0..good.len() - 8 {
        assert!(ALL.decompress(&good[..end], MOST).is_err(), "{end}");
    }
    let bad = [
        chained(100, &[(0, &[5; 101])]),
        chained(100, &[(0, &[5; 99])]),
        chained(100, &[(4, &pattern(101))]),
        chained(100, &[(4, &pattern(u32::MAX))]),
        chained(100, &[(0, &[5; 60]), (0, &[5; 60])]),
        chained(100, &[(0, &[5; 60]), (4, &pattern(41))]),
        chained(100, &[(0, &[5; 60]), (4, &pattern(39))]),
        chained(100, &[(4, &pattern(100)[..7])]),
        chained(100, &[(4, &[&pattern(100)[..], &[0]].concat())]),
        chained(length, &[(2, &lz77(length + 1))]),
        chained(length, &[(2, &lz77(length - 1))]),
        chained(length + 1, &[(2, &lz77(length))]),
        chained(length, &[(2, &[0; 3])]),
        chained(100, &[(1, &[5; 100])]),
        chained(100, &[(3, &[5; 100])]),
        chained(100, &[(5, &[5; 100])]),
        chained(100, &[(0xffff, &[5; 100])]),
        chained(u32::MAX, &[(0, &[5; 100])]),
        [&good[..], &[0; 3]].concat(),
    ];
    for (i, bad) in bad.iter().enumerate() {
        assert!(ALL.decompress(bad, MOST).is_err(), "{i}");
    }
}

#[test]
fn unnegotiated_algorithm_is_not_used() {
    for is_chained in [false, true] {
        let nothing = Compression { is_chained, lz77: false, pattern: false };
        assert_eq!(nothing.compress(&text(4000), 64), None);
    }
}

#[test]
fn unnegotiated_algorithm_is_refused() {
    let plain = [text(2000), vec![0; 1000]].concat();
    let (chain, whole) = (ALL.compress(&plain, 80).unwrap(), UNCHAINED.compress(&plain, 80).unwrap());
    assert_eq!(ALL.decompress(&whole, MOST), Ok(plain));
    assert!(UNCHAINED.decompress(&chain, MOST).is_err());
    assert!(PATTERN.decompress(&chain, MOST).is_err() && PATTERN.decompress(&whole, MOST).is_err());
    assert!(Compression { pattern: false, ..ALL }.decompress(&chain, MOST).is_err());
    for (at, value) in [(0, 0xfe), (8, 3), (10, 2), (15, 0x80), (12, 0xff)] {
        let mut other = whole.clone();
        other[at] = value;
        assert!(ALL.decompress(&other, MOST).is_err(), "{at}");
    }
}

proptest! {
    #[test]
    fn any_message_round_trips(
        front in 0_usize..300,
        words in vec((any::<u8>(), 1_usize..80), 0..200),
        back in 0_usize..300,
        head in 0_usize..200,
    ) {
        let middle = words.into_iter().flat_map(|(byte, times)| vec![byte % 8; times]);
        let plain: Vec<u8> = vec![0; front].into_iter().chain(middle).chain(vec![1; back]).collect();
        for agreed in [ALL, UNCHAINED, PATTERN] {
            if let Some(packed) = agreed.compress(&plain, head) {
                prop_assert!(packed.len() < plain.len());
                prop_assert_eq!(agreed.decompress(&packed, plain.len()), Ok(plain.clone()));
            }
        }
    }
}
