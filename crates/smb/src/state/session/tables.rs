//! Tree connects, opens, pipes and asynchronous requests of a session.

use super::Session;
use crate::limits::{
    ANONYMOUS_PIPE_BYTES_MAX, ANONYMOUS_PIPES_MAX, PIPE_BYTES_MAX, PIPE_BYTES_OF_USER_MAX, SESSION_OPENS_MAX,
    SESSION_PIPE_BYTES_MAX, SESSION_PIPES_MAX, TREES_MAX,
};
use crate::state::counters::{CountGuard, Counters};
use crate::state::id_table::IdTable;
use crate::state::open::Open;
use crate::state::pending::{AsyncCommandList, AsyncRequest, Waker};
use crate::state::pending_quota::QuotaPermit;
use crate::state::pipe::{Budget, Pipe};
use crate::state::tree::{Share, TreeConnect};
use crate::state::user_quota::UserQuota;
use smb_wire::{FileId, NtStatus};
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[derive(Default)]
pub(super) struct SessionTables {
    trees: IdTable<u32, Arc<TreeConnect>>,
    last_tree: u32,
    opens: IdTable<FileId, Arc<Open>>,
    pipes: IdTable<FileId, Arc<Pipe>>,
    /// The user's quota, from the end of the setup on.
    pub(super) user: Arc<UserQuota>,
    pub(super) user_guard: Option<CountGuard>,
}

impl Session {
    pub(crate) fn user(&self) -> Arc<UserQuota> {
        Arc::clone(&self.tables.lock().user)
    }

    /// Creates the waker of a request. Fails if the request's object is closed already; a later close ends the
    /// request.
    pub(crate) fn waker(&self, request: AsyncRequest, permits: [QuotaPermit; 3]) -> Result<Waker, NtStatus> {
        let waker =
            Waker::new(&self.async_commands, request, permits).ok_or(NtStatus::USER_SESSION_DELETED)?;
        if self.tables.lock().has_target_of(&request) {
            return Ok(waker);
        }
        waker.finish();
        Err(request.status_on_close)
    }

    pub(crate) fn async_commands(&self) -> &Arc<AsyncCommandList> {
        &self.async_commands
    }

    pub(crate) fn tree(&self, id: u32) -> Option<Arc<TreeConnect>> {
        self.tables.lock().trees.get(&id).cloned()
    }

    pub(crate) fn trees(&self) -> Vec<Arc<TreeConnect>> {
        self.tables.lock().trees.values().cloned().collect()
    }

    /// Adds a tree connect, within the bounds of the session and of all.
    pub(crate) fn add_tree(&self, counters: &Counters, share: Share, trees_max: usize) -> Option<u32> {
        let mut tables = self.tables.lock();
        if tables.trees.len() >= trees_max || self.is_over.load(Ordering::SeqCst) {
            return None;
        }
        let guard = [tables.user.tree(counters.trees())?, counters.tree(TREES_MAX)?];
        let id = loop {
            tables.last_tree = tables.last_tree.wrapping_add(1);
            // 0 and the highest id are reserved (MS-SMB2 §2.2.1.2).
            if !matches!(tables.last_tree, 0 | u32::MAX) && !tables.trees.contains_key(&tables.last_tree) {
                break tables.last_tree;
            }
        };
        tables.trees.insert(id, Arc::new(TreeConnect { id, share, _guards: guard }));
        Some(id)
    }

    pub(crate) fn remove_tree(&self, counters: &Counters, tree: &Arc<TreeConnect>) -> Vec<Arc<Open>> {
        let mut tables = self.tables.lock();
        tables.trees.remove(&tree.id);
        let of_tree =
            |_: &FileId, open: &mut Arc<Open>| tree.disk().is_some_and(|disk| Arc::ptr_eq(disk, &open.disk));
        let opens: Vec<Arc<Open>> = tables.opens.extract_if(of_tree).map(|(_, open)| open).collect();
        let pipes = tables.pipes.extract_if(|_, pipe| pipe.tree_id == tree.id).count();
        tables.user.release_opens(counters, opens.len());
        tables.user.release_pipes(counters, pipes);
        drop(tables);
        self.async_commands.end_matching(|request| request.tree_id == tree.id);
        opens
    }

    pub(crate) fn open(&self, id: FileId) -> Option<Arc<Open>> {
        self.tables.lock().opens.get(&id).cloned()
    }

    pub(crate) fn find_opens(&self, is: impl Fn(&Open) -> bool) -> Vec<Arc<Open>> {
        self.tables.lock().opens.values().filter(|open| is(open)).cloned().collect()
    }

    /// Adds an open of a tree connect, if there is room.
    pub(crate) fn add_open(
        &self,
        counters: &Counters,
        tree_id: u32,
        open: &Arc<Open>,
    ) -> Result<(), NtStatus> {
        let mut tables = self.tables.lock();
        tables.check_tree(tree_id)?;
        let has_room = tables.has_room() && !self.is_over.load(Ordering::SeqCst);
        if !has_room || !tables.user.count_open(counters) {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        tables.opens.insert(open.id, Arc::clone(open));
        Ok(())
    }

    /// Replaces the open with the same id, and returns the old one; none if it was closed.
    pub(crate) fn replace_open(&self, open: &Arc<Open>) -> Option<Arc<Open>> {
        self.tables.lock().opens.get_mut(&open.id).map(|old| std::mem::replace(old, Arc::clone(open)))
    }

    /// Removes an open, which the caller closes.
    pub(crate) fn remove_open(&self, counters: &Counters, id: FileId) -> Option<Arc<Open>> {
        let mut tables = self.tables.lock();
        let open = tables.opens.remove(&id)?;
        tables.user.release_opens(counters, 1);
        drop(tables);
        self.async_commands.close_file(id);
        Some(open)
    }

    pub(crate) fn pipe(&self, id: FileId) -> Option<Arc<Pipe>> {
        self.tables.lock().pipes.get(&id).cloned()
    }

    pub(crate) fn pipe_budgets(&self, counters: &Counters) -> [Budget; 3] {
        let (of_all, bytes_max) = match self.is_anonymous() {
            true => (&counters.anonymous_pipe_bytes, ANONYMOUS_PIPE_BYTES_MAX),
            false => (&counters.pipe_bytes, PIPE_BYTES_MAX),
        };
        let of_all = Budget::new(of_all, bytes_max);
        let user_guard = Budget::new(&self.user().pipe_bytes, PIPE_BYTES_OF_USER_MAX).beside(&of_all);
        [Budget::new(&self.pipe_bytes, SESSION_PIPE_BYTES_MAX), user_guard, of_all]
    }

    /// Adds a pipe, if there is room.
    pub(crate) fn add_pipe(&self, counters: &Counters, pipe: Pipe) -> Result<(), NtStatus> {
        let mut tables = self.tables.lock();
        tables.check_tree(pipe.tree_id)?;
        let pipes_max = if self.is_anonymous() { ANONYMOUS_PIPES_MAX } else { SESSION_PIPES_MAX };
        let has_room = tables.has_room() && tables.pipes.len() < pipes_max;
        if !has_room || self.is_over.load(Ordering::SeqCst) || !tables.user.count_pipe(counters) {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        tables.pipes.insert(pipe.id, Arc::new(pipe));
        Ok(())
    }

    /// Removes a pipe with its unread replies.
    pub(crate) fn remove_pipe(&self, counters: &Counters, id: FileId) -> Option<Arc<Pipe>> {
        let mut tables = self.tables.lock();
        let pipe = tables.pipes.remove(&id)?;
        tables.user.release_pipes(counters, 1);
        drop(tables);
        self.async_commands.close_file(id);
        Some(pipe)
    }

    pub(crate) fn end(&self, counters: &Counters) -> Vec<Arc<Open>> {
        let mut tables = self.tables.lock();
        self.is_over.store(true, Ordering::SeqCst);
        *self.pending_session.lock() = None;
        let SessionTables { trees, opens, pipes, user, user_guard, .. } = std::mem::take(&mut *tables);
        drop(tables);
        self.async_commands.end_all();
        user.release_opens(counters, opens.len());
        user.release_pipes(counters, pipes.len());
        drop((trees, user_guard));
        opens.into_values().collect()
    }
}

impl SessionTables {
    /// Fails if the tree connect ended while an object was being opened in it.
    fn check_tree(&self, id: u32) -> Result<(), NtStatus> {
        if self.trees.contains_key(&id) { Ok(()) } else { Err(NtStatus::NETWORK_NAME_DELETED) }
    }

    /// Whether the objects of a request are still open.
    fn has_target_of(&self, request: &AsyncRequest) -> bool {
        let has = |id: FileId| self.opens.contains_key(&id) || self.pipes.contains_key(&id);
        self.trees.contains_key(&request.tree_id) && request.file.is_none_or(has)
    }

    fn has_room(&self) -> bool {
        self.opens.len() + self.pipes.len() < SESSION_OPENS_MAX
    }
}
