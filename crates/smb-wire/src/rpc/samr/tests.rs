//! Arguments as encoded by another implementation (impacket), and results laid out by hand after the specification.

use super::*;
use crate::NtStatus;
use crate::crypto::tests::hex;
use crate::rpc::lsarpc::SidNameUse;
use crate::rpc::tests::{cut, sid, text};
use crate::security::{Ace, AceFlags, Acl, SecurityDescriptor};
use crate::types::AccessMask;

const CONNECT: &str = "
    a59400000000000000000002
    ";
const CONNECT_2: &str = "
    456d00000700000000000000070000005c005c0068006f00730074000000bfbf31000000
    ";
const CONNECT_4: &str = "
    bba8000004000000000000000400000061006200630000000200000030000000
    ";
const CONNECT_5: &str = "
    7286000004000000000000000400000061006200630000003000000001000000010000000300000000000000
    ";
const LOOKUP_DOMAIN: &str = "
    000102030405060708090a0b0c0d0e0f101112130a000a006825000005000000000000000500000047007200f600df006500
    ";
const ENUMERATE_DOMAINS: &str = "
    000102030405060708090a0b0c0d0e0f1011121301000000ffff0000
    ";
const OPEN_DOMAIN: &str = "
    000102030405060708090a0b0c0d0e0f101112130003000004000000010400000000000515000000010000000200000003000000
    ";
const QUERY_DOMAIN: &str = "
    000102030405060708090a0b0c0d0e0f101112130b00
    ";
const ENUMERATE_USERS: &str = "
    000102030405060708090a0b0c0d0e0f10111213b80b000010000000ffff0000
    ";
const ENUMERATE_ALIASES: &str = "
    000102030405060708090a0b0c0d0e0f1011121307000000ffffffff
    ";
const GET_ALIAS_MEMBERSHIP: &str = "
    000102030405060708090a0b0c0d0e0f1011121302000000f590000002000000e9480000bede0000050000000105000000000005
    15000000010000000200000003000000b80b000001000000010100000000000100000000
    ";
const LOOKUP_NAMES: &str = "
    000102030405060708090a0b0c0d0e0f1011121302000000e803000000000000020000000a000a003255000002000200fb980000
    05000000000000000500000061006c00690063006500abab0100000000000000010000008b73
    ";
const LOOKUP_IDS: &str = "
    000102030405060708090a0b0c0d0e0f1011121302000000e80300000000000002000000b80b000001020000
    ";
const OPEN_USER: &str = "
    000102030405060708090a0b0c0d0e0f101112131b030000b80b0000
    ";
const QUERY_USER: &str = "
    000102030405060708090a0b0c0d0e0f101112131500
    ";
const QUERY_DISPLAY: &str = "
    000102030405060708090a0b0c0d0e0f101112130100bfbf0500000064000000ffff0000
    ";
const RID_TO_SID: &str = "
    000102030405060708090a0b0c0d0e0f1011121301020000
    ";
const USERS: &str = "
    ba0b000000000200020000000400020002000000b80b00000a000a0008000200ba0b0000020002000c0002000500000000000000
    0500000061006c0069006300650000000100000000000000010000008b7300000200000005010000
    ";
const DOMAIN_2: &str = "
    0000020002000000000000000000008000000000040002000a000a0008000200000000000c000200010000000000000001000000
    03000000010000000a0000000100000002000000000000000000000000000000050000000000000005000000460049004c004500
    5300000000000000000000000000000000000000
    ";
const DOMAIN_11: &str = "
    000002000b000000000000000000008000000000040002000a000a0008000200000000000c000200010000000000000001000000
    03000000010000000a000000010000000200000000cc1dcffbffffff00cc1dcffbffffff00000000000000000000000000000000
    050000000000000005000000460049004c0045005300000000000000000000000000000000000000
    ";
const DOMAIN_12: &str = "
    000002000c00000000cc1dcffbffffff00cc1dcffbffffff0000000000000000
    ";
const DOMAIN_1: &str = "
    000002000100000000000000000000000000000000000080000000000000000000000000
    ";
const GROUP_1: &str = "
    00000200010000000800080004000200070000000300000000000000080002000400000000000000040000004e006f006e006500
    00000000000000000000000000000000
    ";
const ALIAS_1: &str = "
    00000200010000000a000a0004000200020000000000000008000200050000000000000005000000730074006100660066000000
    00000000000000000000000000000000
    ";
const USER_4: &str = "
    0000020004000000a800000004000200ec0400000000000015000000ffffffffffffffffffffffffffffffffffffffffff000000
    00000000
    ";
const USER_21: &str = "
    0000020015000000000000000000000000000000000000000000000000000000ffffffffffffff7f0000000000000000ffffffff
    ffffff7f06000600040002000000000008000200000000000c000200000000001000020000000000140002000000000018000200
    000000001c0002000000000020000200000000002400020000000000280002000000000000000000000000000000000000000000
    2c0002000000000000000000b80b00000102000010020000ff27fa00a80000003000020000000000000000000000000003000000
    00000000030000005a006f00eb000000000000000000000000000000000000000000000000000000000000000000000000000000
    00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
    0000000000000000000000000000000000000000000000000000000000000000ec0400000000000015000000ffffffffffffffff
    ffffffffffffffffffffffffff00000000000000
    ";
const USER_3: &str = "
    000002000300000006000600040002000000000008000200b80b000001020000000000000c000200000000001000020000000000
    140002000000000018000200000000001c0002000000000000000000000000000000000000000000000000000000000000000000
    ffffffffffffff7fa80000002000020000000000100200000300000000000000030000005a006f00eb0000000000000000000000
    00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
    000000000000000000000000ec0400000000000015000000ffffffffffffffffffffffffffffffffffffffffff00000000000000
    ";
const USER_5: &str = "
    000002000500000006000600040002000000000008000200b80b000001020000000000000c000200000000001000020000000000
    140002000000000018000200000000001c000200000000002000020000000000000000000000000000000000a800000024000200
    000000000000000000000000ffffffffffffff7f100200000300000000000000030000005a006f00eb0000000000000000000000
    00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
    000000000000000000000000000000000000000000000000ec0400000000000015000000ffffffffffffffffffffffffffffffff
    ffffffffff00000000000000
    ";
const DISPLAY_1: &str = "
    c8000000520000000100000001000000000002000100000006000000b80b0000100200000a000a00040002000000000008000200
    000000000c00020005000000000000000500000061006c0069006300650000000000000000000000000000000000000000000000
    0000000005010000
    ";
const DISPLAY_3: &str = "
    50000000500000000300000001000000000002000100000001000000010200000700000008000800040002000000000008000200
    0400000000000000040000004e006f006e00650000000000000000000000000000000000
    ";
const DISPLAY_4: &str = "
    4e0000004e000000040000000100000000000200010000000100000003000300040002000300000000000000030000005a6f3f00
    00000000
    ";
const NAMES_2: &str = "
    020000000000020002000000b80b000000000000020000000400020002000000010000000800000007010000
    ";
const IDS_2: &str = "
    0200000000000200020000000a000a0004000200000000000800020005000000000000000500000061006c006900630065000000
    000000000000000000000000020000000c00020002000000010000000800000007010000
    ";
const MEMBERS_OF_GROUP: &str = "
    0000020002000000040002000800020002000000b80b0000ba0b000002000000070000000700000000000000
    ";
const MEMBERS_OF_ALIAS: &str = "
    020000000000020002000000040002000800020005000000010500000000000515000000010000000200000003000000b80b0000
    05000000010500000000000515000000010000000200000003000000ba0b000000000000
    ";
const GROUPS_OF_USER: &str = "
    00000200010000000400020001000000010200000700000000000000
    ";
const MEMBERSHIP: &str = "
    010000000000020001000000e903000000000000
    ";
const SECURITY: &str = "
    00000200400000000400020040000000010004803000000000000000000000001400000002001c00010000000000140031000200
    01010000000000050b0000000102000000000005200000002002000000000000
    ";
const SID: &str = "
    00000200050000000105000000000005150000000100000002000000030000000102000000000000
    ";
const CONNECTED_5: &str = "
    01000000010000000300000000000000000102030405060708090a0b0c0d0e0f1011121300000000
    ";

const HANDLE: Handle = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19];

/// Asserts that a call decodes to `expected`, and is refused when truncated anywhere.
fn assert_decodes(opnum: u16, stub: &str, expected: &Call<'_>) {
    let stub = hex(stub);
    assert_eq!(Call::decode(opnum, &stub).as_ref(), Ok(expected), "operation {opnum}");
    cut(&stub, stub.len(), |stub| Call::decode(opnum, stub).map(drop));
}

#[test]
fn open_calls_decode() {
    let handle = HANDLE;
    assert_decodes(0, CONNECT, &Call::Connect { access: 0x0200_0000 });
    assert_decodes(57, CONNECT_2, &Call::Connect { access: 0x31 });
    assert_decodes(62, CONNECT_4, &Call::Connect { access: 0x30 });
    assert_decodes(64, CONNECT_5, &Call::Connect5 { access: 0x30 });
    let mut other = hex(CONNECT_5);
    let tag = other.len() - 12;
    other[tag] = 2;
    assert_eq!(Call::decode(64, &other), Err(Fault::NDR), "another version than its tag says");
    let above = sid(&[21, 1, 2, 3]);
    assert_decodes(7, OPEN_DOMAIN, &Call::OpenDomain { handle, access: 0x300, sid: above });
    for (opnum, kind) in [(34, ObjectKind::User), (27, ObjectKind::Alias), (19, ObjectKind::Group)] {
        assert_decodes(opnum, OPEN_USER, &Call::Open { handle, kind, access: 0x31b, rid: 3000 });
    }
    assert_decodes(65, RID_TO_SID, &Call::RidToSid { handle, rid: 513 });
    let of_handle = |opnum| Call::decode(opnum, &HANDLE);
    assert_eq!(of_handle(1), Ok(Call::CloseHandle { handle }));
    assert_eq!(of_handle(25), Ok(Call::GetMembersInGroup { handle }));
    assert_eq!(of_handle(33), Ok(Call::GetMembersInAlias { handle }));
    assert_eq!(of_handle(39), Ok(Call::GetGroupsForUser { handle }));
    assert_eq!(of_handle(44), Ok(Call::GetUserDomainPasswordInformation { handle }));
    cut(&HANDLE, 20, |stub| Call::decode(1, stub).map(drop));
}

#[test]
fn enumerate_and_query_calls_decode() {
    let handle = HANDLE;
    assert_decodes(6, ENUMERATE_DOMAINS, &Call::EnumerateDomains { handle, context: 1 });
    let mut expected = Call::Enumerate {
        handle,
        kind: ObjectKind::User,
        context: 3000,
        control: UserAccountControl::NORMAL_ACCOUNT,
        preferred_maximum_length: 0xffff,
    };
    assert_decodes(13, ENUMERATE_USERS, &expected);
    for (opnum, of) in [(15, ObjectKind::Alias), (11, ObjectKind::Group)] {
        if let Call::Enumerate { kind, context, control, preferred_maximum_length, .. } = &mut expected {
            (*kind, *context, *control) = (of, 7, UserAccountControl::empty());
            *preferred_maximum_length = u32::MAX;
        }
        assert_decodes(opnum, ENUMERATE_ALIASES, &expected);
    }
    let class = DisplayInformation::USER;
    let expected = Call::QueryDisplayInformation {
        handle,
        class,
        index: 5,
        entry_count: 100,
        preferred_maximum_length: 0xffff,
    };
    for opnum in [40, 48, 51] {
        assert_decodes(opnum, QUERY_DISPLAY, &expected);
    }
    let mut other = hex(QUERY_DISPLAY);
    for class in [0, 6, 0xff] {
        other[20] = class;
        assert_eq!(Call::decode(51, &other), Err(Fault::NDR), "class {class} is unknown");
    }
    assert_decodes(46, QUERY_DOMAIN, &Call::QueryInformationDomain { handle, class: 11 });
    let kind = ObjectKind::User;
    assert_decodes(47, QUERY_USER, &Call::QueryInformation { handle, kind, class: 21 });
    let kind = ObjectKind::Alias;
    assert_decodes(28, QUERY_USER, &Call::QueryInformation { handle, kind, class: 21 });
    assert_eq!(Call::decode(56, &[]), Ok(Call::GetDomainPasswordInformation));
}

#[test]
fn lookup_calls_decode() {
    let handle = HANDLE;
    let stub = hex(LOOKUP_DOMAIN);
    let Ok(Call::LookupDomain { name, .. }) = Call::decode(5, &stub) else { panic!("a domain is asked for") };
    assert_eq!(text(name), "Größe");
    cut(&stub, stub.len(), |stub| Call::decode(5, stub).map(drop));
    let stub = hex(LOOKUP_NAMES);
    let Ok(Call::LookupNames { names, .. }) = Call::decode(17, &stub) else { panic!("names are asked for") };
    assert_eq!(names.into_iter().map(text).collect::<Vec<_>>(), ["alice", "王"]);
    cut(&stub, stub.len(), |stub| Call::decode(17, stub).map(drop));
    assert_decodes(18, LOOKUP_IDS, &Call::LookupIds { handle, rids: vec![3000, 513] });
    let sids = vec![sid(&[21, 1, 2, 3, 3000]), Sid::new(1, &[0]).unwrap()];
    assert_decodes(16, GET_ALIAS_MEMBERSHIP, &Call::GetAliasMembership { handle, sids });
}

/// Lists must have the declared number of entries, within the limit; missing entries cost no memory.
#[test]
fn lookup_count_is_limited() {
    let with = |numbers: [usize; 4], there: usize| {
        let mut stub = HANDLE.to_vec();
        numbers.iter().for_each(|number| stub.extend(u32::try_from(*number).unwrap().to_le_bytes()));
        stub.extend(vec![0; 8 * there]);
        stub
    };
    let both = |numbers, there| [17, 18].map(|opnum| Call::decode(opnum, &with(numbers, there)).map(drop));
    let max = LOOKUPS_MAX;
    assert_eq!(both([max, max, 0, max], max), [Ok(()), Ok(())]);
    let huge = usize::try_from(u32::MAX).unwrap();
    for (numbers, why) in [
        ([max + 1, max + 1, 0, max + 1], "more than there can be"),
        ([2, 1000, 0, 1], "another count"),
        ([2, 1, 0, 2], "more than the array has"),
        ([2, 1000, 1, 2], "not from the beginning"),
        ([huge, huge, 0, huge], "more than there is"),
    ] {
        assert_eq!(both(numbers, max + 1), [Err(Fault::NDR), Err(Fault::NDR)], "{why}");
    }
    let sids = |numbers: [usize; 3], there: usize| {
        let mut stub = HANDLE.to_vec();
        numbers.iter().for_each(|number| stub.extend(u32::try_from(*number).unwrap().to_le_bytes()));
        stub.extend(std::iter::repeat_n([1, 0, 0, 0], there).flatten());
        stub.extend(std::iter::repeat_n([0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 5], there).flatten());
        Call::decode(16, &stub).map(drop)
    };
    let max = SIDS_MAX;
    assert_eq!(sids([max, 1, max], max), Ok(()));
    assert_eq!(sids([0, 0, 0], 0), Ok(()), "no SID");
    assert_eq!(sids([max + 1, 1, max + 1], max + 1), Err(Fault::NDR));
    assert_eq!(sids([2, 1, 1], 2), Err(Fault::NDR));
    assert_eq!(sids([1, 0, 1], 1), Err(Fault::NDR), "a null list of one");
    let mut null = hex(GET_ALIAS_MEMBERSHIP);
    null[32..36].fill(0);
    assert_eq!(Call::decode(16, &null), Err(Fault::NDR), "a null SID");
}

/// Every modifying operation decodes to the form of its results; other numbers are unknown operations.
#[test]
fn modifying_calls_are_refused() {
    let denied = NtStatus::ACCESS_DENIED.0.to_le_bytes();
    let answers = |opnum, stub: &[u8]| match Call::decode(opnum, stub) {
        Ok(Call::Change(results)) => access_denied_results(results),
        other => panic!("operation {opnum}: {other:?}"),
    };
    for opnum in [2, 4, 9, 21, 22, 24, 26, 29, 31, 32, 37, 38, 45, 52, 53, 54, 55, 58, 66, 73] {
        assert_eq!(answers(opnum, &[]), denied);
    }
    for opnum in [23, 30, 35] {
        assert_eq!(answers(opnum, &HANDLE), [&HANDLE[..], &denied].concat());
        assert_eq!(Call::decode(opnum, &HANDLE[..19]), Err(Fault::NDR));
    }
    for opnum in [10, 12, 14] {
        assert_eq!(answers(opnum, &[]), [&[0; 24][..], &denied].concat());
    }
    assert_eq!(answers(50, &[]), [&[0; 28][..], &denied].concat());
    for opnum in [41, 42, 43, 49, 59, 60, 61, 63, 67, 68, 74, 75, u16::MAX] {
        assert_eq!(Call::decode(opnum, &HANDLE), Err(Fault::OP_RNG_ERROR), "operation {opnum}");
    }
}

#[test]
fn handle_and_sid_results_match() {
    let status = |status: NtStatus| [[0; 20].as_slice(), &status.0.to_le_bytes()].concat();
    assert_eq!(handle_results(Ok(HANDLE)), [&HANDLE[..], &[0; 4]].concat());
    assert_eq!(handle_results(Err(NtStatus::NO_SUCH_USER)), status(NtStatus::NO_SUCH_USER));
    assert_eq!(close_results(), status(NtStatus::SUCCESS));
    assert_eq!(connect_5_results(Ok(HANDLE)), hex(CONNECTED_5));
    assert_eq!(sid_results(Ok(sid(&[21, 1, 2, 3, 513]))), hex(SID));
    assert_eq!(sid_results(Err(NtStatus::NO_SUCH_DOMAIN)), [0, 0, 0, 0, 0xdf, 0, 0, 0xc0]);
    assert_eq!(password_information_results(), [0; 12]);
    let (administrators, mask) = (Some(sid(&[32, 544])), AccessMask(0x2_0031));
    let entry = Ace::allow(AceFlags::empty(), mask, sid(&[11]));
    let dacl = Acl::new(vec![entry]);
    let descriptor = SecurityDescriptor { dacl, owner: administrators, ..SecurityDescriptor::default() };
    assert_eq!(query_security_object_results(&descriptor), hex(SECURITY));
}

#[test]
fn list_results_match() {
    let entries = [Entry { rid: 3000, name: "alice" }, Entry { rid: 3002, name: "王" }];
    assert_eq!(enumerate_results(3002, &entries, true), hex(USERS));
    let display = |class, total_available, index, entry: Entry<'static>, has_more| {
        let display = Display { total_available, index, entries: vec![entry], has_more };
        query_display_information_results(class, &display)
    };
    assert_eq!(display(DisplayInformation::USER, 200, 5, entries[0], true), hex(DISPLAY_1));
    let group = Entry { rid: 513, name: "None" };
    assert_eq!(display(DisplayInformation::GROUP, 80, 0, group, false), hex(DISPLAY_3));
    let user = Entry { rid: 3000, name: "Zoë" };
    assert_eq!(display(DisplayInformation::OEM_USER, 78, 0, user, false), hex(DISPLAY_4));
    let user = SidNameUse::USER;
    assert_eq!(lookup_names_results(&[Some((3000, user)), None]), hex(NAMES_2));
    assert_eq!(lookup_ids_results(&[Some(("alice", user)), None]), hex(IDS_2));
    let status = |results: Vec<u8>| results.last_chunk().map(|status| u32::from_le_bytes(*status));
    assert_eq!(status(lookup_names_results(&[None])), Some(NtStatus::NONE_MAPPED.0));
    assert_eq!(status(lookup_names_results(&[])), Some(0));
    assert_eq!(get_members_in_group_results(&[3000, 3002]), hex(MEMBERS_OF_GROUP));
    let members = [sid(&[21, 1, 2, 3, 3000]), sid(&[21, 1, 2, 3, 3002])];
    assert_eq!(get_members_in_alias_results(&members), hex(MEMBERS_OF_ALIAS));
    assert_eq!(get_groups_for_user_results(&[513]), hex(GROUPS_OF_USER));
    assert_eq!(get_alias_membership_results(&[1001]), hex(MEMBERSHIP));
}

#[test]
fn information_results_match() {
    let told = query_information_results;
    let domain = Domain { name: "FILES", user_count: 10, group_count: 1, alias_count: 2 };
    for (class, expected) in [(1, DOMAIN_1), (2, DOMAIN_2), (11, DOMAIN_11), (12, DOMAIN_12)] {
        assert_eq!(told(class, domain.information(class)), hex(expected), "class {class}");
    }
    let group = Group { name: "None", member_count: 3 };
    assert_eq!(told(1, group.information(1)), hex(GROUP_1));
    let alias = Alias { name: "staff", member_count: 2 };
    assert_eq!(told(1, alias.information(1)), hex(ALIAS_1));
    let user = User { name: "Zoë", rid: 3000 };
    for (class, expected) in [(3, USER_3), (4, USER_4), (5, USER_5), (21, USER_21)] {
        assert_eq!(told(class, user.information(class)), hex(expected), "class {class}");
    }
    assert_eq!(told(16, user.information(16)), [0, 0, 2, 0, 16, 0, 0, 0, 16, 2, 0, 0, 0, 0, 0, 0]);
    // Classes with password data do not exist.
    for class in [0, 15, 18, 19, 22, 23, 24, 25, 26, 30, 32, u16::MAX] {
        assert_eq!(told(class, user.information(class)), [0, 0, 0, 0, 3, 0, 0, 0xc0], "class {class}");
    }
    let invalid = Some(NtStatus::INVALID_INFO_CLASS);
    assert_eq!(domain.information(10).err(), invalid);
    assert_eq!((group.information(6).err(), alias.information(4).err()), (invalid, invalid));
    let classes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13];
    assert!(classes.iter().all(|class| domain.information(*class).is_ok()));
}
