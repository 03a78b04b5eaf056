//! The clients of the job sets at the server: connections, and over NFSv4 a session.

use std::net::TcpStream;

use super::generator::{Dialect, ProcessGenerator, WORKERS_MAX, Worker};
use super::mix::TRANSFER_MAX;
use super::{v3, v4};
use crate::client::Identity;
use crate::client::lease::LeaseKeeper;
use crate::client::session::ClientState;
use crate::driver::buffers::{Framing, Inbox};
use crate::driver::calls::Calls;
use crate::driver::connection::Connection;
use crate::engine::job::Job;
use crate::error::Error;
use crate::target::Target;

/// Room in a reply for everything but data.
const REPLY_OVERHEAD: usize = 1024;

/// A client, as it names itself, and the address of the target that it has, where there are several.
#[derive(Debug)]
pub(super) struct EdaClient {
    pub(super) name: String,
    pub(super) endpoint: Option<String>,
}

/// All clients, with their connections one client after another.
pub(super) struct Connected {
    pub(super) connections: Vec<Connection<ProcessGenerator>>,
    pub(super) clients: Vec<EdaClient>,
    /// Keeps those of NFSv4.
    pub(super) leases: LeaseKeeper,
}

/// Connects every client, each connection with its workers.
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
        let dialects = dialects(target, &identity, number, &of_client, &mut leases)?;
        for (workers, (stream, dialect)) in of_client.into_iter().zip(dialects) {
            let seed = job.seed ^ (connections.len() as u64 + 1).rotate_left(20);
            let generator =
                |transfer_max| ProcessGenerator::new(dialect, client, workers, transfer_max, seed);
            connections.push(connection(job, stream, generator)?);
        }
        clients.push(EdaClient { name, endpoint: target.endpoint_for(number)? });
    }
    Ok(Connected { connections, clients, leases })
}

/// Opens the connections of a client, and says how it speaks on each. Over NFSv4 each of its workers has a slot in
/// its session.
fn dialects(
    target: &Target,
    identity: &Identity,
    number: usize,
    workers: &[Vec<Worker>],
    leases: &mut LeaseKeeper,
) -> Result<Vec<(TcpStream, Dialect)>, Error> {
    let Some(minor) = target.version.minor() else {
        let address = target.address_for(number)?;
        let connect = |_| Ok((identity.connect(address)?, Dialect::V3(v3::Headers::new(identity))));
        return workers.iter().map(connect).collect();
    };
    let slots = u32::try_from(workers.iter().map(Vec::len).sum::<usize>()).unwrap_or(u32::MAX);
    let state = ClientState::new(target, number, identity, minor, slots)?;
    let mut slots = state.other_slots().into_iter();
    let connect = |workers: &Vec<Worker>| {
        let places = workers.iter().zip(&mut slots).map(|(worker, slot)| v4::Place::new(slot, worker.number));
        let dialect = Dialect::V4(v4::Origin::new(identity, minor, state.id), places.collect());
        Ok::<_, Error>((state.connect(target, number)?, dialect))
    };
    let connected = workers.iter().map(connect).collect::<Result<_, _>>()?;
    leases.keep(state)?;
    Ok(connected)
}

fn connection(
    job: &Job,
    stream: TcpStream,
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
    Connection::new(
        stream,
        calls,
        Inbox::new(transfer_max + REPLY_OVERHEAD, Framing::RecordMark, false),
        generator,
    )
}
