//! The example of MS-DTYP §2.5.1.4, and malformed descriptors.

use super::*;

/// `O:BAG:BAD:P(A;CIOI;GRGX;;;BU)(A;CIOI;GA;;;BA)(A;CIOI;GA;;;SY)(A;CIOI;GA;;;CO)S:P(AU;FA;GR;;;WD)`.
const EXAMPLE: [u8; 176] = [
    0x01, 0x00, 0x14, 0xb0, 0x90, 0x00, 0x00, 0x00, 0xa0, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, //
    0x30, 0x00, 0x00, 0x00, 0x02, 0x00, 0x1c, 0x00, 0x01, 0x00, 0x00, 0x00, 0x02, 0x80, 0x14, 0x00, //
    0x00, 0x00, 0x00, 0x80, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, //
    0x02, 0x00, 0x60, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x03, 0x18, 0x00, 0x00, 0x00, 0x00, 0xa0, //
    0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x20, 0x00, 0x00, 0x00, 0x21, 0x02, 0x00, 0x00, //
    0x00, 0x03, 0x18, 0x00, 0x00, 0x00, 0x00, 0x10, 0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, //
    0x20, 0x00, 0x00, 0x00, 0x20, 0x02, 0x00, 0x00, 0x00, 0x03, 0x14, 0x00, 0x00, 0x00, 0x00, 0x10, //
    0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x12, 0x00, 0x00, 0x00, 0x00, 0x03, 0x14, 0x00, //
    0x00, 0x00, 0x00, 0x10, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00, //
    0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x20, 0x00, 0x00, 0x00, 0x20, 0x02, 0x00, 0x00, //
    0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x20, 0x00, 0x00, 0x00, 0x20, 0x02, 0x00, 0x00,
];

fn sid(authority: u64, numbers: &[u32]) -> Sid {
    Sid::new(authority, numbers).unwrap()
}

fn example() -> SecurityDescriptor {
    let inherited = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT;
    let administrators = sid(5, &[32, 544]);
    let all = |sid| Ace::allow(inherited, AccessMask::GENERIC_ALL, sid);
    let users = AccessMask::GENERIC_READ | AccessMask::GENERIC_EXECUTE;
    let audit = Ace {
        ace_type: AceType::SYSTEM_AUDIT,
        ..Ace::allow(AceFlags::FAILED_ACCESS, AccessMask::GENERIC_READ, sid(1, &[0]))
    };
    let dacl = vec![
        Ace::allow(inherited, users, sid(5, &[32, 545])),
        all(administrators),
        all(sid(5, &[18])),
        all(sid(3, &[0])),
    ];
    SecurityDescriptor {
        control: Control::SELF_RELATIVE
            | Control::SACL_PROTECTED
            | Control::DACL_PROTECTED
            | Control::SACL_PRESENT
            | Control::DACL_PRESENT,
        owner: Some(administrators),
        group: Some(administrators),
        sacl: Acl::new(vec![audit]),
        dacl: Acl::new(dacl),
    }
}

#[test]
fn descriptor_matches_specification_example() {
    assert_eq!(SecurityDescriptor::from_bytes(&EXAMPLE), Ok(example()));
    assert_eq!(example().to_bytes(), EXAMPLE);
    let mut behind = vec![0xaa; 3];
    example().encode(&mut Writer::new(&mut behind));
    assert_eq!(behind[3..], EXAMPLE, "offsets count from the descriptor's start");
}

#[test]
fn null_list_differs_from_empty_list() {
    let null = SecurityDescriptor { control: Control::DACL_PRESENT, ..Default::default() };
    let bytes = null.to_bytes();
    assert_eq!(bytes, [1, 0, 4, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let decoded = SecurityDescriptor::from_bytes(&bytes).unwrap();
    assert!(decoded.dacl.is_none() && decoded.control.contains(Control::DACL_PRESENT));
    let empty = SecurityDescriptor { dacl: Some(Acl::default()), ..Default::default() };
    let decoded = SecurityDescriptor::from_bytes(&empty.to_bytes()).unwrap();
    assert_eq!(decoded.dacl.unwrap().aces(), []);
    assert!(decoded.control.contains(Control::DACL_PRESENT), "the present bit is set");
}

#[test]
fn list_without_present_bit_is_absent() {
    let mut bytes = EXAMPLE;
    bytes[2] = 0x10;
    let decoded = SecurityDescriptor::from_bytes(&bytes).unwrap();
    assert!(decoded.dacl.is_none() && decoded.sacl.is_some());
}

#[test]
fn parts_out_of_bounds_are_malformed() {
    let changes: [(&str, usize, u8); 9] = [
        ("another revision", 0, 2),
        ("not self-relative", 3, 0x30),
        ("the owner in the fixed part", 4, 19),
        ("the group past the end", 8, 0xb0),
        ("a SID of another revision", 0x90, 2),
        ("sixteen sub-authorities", 0x91, 16),
        ("a list of another revision", 0x30, 3),
        ("more entries than fit", 0x34, 5),
        ("an entry of odd size", 0x3a, 0x17),
    ];
    for (what, at, value) in changes {
        let mut bytes = EXAMPLE;
        bytes[at] = value;
        assert!(SecurityDescriptor::from_bytes(&bytes).is_err(), "{what}");
    }
    for length in 0..EXAMPLE.len() {
        assert!(SecurityDescriptor::from_bytes(&EXAMPLE[..length]).is_err(), "{length} bytes");
    }
    let mut bytes = EXAMPLE;
    bytes[0x32] = 7;
    assert!(SecurityDescriptor::from_bytes(&bytes).is_err(), "a list shorter than its header");
    bytes[0x32] = 0x60;
    bytes[0x3a] = 0;
    assert!(SecurityDescriptor::from_bytes(&bytes).is_err(), "an entry of no size");
}

#[test]
fn acl_beyond_64_kib_is_refused() {
    let entry = Ace::deny(AceFlags::INHERITED, AccessMask::DELETE, sid(5, &[7; 15]));
    let size = entry.size();
    assert_eq!(size, 76);
    let fitting = (Acl::SIZE_MAX - ACL_HEADER_SIZE) / size;
    let list = Acl::new(vec![entry.clone(); fitting]).unwrap();
    assert_eq!(list.to_bytes().len(), ACL_HEADER_SIZE + fitting * size);
    assert_eq!(Acl::from_bytes(&list.to_bytes()), Ok(list.clone()));
    assert_eq!(Acl::new(vec![entry; fitting + 1]), None);
    let descriptor = SecurityDescriptor {
        control: Control::empty(),
        owner: Some(sid(5, &[7; 15])),
        group: Some(sid(5, &[7; 15])),
        sacl: Some(list.clone()),
        dacl: Some(list),
    };
    assert!(descriptor.to_bytes().len() <= SecurityDescriptor::SIZE_MAX);
}

#[test]
fn unknown_entries_keep_their_bytes() {
    let mut bytes = [4, 0, 24, 0, 1, 0, 0, 0, 5, 0, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    let list = Acl::from_bytes(&bytes).unwrap();
    let [entry] = list.aces() else { panic!("one entry") };
    assert_eq!(entry.ace_type(), AceType::ACCESS_ALLOWED_OBJECT);
    assert_eq!(entry.body(), &AceBody::Other((1..=12).collect()));
    assert_eq!(list.to_bytes(), bytes);
    bytes[10] = 12;
    assert!(Acl::from_bytes(&bytes).is_err(), "an entry without room for a mask and a SID");
}

#[test]
fn sid_prints_as_text() {
    let domain = sid(5, &[21, 1, 2, u32::MAX]);
    assert_eq!(format!("{domain:?}"), "S-1-5-21-1-2-4294967295");
    assert_eq!(Sid::from_bytes(domain.as_bytes()), Ok(domain));
    assert_eq!((domain.authority(), domain.sub_authorities().len()), (5, 4));
    assert_eq!(sid((1 << 48) - 1, &[]).as_bytes(), [1, 0, 255, 255, 255, 255, 255, 255]);
    assert_eq!((Sid::new(1 << 48, &[]), Sid::new(5, &[0; 16])), (None, None));
}
