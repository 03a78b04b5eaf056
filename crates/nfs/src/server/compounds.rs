//! Compounds of version 4 as calls of the transport. They resume on a blocking thread, after a delay, or after paying.

use super::dispatch::RpcCall;
use super::{Continuation, Rpc, SUCCESS_HEADER_BYTES, complete_replay};
use crate::records::reply::Records;
use crate::state::replay_cache::InProgress;
use crate::v4;
use crate::v4::compound::{CompoundArgs, CompoundProgress, Results, Suspended};
use nfs_wire::rpc::Accepted;
use transport::{CallStats, Context, Progress};
use vfs::Wait;

pub(crate) struct SuspendedCompound {
    pub(crate) call: RpcCall,
    pub(crate) args: Vec<u8>,
    pub(crate) stats: CallStats<()>,
    pub(crate) replay: Option<InProgress>,
    pub(crate) at: Box<Suspended>,
}

pub(crate) struct RepliedCompound {
    pub(crate) xid: u32,
    pub(crate) replay: Option<InProgress>,
    pub(crate) results: Results,
}

/// Settles the bytes moved so far with the current permit. The rest of the compound pays on its own.
fn settle_stats<T>(cx: &mut Context<'_, Rpc>, mut stats: CallStats<T>) -> CallStats<()> {
    cx.stats = CallStats { transferred: std::mem::take(&mut stats.transferred), ..CallStats::default() };
    stats.with_target(None)
}

impl Rpc {
    pub(crate) fn resume_compound(
        &self,
        cx: &mut Context<'_, Self>,
        compound: SuspendedCompound,
    ) -> Progress<Continuation> {
        let SuspendedCompound { call, args, stats, replay, at } = compound;
        cx.stats = stats.with_target(None);
        let flushes = cx.pending.added();
        self.compound(cx, call, &args, Some(at), flushes, replay)
    }

    /// Runs or resumes a compound. Its reply also answers all repetitions that wait for `replay`.
    pub(crate) fn compound(
        &self,
        cx: &mut Context<'_, Self>,
        call: RpcCall,
        args: &[u8],
        at: Option<Box<Suspended>>,
        flushes: usize,
        replay: Option<InProgress>,
    ) -> Progress<Continuation> {
        let connection = cx.connection;
        // Callbacks use only connections that carried a compound.
        connection.session.binding.wire.attach(connection);
        let start = cx.out.begin_success(call.xid);
        let (mut performed, out) = self.call(cx, &call);
        let (binding, compound_args) =
            (&connection.session.binding, CompoundArgs { bytes: args, paid: call.paid });
        let ended = v4::compound::run(&mut performed, binding, compound_args, at, out);
        let stats = performed.stats;
        match ended {
            Ok(CompoundProgress::Suspended(mut at, wait)) => {
                cx.out.truncate(start);
                let stats = match wait {
                    // A wait for storage is short and keeps its permit. Other waits settle it.
                    Wait::Storage => stats.with_target(None),
                    Wait::Recall | Wait::Tokens | Wait::Event => settle_stats(cx, stats),
                };
                let owed = at.take_owed();
                let suspended = Box::new(SuspendedCompound { call, args: args.to_vec(), stats, replay, at });
                match (wait, owed) {
                    (Wait::Storage, _) => Progress::WaitForStorage(Continuation::Compound(suspended)),
                    (_, Some(admission)) => {
                        Progress::WaitForTokens { at: Continuation::Compound(suspended), admission }
                    }
                    (_, None) => self.defer_compound(cx, suspended, flushes),
                }
            }
            Ok(CompoundProgress::Replied(results)) => {
                cx.out.finish(start);
                cx.stats = CallStats { kind: call.kind(), ..stats };
                if cx.pending.added() == flushes {
                    let record = cx.out.record(start);
                    results.complete(record.and_then(|record| record.get(SUCCESS_HEADER_BYTES..)));
                    complete_replay(replay, record);
                    return Progress::Done;
                }
                let replied = RepliedCompound { xid: call.xid, replay, results };
                Progress::AfterSync(Continuation::CompoundReplied(Box::new(replied)))
            }
            Err(_) => {
                cx.out.truncate(start);
                cx.out.accept(call.xid, Accepted::GarbageArgs);
                Progress::Done
            }
        }
    }

    /// Defers a compound. If too many calls are deferred, it resumes at once and fails on the conflict.
    fn defer_compound(
        &self,
        cx: &mut Context<'_, Self>,
        compound: Box<SuspendedCompound>,
        flushes: usize,
    ) -> Progress<Continuation> {
        let retries = compound.at.retries();
        let Err(Continuation::Compound(back)) = self.park(cx, Continuation::Compound(compound), retries)
        else {
            return Progress::Detached;
        };
        let SuspendedCompound { call, args, stats, replay, mut at } = *back;
        cx.stats = stats.with_target(None);
        at.fail_on_conflict();
        self.compound(cx, call, &args, Some(at), flushes, replay)
    }
}
