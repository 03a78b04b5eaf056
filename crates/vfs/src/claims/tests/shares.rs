//! Share modes: every pair of opens there is.

use super::*;

/// Whether an open with these rights (rows) meets one that denies these (columns): ∅ R W RW D RD WD RWD each.
const MEETS: [&str; 8] = [
    "........", //
    ".x.x.x.x", // R
    "..xx..xx", // W
    ".xxx.xxx", // RW
    "....xxxx", // D
    ".x.xxxxx", // RD
    "..xxxxxx", // WD
    ".xxxxxxx", // RWD
];

fn meets(rights: usize, deny: usize) -> bool {
    MEETS[rights].as_bytes()[deny] == b'x'
}

#[test]
fn all_pairs_of_opens() {
    let mut refused = 0;
    for pair in 0..8 * 8 * 8 * 8_usize {
        let [first, first_deny, second, second_deny] = [pair & 7, pair >> 3 & 7, pair >> 6 & 7, pair >> 9];
        let access = |rights: usize, deny: usize| Access {
            rights: Rights::ALL_SETS[rights],
            deny: Rights::ALL_SETS[deny],
        };
        let mut rig = Rig::new();
        rig.open(opening(1, access(first, first_deny)));
        let verdict = rig.apply(1, &Request::Open(opening(2, access(second, second_deny))));
        // Opens of the attributes alone deny nothing either.
        let conflicts = first != 0 && second != 0 && (meets(first, second_deny) || meets(second, first_deny));
        refused += u32::from(conflicts);
        match conflicts {
            true => assert_eq!(verdict, Verdict::Refused(Conflict::Share), "{pair:o}"),
            false => assert!(matches!(verdict, Verdict::Granted(_)), "{pair:o}: {verdict:?}"),
        }
    }
    // Of a right, 9 of 16 combinations go together: 16^3 - 9^3, less 2 × (8^3 - 6^3) with no rights at one side.
    assert_eq!(refused, 2775);
}

#[test]
fn another_stream_is_another_file() {
    let mut rig = Rig::new();
    let alone = Access { rights: Rights::WRITE, deny: Rights::READ | Rights::WRITE };
    rig.open(opening(1, alone));
    rig.open(OpenRequest { stream: Stream(1), ..opening(2, alone) });
}

#[test]
fn who_deletes_a_file_meets_those_who_keep_a_stream_of_it() {
    let keeps = Access { rights: Rights::READ, deny: Rights::DELETE };
    let deletes = Access { rights: Rights::DELETE, deny: Rights::NONE };
    let of_stream = |number, access| OpenRequest { stream: Stream(number), ..opening(1, access) };
    let mut rig = Rig::new();
    let stream = rig.open(of_stream(1, keeps));
    assert_eq!(rig.refused(&Request::Open(opening(2, deletes))), Conflict::Share);
    rig.open(of_stream(2, deletes));
    rig.open(of_stream(3, Access { rights: Rights::NONE, ..keeps }));
    rig.granted(&Request::Close(stream));
    let file = rig.open(opening(2, deletes));
    assert_eq!(rig.refused(&Request::Open(of_stream(1, keeps))), Conflict::Share);
    rig.granted(&Request::Close(file));
    rig.open(of_stream(1, keeps));
}

#[test]
fn grows_and_shrinks() {
    let mut rig = Rig::new();
    let reading = Access { rights: Rights::READ, deny: Rights::NONE };
    let first = rig.open(opening(1, reading));
    let second = rig.open(opening(2, Access { deny: Rights::WRITE, ..reading }));
    let more = Request::Upgrade { open: first, access: read_write(), reclaims: false, waits: true };
    assert_eq!(rig.refused(&more), Conflict::Share);
    rig.granted(&Request::Downgrade { open: second, access: reading });
    rig.granted(&more);
    assert_eq!(rig.refused(&Request::Downgrade { open: second, access: read_write() }), Conflict::Denied);
    let writers_out = Access { deny: Rights::WRITE, ..reading };
    assert_eq!(rig.refused(&Request::Open(opening(3, writers_out))), Conflict::Share);
    rig.granted(&Request::Downgrade { open: first, access: reading });
    rig.open(opening(3, writers_out));
}

#[test]
fn what_an_advisory_open_denies_binds_opens_alone() {
    for is_advisory in [false, true] {
        let mut rig = Rig::new();
        let alone = Access { rights: Rights::READ, deny: Rights::READ | Rights::WRITE };
        rig.open(OpenRequest { is_advisory, ..opening(1, alone) });
        assert_eq!(rig.refused(&Request::Open(opening(2, read_write()))), Conflict::Share);
        for kind in [IoKind::Read, IoKind::Write] {
            let verdict = rig.apply(1, &io(Requester::Anonymous, kind));
            let is_granted = matches!(verdict, Verdict::Granted(_));
            assert_eq!(is_granted, is_advisory, "{kind:?}: {verdict:?}");
        }
    }
}

#[test]
fn a_kept_handle_is_asked_for_before_a_refusal() {
    let mut rig = Rig::new();
    let alone = Access { rights: Rights::READ, deny: Rights::READ };
    let first = rig.open(OpenRequest { lease: shared(1, "RH"), ..opening(1, alone) });
    let second = Request::Open(opening(2, alone));
    let ticket = rig.waits(&second);
    assert_eq!(rig.recalls(), [(HolderId(1), caching("RH"), caching("R"), true)]);
    rig.granted(&Request::Close(first));
    assert_eq!(rig.outcomes(), [(ticket, Outcome::Again)]);
    let second = rig.open(OpenRequest { lease: shared(2, "RH"), ..opening(2, alone) });
    rig.waits(&Request::Open(opening(1, alone)));
    // It is still in use: the handle is given up, the open stays.
    assert_eq!(rig.acknowledge(shared_key(2), caching("R")), Verdict::Granted(Granted::default()));
    assert_eq!(rig.refused(&Request::Open(opening(1, alone))), Conflict::Share);
    rig.granted(&Request::Close(second));
    assert!(rig.table.is_empty());
}

#[test]
fn a_handle_that_does_not_help_is_not_asked_for() {
    let mut rig = Rig::new();
    let quiet = Access { rights: Rights::READ, deny: Rights::DELETE };
    rig.open(opening(1, quiet));
    rig.open(OpenRequest { lease: shared(1, "RH"), ..opening(2, quiet) });
    let deleting = Access { rights: Rights::DELETE, deny: Rights::NONE };
    assert_eq!(rig.refused(&Request::Open(opening(3, deleting))), Conflict::Share);
    assert_eq!(rig.take(), []);
}
