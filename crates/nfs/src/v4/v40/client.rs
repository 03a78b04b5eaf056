//! Clients of 4.0: SETCLIENTID, SETCLIENTID_CONFIRM, RENEW, RELEASE_LOCKOWNER, RFC 7530 §16.33, §16.34, §16.28, §16.37.

use crate::state::nfs4::client_name::known_as;
use crate::state::nfs4::v40::registry::{Asked, Refused};
use crate::v4::ops::{Done, Ops, Stop, reply};
use crate::v4::session::principal;
use nfs_wire::v4::{
    NetAddr, ReleaseLockownerArgs, RenewArgs, SetclientidArgs, SetclientidConfirmArgs, SetclientidOk, Status,
};
use std::net::IpAddr;
use xdr::{Encode, Writer};

/// RFC 7530 §16.33. Where the client takes callbacks is not used: there are no delegations in 4.0.
pub(in crate::v4) fn setclientid(
    ops: &mut Ops<'_, '_>,
    args: &SetclientidArgs<'_>,
    w: &mut Writer<'_>,
) -> Done {
    let party = ops.call.party();
    let id = known_as(args.client.id, ops.call.protection, party.is_stranger);
    let asked = Asked { id: &id, verifier: args.client.verifier, principal: principal(ops), party };
    match ops.call.service.v4.set_client_id(&asked) {
        Ok(record) => {
            reply(w, &SetclientidOk { clientid: record.client, setclientid_confirm: record.confirm })
        }
        Err(Refused::Later) => Err(Stop::Status(Status::DELAY)),
        Err(Refused::InUse(user)) => {
            let (r_netid, r_addr) = universal(user);
            NetAddr { r_netid, r_addr: r_addr.as_bytes() }.encode(w);
            Err(Stop::Written(Status::CLID_INUSE))
        }
    }
}

/// A universal address (RFC 5665) with a port that is not known.
fn universal(address: IpAddr) -> (&'static [u8], String) {
    let netid: &[u8] = if address.is_ipv4() { b"tcp" } else { b"tcp6" };
    (netid, format!("{address}.0.0"))
}

/// RFC 7530 §16.34.
pub(in crate::v4) fn setclientid_confirm(ops: &mut Ops<'_, '_>, args: &SetclientidConfirmArgs) -> Done {
    let caller = principal(ops);
    Ok(ops.call.service.v4.confirm_client_id(args.clientid, args.setclientid_confirm, &caller)?)
}

/// RFC 7530 §16.28.
pub(in crate::v4) fn renew(ops: &mut Ops<'_, '_>, args: &RenewArgs) -> Done {
    ops.client_40(args.clientid).map(drop)
}

/// RFC 7530 §16.37.
pub(in crate::v4) fn release_lockowner(ops: &mut Ops<'_, '_>, args: &ReleaseLockownerArgs<'_>) -> Done {
    let client = ops.owner_client(&args.lock_owner)?;
    let mut held = client.held();
    let Some(number) = held.known_lock_owner(args.lock_owner.owner) else { return Ok(()) };
    let mut released = Vec::new();
    for (index, lock) in held.locks_by(number) {
        if held.open(lock.open)?.opened.file().holds_ranges(lock.owner) {
            return Err(Stop::Status(Status::LOCKS_HELD));
        }
        released.push(index);
    }
    for index in released {
        held.remove(index);
    }
    Ok(())
}
