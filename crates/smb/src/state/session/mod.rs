//! Sessions (MS-SMB2 §3.3.1.8).

pub(crate) mod channel;
mod keys;
pub(crate) mod login_throttle;
pub(crate) mod pending_setups;
mod seen_nonces;

use super::caching::breaks::Client;
use super::connection::negotiated::Negotiated;
use super::counters::{CountGuard, Counters};
use super::id_table::IdTable;
use super::open::Open;
use super::pending::{AsyncCommandList, AsyncRequest, Waker};
use super::pending_quota::QuotaPermit;
use super::pipe::{Budget, Pipe};
use super::tree::{Share, TreeConnect};
use super::user_quota::{UserQuota, UserQuotas};
use crate::limits::{
    ANONYMOUS_PIPE_BYTES_MAX, ANONYMOUS_PIPES_MAX, DELIVERY, DELIVERY_ALONE, PIPE_BYTES_MAX,
    PIPE_BYTES_OF_USER_MAX, SESSION_CHANNELS_MAX, SESSION_OPENS_MAX, SESSION_PIPE_BYTES_MAX,
    SESSION_PIPES_MAX, SESSIONS_MAX, SETUP_TIME_MAX, TREES_MAX,
};
use channel::Channel;
use identity::Identity;
use keys::Keys;
use pending_setups::PendingSession;
use seen_nonces::SeenNonces;
use smb_wire::apple::AppleCapabilities;
use smb_wire::negotiate::Capabilities;
use smb_wire::{FileId, NtStatus};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;
use transport::Outbox;
use vfs::claims::Effect;
use vfs::sync::Mutex;

pub(crate) struct Session {
    pub(crate) id: u64,
    established: OnceLock<Established>,
    /// The start of the setup, and the session's place among unproven ones, until a user has logged in.
    started: Instant,
    pending_session: Mutex<Option<PendingSession>>,
    guard: CountGuard,
    is_over: AtomicBool,
    /// `ChannelList`: the bound channels.
    channels: Mutex<Vec<Weak<Channel>>>,
    tables: Mutex<SessionTables>,
    async_commands: Arc<AsyncCommandList>,
    /// Bytes in transit over its pipes.
    pipe_bytes: Arc<AtomicUsize>,
    /// Nonces of encrypted messages, of all channels.
    seen_nonces: SeenNonces,
    user_quotas: UserQuotas,
    /// Apple capabilities that were announced to the client.
    apple_capabilities: AtomicU64,
}

/// The results of the setup.
struct Established {
    identity: Option<Identity>,
    negotiated: Negotiated,
    keys: Keys,
    must_sign: bool,
}

#[derive(Default)]
struct SessionTables {
    trees: IdTable<u32, Arc<TreeConnect>>,
    last_tree: u32,
    opens: IdTable<FileId, Arc<Open>>,
    pipes: IdTable<FileId, Arc<Pipe>>,
    /// The user's quota, from the end of the setup on.
    user: Arc<UserQuota>,
    user_guard: Option<CountGuard>,
}

impl Session {
    /// Creates a session that is being set up, within the bounds.
    pub(crate) fn new(id: u64, pending: PendingSession, counters: &Counters, now: Instant) -> Option<Self> {
        let guard = counters.session(SESSIONS_MAX)?;
        Some(Self {
            id,
            started: now,
            pending_session: Mutex::new(Some(pending)),
            guard,
            established: OnceLock::new(),
            is_over: AtomicBool::new(false),
            channels: Mutex::default(),
            tables: Mutex::default(),
            async_commands: Arc::default(),
            pipe_bytes: Arc::default(),
            seen_nonces: SeenNonces::default(),
            user_quotas: counters.user_quotas.clone(),
            apple_capabilities: AtomicU64::new(0),
        })
    }

    pub(crate) fn is_established(&self) -> bool {
        self.established.get().is_some()
    }

    /// Whether the setup has taken too long.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        !self.is_established() && now.saturating_duration_since(self.started) > SETUP_TIME_MAX
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.is_established() && self.identity().is_none()
    }

    /// The user; none during the setup, and for an anonymous session.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.established.get()?.identity.as_ref()
    }

    /// The result of NEGOTIATE on the first connection.
    pub(crate) fn negotiated(&self) -> Option<&Negotiated> {
        self.established.get().map(|established| &established.negotiated)
    }

    /// Whether the session belongs to this user. Two anonymous users never match.
    pub(crate) fn is_same_user(&self, identity: Option<&Identity>) -> bool {
        let uid = |identity: Option<&Identity>| identity.map(|identity| identity.credential.uid);
        uid(identity).is_some() && uid(identity) == uid(self.identity())
    }

    /// `SigningRequired`: whether all messages must be signed or encrypted.
    pub(crate) fn must_sign(&self) -> bool {
        self.established.get().is_none_or(|established| established.must_sign)
    }

    pub(crate) fn keys(&self) -> Option<&Keys> {
        self.established.get().map(|established| &established.keys)
    }

    /// Whether client and server have negotiated several channels.
    pub(crate) fn has_channels(&self) -> bool {
        let has = |negotiated: &Negotiated| negotiated.capabilities.contains(Capabilities::MULTI_CHANNEL);
        self.negotiated().is_some_and(has)
    }

    /// Whether the nonce of an encrypted message is new. With one channel, message ids prevent a replay, so nothing is
    /// stored.
    pub(crate) fn is_new_nonce(&self, nonce: &[u8; 16]) -> bool {
        let has_others = self.has_channels() && !self.is_anonymous();
        !has_others || self.seen_nonces.insert(nonce)
    }

    /// Sets the user and the keys, once.
    pub(crate) fn establish(
        &self,
        negotiated: &Negotiated,
        identity: Option<Identity>,
        keys: Keys,
        must_sign: bool,
    ) -> Result<(), NtStatus> {
        let (negotiated, is_proven) = (negotiated.clone(), identity.is_some());
        let user = self.user_quotas.of(identity.as_ref().map(|identity| identity.credential.uid));
        let user_guard = user.session(self.guard.total()).ok_or(NtStatus::INSUFFICIENT_RESOURCES)?;
        let mut tables = self.tables.lock();
        let established = self.established.set(Established { identity, negotiated, keys, must_sign });
        established.map_err(|_| NtStatus::REQUEST_NOT_ACCEPTED)?;
        (tables.user, tables.user_guard) = (user, Some(user_guard));
        drop(tables);
        if is_proven {
            *self.pending_session.lock() = None;
        }
        Ok(())
    }

    pub(crate) fn has_announced(&self, capabilities: AppleCapabilities) -> bool {
        AppleCapabilities(self.apple_capabilities.load(Ordering::Relaxed)).contains(capabilities)
    }

    pub(crate) fn announce(&self, capabilities: AppleCapabilities) {
        self.apple_capabilities.fetch_or(capabilities.0, Ordering::Relaxed);
    }

    /// The bound channels, newest first.
    pub(crate) fn channels(&self) -> Vec<Arc<Channel>> {
        self.channels.lock().iter().rev().filter_map(Weak::upgrade).collect()
    }

    /// The client's addresses, one per connection.
    pub(crate) fn clients(&self) -> Vec<IpAddr> {
        self.channels().iter().filter_map(|channel| channel.connection()?.client()).collect()
    }

    pub(crate) fn has_room_for_channel(&self) -> bool {
        self.channels.lock().len() < SESSION_CHANNELS_MAX
    }

    pub(crate) fn add_channel(&self, channel: &Arc<Channel>) -> Result<(), NtStatus> {
        let mut channels = self.channels.lock();
        if self.is_over() {
            return Err(NtStatus::USER_SESSION_DELETED);
        }
        if channels.len() >= SESSION_CHANNELS_MAX {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        channels.push(Arc::downgrade(channel));
        Ok(())
    }

    /// Removes the channel of a closed connection. Whether it was the last: then the session accepts no more.
    pub(crate) fn remove_channel(&self, channel: &Arc<Channel>) -> bool {
        let mut channels = self.channels.lock();
        channels.retain(|other| !std::ptr::eq(other.as_ptr(), Arc::as_ptr(channel)));
        let is_last = channels.is_empty();
        if is_last {
            self.is_over.store(true, Ordering::SeqCst);
        }
        is_last
    }

    /// Sends breaks and revocations again that a closed connection may have lost.
    pub(crate) fn resend_breaks(&self, gone: u64) {
        for disk in self.trees().iter().filter_map(|tree| tree.disk()) {
            let (claims, now) = (disk.export.volume.claims(), disk.export.volume.now());
            let breaks = &disk.claim_holder.breaks;
            let mut effects = claims.resend_recalls(now, disk.holder);
            // Messages on other connections are on their way, even if more connections close meanwhile.
            effects.retain(|effect| match effect {
                Effect::Recall { holder, key, .. } if *holder == disk.holder => {
                    breaks.may_be_lost(*key, gone)
                }
                _ => true,
            });
            claims.dispatch(effects);
            breaks.resend(gone);
        }
    }

    /// Whether the client has ended all connections, noticed or not.
    pub(crate) fn is_disconnected(&self) -> bool {
        let is_ended =
            |channel: &Arc<Channel>| channel.connection().is_none_or(|connection| connection.is_ended());
        self.channels().iter().all(is_ended)
    }

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

    /// Removes a tree connect, and returns its opens.
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

    /// The budgets of a pipe of this session.
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

    /// Ends the session, and returns its opens.
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

impl Client for Session {
    fn session_id(&self) -> u64 {
        self.id
    }

    fn seal(&self, message: &mut [u8], start: usize) -> bool {
        self.keys().is_some_and(|keys| keys.seal(self.id, message, start))
    }

    fn send(&self, first: u64, message: &mut Outbox, note: &dyn Fn(Option<u64>)) {
        let channels = self.channels();
        let mut connections: Vec<_> = channels.iter().filter_map(|channel| channel.connection()).collect();
        connections.sort_by_key(|connection| (connection.number() != first, connection.number()));
        let patience = if connections.len() > 1 { DELIVERY } else { DELIVERY_ALONE };
        let permits = connections.iter().find(|connection| connection.send_surely(message, patience));
        note(permits.map(|connection| connection.number()));
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

#[cfg(test)]
mod tests {
    use super::pending_setups::PendingSessions;
    use super::*;
    use crate::limits::{SETUPS_MAX, TREES_OF_USER_MAX};
    use crate::state::pending::tests::request;
    use crate::state::pending_quota::PendingQuota;
    use crate::state::pipe::PipeService;
    use smb_wire::rpc::{Association, srvsvc};
    use smb_wire::types::AccessMask;
    use std::net::Ipv4Addr;
    use vfs::bounds::Networks;

    /// A session of this host, if there is room.
    fn new(pending_sessions: &PendingSessions, counters: &Counters, host: usize) -> Option<Session> {
        let (host, now) = (Ipv4Addr::from_bits(u32::try_from(host).unwrap()), Instant::now());
        Session::new(
            1,
            pending_sessions.try_add(1, Networks::default().of(host.into()), now)?.0,
            counters,
            now,
        )
    }

    fn add(session: &Session, counters: &Counters, tree_id: u32) -> Result<FileId, NtStatus> {
        let number = counters.next_id();
        let id = FileId { persistent: number, volatile: number };
        let association = Association::new("", &[srvsvc::INTERFACE]);
        let (access, budgets) = (AccessMask::FILE_ALL, session.pipe_budgets(counters));
        let pipe = Pipe::new(id, tree_id, access, PipeService::Server, association, budgets);
        session.add_pipe(counters, pipe).map(|()| id)
    }

    #[test]
    fn pipes_are_bounded_and_end_with_their_tree_connect_and_session() {
        let counters = Counters::default();
        let session = new(&PendingSessions::default(), &counters, 1).unwrap();
        let ipc = session.add_tree(&counters, Share::Pipe, 2).unwrap();
        let other = session.add_tree(&counters, Share::Pipe, 2).unwrap();
        let ids: Vec<FileId> =
            (1..SESSION_PIPES_MAX).map(|_| add(&session, &counters, ipc).unwrap()).collect();
        let remaining = add(&session, &counters, other).unwrap();
        assert_eq!(add(&session, &counters, ipc), Err(NtStatus::INSUFFICIENT_RESOURCES));
        assert!(session.remove_pipe(&counters, ids[0]).is_some());
        assert!(session.remove_pipe(&counters, ids[0]).is_none(), "it is closed");
        add(&session, &counters, ipc).unwrap();
        assert!(!counters.count_pipe(SESSION_PIPES_MAX, usize::MAX), "pipes are counted");
        assert!(!counters.count_open(SESSION_PIPES_MAX), "pipes count as opens");
        session.remove_tree(&counters, &session.tree(ipc).unwrap());
        assert!(session.pipe(ids[1]).is_none() && session.pipe(remaining).is_some());
        assert_eq!(
            add(&session, &counters, ipc),
            Err(NtStatus::NETWORK_NAME_DELETED),
            "nobody would find it"
        );
        session.end(&counters);
        assert!(session.pipe(remaining).is_none());
        assert!(counters.count_pipe(1, 1), "nothing is counted any longer");
        assert_eq!(add(&session, &counters, other), Err(NtStatus::NETWORK_NAME_DELETED), "it is over");
    }

    #[test]
    fn waker_for_closed_object_is_refused() {
        let counters = Counters::default();
        let session = new(&PendingSessions::default(), &counters, 1).unwrap();
        let tree_id = session.add_tree(&counters, Share::Pipe, 1).unwrap();
        let pipe = add(&session, &counters, tree_id).unwrap();
        let quota = Arc::new(PendingQuota::new(3, 3));
        let wait = |file| {
            let permits = || quota.try_acquire(1).expect("nobody else waits");
            let request = AsyncRequest { tree_id, file, ..*request(&Arc::default()).request() };
            session.waker(request, [permits(), permits(), permits()]).map(|waker| waker.finish())
        };
        assert_eq!((wait(None), wait(Some(pipe))), (Ok(()), Ok(())));
        session.remove_pipe(&counters, pipe);
        assert_eq!((wait(None), wait(Some(pipe))), (Ok(()), Err(NtStatus::FILE_CLOSED)));
        session.remove_tree(&counters, &session.tree(tree_id).unwrap());
        assert_eq!(wait(None), Err(NtStatus::FILE_CLOSED));
        session.end(&counters);
        assert_eq!(wait(None), Err(NtStatus::USER_SESSION_DELETED));
    }

    #[test]
    fn pipe_past_the_bound_on_opens_is_not_counted() {
        let counters = Counters::default();
        assert!(!counters.count_pipe(1, 0));
        assert!(counters.count_pipe(1, 1));
        assert!(!counters.count_pipe(1, 2));
    }

    #[test]
    fn pending_sessions_have_a_tighter_bound() {
        let (counters, pending_sessions) = (Counters::default(), PendingSessions::default());
        let mut begun: Vec<Session> =
            (0..SETUPS_MAX).map(|number| new(&pending_sessions, &counters, number).unwrap()).collect();
        assert!(new(&pending_sessions, &counters, SETUPS_MAX).is_none(), "too many are being set up");
        begun.pop();
        begun[0].end(&counters);
        begun.extend(
            [SETUPS_MAX, SETUPS_MAX + 1].map(|number| new(&pending_sessions, &counters, number).unwrap()),
        );
        assert!(new(&pending_sessions, &counters, 0).is_none());
        // Established sessions leave the bound on setups, and have a bound of their own.
        begun.iter().for_each(|session| *session.pending_session.lock() = None);
        begun.extend((0..SETUPS_MAX).map(|number| new(&pending_sessions, &counters, number).unwrap()));
        assert!(new(&pending_sessions, &counters, SETUPS_MAX).is_none());
        drop(begun);
        let others: Vec<CountGuard> =
            (0..SESSIONS_MAX).map(|_| counters.session(SESSIONS_MAX).unwrap()).collect();
        assert!(new(&pending_sessions, &counters, 0).is_none(), "there are too many");
        drop(others);
        assert!(new(&pending_sessions, &counters, 0).is_some());
    }

    #[test]
    fn tree_connects_of_all_sessions_are_bounded() {
        let (counters, pending_sessions) = (Counters::default(), PendingSessions::default());
        let sessions: Vec<Session> =
            (0..6).map(|number| new(&pending_sessions, &counters, number).unwrap()).collect();
        let greedy = (0..TREES_MAX).map_while(|_| sessions[0].add_tree(&counters, Share::Pipe, TREES_MAX));
        assert_eq!(greedy.count(), TREES_OF_USER_MAX, "a user has a quarter");
        let _others: Vec<CountGuard> =
            (1..TREES_MAX - TREES_OF_USER_MAX).map(|_| counters.tree(TREES_MAX).unwrap()).collect();
        let id = sessions[4].add_tree(&counters, Share::Pipe, TREES_MAX).unwrap();
        assert_eq!(sessions[5].add_tree(&counters, Share::Pipe, TREES_MAX), None);
        sessions[4].remove_tree(&counters, &sessions[4].tree(id).unwrap());
        assert!(sessions[5].add_tree(&counters, Share::Pipe, TREES_MAX).is_some());
        assert!(sessions.iter().all(|session| session.end(&counters).is_empty()));
        assert_eq!(counters.trees(), TREES_MAX - TREES_OF_USER_MAX - 1, "they go with their sessions");
    }
}
