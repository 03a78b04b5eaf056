//! Admission of commands to the limits of their volumes.
//!
//! A message is admitted as a whole where possible. Commands in other volumes, and commands after one that needs no
//! admission, are admitted one by one.

use super::price::{demand, demand_of_all, ends_waits};
use crate::request::context::RequestContext;
use crate::request::outcome::CommandError;
use smb_wire::compound::Message;
use vfs::qos::{Admission, Demand, is_anything_limited};
use vfs::{VolumeId, Wait};

/// The admission of a compound so far.
#[derive(Default)]
pub(super) struct AdmissionState {
    /// The volume that has admitted the rest of the message, or only the next command.
    pub(super) admitted_volume: Option<VolumeId>,
    is_single: bool,
    /// The volume that has counted all operations of the message, so that only bytes are due there.
    counted_volume: Option<VolumeId>,
    /// The position of the command that was admitted by itself.
    position: Option<usize>,
    /// The admission that the next command waits for.
    due: Option<(VolumeId, Admission)>,
}

#[derive(Clone, Copy)]
pub(super) struct CommandInMessage<'m> {
    pub(super) request: &'m Message<'m>,
    /// The bytes of the message from this command on.
    pub(super) remaining: &'m [u8],
    pub(super) position: usize,
}

impl AdmissionState {
    /// Admits the next command, unless its volume has admitted the message. A message cannot evade a limit with
    /// commands in several tree connects. A refused command waits together with all commands after it.
    pub(super) fn admit(
        &mut self,
        cx: &mut RequestContext<'_, '_>,
        command: CommandInMessage<'_>,
    ) -> Result<(), CommandError> {
        let Some(disk) = cx.tree.as_ref().and_then(|tree| tree.disk()) else { return Ok(()) };
        let volume = &disk.export.volume;
        let CommandInMessage { request, remaining, position } = command;
        // A copy in progress acquires a permit for each part.
        let is_admitted = self.admitted_volume == Some(volume.id())
            || self.position == Some(position)
            || cx.wait.copy_progress.is_some();
        if !is_anything_limited() || is_admitted || ends_waits(request.header.command) {
            return Ok(());
        }
        let client = cx.message.client_address;
        let admission = |demand: Demand| {
            let demand = match self.counted_volume == Some(volume.id()) {
                true => Some(demand.without_operations()).filter(|demand| !demand.is_nothing())?,
                false => demand,
            };
            volume.admission(client, demand)
        };
        // Before anything is done, the whole message can wait. Later, replies may have to leave first.
        let is_first = position == 0 && self.counted_volume.is_none() && request.header.next_command != 0;
        let whole = is_first.then(|| demand_of_all(remaining)).flatten();
        let demand = whole.unwrap_or_else(|| demand(request));
        let Some(due) = admission(demand) else { return Ok(()) };
        if let Ok(permit) = due.try_acquire() {
            let previous = cx.message.permit.replace(permit);
            cx.message.stats.record_transferred(previous);
            self.admitted_volume = whole.map(|_| volume.id()).or(self.admitted_volume);
            self.position = Some(position);
            return Ok(());
        }
        let all = demand_of_all(remaining);
        self.due = admission(all.unwrap_or(demand)).map(|admission| (volume.id(), admission));
        self.is_single = all.is_none();
        Err(CommandError::Wait(Wait::Tokens))
    }

    /// Ends the admission of a single command after the command.
    pub(super) fn finish_command(&mut self) {
        self.admitted_volume = self.admitted_volume.filter(|_| !self.is_single);
    }

    /// Ends the admission of the message so far. Later commands are admitted for their bytes only.
    pub(super) fn settle(&mut self) {
        let admitted = self.admitted_volume.take().filter(|_| !self.is_single);
        self.counted_volume = admitted.or(self.counted_volume);
    }

    /// Settles, and returns the admission that the rest of the message waits for. The rest counts as admitted from then
    /// on.
    pub(super) fn take_due(&mut self) -> Option<Admission> {
        self.settle();
        let (volume, admission) = self.due.take()?;
        self.admitted_volume = Some(volume);
        Some(admission)
    }

    /// The next command moves to the beginning of a message of its own.
    pub(super) fn rebase(&mut self, position: usize) {
        self.position = self.position.filter(|admitted| *admitted == position).map(|_| 0);
    }
}
