//! Questions and wishes that are refused: locks of files that a caller has no right to, attributes and bits that there are not,
//! two sessions by one number.

use crate::testing::v4::minors::{MINORS, Rig};
use crate::testing::v4::{Client, at, put};
use crate::testing::{TestEnv, export, rule};
use nfs_wire::v4::{
    Argument, ChannelAttrs, ClientOwner, CreatVerfAttr, CreateHow, CreateSessionArgs, CreateSessionFlags,
    CreateSessionReply, ExchangeIdArgs, ExchangeIdFlags, ExchangeIdReply, Fattr, LockType, LocktArgs, Op,
    OpReply, OpenFlag, ShareAccess, ShareDeny, StateOwner, StateProtect, Status,
};
use std::sync::Barrier;
use xdr::Encode;

const NOBODY: (u32, u32) = (4000, 4000);

#[test]
fn locks_of_a_file_are_told_to_callers_with_a_right_to_it() {
    for mut rig in MINORS.map(Rig::new) {
        let owner = StateOwner { clientid: rig.id, owner: b"l" };
        let ask = |rig: &Rig| {
            let args = LocktArgs { locktype: LockType::Write, offset: 0, length: 1, owner };
            rig.client.status(&at(&[b"w", b"f"], [Argument::Lockt(args)]))
        };
        let chmod = |rig: &Rig, mode: u32| {
            let set = vfs::SetAttrs { mode: Some(mode), ..vfs::SetAttrs::default() };
            let root = std::sync::Arc::clone(&rig.client.env.service.namespace.load().exports()[0]).root();
            let dir = root.open_dir(&vfs::Caller::new(0, 0, []), vfs::Blocking::Allowed).unwrap();
            let file = dir.lookup(b"f", vfs::Blocking::Allowed).unwrap().file;
            file.set_attrs(&vfs::Caller::new(0, 0, []), &set, None, &mut vfs::PendingSync::default())
                .unwrap();
        };
        for (mode, expected) in [(0o600, Status::ACCESS), (0o604, Status::OK), (0o602, Status::OK)] {
            rig.client.env.user = NOBODY;
            chmod(&rig, mode);
            assert_eq!(ask(&rig), expected, "{mode:o} in 4.{}", rig.minor);
            rig.client.env.user = (0, 0);
            assert_eq!(ask(&rig), Status::OK, "root in 4.{}", rig.minor);
        }
        // The client that has it open may ask, whatever its mode.
        rig.client.env.user = NOBODY;
        chmod(&rig, 0o604);
        rig.open(b"w", ShareAccess::READ, ShareDeny::NONE).unwrap();
        chmod(&rig, 0o600);
        assert_eq!(ask(&rig), Status::OK, "4.{}", rig.minor);
    }
}

#[test]
fn bits_of_open_that_there_are_not_are_refused() {
    for rig in MINORS.map(Rig::new) {
        let opens = |access| rig.open(b"w", ShareAccess(access), ShareDeny::NONE).map(drop);
        for unknown in [0x4, 0x80, 0x0600, 0xff00, 0x0004_0000, 0x8000_0000] {
            assert_eq!(opens(1 | unknown), Err(Status::INVAL), "{unknown:x} in 4.{}", rig.minor);
        }
        for wanted in [0x0100, 0x0400, 0x0500, 0x0001_0400, 0x0003_0000, 0x0030_0000] {
            let expected = if rig.minor == 0 { Err(Status::INVAL) } else { Ok(()) };
            assert_eq!(opens(1 | wanted), expected, "{wanted:x} in 4.{}", rig.minor);
        }
        assert_eq!(rig.open(b"w", ShareAccess::READ, ShareDeny(4)), Err(Status::INVAL));
        let verifier = CreatVerfAttr { verf: [1; 8], attrs: Fattr::default() };
        let exclusive = OpenFlag::Create(CreateHow::Exclusive41(verifier));
        let made = rig.open_as((b"w", b"new"), ShareAccess::BOTH, ShareDeny::NONE, exclusive);
        assert_eq!(made.is_ok(), rig.minor > 0, "it came with 4.1: {made:?}");
    }
}

#[test]
fn attributes_that_there_are_not_are_refused_and_not_passed_over() {
    for rig in MINORS.map(Rig::new) {
        let handle = rig.client.handle(&[b"w", b"f"]);
        for number in [120_u32, 127, 128, 500, 5000] {
            let words = number / 32 + 1;
            let mut mask = words.to_bytes();
            (0..words).for_each(|word| {
                mask.extend(u32::from(word == number / 32).wrapping_shl(number % 32).to_bytes())
            });
            let no_values = 0_u32.to_bytes();
            let anonymous = [0; 16];
            for (what, op, before) in [
                ("SETATTR", Op::SETATTR, &anonymous[..]),
                ("VERIFY", Op::VERIFY, &[]),
                ("NVERIFY", Op::NVERIFY, &[]),
            ] {
                let operation = [&op.to_bytes(), before, &mask, &no_values].concat();
                let encoded = [put(&handle).to_bytes(), operation].concat();
                let status = rig.client.ask_encoded(2, &encoded).status();
                assert_eq!(status, Status::ATTRNOTSUPP, "{what} of {number} in 4.{}", rig.minor);
            }
            // Read-only attributes are skipped.
            let operation = [&Op::GETATTR.to_bytes()[..], &mask].concat();
            let encoded = [put(&handle).to_bytes(), operation].concat();
            let results = rig.client.ask_encoded(2, &encoded);
            assert_eq!(results.status(), Status::OK, "{number}");
        }
    }
}

#[test]
fn two_sessions_by_one_number_are_one() {
    const AT_A_TIME: usize = 8;
    for round in 0..20_u8 {
        let client = Client::new(TestEnv::new([export("/e", 1, vec![rule(&[])])], vec![]), 1);
        let ownerid = [b'o', round];
        let introduction = ExchangeIdArgs {
            clientowner: ClientOwner { verifier: [1; 8], ownerid: &ownerid },
            flags: ExchangeIdFlags(0),
            state_protect: StateProtect::None,
            client_impl_id: None,
        };
        let results = client.run_alone(&Argument::ExchangeId(introduction));
        let all = results.all();
        let [OpReply::ExchangeId(ExchangeIdReply::Ok(known))] = &*all else { panic!("{all:?}") };
        let channel = ChannelAttrs {
            headerpadsize: 0,
            maxrequestsize: 4096,
            maxresponsesize: 4096,
            maxresponsesize_cached: 4096,
            maxoperations: 4,
            maxrequests: 1,
            rdma_ird: None,
        };
        let creation = Argument::CreateSession(CreateSessionArgs {
            clientid: known.clientid,
            sequence: known.sequenceid,
            flags: CreateSessionFlags(0),
            fore_chan_attrs: channel,
            back_chan_attrs: channel,
            cb_program: 0,
            sec_parms: vec![],
        });
        let state = &client.env.service.v4;
        let found = state.client(known.clientid).unwrap();
        let begin = Barrier::new(AT_A_TIME);
        let made: Vec<[u8; 16]> = std::thread::scope(|scope| {
            let ask = || {
                begin.wait();
                let results = crate::testing::v4::alone(&client.env, &creation);
                match results.all().first() {
                    Some(OpReply::CreateSession(CreateSessionReply::Ok(ok))) => Some(ok.sessionid),
                    _ => {
                        assert_eq!(results.status(), Status::DELAY);
                        None
                    }
                }
            };
            let threads: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        assert!(!made.is_empty() && made.iter().all(|session| *session == made[0]), "{made:?}");
        state.remove_session(&made[0]).unwrap();
        assert!(!found.has_sessions(), "there was one");
    }
}
