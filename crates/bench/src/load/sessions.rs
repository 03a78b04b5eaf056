//! What the clients of a load have at the server: connections, and over NFSv4 sessions and open files.

use std::net::TcpStream;
use std::ops::Range;

use nfs_wire::v4::{ShareAccess, Stateid};

use super::file_set::FileSet;
use super::generator::{PlanGenerator, Templates};
use super::plan::Plan;
use super::stream::Stream;
use super::v4::{Origin, Place};
use super::{v3, v4};
use crate::client::Identity;
use crate::client::lease::LeaseKeeper;
use crate::client::session::ClientState;
use crate::error::Error;

/// The clients of a load at the server, while the load lives.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// Over NFSv4.
    keeper: LeaseKeeper,
}

/// One client: its calls, and each connection with the slots of its session that belong to it.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) templates: Templates,
    pub(super) connections: Vec<(TcpStream, Vec<Place>)>,
}

impl Sessions {
    /// Connects client `client`, and over NFSv4 gives it a session and opens the files that it works on.
    pub(super) fn client(
        &mut self,
        plan: &Plan,
        client: usize,
        identity: &Identity,
        file_set: &FileSet,
    ) -> Result<Attached, Error> {
        let (target, number) = (&plan.target, plan.first_client + client);
        let Some(minor) = target.version.minor() else {
            let address = target.address_for(number)?;
            let connect = |_| Ok((identity.connect(address)?, Vec::new()));
            let connections = (0..plan.connections).map(connect).collect::<Result<_, Error>>()?;
            let templates = Templates::V3(Box::new(v3::Templates::new(file_set, identity)));
            return Ok(Attached { templates, connections });
        };
        let slots: Vec<usize> =
            (0..plan.connections).map(|connection| PlanGenerator::slots(plan, client, connection)).collect();
        let total = u32::try_from(slots.iter().sum::<usize>()).unwrap_or(u32::MAX);
        let mut state = ClientState::new(target, number, identity, minor, total)?;
        let opens = open_files(plan, client, file_set, &mut state)?;
        let origin = Origin { identity, minor, client_id: state.id, opens };
        let templates = Templates::V4(Box::new(v4::Templates::new(file_set, &origin)));
        let mut places = (0..).zip(state.other_slots()).map(|(owner, slot)| Place::new(slot, owner));
        let connect = |slots| {
            let stream = state.connect(target, number)?;
            Ok((stream, places.by_ref().take(slots).collect()))
        };
        let connections = slots.into_iter().map(connect).collect::<Result<_, Error>>()?;
        self.keeper.keep(state)?;
        Ok(Attached { templates, connections })
    }
}

/// Opens the data files that a client works on with stateids of its own; of the others the stateid is that
/// of nobody.
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

/// Which data files a client works on.
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
