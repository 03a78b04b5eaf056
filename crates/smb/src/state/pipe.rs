//! Open pipes of IPC$ (MS-SMB2 §3.3.1.10, MS-RPCE §2.1.1.2).

use super::pending::Waker;
use crate::limits::user_share_max;
use crate::pipes::ContextHandles;
use smb_wire::rpc::{Association, Call, Fault, ReplyPart, WriteError};
use smb_wire::types::AccessMask;
use smb_wire::{FileId, NtStatus};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vfs::claims::Outcome;
use vfs::sync::Mutex;

/// The RPC interface of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PipeService {
    /// `srvsvc`: shares.
    Server,
    /// `wkssvc`: names of the host.
    Workstation,
    /// `lsarpc`: names of SIDs.
    Authority,
    /// `samr`: users and groups.
    Accounts,
}

pub(crate) struct Pipe {
    pub(crate) id: FileId,
    /// The tree connect of the pipe.
    pub(crate) tree_id: u32,
    pub(crate) service: PipeService,
    granted: AccessMask,
    state: Mutex<State>,
    budgets: [Budget; 3],
}

struct State {
    /// None once the client has written malformed RPC.
    association: Option<Association>,
    handles: ContextHandles,
    /// Bytes that the budgets count for this pipe.
    bytes: usize,
    /// READs that wait for data, in order of arrival.
    readers: VecDeque<Waker>,
}

/// A bound on the memory of pipes: incomplete calls, and unread replies. A session, a user and the process each have
/// one.
#[derive(Clone)]
pub(crate) struct Budget {
    bytes: Arc<AtomicUsize>,
    bytes_max: usize,
    /// The counter of all users, and its bound.
    all: Option<(Arc<AtomicUsize>, usize)>,
}

impl Budget {
    pub(crate) fn new(bytes: &Arc<AtomicUsize>, bytes_max: usize) -> Self {
        Self { bytes: Arc::clone(bytes), bytes_max, all: None }
    }

    /// A user's budget. The user's share of `all` is smaller while others leave less.
    pub(crate) fn beside(self, all: &Self) -> Self {
        Self { all: Some((Arc::clone(&all.bytes), all.bytes_max)), ..self }
    }

    fn is_used_up(&self) -> bool {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let most = |(all, all_max): &(Arc<AtomicUsize>, usize)| {
            user_share_max(self.bytes_max, *all_max, all.load(Ordering::Relaxed).saturating_sub(bytes))
        };
        bytes >= self.all.as_ref().map_or(self.bytes_max, most)
    }
}

impl Pipe {
    pub(crate) fn new(
        id: FileId,
        tree_id: u32,
        granted: AccessMask,
        service: PipeService,
        association: Association,
        budgets: [Budget; 3],
    ) -> Self {
        let handles = ContextHandles::of_pipe(id);
        let state = State { association: Some(association), handles, bytes: 0, readers: VecDeque::new() };
        Self { id, tree_id, service, granted, state: Mutex::new(state), budgets }
    }

    /// `STATUS_ACCESS_DENIED` unless all of `rights` were granted.
    pub(crate) fn check(&self, rights: AccessMask) -> Result<(), NtStatus> {
        if self.granted.contains(rights) { Ok(()) } else { Err(NtStatus::ACCESS_DENIED) }
    }

    /// Writes bytes of a client, and answers the calls that they complete.
    pub(crate) fn write(
        &self,
        bytes: &[u8],
        mut answer: impl FnMut(&mut ContextHandles, Call<'_>) -> Result<Vec<u8>, Fault>,
    ) -> Result<(), NtStatus> {
        let mut state = self.state.lock();
        let State { association, handles, .. } = &mut *state;
        let open = association.as_mut().ok_or(NtStatus::PIPE_DISCONNECTED)?;
        if self.budgets.iter().any(Budget::is_used_up) {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        let written = match open.write(bytes, |call| answer(handles, call)) {
            Ok(()) => Ok(()),
            Err(WriteError::UnreadReplies) => Err(NtStatus::PIPE_BUSY),
            Err(WriteError::Malformed(malformed)) => {
                tracing::info!(what = malformed.0, "a pipe is closed");
                state.association = None;
                state.handles = ContextHandles::of_pipe(self.id);
                Err(NtStatus::PIPE_DISCONNECTED)
            }
        };
        self.count(&mut state);
        drop(state);
        self.wake();
        written
    }

    /// Reads at most `length` bytes of replies; `STATUS_PIPE_EMPTY` if none is unread.
    pub(crate) fn read(&self, length: u32) -> Result<ReplyPart, NtStatus> {
        let mut state = self.state.lock();
        let read = match &mut state.association {
            Some(open) => {
                open.read(usize::try_from(length).unwrap_or(usize::MAX)).ok_or(NtStatus::PIPE_EMPTY)
            }
            None => Err(NtStatus::PIPE_DISCONNECTED),
        };
        self.count(&mut state);
        drop(state);
        // The rest belongs to the next READ.
        self.wake();
        read
    }

    pub(crate) fn has_unread(&self) -> Result<bool, NtStatus> {
        let state = self.state.lock();
        let open = state.association.as_ref().ok_or(NtStatus::PIPE_DISCONNECTED)?;
        Ok(open.has_unread())
    }

    /// Queues a READ until there is data.
    pub(crate) fn wait(&self, waker: &Waker) {
        self.state.lock().readers.push_back(waker.clone());
        // Data before this point has found no READ to wake.
        self.wake();
    }

    /// Removes a READ. Its data goes to the next one.
    pub(crate) fn cancel_wait(&self, async_id: u64) {
        self.state.lock().readers.retain(|waker| waker.request().async_id != async_id);
        self.wake();
    }

    /// Wakes the first READ if there is data, or the pipe is disconnected.
    fn wake(&self) {
        let mut state = self.state.lock();
        let has_news = state.association.as_ref().is_none_or(Association::has_unread);
        let first = if has_news { state.readers.pop_front() } else { None };
        drop(state);
        if let Some(waker) = first {
            waker.wake(Outcome::Again);
        }
    }

    /// Updates the budgets with the current memory.
    fn count(&self, state: &mut State) {
        let of_handles = state.handles.memory_bytes();
        let bytes = state.association.as_ref().map_or(0, |open| open.buffered_bytes() + of_handles);
        let previous = std::mem::replace(&mut state.bytes, bytes);
        for budget in &self.budgets {
            budget.bytes.fetch_add(bytes, Ordering::Relaxed);
            budget.bytes.fetch_sub(previous, Ordering::Relaxed);
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let previous = self.state.lock().bytes;
        for budget in &self.budgets {
            budget.bytes.fetch_sub(previous, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smb_wire::rpc::srvsvc;

    fn budget(bytes_max: usize) -> Budget {
        Budget::new(&Arc::default(), bytes_max)
    }

    fn within(budgets: [Budget; 3], granted: AccessMask) -> Pipe {
        let association = Association::new("\\PIPE\\srvsvc", &[srvsvc::INTERFACE]);
        let id = FileId { persistent: 1, volatile: 1 };
        Pipe::new(id, 1, granted, PipeService::Server, association, budgets)
    }

    fn pipe(granted: AccessMask) -> Pipe {
        within([budget(1000), budget(1000), budget(1000)], granted)
    }

    #[test]
    fn pipe_bytes_in_transit_are_counted_until_close() {
        let (of_session, of_all) = (budget(100), budget(150));
        let budgets = || [of_session.clone(), budget(1000), of_all.clone()];
        let counted = || [&of_session, &of_all].map(|budget| budget.bytes.load(Ordering::Relaxed));
        let (one, two) = (within(budgets(), AccessMask::FILE_ALL), within(budgets(), AccessMask::FILE_ALL));
        let other = within([budget(100), budget(1000), of_all.clone()], AccessMask::FILE_ALL);
        let refuse = |_: &mut ContextHandles, _: Call<'_>| Err(Fault::ACCESS_DENIED);
        // The beginning of a fragment that never becomes complete.
        let begin = [&[5, 0, 0, 3, 0x10, 0, 0, 0, 0xff, 0x0f, 0, 0, 1, 0, 0, 0][..], &[0; 44]].concat();
        assert_eq!(one.write(&begin, refuse), Ok(()));
        assert_eq!(two.write(&begin[..50], refuse), Ok(()));
        assert_eq!(counted(), [110, 110]);
        for pipe in [&one, &two] {
            assert_eq!(pipe.write(&[0], refuse), Err(NtStatus::INSUFFICIENT_RESOURCES));
        }
        assert_eq!(other.write(&begin, refuse), Ok(()), "another session has a budget of its own");
        assert_eq!(counted(), [110, 170]);
        assert_eq!(other.write(&[0], refuse), Err(NtStatus::INSUFFICIENT_RESOURCES), "up to that of all");
        drop(one);
        assert_eq!(counted(), [50, 110]);
        assert_eq!(two.write(&[0xff; 64], refuse), Ok(()), "more of the same unit");
        drop((two, other));
        assert_eq!(counted(), [0, 0]);
    }

    #[test]
    fn malformed_rpc_closes_the_pipe() {
        let pipe = pipe(AccessMask::FILE_ALL);
        let refuse = |_: &mut ContextHandles, _: Call<'_>| Err(Fault::ACCESS_DENIED);
        assert_eq!(pipe.read(100), Err(NtStatus::PIPE_EMPTY));
        assert_eq!(pipe.write(&[0xff; 64], refuse), Err(NtStatus::PIPE_DISCONNECTED));
        assert_eq!(pipe.write(&[], refuse), Err(NtStatus::PIPE_DISCONNECTED));
        assert_eq!(pipe.read(100), Err(NtStatus::PIPE_DISCONNECTED));
        assert_eq!(pipe.has_unread(), Err(NtStatus::PIPE_DISCONNECTED));
    }

    #[test]
    fn pipe_check_requires_all_rights() {
        let both = AccessMask::READ_DATA | AccessMask::WRITE_DATA;
        let reading = pipe(AccessMask::READ_DATA);
        assert_eq!(reading.check(AccessMask::READ_DATA), Ok(()));
        assert_eq!(reading.check(AccessMask::WRITE_DATA), Err(NtStatus::ACCESS_DENIED));
        assert_eq!(reading.check(both), Err(NtStatus::ACCESS_DENIED));
        assert_eq!(pipe(both).check(both), Ok(()));
    }
}
