//! The clients of job sets: connections, and over NFSv4 and SMB sessions.

use std::net::TcpStream;

use wire_client::nfs3::call::Headers;
use wire_client::nfs4::call::{Encoder, OwnerSlot};
use wire_client::nfs4::lease::LeaseKeeper;
use wire_client::nfs4::session::ClientState;
use wire_client::smb::call::InFlight;
use wire_client::smb::channel::Channel;
use wire_client::smb::session::Session;
use wire_client::{Identity, Target};

use super::generator::{Dialect, ProcessGenerator, WORKERS_MAX, Worker};
use super::mix::TRANSFER_MAX;
use crate::driver::buffers::{Framing, Inbox};
use crate::driver::calls::Calls;
use crate::driver::connection::Connection;
use crate::error::Error;
use crate::job::Job;

const REPLY_OVERHEAD: usize = 1024;

#[derive(Debug)]
pub(super) struct EdaClient {
    pub(super) name: String,
    pub(super) endpoint: Option<String>,
}

pub(super) struct Connected {
    pub(super) connections: Vec<Connection<ProcessGenerator>>,
    pub(super) clients: Vec<EdaClient>,
    pub(super) leases: LeaseKeeper,
}

pub(super) fn connect(
    target: &Target,
    identity: &Identity,
    job: &Job,
    mut workers: Vec<Vec<Worker>>,
) -> Result<Connected, Error> {
    let (mut connections, mut clients) = (Vec::with_capacity(workers.len()), Vec::new());
    let mut leases = LeaseKeeper::default();
    for client in 0..job.clients {
        let number = job.first_client + client;
        let name = format!("{}-{number}", identity.machine);
        let identity = Identity { machine: name.clone(), ..identity.clone() };
        let of_client: Vec<_> = workers.drain(..job.connections).collect();
        let attached = attach(target, &identity, number, &of_client, &mut leases)?;
        for (workers, ClientConnection { stream, dialect, channel }) in of_client.into_iter().zip(attached) {
            let seed = job.seed ^ (connections.len() as u64 + 1).rotate_left(20);
            let generator =
                |transfer_max| ProcessGenerator::new(dialect, client, workers, transfer_max, seed);
            connections.push(connection(job, stream, channel, generator)?);
        }
        clients.push(EdaClient { name, endpoint: target.endpoint_for(number)? });
    }
    Ok(Connected { connections, clients, leases })
}

struct ClientConnection {
    stream: TcpStream,
    dialect: Dialect,
    channel: Option<Channel>,
}

/// Over NFSv4 each worker has a slot in the client's session.
fn attach(
    target: &Target,
    identity: &Identity,
    number: usize,
    workers: &[Vec<Worker>],
    leases: &mut LeaseKeeper,
) -> Result<Vec<ClientConnection>, Error> {
    if target.version.is_smb() {
        return over_smb(target, identity, number, workers);
    }
    let Some(minor) = target.version.minor() else {
        let address = target.address_for(number)?;
        let connect = |_| {
            let dialect = Dialect::V3(Headers::new(identity));
            Ok(ClientConnection { stream: identity.connect(address)?, dialect, channel: None })
        };
        return workers.iter().map(connect).collect();
    };
    let slots = u32::try_from(workers.iter().map(Vec::len).sum::<usize>()).unwrap_or(u32::MAX);
    let state = ClientState::new(target, number, identity, minor, slots)?;
    let mut slots = state.load_slots().into_iter();
    let connect = |workers: &Vec<Worker>| {
        let places = workers.iter().zip(&mut slots).map(|(worker, slot)| OwnerSlot::new(slot, worker.number));
        let dialect = Dialect::V4(Encoder::new(identity, minor, state.id), places.collect());
        Ok::<_, Error>(ClientConnection { stream: state.connect(target, number)?, dialect, channel: None })
    };
    let connected = workers.iter().map(connect).collect::<Result<_, _>>()?;
    leases.add(state)?;
    Ok(connected)
}

/// Sessions have as many connections as the target allows.
fn over_smb(
    target: &Target,
    identity: &Identity,
    number: usize,
    workers: &[Vec<Worker>],
) -> Result<Vec<ClientConnection>, Error> {
    let mut attached = Vec::new();
    for workers in workers.chunks(target.channels.max(1)) {
        let channels = Session::open_channels(target, number, identity, workers.len())?;
        for (session, workers) in channels.into_iter().zip(workers) {
            let (stream, channel) = session.into_parts();
            let places = workers.iter().map(|_| InFlight::default()).collect();
            attached.push(ClientConnection { stream, dialect: Dialect::Smb(places), channel: Some(channel) });
        }
    }
    Ok(attached)
}

fn connection(
    job: &Job,
    stream: TcpStream,
    channel: Option<Channel>,
    generator: impl FnOnce(usize) -> ProcessGenerator,
) -> Result<Connection<ProcessGenerator>, Error> {
    let gather = job.gather.and_then(|gather| usize::try_from(gather).ok());
    let transfer_max = gather.unwrap_or(0).max(TRANSFER_MAX as usize);
    let generator = generator(transfer_max);
    let mut calls = Calls::new(WORKERS_MAX, 16);
    if !generator.workers.iter().all(|_| calls.add_slot().is_some()) {
        return Err(Error::Plan(format!(
            "more than {WORKERS_MAX} processes for a connection; use more connections or clients"
        )));
    }
    let (framing, calls) = match channel {
        Some(channel) => (Framing::Smb, calls.with_channel(channel)),
        None => (Framing::RecordMark, calls),
    };
    Connection::new(stream, calls, Inbox::new(transfer_max + REPLY_OVERHEAD, framing, false), generator)
}
