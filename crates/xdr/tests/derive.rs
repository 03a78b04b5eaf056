//! The derive and the codec: literal bytes, and malformed input.

use xdr::{Decode, DecodeMax, Encode, Inline, List, ListRef, Malformed, Reader, Writer, Xdr};

#[derive(Clone, Copy, Debug, PartialEq, Xdr)]
#[repr(u32)]
enum Kind {
    Small = 1,
    #[xdr(name = "BIG")]
    Large = 0x100,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Record<'a> {
    kind: Kind,
    #[xdr(max = 5)]
    name: &'a [u8],
    sizes: (),
    #[xdr(max = 2)]
    numbers: Vec<i32>,
    flag: bool,
    next: Option<u64>,
    raw: [u8; 3],
}

#[derive(Clone, Debug, PartialEq, Xdr)]
enum Choice<'a> {
    #[xdr(tag = Kind::Large as u32)]
    Pair(u32, #[xdr(max = 4)] &'a [u8]),
    #[xdr(tag = 7)]
    Nothing,
    #[xdr(default)]
    Other(u32),
}

#[derive(Clone, Debug, PartialEq, Xdr)]
enum Strict {
    #[xdr(tag = 1)]
    One(i64),
}

#[derive(Debug, PartialEq, Xdr)]
struct Wrapped(u32);

#[derive(Xdr)]
#[xdr(encode)]
struct OnlyOut(bool);

fn read<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, Malformed> {
    let mut r = Reader::new(bytes);
    let value = T::decode(&mut r)?;
    assert_eq!(r.remaining(), 0);
    assert_eq!(r.position(), bytes.len());
    Ok(value)
}

/// Asserts that `value` encodes to `bytes`, that `bytes` decode to `value`, and that no shorter message does.
fn both_ways<'a, T: Encode + Decode<'a> + PartialEq + std::fmt::Debug>(value: &T, bytes: &'a [u8]) {
    assert_eq!(value.to_bytes(), bytes);
    assert_eq!(&read::<T>(bytes).unwrap(), value);
    for length in 0..bytes.len() {
        assert!(T::decode(&mut Reader::new(&bytes[..length])).is_err(), "{value:?} from {length} bytes");
    }
}

#[test]
fn a_struct_is_its_fields_in_order() {
    let record = Record {
        kind: Kind::Large,
        name: b"hello",
        sizes: (),
        numbers: vec![-1, 2],
        flag: true,
        next: Some(0x0102_0304_0506_0708),
        raw: [9, 8, 7],
    };
    #[rustfmt::skip]
    both_ways(&record, &[
        0, 0, 1, 0,
        0, 0, 0, 5, b'h', b'e', b'l', b'l', b'o', 0, 0, 0,
        0, 0, 0, 2, 255, 255, 255, 255, 0, 0, 0, 2,
        0, 0, 0, 1,
        0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8,
        9, 8, 7, 0,
    ]);
    both_ways(&Wrapped(0xdead_beef), &[0xde, 0xad, 0xbe, 0xef]);
    assert_eq!(OnlyOut(true).to_bytes(), [0, 0, 0, 1]);
}

#[test]
fn an_enumeration_refuses_unknown_values_and_has_a_table_of_names() {
    both_ways(&Kind::Small, &[0, 0, 0, 1]);
    assert_eq!(read::<Kind>(&[0, 0, 0, 2]), Err(Malformed("unknown value of Kind")));
    assert_eq!(Kind::NAMED, [("Small", 1), ("BIG", 0x100)]);
}

#[test]
fn a_union_decodes_the_arm_of_its_tag() {
    both_ways(&Choice::Pair(5, b"abc"), &[0, 0, 1, 0, 0, 0, 0, 5, 0, 0, 0, 3, b'a', b'b', b'c', 0]);
    both_ways(&Choice::Nothing, &[0, 0, 0, 7]);
    both_ways(&Choice::Other(8), &[0, 0, 0, 8]);
    both_ways(&Strict::One(-2), &[0, 0, 0, 1, 255, 255, 255, 255, 255, 255, 255, 254]);
    assert_eq!(read::<Strict>(&[0, 0, 0, 2]), Err(Malformed("unknown arm of Strict")));
    assert_eq!(
        read::<Choice<'_>>(&[0, 0, 1, 0, 0, 0, 0, 5, 0, 0, 0, 5]),
        Err(Malformed("opaque above its bound"))
    );
}

#[test]
fn owned_and_borrowed_lists_encode_to_the_same_bytes() {
    let bytes = [0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 0, 0];
    both_ways(&List(vec![5u32, 6]), &bytes);
    let list: ListRef<'_, u32> = read(&bytes).unwrap();
    assert_eq!(list.iter().collect::<Vec<_>>(), [5, 6]);
    assert_eq!(list.to_bytes(), bytes);
    both_ways(&list, &bytes);
    both_ways(&Inline::<u32, 3>::new(&[5, 6]).unwrap(), &[0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 6]);
    assert_eq!(Inline::<u32, 1>::new(&[5, 6]), None);
}

#[test]
fn booleans_are_strict_and_padding_is_ignored() {
    assert_eq!(read::<bool>(&[0, 0, 0, 2]), Err(Malformed("boolean is neither 0 nor 1")));
    assert_eq!(read::<Option<u32>>(&[1, 0, 0, 0]), Err(Malformed("boolean is neither 0 nor 1")));
    assert_eq!(read::<[u8; 2]>(&[1, 2, 3, 4]), Ok([1, 2]));
    assert_eq!(read::<[u8; 2]>(&[1, 2, 0]), Err(Malformed("message ends early")));
}

#[test]
fn false_lengths_and_counts_allocate_nothing() {
    let huge = [0xff; 8];
    let mut r = Reader::new(&huge);
    assert_eq!(r.opaque(u32::MAX), Err(Malformed("message ends early")));
    // A reservation for this count would be 16 GiB and abort the test.
    assert_eq!(
        Vec::<u32>::decode_max(&mut Reader::new(&huge), u32::MAX),
        Err(Malformed("message ends early"))
    );
    assert_eq!(Vec::<u32>::decode_max(&mut Reader::new(&huge), 9), Err(Malformed("array above its bound")));
    assert_eq!(read::<Inline<u32, 16>>(&huge), Err(Malformed("array above its bound")));
    assert!(read::<ListRef<'_, u32>>(&[0, 0, 0, 1, 0, 0, 0, 1]).is_err());
}

#[test]
fn a_writer_patches_pads_and_truncates_without_allocating() {
    let mut out = Vec::with_capacity(32);
    let start = out.as_ptr();
    let mut w = Writer::new(&mut out);
    w.u32(0);
    w.opaque(b"12345");
    let mark = w.len();
    w.u64(7);
    w.truncate(mark);
    w.patch_u32(0, 0x0102_0304);
    w.buffer().extend_from_slice(b"x");
    w.pad(1);
    assert_eq!(out, [1, 2, 3, 4, 0, 0, 0, 5, b'1', b'2', b'3', b'4', b'5', 0, 0, 0, b'x', 0, 0, 0]);
    assert_eq!(out.as_ptr(), start);
}
