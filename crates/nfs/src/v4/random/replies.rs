//! Random replies on back channels: other clients make progress, and nothing is leaked.

use super::Random;
use crate::state::nfs4::channel::Callback;
use crate::testing::v4::back::{Called, LEASE_S, Rig};
use crate::testing::v4::put;
use nfs_wire::v4::attr::{CHANGE, SIZE};
use nfs_wire::v4::callback::{self, OpReply as CallbackReply};
use nfs_wire::v4::{
    Argument, Bitmap, Fattr, FileHandle, GetattrArgs, OpReply, Reply, SequenceStatus, ShareAccess,
    StateOwner, Status,
};
use std::collections::BTreeMap;
use xdr::{Decode, Encode, Reader};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CallbackKind {
    Attributes,
    Delegation,
    Some,
    Lock,
}

const KINDS: [CallbackKind; 4] =
    [CallbackKind::Attributes, CallbackKind::Delegation, CallbackKind::Some, CallbackKind::Lock];
const SEEDS: u64 = 400;

/// Has the service call the client, which has `f` delegated for writing: the call.
fn cause(rig: &mut Rig, kind: CallbackKind) -> Called {
    match kind {
        CallbackKind::Attributes => _ = rig.as_writer(size_of_f),
        CallbackKind::Delegation => _ = rig.write(b"f"),
        CallbackKind::Some => {
            let args = callback::RecallAnyArgs { objects_to_keep: 1, type_mask: Bitmap::of(&[0, 1]) };
            rig.reader().callbacks.call(Callback::new(&callback::Argument::RecallAny(args)));
        }
        CallbackKind::Lock => {
            let lock_owner = StateOwner { clientid: 0, owner: b"l" };
            let args = callback::NotifyLockArgs { fh: FileHandle(b"f"), lock_owner };
            rig.reader().callbacks.call(Callback::new(&callback::Argument::NotifyLock(args)));
        }
    }
    rig.next_call()
}

/// A reply that a well-behaved client could send.
fn answer(random: &mut Random, call: &Called, kind: CallbackKind) -> Vec<u8> {
    let status = *random.of(&[Status::OK, Status::OK, Status::OK, Status::DELAY, Status::BADHANDLE]);
    let values = [random.next().to_bytes(), u64::from(random.word()).to_bytes()].concat();
    let obj_attributes = Fattr { attrmask: Bitmap::of(&[CHANGE, SIZE]), attr_vals: &values };
    let result = match kind {
        CallbackKind::Attributes if status == Status::OK => {
            CallbackReply::Getattr(Reply::Ok(callback::GetattrOk { obj_attributes }))
        }
        CallbackKind::Attributes => CallbackReply::Getattr(Reply::Err(status)),
        CallbackKind::Delegation => CallbackReply::Recall(status),
        CallbackKind::Some => CallbackReply::RecallAny(status),
        CallbackKind::Lock => CallbackReply::NotifyLock(status),
    };
    call.reply(status, &[call.sequence_reply(), result])
}

/// Changes a reply somewhere, or nothing at all.
fn mutate(random: &mut Random, reply: &mut Vec<u8>) {
    for _ in 0..random.below(4) {
        let at = random.below(reply.len().max(1));
        match random.below(6) {
            0 => reply.truncate(at),
            1 => reply.extend(random.stream()),
            2 | 3 if at < reply.len() => reply[at] ^= 1 << random.below(8),
            _ => {
                let word = at / 4 * 4;
                let end = reply.len().min(word + 4);
                let new = random.word().to_be_bytes();
                reply.splice(word.min(end)..end, new[..end - word.min(end)].iter().copied());
            }
        }
    }
}

/// The size of `f` that this client sees.
fn size_of_f(rig: &Rig) -> Result<u64, Status> {
    let handle = rig.client.handle(&[b"e", b"f"]);
    let ask = Argument::Getattr(GetattrArgs { attr_request: Bitmap::of(&[SIZE]) });
    let results = rig.client.ask(&[put(&handle), ask]);
    match results.all().last() {
        Some(OpReply::Getattr(Reply::Ok(ok))) => {
            Ok(u64::decode(&mut Reader::new(ok.obj_attributes.attr_vals)).unwrap())
        }
        _ => Err(results.status()),
    }
}

/// Counts of callbacks by kind and outcome.
type Outcomes = BTreeMap<(CallbackKind, &'static str), u32>;

fn play(seed: u64, outcomes: &mut Outcomes) {
    let mut random = Random(seed);
    let kind = *random.of(&KINDS);
    let mut rig = Rig::delegating_writes();
    rig.delegated_to_write(b"f");
    let call = cause(&mut rig, kind);
    let good = answer(&mut random, &call, kind);
    let mut reply = good.clone();
    mutate(&mut random, &mut reply);
    // `false`: the record decodes as a call.
    let is_reply = rig.client.binding.wire.take_reply(&reply);
    assert!(is_reply || reply != good, "{seed}");
    if random.below(2) == 0 {
        rig.client.binding.wire.take_reply(&reply);
    }
    let outcome = match (rig.flags().contains(SequenceStatus::BACKCHANNEL_FAULT), is_reply) {
        (true, _) => "faulty",
        (_, false) => "no reply",
        _ => "taken",
    };
    *outcomes.entry((kind, outcome)).or_default() += 1;
    let limit = rig.volume.limits().file_bytes_max;
    if let Ok(size) = rig.as_writer(size_of_f) {
        assert!(size <= limit, "{seed}: {size}");
        *outcomes.entry((kind, "told")).or_default() += 1;
    }
    // A valid reply to the same call is too late, or is the first one.
    rig.client.binding.wire.take_reply(&good);
    for _ in 0..3 * LEASE_S {
        rig.pass(1);
        if rig.write(b"f").is_ok() {
            break;
        }
    }
    assert!(rig.write(b"f").is_ok(), "{seed}: somebody waits for ever");
    assert!(rig.open(b"g", ShareAccess::READ).is_ok(), "{seed}");
    rig.client.restart(b"reader");
    rig.complete();
    let state = &rig.client.env.service.v4;
    assert!(state.writers.is_empty(), "{seed}");
    assert_eq!(state.tables.delegations.used(), 0, "{seed}");
}

#[test]
fn random_callback_replies_do_not_block_other_clients() {
    let mut outcomes = Outcomes::new();
    (0..SEEDS).for_each(|seed| play(seed, &mut outcomes));
    for kind in KINDS {
        for outcome in ["taken", "faulty"] {
            let count = outcomes.get(&(kind, outcome)).copied().unwrap_or(0);
            assert!(count >= 10, "{kind:?} {outcome}: {outcomes:?}");
        }
    }
    assert!(outcomes.contains_key(&(CallbackKind::Attributes, "told")), "{outcomes:?}");
}
