//! Arguments as encoded by another implementation (impacket), and results as decoded by it.

use super::association::{Association, Call, REQUEST_MAX, UNREAD_MAX, WRITE_CALLS_MAX, WriteError};
use super::lsarpc::{
    self, CallVersion, Domain, NAMES_MAX, PolicyInformationClass, SIDS_MAX, SidNameUse, TranslatedName,
    TranslatedSid,
};
use super::srvsvc::{self, Server, ServerType, Share, ShareKind, ShareModifiers};
use super::wkssvc::{self, Workstation};
use super::{Fault, Syntax, Win32Error};
use crate::Utf16;
use crate::crypto::tests::hex;
use crate::security::Sid;
use crate::tree::ShareFlags;

const SHARE_ENUM: &str = "
    db8e00000700000000000000070000005c005c0068006f00730074000000abab0100000001000000a1f6000000000000bc3c0000
    00000000ffffffff00000000";
const SHARE_ENUM_502: &str = "
    00000000f6010000f6010000b2640000000000000f2e000000000000ffffffff78ac000007000000";
const SHARE_GET_INFO: &str = "
    296d00000200000000000000020000007800000005000000000000000500000064006100740061000000bfbf01000000";
const SERVER_GET_INFO: &str = "
    0000000065000000";
const WKSTA_GET_INFO: &str = "
    465f0000040000000000000004000000610062006300000064000000";
const QUERY_POLICY: &str = "
    000102030405060708090a0b0c0d0e0f101112130500";
const LOOKUP_SIDS: &str = "
    000102030405060708090a0b0c0d0e0f1011121302000000c338000002000000de520000ab7c0000020000000102000000000005
    200000002002000005000000010500000000000515000000010000000200000003000000e803000000000000000000000100bfbf
    00000000";
const LOOKUP_NAMES: &str = "
    000102030405060708090a0b0c0d0e0f1011121302000000020000000a000a00ab3d000010001000045900000500000000000000
    0500000061006c00690063006500abab080000000000000008000000450076006500720079006f006e0065000000000000000000
    0100bfbf00000000";
const BIND: &str = "
    05000b03100000004800000001000000b810b810000000000100000000000100c84f324b7016d30112785a47bf6ee18803000000
    045d888aeb1cc9119fe808002b10486002000000";
const SHARES_1: &str = "
    01000000010000000000020002000000040002000200000008000200000000000c00020010000200030000801400020005000000
    00000000050000006400610074006100000000000100000000000000010000000000000005000000000000000500000049005000
    43002400000000000b000000000000000b000000520065006d006f00740065002000490050004300000000000200000018000200
    0000000000000000";
const SHARE_501: &str = "
    f501000000000200040002000300008008000200300000000500000000000000050000004900500043002400000000000b000000
    000000000b000000520065006d006f007400650020004900500043000000000000000000";
const SERVER_101: &str = "
    6500000000000200f4010000040002000600000001000000021000000800020005000000000000000500000048004f0053005400
    00000000060000000000000006000000660069006c0065007300000000000000";
const WORKSTATION_100: &str = "
    6400000000000200f40100000400020008000200060000000100000005000000000000000500000048004f005300540000000000
    0a000000000000000a00000057004f0052004b00470052004f0055005000000000000000";
const POLICY_12: &str = "
    000002000c00000008000800040002000000000008000200000000000c0002000000000000000000000000000000000010000200
    04000000000000000400000048004f00530054000000000000000000000000000000000000000000000000000400000001040000
    000000051500000001000000020000000300000000000000";
const NAMES_2: &str = "
    000002000100000004000200010000000100000008000800080002000c00020004000000000000000400000048004f0053005400
    04000000010400000000000515000000010000000200000003000000020000001000020002000000010000000a000a0014000200
    0000000000000000080000000e000e0018000200ffffffff0000000005000000000000000500000061006c006900630065000000
    07000000000000000700000053002d0031002d0039002d00390000000100000007010000";
const SIDS_3: &str = "
    000002000100000004000200010000000100000008000800080002000c00020004000000000000000400000048004f0053005400
    04000000010400000000000515000000010000000200000003000000020000001000020002000000010000001400020000000000
    000000000800000000000000ffffffff0000000005000000010500000000000515000000010000000200000003000000e9030000
    0100000007010000";

pub(super) fn sid(numbers: &[u32]) -> Sid {
    Sid::new(5, numbers).unwrap()
}

pub(super) fn text(units: Utf16<'_>) -> String {
    String::from_utf8(units.to_wtf8()).unwrap()
}

/// Asserts that `decode` accepts the arguments, and refuses them truncated anywhere before `end`.
pub(super) fn cut<T: PartialEq + std::fmt::Debug>(
    stub: &[u8],
    end: usize,
    decode: impl Fn(&[u8]) -> Result<T, Fault>,
) {
    assert!(decode(stub).is_ok());
    for length in 0..end {
        assert_eq!(decode(&stub[..length]), Err(Fault::NDR), "{length} bytes");
    }
}

#[test]
fn share_calls_decode() {
    let stub = hex(SHARE_ENUM);
    let max = u32::MAX;
    assert_eq!(
        srvsvc::Call::decode(15, &stub),
        Ok(srvsvc::Call::ShareEnum { level: 1, preferred_maximum_length: max, resume_handle: None })
    );
    cut(&stub, stub.len(), |stub| srvsvc::Call::decode(36, stub).map(drop));
    assert_eq!(
        srvsvc::Call::decode(15, &hex(SHARE_ENUM_502)),
        Ok(srvsvc::Call::ShareEnum { level: 502, preferred_maximum_length: max, resume_handle: Some(7) })
    );
    let stub = hex(SHARE_GET_INFO);
    let Ok(srvsvc::Call::ShareGetInfo { net_name, level: 1 }) = srvsvc::Call::decode(16, &stub) else {
        panic!("a share is asked for");
    };
    assert_eq!(text(net_name), "data");
    cut(&stub, stub.len(), |stub| srvsvc::Call::decode(16, stub).map(drop));
    let expected = srvsvc::Call::ServerGetInfo { level: 101 };
    assert_eq!(srvsvc::Call::decode(21, &hex(SERVER_GET_INFO)), Ok(expected));
    assert_eq!(srvsvc::Call::decode(0, &[]), Err(Fault::OP_RNG_ERROR));
    let expected = wkssvc::Call::WkstaGetInfo { level: 100 };
    assert_eq!(wkssvc::Call::decode(0, &hex(WKSTA_GET_INFO)), Ok(expected));
    assert_eq!(wkssvc::Call::decode(1, &[]), Err(Fault::OP_RNG_ERROR));
}

#[test]
fn container_of_another_level_is_refused() {
    let with = |changes: &[(usize, u8)]| {
        let mut stub = hex(SHARE_ENUM);
        changes.iter().for_each(|(at, value)| stub[*at] = *value);
        srvsvc::Call::decode(15, &stub).map(drop)
    };
    assert_eq!(with(&[]), Ok(()));
    assert_eq!(with(&[(32, 2), (36, 2)]), Ok(()));
    assert_eq!(with(&[(36, 2)]), Err(Fault::NDR), "another tag");
    assert_eq!(with(&[(32, 3), (36, 3)]), Err(Fault::NDR), "no such level");
    assert_eq!(with(&[(44, 1)]), Err(Fault::NDR), "a container with an entry");
    assert_eq!(with(&[(52, 1)]), Err(Fault::NDR), "a container with room for an entry");
}

#[test]
fn sid_and_name_lookups_decode() {
    let handle: lsarpc::Handle = std::array::from_fn(|index| u8::try_from(index).unwrap());
    let class = PolicyInformationClass::ACCOUNT_DOMAIN;
    let expected = lsarpc::Call::QueryInformationPolicy { handle, class };
    assert_eq!(lsarpc::Call::decode(46, &hex(QUERY_POLICY)), Ok(expected));
    let sids = vec![sid(&[32, 544]), sid(&[21, 1, 2, 3, 1000])];
    let stub = hex(LOOKUP_SIDS);
    let expected = lsarpc::Call::LookupSids { handle, form: CallVersion::First, sids };
    assert_eq!(lsarpc::Call::decode(15, &stub), Ok(expected));
    cut(&stub, 88, |stub| lsarpc::Call::decode(15, stub).map(drop));
    let stub = hex(LOOKUP_NAMES);
    let Ok(lsarpc::Call::LookupNames { form: CallVersion::Third, names, .. }) =
        lsarpc::Call::decode(68, &stub)
    else {
        panic!("names are looked up");
    };
    assert_eq!(names.into_iter().map(text).collect::<Vec<_>>(), ["alice", "Everyone"]);
    cut(&stub, 96, |stub| lsarpc::Call::decode(68, stub).map(drop));
    assert_eq!(lsarpc::Call::decode(0, &handle), Ok(lsarpc::Call::Close { handle }));
    assert_eq!(lsarpc::Call::decode(44, &[]), Ok(lsarpc::Call::OpenPolicy));
}

#[test]
fn lookup_count_must_match_and_is_limited() {
    let of = |entries: u32, count: u32, there: usize| {
        let mut stub = vec![0; 20];
        [entries, 1, count].iter().for_each(|number| stub.extend_from_slice(&number.to_le_bytes()));
        stub.extend(std::iter::repeat_n([1, 0, 0, 0], there).flatten());
        stub.extend(std::iter::repeat_n([0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 5], there).flatten());
        lsarpc::Call::decode(57, &stub).map(drop)
    };
    let max = u32::try_from(SIDS_MAX).unwrap();
    assert_eq!(of(max, max, SIDS_MAX), Ok(()));
    assert_eq!(of(max + 1, max + 1, SIDS_MAX + 1), Err(Fault::NDR));
    assert_eq!(of(u32::MAX, u32::MAX, 1), Err(Fault::NDR));
    assert_eq!(of(2, 1, 1), Err(Fault::NDR));
    let names = |count: usize| {
        let number = u32::try_from(count).unwrap().to_le_bytes();
        let stub = [&[0; 20], &number[..], &number, &vec![0; 8 * count]].concat();
        lsarpc::Call::decode(14, &stub).map(drop)
    };
    assert_eq!((names(NAMES_MAX), names(NAMES_MAX + 1)), (Ok(()), Err(Fault::NDR)));
}

fn shares() -> [Share<'static>; 2] {
    let data = Share {
        net_name: "data",
        kind: ShareKind::DISKTREE,
        modifiers: ShareModifiers::empty(),
        remark: "",
        path: "C:\\data",
        max_uses: u32::MAX,
        current_uses: 2,
        flags: ShareFlags::NO_CACHING,
    };
    let ipc = Share {
        net_name: "IPC$",
        kind: ShareKind::IPC,
        modifiers: ShareModifiers::SPECIAL,
        remark: "Remote IPC",
        path: "",
        current_uses: 1,
        ..data
    };
    [data, ipc]
}

#[test]
fn share_results_match() {
    assert_eq!(srvsvc::share_enum_results(1, Some(0), &shares()), hex(SHARES_1));
    assert_eq!(srvsvc::share_get_info_results(501, Ok(&shares()[1])), hex(SHARE_501));
    let missing = srvsvc::share_get_info_results(1, Err(Win32Error::NERR_NET_NAME_NOT_FOUND));
    assert_eq!(missing, [1, 0, 0, 0, 0, 0, 0, 0, 6, 9, 0, 0]);
    let other = srvsvc::share_get_info_results(9, Ok(&shares()[0]));
    assert_eq!(other, [9, 0, 0, 0, 0, 0, 0, 0, 124, 0, 0, 0]);
    let other = srvsvc::share_enum_results(503, None, &shares());
    assert_eq!((other.len(), &other[8..]), (24, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 124, 0, 0, 0][..]));
}

#[test]
fn host_results_match() {
    let server = Server {
        name: "HOST",
        version_major: 6,
        version_minor: 1,
        server_type: ServerType::SERVER | ServerType::NT,
        comment: "files",
        users: 100,
    };
    assert_eq!(srvsvc::server_get_info_results(101, &server), hex(SERVER_101));
    assert_eq!(srvsvc::server_get_info_results(103, &server), [103, 0, 0, 0, 0, 0, 0, 0, 124, 0, 0, 0]);
    let workstation = Workstation {
        computer_name: "HOST",
        lan_group: "WORKGROUP",
        version_major: 6,
        version_minor: 1,
        logged_on_users: 0,
    };
    assert_eq!(wkssvc::wksta_get_info_results(100, &workstation), hex(WORKSTATION_100));
    let domain = Domain { name: "HOST", sid: sid(&[21, 1, 2, 3]) };
    let class = PolicyInformationClass::DNS_DOMAIN;
    assert_eq!(lsarpc::query_information_policy_results(class, &domain), hex(POLICY_12));
}

#[test]
fn name_and_sid_results_match() {
    let domain = Domain { name: "HOST", sid: sid(&[21, 1, 2, 3]) };
    let nobody = SidNameUse::UNKNOWN;
    let names = [
        TranslatedName { name_use: SidNameUse::USER, name: "alice".into(), domain: Some(0) },
        TranslatedName { name_use: nobody, name: "S-1-9-9".into(), domain: None },
    ];
    assert_eq!(lsarpc::lookup_sids_results(CallVersion::Second, &[domain], &names), hex(NAMES_2));
    let sids = [
        TranslatedSid { name_use: SidNameUse::USER, sid: Some(sid(&[21, 1, 2, 3, 1001])), domain: Some(0) },
        TranslatedSid { name_use: nobody, sid: None, domain: None },
    ];
    assert_eq!(lsarpc::lookup_names_results(CallVersion::Third, &[domain], &sids), hex(SIDS_3));
    let status = |sids: &[TranslatedSid]| {
        let results = lsarpc::lookup_names_results(CallVersion::First, &[domain], sids);
        results.last_chunk().map(|status| u32::from_le_bytes(*status))
    };
    assert_eq!(status(&sids), Some(0x107), "some are mapped");
    assert_eq!(status(&sids[..1]), Some(0));
    assert_eq!(status(&sids[1..]), Some(0xc000_0073), "none is");
}

const OFFERED: &[Syntax] = &[srvsvc::INTERFACE];

fn refuse(_: Call<'_>) -> Result<Vec<u8>, Fault> {
    panic!("unexpected call")
}

/// An association with the interface bound as context 0.
fn bound() -> Association {
    let mut association = Association::new("\\PIPE\\srvsvc", OFFERED);
    association.write(&hex(BIND), refuse).unwrap();
    association.read(usize::MAX).unwrap();
    association
}

fn request(flags: u8, call_id: u8, context: u8, opnum: u8, stub: &[u8]) -> Vec<u8> {
    let [low, high] = u16::try_from(24 + stub.len()).unwrap().to_le_bytes();
    let head =
        [5, 0, 0, flags, 0x10, 0, 0, 0, low, high, 0, 0, call_id, 0, 0, 0, 0, 0, 0, 0, context, 0, opnum, 0];
    [&head, stub].concat()
}

#[test]
fn bind_accepts_offered_interface() {
    let mut association = Association::new("\\PIPE\\srvsvc", OFFERED);
    association.write(&hex(BIND), refuse).unwrap();
    let reply = association.read(usize::MAX).unwrap();
    let expected = hex(
        "05000c03100000004400000001000000b810b810010000000d005c504950455c7372767376630000010000000000000004
         5d888aeb1cc9119fe808002b10486002000000",
    );
    assert_eq!((reply.bytes, reply.has_more), (expected, false));
    assert_eq!(association.read(usize::MAX), None);
}

#[test]
fn bind_rejects_other_interfaces() {
    for (at, reason) in [(32, 1), (52, 2)] {
        let mut bind = hex(BIND);
        bind[at] ^= 1;
        let mut association = Association::new("\\PIPE\\srvsvc", OFFERED);
        association.write(&bind, refuse).unwrap();
        let reply = association.read(usize::MAX).unwrap().bytes;
        assert_eq!(reply[reply.len() - 24..][..4], [2, 0, reason, 0]);
        association.write(&request(3, 2, 0, 15, &[]), refuse).unwrap();
        let reply = association.read(usize::MAX).unwrap().bytes;
        assert_eq!((reply[2], &reply[24..28]), (3, &[3, 0, 1, 0x1c][..]), "a fault: no such interface");
    }
    let mut association = Association::new("\\PIPE\\srvsvc", OFFERED);
    let mut bind = hex(BIND);
    bind[10] = 8;
    association.write(&bind, refuse).unwrap();
    assert_eq!(association.read(usize::MAX).unwrap().bytes[2], 13, "no authentication below the session's");
}

#[test]
fn bound_interfaces_are_limited() {
    let mut association = bound();
    let mut alter = hex(BIND);
    alter[2] = 14;
    for id in 0..20 {
        alter[28] = id;
        association.write(&alter, refuse).unwrap();
        let reply = association.read(usize::MAX).unwrap().bytes;
        assert_eq!((reply[2], reply[24]), (15, 0), "no address: it is known");
        assert_eq!(reply[reply.len() - 24] == 0, id < 16, "interface {id}");
    }
}

#[test]
fn fragmented_call_is_reassembled() {
    let fragments =
        [request(1, 7, 0, 15, b"one "), request(0, 7, 0, 15, b"two "), request(2, 7, 0, 15, b"three")]
            .concat();
    for cut in 0..=fragments.len() {
        let mut association = bound();
        let mut calls = 0;
        for part in [&fragments[..cut], &fragments[cut..]] {
            let answer = |call: Call<'_>| {
                calls += 1;
                let expected = Call { interface: srvsvc::INTERFACE, opnum: 15, stub: b"one two three" };
                assert_eq!(call, expected);
                Ok(vec![1, 2, 3, 4])
            };
            association.write(part, answer).unwrap();
        }
        assert_eq!(calls, 1);
        let reply = association.read(usize::MAX).unwrap().bytes;
        assert_eq!(reply[..16], [5, 0, 2, 3, 0x10, 0, 0, 0, 28, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(reply[16..], [4, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
    }
}

#[test]
fn long_results_are_fragmented() {
    let mut association = bound();
    let results: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    association.write(&request(3, 7, 0, 15, &[]), |_| Ok(results.clone())).unwrap();
    let (mut found, mut flags) = (Vec::new(), Vec::new());
    while let Some(part) = association.read(1024) {
        let mut fragment = part.bytes;
        let mut has_more = part.has_more;
        while has_more {
            assert_eq!(fragment.len() % 1024, 0);
            let part = association.read(1024).unwrap();
            fragment.extend_from_slice(&part.bytes);
            has_more = part.has_more;
        }
        assert!(fragment.len() <= 0x10b8, "as long as the client takes them");
        flags.push(fragment[3]);
        found.extend_from_slice(&fragment[24..]);
    }
    assert!(found == results);
    assert_eq!(flags, [1, 0, 2]);
    association.write(&request(3, 8, 0, 15, &[]), |_| Ok(vec![])).unwrap();
    assert_eq!(association.read(usize::MAX).unwrap().bytes.len(), 24, "no results are one fragment");
}

#[test]
fn failed_call_is_a_fault() {
    let mut association = bound();
    association.write(&request(3, 7, 0, 99, &[]), |_| Err(Fault::OP_RNG_ERROR)).unwrap();
    let reply = association.read(usize::MAX).unwrap().bytes;
    assert_eq!(reply[..16], [5, 0, 3, 0x23, 0x10, 0, 0, 0, 32, 0, 0, 0, 7, 0, 0, 0]);
    assert_eq!(reply[24..], [2, 0, 1, 0x1c, 0, 0, 0, 0]);
}

#[test]
fn malformed_pdu_ends_the_association() {
    let malformed = |bytes: &[u8]| {
        let result = bound().write(bytes, |_| Ok(vec![]));
        assert!(matches!(result, Err(WriteError::Malformed(_))), "{bytes:x?}");
    };
    let whole = request(3, 7, 0, 15, &[]);
    for (at, value) in [(0, 4), (2, 2), (4, 0), (8, 15), (10, 8)] {
        let mut bytes = whole.clone();
        bytes[at] = value;
        malformed(&bytes);
    }
    malformed(&[request(1, 7, 0, 15, &[]), whole].concat());
    malformed(&request(2, 7, 0, 15, &[]));
    malformed(&[request(1, 7, 0, 15, &[]), request(2, 8, 0, 15, &[])].concat());
    let mut bind = hex(BIND);
    bind[24] = 9;
    malformed(&bind);
}

#[test]
fn arguments_and_unread_replies_are_limited() {
    let mut association = bound();
    let part = vec![0; 60_000];
    association.write(&request(1, 7, 0, 15, &part), refuse).unwrap();
    let mut taken = part.len();
    let result = loop {
        match association.write(&request(0, 7, 0, 15, &part), refuse) {
            Ok(()) => taken += part.len(),
            refused => break refused,
        }
    };
    assert!(matches!(result, Err(WriteError::Malformed(_))));
    assert!(taken <= REQUEST_MAX && taken + part.len() > REQUEST_MAX);
    let mut association = bound();
    let mut writes = 0;
    let call = request(3, 7, 0, 15, &[]);
    while association.write(&call, |_| Ok(part.clone())).is_ok() {
        writes += 1;
    }
    assert!(writes <= UNREAD_MAX / part.len() + 1, "{writes} unread replies");
    assert_eq!(association.write(&call, refuse), Err(WriteError::UnreadReplies));
    let mut association = bound();
    let mut answered = 0;
    let result = association.write(&call.repeat(100), |_| {
        answered += 1;
        Ok(part.clone())
    });
    assert!(matches!(result, Err(WriteError::Malformed(_))), "one write of many calls");
    assert!(answered <= UNREAD_MAX / part.len() + 1, "{answered} unread replies");
    while association.read(usize::MAX).is_some() {}
    assert_eq!(association.write(&call, |_| Ok(vec![])), Ok(()));
}

#[test]
fn calls_per_write_are_limited() {
    let call = request(3, 7, 0, 15, &[]);
    let mut association = bound();
    for _ in 0..3 {
        assert_eq!(association.write(&call.repeat(WRITE_CALLS_MAX), |_| Ok(vec![])), Ok(()));
    }
    let mut answered = 0;
    let result = association.write(&call.repeat(10 * WRITE_CALLS_MAX), |_| {
        answered += 1;
        Ok(vec![])
    });
    assert!(matches!(result, Err(WriteError::Malformed(_))));
    assert_eq!(answered, WRITE_CALLS_MAX);
}
