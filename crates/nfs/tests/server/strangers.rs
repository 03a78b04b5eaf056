//! Hosts that no export rule admits, over real connections: their client records do not exclude other clients.

use crate::support::client::{Client, Running, mark, system_clock};
use crate::support::{VOLUME, trusting, volume};
use nfs_wire::rpc::{AuthFlavor, AuthSys, CallHeader, OpaqueAuth, RPC_VERSION};
use nfs_wire::v4::{
    Argument, CbClient, ChannelAttrs, ClientOwner, CompoundHead, CompoundReplyHead, CreateSessionArgs,
    CreateSessionFlags, CreateSessionReply, DestroyClientidArgs, ExchangeIdArgs, ExchangeIdFlags,
    ExchangeIdReply, NetAddr, NfsClientId, OpReply, SetclientidArgs, SetclientidConfirmArgs,
    SetclientidReply, StateProtect, Status,
};
use std::io::Write;
use vfs::{Durability, Export, ExportRule, Namespace};
use vfs_testing::MemFs;
use xdr::{Decode, Encode, Inline, Reader};

/// More than the maximum of unconfirmed clients.
const FLOOD: u32 = 5000;
const REAL: [u8; 4] = [127, 0, 0, 2];

/// A service that exports only to [`REAL`].
fn running() -> Running {
    let clients = vec!["127.0.0.2".parse().unwrap()];
    let rule = ExportRule { clients, ..trusting() };
    let volume = volume(VOLUME, std::sync::Arc::new(MemFs::new(system_clock())), Durability::Sync);
    Running::serving(Namespace::new([Export::new("/vol", volume, vec![rule])]))
}

/// A COMPOUND of one operation by root.
fn compound(xid: u32, minorversion: u32, operation: &Argument<'_>) -> Vec<u8> {
    let sys = AuthSys { stamp: 1, machinename: b"ship", uid: 0, gid: 0, gids: Inline::default() }.to_bytes();
    let cred = OpaqueAuth { flavor: AuthFlavor::SYS, body: &sys };
    let verf = OpaqueAuth::default();
    let header = CallHeader { xid, rpcvers: RPC_VERSION, prog: 100_003, vers: 4, proc: 1, cred, verf };
    let head = CompoundHead { tag: b"", minorversion, operations: 1 };
    let record = [header.to_bytes(), head.to_bytes(), operation.to_bytes()].concat();
    [&mark(true, record.len())[..], &record].concat()
}

/// Performs one operation. Returns the value that `take` extracts from its result, or its status.
fn ask<R>(
    client: &mut Client,
    minor: u32,
    operation: &Argument<'_>,
    take: impl FnOnce(&OpReply<'_>) -> Option<R>,
) -> Result<R, Status> {
    client.stream.write_all(&compound(7, minor, operation)).unwrap();
    let results = client.receive().results;
    let mut r = Reader::new(&results);
    let head = CompoundReplyHead::decode(&mut r).unwrap();
    let result = OpReply::decode(&mut r).unwrap();
    take(&result).ok_or(head.status)
}

fn introduction(ownerid: &[u8]) -> Argument<'_> {
    Argument::ExchangeId(ExchangeIdArgs {
        clientowner: ClientOwner { verifier: [1; 8], ownerid },
        flags: ExchangeIdFlags(0),
        state_protect: StateProtect::None,
        client_impl_id: None,
    })
}

fn introduction_40(id: &[u8]) -> Argument<'_> {
    Argument::Setclientid(SetclientidArgs {
        client: NfsClientId { verifier: [1; 8], id },
        callback: CbClient { cb_program: 0, cb_location: NetAddr::default() },
        callback_ident: 0,
    })
}

/// The client ID of a client with a session, in 4.1 and 4.2, or with a confirmed ID, in 4.0.
fn begin(client: &mut Client, minor: u32, name: &[u8]) -> Result<u64, Status> {
    if minor == 0 {
        let (clientid, setclientid_confirm) = ask(client, 0, &introduction_40(name), |reply| match reply {
            OpReply::Setclientid(SetclientidReply::Ok(ok)) => Some((ok.clientid, ok.setclientid_confirm)),
            _ => None,
        })?;
        let confirm = Argument::SetclientidConfirm(SetclientidConfirmArgs { clientid, setclientid_confirm });
        return match ask(client, 0, &confirm, |_| None::<()>) {
            Err(Status::OK) => Ok(clientid),
            refused => refused.map(|()| clientid),
        };
    }
    let (clientid, sequence) = ask(client, minor, &introduction(name), |reply| match reply {
        OpReply::ExchangeId(ExchangeIdReply::Ok(ok)) => Some((ok.clientid, ok.sequenceid)),
        _ => None,
    })?;
    let attrs = ChannelAttrs {
        headerpadsize: 0,
        maxrequestsize: 1 << 20,
        maxresponsesize: 1 << 20,
        maxresponsesize_cached: 4096,
        maxoperations: 8,
        maxrequests: 4,
        rdma_ird: None,
    };
    let creation = Argument::CreateSession(CreateSessionArgs {
        clientid,
        sequence,
        flags: CreateSessionFlags(0),
        fore_chan_attrs: attrs,
        back_chan_attrs: attrs,
        cb_program: 0x4000_0000,
        sec_parms: vec![],
    });
    let is_made = |reply: &OpReply<'_>| matches!(reply, OpReply::CreateSession(CreateSessionReply::Ok(_)));
    ask(client, minor, &creation, |reply| is_made(reply).then_some(clientid))
}

#[test]
fn a_flood_of_client_ids_by_strangers_excludes_no_client() {
    for minor in 0..3 {
        let running = running();
        for host in 9..12 {
            let mut stranger = Client::connect_as([127, 0, 0, host], running.address);
            // Pipelined, but below the limit of unread replies.
            for first in (0..FLOOD).step_by(100) {
                let names: Vec<[u8; 8]> = (first..first + 100)
                    .map(|number| (u64::from(number) << 8 | u64::from(host)).to_be_bytes())
                    .collect();
                let calls = names.iter().map(|name| match minor {
                    0 => compound(1, 0, &introduction_40(name)),
                    _ => compound(1, minor, &introduction(name)),
                });
                stranger.stream.write_all(&calls.collect::<Vec<_>>().concat()).unwrap();
                (0..100).for_each(|_| _ = stranger.receive());
            }
        }
        let mut real = Client::connect_as(REAL, running.address);
        for number in 0..300_u32 {
            let begun = begin(&mut real, minor, &number.to_be_bytes());
            assert!(begun.is_ok(), "4.{minor}, client {number}: {begun:?}");
        }
        drop(running);
    }
}

#[test]
fn a_flood_of_confirmed_clients_by_strangers_excludes_no_client() {
    for minor in 0..3 {
        let running = running();
        let mut made = 0;
        for host in 9..15 {
            let mut stranger = Client::connect_as([127, 0, 0, host], running.address);
            made += (0..400_u32)
                .filter(|number| {
                    begin(&mut stranger, minor, &[&[host][..], &number.to_be_bytes()].concat()).is_ok()
                })
                .count();
        }
        assert!((1..400).contains(&made), "4.{minor}: {made} clients of strangers");
        let mut real = Client::connect_as(REAL, running.address);
        for number in 0..300_u32 {
            let begun = begin(&mut real, minor, &number.to_be_bytes());
            assert!(begun.is_ok(), "4.{minor}, client {number}: {begun:?}");
        }
    }
}

#[test]
fn a_stranger_cannot_take_the_name_or_id_of_a_client() {
    for minor in 0..3 {
        let running = running();
        let mut stranger = Client::connect_as([127, 0, 0, 9], running.address);
        begin(&mut stranger, minor, b"ship").unwrap();
        let mut real = Client::connect_as(REAL, running.address);
        let number = begin(&mut real, minor, b"ship").unwrap();
        if minor > 0 {
            let mut introduced = Client::connect_as(REAL, running.address);
            let clientid = ask(&mut introduced, minor, &introduction(b"boat"), |reply| match reply {
                OpReply::ExchangeId(ExchangeIdReply::Ok(ok)) => Some(ok.clientid),
                _ => None,
            });
            let clientid = clientid.unwrap();
            let destroy = Argument::DestroyClientid(DestroyClientidArgs { clientid });
            let destroyed = ask(&mut stranger, minor, &destroy, |_| None::<()>);
            assert_eq!(destroyed, Err(Status::STALE_CLIENTID), "4.{minor}");
            let destroyed = ask(&mut introduced, minor, &destroy, |_| None::<()>);
            assert_eq!(destroyed, Err(Status::OK), "4.{minor}: it was still there");
        }
        assert_eq!(begin(&mut real, minor, b"ship"), Ok(number), "4.{minor}: it is what it was");
    }
}
