//! The network status monitor (XNFS chapter 11): hosts announce a restart, which ends their locks.
//!
//! We monitor no host for others: each host that locks has its own status monitor.
//! A notice is accepted only for the address that sent it. Names in notices are never resolved.

pub use crate::state::nsm::hosts::LockHosts;

use crate::call::{Attempt, Call, Outcome};
use crate::records::reply::Records;
use nfs_wire::nsm::{
    MonitorArgs, MonitorId, Monitored, MyId, Name, Procedure, StatReply, State, StatusChange,
};
use transport::Outbox;
use xdr::{Decode, Encode, Reader};

pub(crate) fn answer(call: &mut Call<'_>, procedure: Procedure, args: &[u8], out: &mut Outbox) -> Attempt {
    let (mut r, mut w) = (Reader::new(args), out.writer());
    let locks = &call.service.locks;
    let refused = || StatReply { res_stat: Monitored::NO, state: locks.monitor_state() };
    match procedure {
        Procedure::NULL => {}
        Procedure::STAT => {
            Name::decode(&mut r)?;
            refused().encode(&mut w);
        }
        Procedure::MON => {
            MonitorArgs::decode(&mut r)?;
            refused().encode(&mut w);
        }
        Procedure::UNMON => {
            MonitorId::decode(&mut r)?;
            State(locks.monitor_state()).encode(&mut w);
        }
        Procedure::UNMON_ALL => {
            MyId::decode(&mut r)?;
            State(locks.monitor_state()).encode(&mut w);
        }
        // A remote host cannot simulate our crash.
        Procedure::SIMU_CRASH => {}
        Procedure::NOTIFY => {
            let change = StatusChange::decode(&mut r)?;
            locks.restarted(call.client(), change.state);
        }
        _ => return Ok(Outcome::NoProcedure),
    }
    Ok(Outcome::Replied)
}
