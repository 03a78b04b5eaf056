//! Delegations and the back channel as clients see them.

use super::*;
use crate::testing::v4::back::{Called, LEASE_S, Rig};
use crate::testing::v4::{Host, at, put};
use nfs_wire::rpc::ReplyHeader;
use nfs_wire::v3;
use nfs_wire::v4::callback::{self, OpReply as CallbackReply};
use nfs_wire::v4::{
    Argument, BindConnToSessionArgs, ChannelDirFromClient, DestroyClientidArgs, DestroySessionArgs,
    FreeStateidArgs, Reply, SequenceStatus, SetxattrArgs, SetxattrOption, StableHow, WriteArgs, XattrValue,
};
use vfs::bounds::Bounds;
use xdr::Encode;

#[test]
fn read_delegation_lasts_until_another_client_writes() {
    let mut rig = Rig::new();
    let stateid = rig.delegated(b"f");
    assert_eq!(
        rig.as_writer(|rig| rig.open(b"f", ShareAccess::READ)),
        Ok(OpenDelegation::None),
        "no back channel"
    );
    assert_eq!(rig.write(b"f"), Err(Status::DELAY), "although it was put off");
    let call = rig.next_call();
    let handle = rig.client.handle(&[b"e", b"f"]);
    let args = callback::RecallArgs { stateid, truncate: false, fh: nfs_wire::v4::FileHandle(&handle) };
    assert_eq!(call.operation, callback::Argument::Recall(args).to_bytes());
    assert_eq!((call.session, call.sequence, call.slot), (rig.client.session_id(), 1, 0));
    rig.reply(&call.status_reply(Status::OK));
    assert_eq!(rig.write(b"f"), Err(Status::DELAY), "it is not given back yet");
    assert_eq!(rig.give_back(b"g", stateid), Status::BAD_STATEID, "of another file");
    assert_eq!(rig.give_back(b"f", stateid), Status::OK);
    assert_eq!(rig.give_back(b"f", stateid), Status::BAD_STATEID);
    assert_eq!(rig.write(b"f"), Ok(OpenDelegation::None));
    assert!(rig.is_silent(), "it was asked once");
    assert_eq!(rig.open(b"f", ShareAccess::READ), Ok(OpenDelegation::None), "it is contended");
}

#[test]
fn delegations_say_why_there_is_none_to_who_asks() {
    let mut rig = Rig::new();
    let none = |why| Ok(OpenDelegation::NoneExt(why));
    let wants = |wants: ShareAccess| ShareAccess(1 | wants.0);
    assert_eq!(rig.open(b"f", wants(ShareAccess::WANT_NO_DELEG)), none(NOT_WANTED));
    assert_eq!(rig.open(b"f", wants(ShareAccess::WANT_CANCEL)), none(CANCELLED));
    assert_eq!(rig.open(b"g", ShareAccess(3 | ShareAccess::WANT_ANY_DELEG.0)), none(RESOURCE));
    rig.write(b"h").unwrap();
    assert_eq!(rig.open(b"h", wants(ShareAccess::WANT_READ_DELEG)), none(CONTENTION));
    rig.delegated(b"f");
    assert_eq!(rig.open(b"f", wants(ShareAccess::WANT_READ_DELEG)), none(RESOURCE), "it has it");
}

#[test]
fn a_client_is_not_in_its_own_way() {
    let rig = Rig::new();
    let stateid = rig.delegated(b"f");
    assert_eq!(rig.open(b"f", ShareAccess::BOTH), Ok(OpenDelegation::None));
    let handle = rig.client.handle(&[b"e", b"f"]);
    let (stable, data) = (StableHow::Unstable, &b"own"[..]);
    let write = |stateid| Argument::Write(WriteArgs { stateid, offset: 0, stable, data });
    assert_eq!(rig.client.status(&[put(&handle), write(Stateid::ANONYMOUS)]), Status::OK);
    assert_eq!(rig.client.status(&[put(&handle), write(stateid)]), Status::OPENMODE, "it is to read");
    let remove = Argument::Remove(nfs_wire::v4::RemoveArgs { target: b"f" });
    assert_eq!(rig.client.status(&at(&[b"e"], [remove])), Status::OK);
    assert!(rig.is_silent());
}

/// Does one of the changes of NFSv3 to `f`: its status.
pub(super) fn change(rig: &Rig, change: &str) -> u32 {
    let (dir, file) = (rig.client.handle(&[b"e"]), rig.client.handle(&[b"e", b"f"]));
    let file = v3::FileHandle(&file);
    let name = |name| v3::DirOpArgs { dir: v3::FileHandle(&dir), name };
    let (procedure, args) = match change {
        "WRITE" => {
            let stable = v3::StableHow::Unstable;
            (7, v3::WriteArgs { file, offset: 0, count: 1, stable, data: b"x" }.to_bytes())
        }
        "SETATTR" => {
            let new_attributes = v3::Sattr { mode: Some(0o600), ..v3::Sattr::default() };
            (2, v3::SetattrArgs { object: file, new_attributes, guard: None }.to_bytes())
        }
        "READ" => (6, v3::ReadArgs { file, offset: 0, count: 1 }.to_bytes()),
        "REMOVE" => (12, v3::RemoveArgs { object: name(b"f") }.to_bytes()),
        "RENAME" => (14, v3::RenameArgs { from: name(b"f"), to: name(b"new") }.to_bytes()),
        "RENAME over it" => (14, v3::RenameArgs { from: name(b"g"), to: name(b"f") }.to_bytes()),
        _ => (15, v3::LinkArgs { file, link: name(b"new") }.to_bytes()),
    };
    let results = rig.client.env.ask(100_003, 3, procedure, &Encoded(args)).unwrap();
    u32::from_be_bytes(results[..4].try_into().unwrap())
}

#[test]
fn changes_by_version_3_ask_for_the_delegation() {
    for name in ["WRITE", "SETATTR", "REMOVE", "RENAME", "RENAME over it", "LINK"] {
        let rig = Rig::new();
        let stateid = rig.delegated(b"f");
        assert_eq!(change(&rig, name), v3::Status::JUKEBOX.0, "{name}");
        assert_eq!(rig.next_call().stateid(), stateid, "{name}");
        assert_eq!(rig.give_back(b"f", stateid), Status::OK);
        assert_eq!(change(&rig, name), 0, "{name}");
    }
}

struct Encoded(Vec<u8>);

impl Encode for Encoded {
    fn encode(&self, w: &mut xdr::Writer<'_>) {
        w.buffer().extend_from_slice(&self.0);
    }
}

#[test]
fn changes_of_extended_attributes_ask_for_the_delegation() {
    let mut rig = Rig::new();
    rig.client.set_minor(2);
    let stateid = rig.delegated(b"f");
    let handle = rig.client.handle(&[b"e", b"f"]);
    let args = SetxattrArgs { option: SetxattrOption::Either, key: b"k", value: XattrValue(b"v") };
    let set = [put(&handle), Argument::Setxattr(args)];
    assert_eq!(rig.client.status(&set), Status::OK, "its own");
    assert_eq!(rig.as_writer(|rig| rig.client.status(&set)), Status::DELAY);
    assert_eq!(rig.next_call().stateid(), stateid);
}

#[test]
fn unreturned_delegation_is_revoked_after_a_lease() {
    let mut rig = Rig::new();
    let stateid = rig.delegated(b"f");
    assert_eq!(rig.write(b"f"), Err(Status::DELAY));
    rig.next_call();
    rig.pass(LEASE_S - 1);
    assert_eq!((rig.write(b"f"), rig.state_of(stateid)), (Err(Status::DELAY), Status::OK));
    rig.pass(1);
    assert_eq!(rig.write(b"f"), Ok(OpenDelegation::None));
    assert!(rig.flags().contains(SequenceStatus::RECALLABLE_STATE_REVOKED));
    assert_eq!(rig.state_of(stateid), Status::DELEG_REVOKED);
    assert_eq!(rig.give_back(b"f", stateid), Status::DELEG_REVOKED);
    assert!(rig.flags().contains(SequenceStatus::RECALLABLE_STATE_REVOKED), "until it is freed");
    let free = |stateid| Argument::FreeStateid(FreeStateidArgs { stateid });
    assert_eq!(rig.as_writer(|rig| rig.client.status(&[free(stateid)])), Status::BAD_STATEID, "another's");
    assert_eq!(rig.client.status(&[free(stateid)]), Status::OK);
    assert!(!rig.flags().contains(SequenceStatus::RECALLABLE_STATE_REVOKED));
    assert_eq!(rig.state_of(stateid), Status::BAD_STATEID);
}

#[test]
fn only_the_client_that_was_called_replies() {
    let mut rig = Rig::new();
    rig.delegated(b"f");
    assert_eq!(rig.write(b"f"), Err(Status::DELAY));
    let call = rig.next_call();
    let answer = call.status_reply(Status::DELAY);
    assert!(rig.as_writer(|rig| rig.client.binding.wire.take_reply(&answer)), "dropped");
    for forged in [0, call.xid.wrapping_add(1), u32::MAX] {
        rig.reply(&Called { xid: forged, ..call.clone() }.status_reply(Status::DELAY));
    }
    rig.pass(1);
    assert!(rig.is_silent(), "nobody has said that it is to be asked later");
    rig.reply(&answer);
    rig.pass(1);
    let again = rig.next_call();
    assert_eq!((again.slot, again.sequence), (call.slot, call.sequence + 1));
    assert_eq!(again.operation, call.operation);
    rig.reply(&answer);
    rig.pass(1);
    assert!(rig.is_silent(), "one reply is one reply");
}

#[test]
fn replies_that_say_nothing_make_a_channel_faulty_until_it_is_bound_again() {
    let broken: [fn(&Called) -> Vec<u8>; 8] = [
        |call| ReplyHeader::success(call.xid).to_vec(),
        |call| call.reply(Status::OK, &[]),
        |call| call.reply(Status::OK, &[CallbackReply::Recall(Status::OK)]),
        |call| call.reply(Status::BADSESSION, &[CallbackReply::Sequence(Reply::Err(Status::BADSESSION))]),
        |call| Called { slot: 1, ..call.clone() }.status_reply(Status::OK),
        |call| Called { sequence: 7, ..call.clone() }.status_reply(Status::OK),
        |call| Called { session: [7; 16], ..call.clone() }.status_reply(Status::OK),
        |call| {
            let mut denied = call.status_reply(Status::OK);
            // MSG_DENIED: the rest is decoded as a denial.
            denied[11] = 1;
            denied
        },
    ];
    for (number, broken) in broken.iter().enumerate() {
        let mut rig = Rig::new();
        let stateid = rig.delegated(b"f");
        assert_eq!(rig.write(b"f"), Err(Status::DELAY));
        let call = rig.next_call();
        rig.reply(&broken(&call));
        assert!(rig.flags().contains(SequenceStatus::BACKCHANNEL_FAULT), "{number}");
        assert_eq!(
            rig.open(b"g", ShareAccess::READ),
            Ok(OpenDelegation::None),
            "{number}: it cannot be asked"
        );
        rig.calls = rig.client.listen();
        bind(&rig);
        assert!(!rig.flags().contains(SequenceStatus::BACKCHANNEL_FAULT), "{number}");
        assert_eq!(rig.next_call().stateid(), stateid, "{number}: it is asked again");
    }
}

/// Binds the client's connection to its session, for both directions.
fn bind(rig: &Rig) {
    let args = BindConnToSessionArgs {
        sessid: rig.client.session_id(),
        dir: ChannelDirFromClient::ForeOrBoth,
        use_conn_in_rdma_mode: false,
    };
    assert_eq!(rig.client.run_alone(&Argument::BindConnToSession(args)).status(), Status::OK);
}

#[test]
fn a_call_whose_connection_has_gone_comes_again_over_another() {
    let mut rig = Rig::new();
    rig.delegated(b"f");
    assert_eq!(rig.write(b"f"), Err(Status::DELAY));
    let call = rig.next_call();
    rig.calls = rig.client.listen();
    rig.pass(1);
    let down = SequenceStatus::CB_PATH_DOWN | SequenceStatus::CB_PATH_DOWN_SESSION;
    assert!(rig.flags().contains(down));
    bind(&rig);
    let again = rig.next_call();
    assert_eq!((again.slot, again.sequence), (call.slot, call.sequence), "it may have been done");
    assert_eq!(again.operation, call.operation);
    assert_eq!(rig.flags().0 & down.0, 0);
    // RETRY_UNCACHED_REP counts as an answer.
    let uncached = CallbackReply::Sequence(Reply::Err(Status::RETRY_UNCACHED_REP));
    rig.reply(&again.reply(Status::RETRY_UNCACHED_REP, &[uncached]));
    assert!(!rig.flags().contains(SequenceStatus::BACKCHANNEL_FAULT));
}

#[test]
fn a_client_that_never_answers_is_called_no_more_over_that_connection() {
    let mut rig = Rig::new();
    rig.delegated(b"f");
    assert_eq!(rig.write(b"f"), Err(Status::DELAY));
    rig.next_call();
    rig.pass(12);
    assert!(rig.flags().contains(SequenceStatus::CB_PATH_DOWN));
    assert_eq!(rig.open(b"g", ShareAccess::READ), Ok(OpenDelegation::None));
    rig.pass(LEASE_S);
    assert_eq!(rig.write(b"f"), Ok(OpenDelegation::None));
    assert!(rig.is_silent());
}

#[test]
fn a_call_about_what_was_given_back_is_not_repeated() {
    let mut rig = Rig::new();
    let stateid = rig.delegated(b"f");
    assert_eq!(rig.write(b"f"), Err(Status::DELAY));
    let call = rig.next_call();
    assert_eq!(rig.give_back(b"f", stateid), Status::OK);
    rig.reply(&call.status_reply(Status::BAD_STATEID));
    rig.pass(3);
    assert!(rig.is_silent());
}

#[test]
fn delegations_are_bounded_and_those_of_who_goes_are_given_back() {
    let mut rig = Rig::new();
    let all = Arc::clone(&rig.client.env.service.v4.tables.delegations);
    rig.delegated(b"f");
    let others = all.force(&rig.reader().user(7), crate::limits::DELEGATIONS_MAX - 1);
    let wanted = ShareAccess(1 | ShareAccess::WANT_READ_DELEG.0);
    assert_eq!(rig.open(b"g", wanted), Ok(OpenDelegation::NoneExt(RESOURCE)));
    drop(others);
    rig.delegated(b"g");
    let (reader, session) = (rig.reader(), rig.client.session_id());
    assert_eq!(rig.write(b"f"), Err(Status::DELAY));
    // A client of the same name after a restart ends its earlier instance.
    rig.client.restart(b"reader");
    rig.complete();
    assert_eq!(all.used(), 0);
    assert!(rig.client.env.service.v4.session(&session).is_err());
    assert_eq!(reader.holder_count(), 0);
    assert_eq!(rig.write(b"f"), Ok(OpenDelegation::None));
}

#[test]
fn a_client_that_says_goodbye_leaves_nothing_behind() {
    let mut rig = Rig::new();
    let stateid = rig.delegated(b"f");
    assert_eq!(rig.give_back(b"f", stateid), Status::OK);
    let close = |rig: &Rig, args| rig.client.run_alone(&args).status();
    let open = rig.opened(b"f", ShareAccess::READ).0;
    let closed = Argument::Close(nfs_wire::v4::CloseArgs { seqid: 0, open_stateid: open });
    assert_eq!(rig.client.status(&at(&[b"e", b"f"], [closed])), Status::OK);
    let (reader, sessionid) = (rig.reader(), rig.client.session_id());
    let destroy_client = || Argument::DestroyClientid(DestroyClientidArgs { clientid: reader.id });
    assert_eq!(close(&rig, destroy_client()), Status::CLIENTID_BUSY);
    assert_eq!(close(&rig, Argument::DestroySession(DestroySessionArgs { sessionid })), Status::OK);
    assert_eq!(reader.holder_count(), 1);
    assert_eq!(close(&rig, destroy_client()), Status::OK);
    assert_eq!(reader.holder_count(), 0);
    rig.client.restart(b"reader");
}

#[test]
fn delegations_of_a_client_that_falls_silent_give_way() {
    let mut rig = Rig::new();
    let all = Bounds::new(40, 0);
    rig.client.env.service.v4.tables.delegations = Arc::clone(&all);
    for name in [&b"f"[..], b"g", b"h"] {
        rig.delegated(name);
    }
    let reader = rig.reader();
    let _others = all.force(&reader.user(7), 37);
    rig.client.swap(&mut Host::default());
    rig.client.reconnect("10.1.0.30:700");
    rig.calls = rig.client.listen();
    rig.client.be(b"second");
    rig.complete();
    let wanted = ShareAccess(1 | ShareAccess::WANT_READ_DELEG.0);
    assert_eq!(rig.open(b"f", wanted), Ok(OpenDelegation::NoneExt(RESOURCE)));
    assert!(!reader.has_ended(), "it is within its lease");
    rig.pass(LEASE_S + 1);
    assert!(matches!(rig.open(b"g", wanted), Ok(OpenDelegation::Read(_))));
    assert!(reader.has_ended());
}
