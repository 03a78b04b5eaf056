//! Encoding and decoding by `#[derive(Wire)]`.

use smb_wire::{Decode, Encode, ExternalBuffer, Malformed, Utf16, Wire, Writer};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 17, end = 1)]
struct Pairs<'a> {
    #[wire(pad = 1, offset = u8, gap = 1, length = u16)]
    first: &'a [u8],
    #[wire(length = u32, offset = u16)]
    second: Utf16<'a>,
    last: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 7)]
struct Late<B> {
    #[wire(offset = u8, length = u32)]
    data: B,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
struct Behind<'a> {
    #[wire(length = u8)]
    first: &'a [u8],
    middle: u8,
    #[wire(length = u8)]
    second: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[repr(u16)]
enum Closed {
    One = 1,
    Three = 3,
}

const PAIRS: Pairs<'_> = Pairs { first: &[0xa1, 0xa2, 0xa3], second: Utf16::EMPTY, last: 0x0b0a };

#[test]
fn buffers_follow_fixed_part_in_order() {
    let name = [0x41, 0, 0x42, 0];
    let value = Pairs { second: Utf16::new(&name).unwrap(), ..PAIRS };
    let bytes = [
        17, 0, 0, 16, 0, 3, 0, 4, 0, 0, 0, 20, 0, 0x0a, 0x0b, 0, // fixed part
        0xa1, 0xa2, 0xa3, 0, 0x41, 0, 0x42, 0, // buffers
    ];
    assert_eq!(value.to_bytes(), bytes);
    assert_eq!(Pairs::from_bytes(&bytes), Ok(value));
    // Buffers may lie further apart than the encoder places them.
    let mut apart = bytes.to_vec();
    apart.splice(16..16, [9, 9]);
    (apart[3], apart[11]) = (18, 22);
    assert_eq!(Pairs::from_bytes(&apart), Ok(value));
}

#[test]
fn offsets_count_from_message_start() {
    let mut out = vec![0xff; 5];
    let mut w = Writer::new(&mut out);
    w.zeros(64);
    PAIRS.encode(&mut w);
    assert_eq!(out[5 + 64 + 3], 80);
}

#[test]
fn overlapping_buffers_are_malformed() {
    let good = Pairs { second: Utf16::new(&[1, 0]).unwrap(), ..PAIRS }.to_bytes();
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        Pairs::from_bytes(&bytes).map(|_| ())
    };
    let overlaps = Err(Malformed("a buffer overlaps what precedes it"));
    let short = Err(Malformed("message ends early"));
    assert_eq!(with(3, 15), overlaps, "the fixed part");
    assert_eq!(with(3, 0), overlaps);
    assert_eq!(with(11, 18), overlaps, "the other buffer");
    assert_eq!(with(11, 21), short, "the end");
    assert_eq!(with(11, 255), short);
    assert_eq!(with(6, 255), short, "a length past the end");
    assert_eq!(with(7, 1), Err(Malformed("a text with an odd number of bytes")));
    assert_eq!(with(0, 16), Err(Malformed("StructureSize is not the structure's")));
}

#[test]
fn location_of_empty_buffer_is_ignored() {
    let mut bytes = PAIRS.to_bytes();
    (bytes[11], bytes[12]) = (0xff, 0xff);
    assert_eq!(Pairs::from_bytes(&bytes), Ok(PAIRS));
}

#[test]
fn odd_structure_size_adds_a_byte() {
    assert_eq!(Pairs { first: &[], ..PAIRS }.to_bytes().len(), 17);
    assert_eq!(Late { data: &[][..] }.to_bytes(), [7, 0, 7, 0, 0, 0, 0, 0]);
    assert_eq!(Late { data: &[5][..] }.to_bytes(), [7, 0, 7, 1, 0, 0, 0, 5]);
}

#[test]
fn external_buffer_has_no_bytes() {
    let head = Late { data: ExternalBuffer { offset: 0, length: 9 } };
    let bytes = head.to_bytes();
    assert_eq!(bytes[..7], [7, 0, 7, 9, 0, 0, 0]);
    assert_eq!(Late::from_bytes(&bytes), Ok(Late { data: ExternalBuffer { offset: 7, length: 9 } }));
    let within = Late::<ExternalBuffer>::from_bytes(&[7, 0, 6, 9, 0, 0, 0]);
    assert_eq!(within, Err(Malformed("a buffer overlaps what precedes it")));
}

#[test]
fn buffers_without_offsets_are_consecutive() {
    let value = Behind { first: &[1, 2], middle: 7, second: &[3] };
    assert_eq!(value.to_bytes(), [2, 7, 1, 1, 2, 3]);
    assert_eq!(Behind::from_bytes(&[2, 7, 1, 1, 2, 3]), Ok(value));
}

#[test]
fn closed_set_refuses_unknown_value() {
    assert_eq!(Closed::Three.to_bytes(), [3, 0]);
    assert_eq!(Closed::from_bytes(&[1, 0]), Ok(Closed::One));
    assert_eq!(Closed::from_bytes(&[2, 0]), Err(Malformed("unknown value of Closed")));
}
