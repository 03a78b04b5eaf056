//! The clients' state at the server: connections, and over NFSv4 and SMB sessions and open files.

use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;

use nfs_wire::v4::{ShareAccess, Stateid};
use wire_client::nfs4::lease::LeaseKeeper;
use wire_client::nfs4::session::ClientState;
use wire_client::smb::channel::Channel;
use wire_client::smb::session::Session;
use wire_client::{Identity, Version};

use super::dialect::Dialect;
use super::file_set::FileSet;
use super::generator::PlanGenerator;
use super::plan::{Kind, Plan};
use super::stream::Stream;
use super::v4::{ClientContext, SlotState};
use super::{smb, v3, v4};
use crate::error::Error;

#[derive(Debug, Default)]
pub(super) struct Sessions {
    keeper: LeaseKeeper,
}

#[derive(Debug)]
pub(super) struct ClientConnection {
    pub(super) stream: TcpStream,
    pub(super) dialect: Dialect,
    pub(super) channel: Option<Channel>,
}

impl ClientConnection {
    fn new(stream: TcpStream, dialect: Dialect) -> Self {
        Self { stream, dialect, channel: None }
    }
}

impl Sessions {
    /// Over NFSv4 and SMB also creates sessions and opens files.
    pub(super) fn client(
        &mut self,
        plan: &Plan,
        client: usize,
        identity: &Identity,
        file_set: &FileSet,
    ) -> Result<Vec<ClientConnection>, Error> {
        let (target, number) = (&plan.target, plan.first_client + client);
        let connections = 0..plan.connections;
        match target.version {
            Version::V3 => {
                let address = target.address_for(number)?;
                let templates = Arc::new(v3::Templates::new(file_set, identity));
                let attach = |_| {
                    let dialect = Dialect::V3(Arc::clone(&templates));
                    Ok(ClientConnection::new(identity.connect(address)?, dialect))
                };
                connections.map(attach).collect()
            }
            Version::V41 => self.with_session(plan, client, identity, file_set, 1),
            Version::V42 => self.with_session(plan, client, identity, file_set, 2),
            Version::Smb(_) => {
                let connections: Vec<usize> = connections.collect();
                let sessions = connections.chunks(target.channels.max(1));
                let attached = sessions.map(|own| over_smb(plan, client, own, identity, file_set));
                Ok(attached.collect::<Result<Vec<_>, Error>>()?.into_iter().flatten().collect())
            }
        }
    }

    fn with_session(
        &mut self,
        plan: &Plan,
        client: usize,
        identity: &Identity,
        file_set: &FileSet,
        minor: u32,
    ) -> Result<Vec<ClientConnection>, Error> {
        let (target, number) = (&plan.target, plan.first_client + client);
        let slots: Vec<usize> =
            (0..plan.connections).map(|connection| PlanGenerator::slots(plan, client, connection)).collect();
        let total = u32::try_from(slots.iter().sum::<usize>()).unwrap_or(u32::MAX);
        let mut state = ClientState::new(target, number, identity, minor, total)?;
        let opens = open_files(plan, client, file_set, &mut state)?;
        let origin = ClientContext { identity, minor, client_id: state.id, opens };
        let templates = Arc::new(v4::Templates::new(file_set, &origin));
        let mut places = (0..).zip(state.load_slots()).map(|(owner, slot)| SlotState::new(slot, owner));
        let connect = |slots| {
            let stream = state.connect(target, number)?;
            let places = places.by_ref().take(slots).collect();
            Ok(ClientConnection::new(stream, Dialect::V4(Arc::clone(&templates), places)))
        };
        let connections = slots.into_iter().map(connect).collect::<Result<_, Error>>()?;
        self.keeper.add(state)?;
        Ok(connections)
    }
}

/// Creates one session for all these connections.
fn over_smb(
    plan: &Plan,
    client: usize,
    connections: &[usize],
    identity: &Identity,
    file_set: &FileSet,
) -> Result<Vec<ClientConnection>, Error> {
    let number = plan.first_client + client;
    let mut channels = Session::open_channels(&plan.target, number, identity, connections.len())?;
    let shared = smb::SharedOpens::new(plan, files_of(plan, client), file_set, &mut channels[0])?;
    let shared = Arc::new(shared);
    let attach = |(mut session, &connection): (Session, &usize)| {
        let slots = PlanGenerator::slots(plan, client, connection);
        let opens = smb::Opens::new(plan, slots, Arc::clone(&shared), &mut session)?;
        let (stream, channel) = session.into_parts();
        check_credits(plan, &channel)?;
        Ok(ClientConnection { stream, dialect: Dialect::Smb(Box::new(opens)), channel: Some(channel) })
    };
    channels.into_iter().zip(connections).map(attach).collect()
}

/// Refuses a plan whose longest call costs more credits than the server grants.
fn check_credits(plan: &Plan, channel: &Channel) -> Result<(), Error> {
    let transfer = u32::try_from(plan.transfer()).unwrap_or(u32::MAX);
    let charge = smb::charge(Kind::Read, transfer).max(smb::charge(Kind::Lookup, transfer));
    if channel.affords(charge) {
        return Ok(());
    }
    Err(Error::Plan(format!("a call takes {charge} credits; this server grants less ({channel:?})")))
}

/// Opens the data files that a client uses. Other files get the anonymous stateid.
fn open_files(
    plan: &Plan,
    client: usize,
    file_set: &FileSet,
    state: &mut ClientState,
) -> Result<Vec<Stateid>, Error> {
    let mut opens = vec![Stateid::ANONYMOUS; file_set.files.len()];
    if !plan.op.holds_files_open() {
        return Ok(opens);
    }
    let access = if plan.op.writes() { ShareAccess::BOTH } else { ShareAccess::READ };
    for file in files_of(plan, client) {
        opens[file] = state.open(&file_set.files[file], access)?;
    }
    Ok(opens)
}

fn files_of(plan: &Plan, client: usize) -> Range<usize> {
    let streams = Stream::all(plan);
    let own = (0..plan.connections).flat_map(|connection| Stream::of_connection(plan, client, connection));
    let own = own.map(|stream| &streams[stream]);
    let file = |block: u64| usize::try_from(block / plan.blocks_per_file().max(1)).unwrap_or(usize::MAX);
    let (first, last) = own.fold((u64::MAX, 0), |(first, last), stream| {
        (first.min(stream.first), last.max(stream.first + stream.blocks.max(1) - 1))
    });
    file(first).min(plan.files)..(file(last) + 1).min(plan.files)
}
