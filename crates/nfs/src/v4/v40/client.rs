//! Clients of 4.0: SETCLIENTID, SETCLIENTID_CONFIRM, RENEW, RELEASE_LOCKOWNER, RFC 7530 §16.33, §16.34, §16.28, §16.37.

use crate::state::nfs4::client_name::registered_name;
use crate::state::nfs4::v40::registry::{ClientIdRequest, SetClientIdError};
use crate::v4::compound_state::{CompoundState, OpError, OpResult, reply};
use crate::v4::session::principal;
use nfs_wire::v4::{
    NetAddr, ReleaseLockownerArgs, RenewArgs, SetclientidArgs, SetclientidConfirmArgs, SetclientidOk, Status,
};
use std::net::IpAddr;
use xdr::{Encode, Writer};

/// RFC 7530 §16.33. Where the client takes callbacks is not used: there are no delegations in 4.0.
pub(in crate::v4) fn setclientid(
    cx: &mut CompoundState<'_, '_>,
    args: &SetclientidArgs<'_>,
    w: &mut Writer<'_>,
) -> OpResult {
    let party = cx.call.party();
    let id = registered_name(args.client.id, cx.call.protection, party.is_stranger);
    let request =
        ClientIdRequest { id: &id, verifier: args.client.verifier, principal: principal(cx), party };
    match cx.call.service.v4.set_client_id(&request) {
        Ok(record) => {
            reply(w, &SetclientidOk { clientid: record.client, setclientid_confirm: record.confirm })
        }
        Err(SetClientIdError::Later) => Err(OpError::Status(Status::DELAY)),
        Err(SetClientIdError::InUse(user)) => {
            let (r_netid, r_addr) = universal(user);
            NetAddr { r_netid, r_addr: r_addr.as_bytes() }.encode(w);
            Err(OpError::Written(Status::CLID_INUSE))
        }
    }
}

/// A universal address (RFC 5665) with a port that is not known.
fn universal(address: IpAddr) -> (&'static [u8], String) {
    let netid: &[u8] = if address.is_ipv4() { b"tcp" } else { b"tcp6" };
    (netid, format!("{address}.0.0"))
}

/// RFC 7530 §16.34.
pub(in crate::v4) fn setclientid_confirm(
    cx: &mut CompoundState<'_, '_>,
    args: &SetclientidConfirmArgs,
) -> OpResult {
    let caller = principal(cx);
    Ok(cx.call.service.v4.confirm_client_id(args.clientid, args.setclientid_confirm, &caller)?)
}

/// RFC 7530 §16.28.
pub(in crate::v4) fn renew(cx: &mut CompoundState<'_, '_>, args: &RenewArgs) -> OpResult {
    cx.client_40(args.clientid).map(drop)
}

/// RFC 7530 §16.37.
pub(in crate::v4) fn release_lockowner(
    cx: &mut CompoundState<'_, '_>,
    args: &ReleaseLockownerArgs<'_>,
) -> OpResult {
    let client = cx.owner_client(&args.lock_owner)?;
    let mut states = client.held();
    let Some(number) = states.known_lock_owner(args.lock_owner.owner) else { return Ok(()) };
    let mut released = Vec::new();
    for (index, lock) in states.locks_by(number) {
        if states.open(lock.open)?.opened.file().holds_ranges(lock.owner) {
            return Err(OpError::Status(Status::LOCKS_HELD));
        }
        released.push(index);
    }
    for index in released {
        states.remove(index);
    }
    Ok(())
}
