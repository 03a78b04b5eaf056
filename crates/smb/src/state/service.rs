//! The state that all connections share (MS-SMB2 §3.3.1.5).

use super::caching::leases::LeaseTables;
use super::counters::Counters;
use super::disconnected::CleanupQueue;
use super::open::Open;
use super::open::open_table::OpenTable;
use super::pending_quota::PendingQuota;
use super::persistent::PersistentOpens;
use super::session::Session;
use super::session::channel::Channel;
use super::session::login_throttle::LoginThrottle;
use super::session::pending_setups::PendingSessions;
use super::tree::{DiskShare, TreeConnect};
use crate::limits::{WAITING_BYTES_MAX, WAITING_MAX};
use crate::metadata::names::locks::NameLocks;
use identity::{Authority, Identity, MicPolicy, Resolver, ServerNames, SharedAccounts};
use smb_wire::Guid;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Instant;
use vfs::bounds::{Network, Networks};
use vfs::sync::Mutex;
use vfs::{Refusals, SharedNamespace};

const CLEANUP_LOCKS: usize = 64;

/// A source of random bytes.
pub type Random = Box<dyn Fn(&mut [u8]) + Send + Sync>;

pub struct Service {
    pub(crate) namespace: SharedNamespace,
    /// Authenticates clients.
    pub(crate) authority: Arc<Authority>,
    /// All users and groups.
    pub(crate) accounts: SharedAccounts,
    /// Resolves users to uids and SIDs.
    pub(crate) resolver: Arc<dyn Resolver>,
    /// `ServerGuid`, new at each start.
    pub(crate) guid: Guid,
    pub(crate) random: Random,
    /// `IsMultiChannelCapable`: whether a session may have several connections.
    pub(crate) is_multichannel: bool,
    pub(crate) counters: Counters,
    /// The quota of all asynchronous requests.
    pub(crate) pending_quota: Arc<PendingQuota>,
    pub(crate) leases: LeaseTables,
    /// Locks of names that are being created.
    pub(crate) name_locks: NameLocks,
    /// `GlobalOpenTable`, for disconnected opens and CREATEs that may be replayed.
    pub(crate) open_table: Arc<OpenTable>,
    /// Records of persistent opens, if the service keeps any.
    pub(crate) persistent: Option<Arc<PersistentOpens>>,
    pub(crate) login_throttle: LoginThrottle,
    pub(crate) refusals: Refusals,
    pending_sessions: PendingSessions,
    pub(crate) networks: Networks,
    /// `GlobalSessionTable`.
    sessions: Mutex<HashMap<u64, Weak<Session>>>,
    pub(crate) cleanup: CleanupQueue,
    /// Locked while the opens of a user's session become disconnected; users share locks.
    cleanup_locks: [Mutex<()>; CLEANUP_LOCKS],
}

impl Service {
    /// Creates the service for a namespace, with the users of `accounts`, under these server names.
    pub fn new(
        namespace: SharedNamespace,
        names: ServerNames,
        accounts: SharedAccounts,
        random: Random,
    ) -> Self {
        let mut guid = [0; 16];
        random(&mut guid);
        let authority = Authority {
            names,
            accounts: accounts.clone(),
            null_sessions: false,
            // The Linux client sends no MIC, and announces none.
            mic: MicPolicy::Announced,
            target_names: Vec::new(),
        };
        Self {
            namespace,
            authority: Arc::new(authority),
            resolver: Arc::new(accounts.clone()),
            accounts,
            guid: Guid(guid),
            random,
            is_multichannel: true,
            counters: Counters::default(),
            pending_quota: Arc::new(PendingQuota::new(WAITING_MAX, WAITING_BYTES_MAX)),
            leases: LeaseTables::default(),
            name_locks: NameLocks::default(),
            open_table: Arc::default(),
            persistent: None,
            login_throttle: LoginThrottle::default(),
            refusals: Refusals::default(),
            pending_sessions: PendingSessions::default(),
            networks: Networks::default(),
            sessions: Mutex::default(),
            cleanup: CleanupQueue::default(),
            cleanup_locks: std::array::from_fn(|_| Mutex::default()),
        }
    }

    /// Keeps opens of continuously available shares over a restart.
    #[must_use]
    pub fn with_persistent_opens(self, opens: PersistentOpens) -> Self {
        Self { persistent: Some(Arc::new(opens)), ..self }
    }

    /// Accepts only clients that address the server by one of these names, or by its address. An authentication for
    /// another server is refused. Without names, all are accepted.
    #[must_use]
    pub fn with_target_names(self, target_names: Vec<String>) -> Self {
        Self { authority: Arc::new(Authority { target_names, ..(*self.authority).clone() }), ..self }
    }

    /// Groups clients into these networks.
    #[must_use]
    pub fn with_networks(self, networks: Networks) -> Self {
        Self { networks, login_throttle: LoginThrottle::with_networks(networks), ..self }
    }

    /// Allows anonymous logins or not. They can list shares and read the server's names, over IPC$ alone.
    #[must_use]
    pub fn with_anonymous_logins(self, null_sessions: bool) -> Self {
        Self { authority: Arc::new(Authority { null_sessions, ..(*self.authority).clone() }), ..self }
    }

    /// Allows several connections per session, to clients that announce them. Otherwise AES-GMAC signs for all clients
    /// that offer it.
    #[must_use]
    pub fn with_multichannel(self, is_multichannel: bool) -> Self {
        Self { is_multichannel, ..self }
    }

    /// Creates a session for a client at this address. If too many sessions are being set up, another one ends.
    pub(crate) fn new_session(&self, address: IpAddr, now: Instant) -> Option<Arc<Session>> {
        let (session, ended) = self.begin_session(self.networks.of(address), now);
        let ended = ended.and_then(|id| self.session(id)).filter(|session| session.identity().is_none());
        ended.iter().for_each(|session| self.end_session(session));
        session
    }

    /// Creates a session, and returns the id of the one that must end for it. Ids are random, so that one of an
    /// earlier start belongs to nobody; some clients keep only 32 bits.
    fn begin_session(&self, network: Network, now: Instant) -> (Option<Arc<Session>>, Option<u64>) {
        let mut sessions = self.sessions.lock();
        loop {
            let mut drawn = [0; 4];
            (self.random)(&mut drawn);
            let id = u64::from(u32::from_le_bytes(drawn));
            if id != 0 && !sessions.contains_key(&id) {
                let Some((pending, ended)) = self.pending_sessions.try_add(id, network, now) else {
                    return (None, None);
                };
                let session = Session::new(id, pending, &self.counters, now).map(Arc::new);
                sessions.extend(session.iter().map(|session| (id, Arc::downgrade(session))));
                return (session, ended);
            }
        }
    }

    /// Ends a session on all its connections. Its opens are closed, unless they are durable (MS-SMB2 §3.3.5.6,
    /// §3.3.7.1).
    pub(crate) fn end_session(&self, session: &Session) {
        self.remove_session(session).iter().for_each(|open| self.release_open(open));
    }

    /// Ends a session like [`Self::end_session`], and returns the opens that the caller must close.
    fn remove_session(&self, session: &Session) -> Vec<Arc<Open>> {
        self.detach_opens(session, || self.unregister(session))
    }

    /// Ends a tree connect whose share no connection of the session reaches any longer. Its opens are closed, unless
    /// they are durable: the client connects again.
    pub(crate) fn end_tree_if_withdrawn(&self, session: &Session, tree: &Arc<TreeConnect>) {
        let is_gone = |disk: &Arc<DiskShare>| disk.is_unreachable(&self.namespace.load(), &session.clients());
        if tree.disk().is_some_and(is_gone) {
            let opens = self.detach_opens(session, || session.remove_tree(&self.counters, tree));
            opens.iter().for_each(|open| self.release_open(open));
        }
    }

    /// Removes opens from a session. Keeps the durable ones, and returns the others, to be closed.
    fn detach_opens(&self, session: &Session, take: impl FnOnce() -> Vec<Arc<Open>>) -> Vec<Arc<Open>> {
        let _ending = self.lock_cleanup(session.identity().map(|identity| identity.credential.uid));
        take().into_iter().filter_map(|open| self.open_table.add_disconnected(open).err()).collect()
    }

    /// Locks the cleanup of a user's sessions.
    pub(crate) fn lock_cleanup(&self, uid: Option<u32>) -> MutexGuard<'_, ()> {
        let at = uid.map_or(0, |uid| uid as usize % CLEANUP_LOCKS);
        self.cleanup_locks[at].lock()
    }

    /// Ends a tree connect, and closes its opens.
    pub(crate) fn end_tree(&self, session: &Session, tree: &Arc<TreeConnect>) {
        session.remove_tree(&self.counters, tree).iter().for_each(|open| self.release_open(open));
    }

    /// Closes an open that was removed from its tables. A deletion of the file is recorded, so that it survives a
    /// restart.
    pub(crate) fn release_open(&self, open: &Open) {
        let deletes = open.deletes() && !open.file.is_stream();
        open.close();
        if let Some(opens) = self.persistent.as_ref().filter(|_| deletes) {
            opens.record_deletion(&open.file);
        }
    }

    /// Detaches a channel from a closed connection. The session ends with its last channel, or if it was not set up
    /// yet. Returns the opens that the caller must close.
    pub(crate) fn detach_channel(&self, channel: &Arc<Channel>, number: u64) -> Vec<Arc<Open>> {
        let session = &channel.session;
        let is_last = channel.is_bound() && session.remove_channel(channel);
        if is_last || !session.is_established() {
            return self.remove_session(session);
        }
        let heir = session.channels().iter().find_map(|channel| channel.connection());
        session
            .async_commands()
            .end_of_connection(number, heir.as_ref().map(|heir| (heir.number(), heir.pending_quota())));
        if channel.is_bound() {
            session.resend_breaks(number);
        }
        Vec::new()
    }

    /// Waits for the cleanup of a user's sessions.
    pub(crate) fn wait_for_cleanup(&self, uid: u32) {
        drop(self.lock_cleanup(Some(uid)));
    }

    /// Whether a user's session without live connections still has the wanted open.
    pub(crate) fn is_abandoned_open(
        &self,
        uid: u32,
        persistent: u64,
        is_wanted: impl Fn(&Open) -> bool,
    ) -> bool {
        let is_its = |session: &Arc<Session>| {
            session.identity().is_some_and(|identity| identity.credential.uid == uid)
                && session
                    .find_opens(|open| open.id.persistent == persistent)
                    .iter()
                    .any(|open| is_wanted(open))
        };
        self.all_sessions().iter().any(|session| is_its(session) && session.is_disconnected())
    }

    /// Removes a session from all tables, and returns its opens.
    fn unregister(&self, session: &Session) -> Vec<Arc<Open>> {
        self.sessions.lock().remove(&session.id);
        let opens = session.end(&self.counters);
        for connection in session.channels().iter().filter_map(|channel| channel.connection()) {
            connection.forget_channel(session.id);
        }
        opens
    }

    fn end_overdue_setups(&self, now: Instant) {
        let sessions = self.all_sessions();
        sessions
            .iter()
            .filter(|session| session.is_overdue(now))
            .for_each(|session| self.end_session(session));
    }

    /// Ends sessions that were not set up in time, sessions of removed users and tree connects to removed shares, and
    /// closes durable opens that have expired. To be called about once a second.
    pub fn expire(&self) {
        self.end_overdue_setups(Instant::now());
        let namespace = self.namespace.load();
        let is_nobody = |of: &Identity| {
            self.resolver.principal("", &of.name).is_none_or(|principal| principal.sid != of.sid)
        };
        for session in self.all_sessions() {
            if session.identity().is_some_and(is_nobody) {
                self.unregister(&session).iter().for_each(|open| self.release_open(open));
                continue;
            }
            session.trees().iter().for_each(|tree| self.end_tree_if_withdrawn(&session, tree));
        }
        self.open_table.close_expired(|open| open.disk.is_withdrawn(&namespace));
    }

    pub(crate) fn sessions(&self) -> usize {
        self.all_sessions().iter().filter(|session| session.identity().is_some()).count()
    }

    fn all_sessions(&self) -> Vec<Arc<Session>> {
        self.sessions.lock().values().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn find_opens(&self, is: impl Fn(&Open) -> bool) -> Vec<Arc<Open>> {
        self.all_sessions().iter().flat_map(|session| session.find_opens(&is)).collect()
    }

    /// Closes an open of any session.
    pub(crate) fn close(&self, open: &Arc<Open>) {
        let is_its =
            |session: &&Arc<Session>| session.open(open.id).is_some_and(|found| Arc::ptr_eq(&found, open));
        let sessions = self.all_sessions();
        if let Some(session) = sessions.iter().find(is_its) {
            session.remove_open(&self.counters, open.id);
        }
        self.release_open(open);
    }

    pub(crate) fn session(&self, id: u64) -> Option<Arc<Session>> {
        self.sessions.lock().get(&id)?.upgrade()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::limits::{CONNECTION_SETUPS_MAX, SETUP_TIME_MAX, SETUP_TIME_MIN, SETUPS_MAX};
    use crate::state::connection::Connection;
    use identity::{Accounts, Sid};
    use smb_wire::NtStatus;
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;
    use vfs::Namespace;

    pub(crate) fn service() -> Arc<Service> {
        let drawn = AtomicU32::new(1);
        let random = move |bytes: &mut [u8]| {
            let next = drawn.fetch_add(1, Ordering::Relaxed).to_le_bytes();
            bytes.iter_mut().zip(next).for_each(|(byte, next)| *byte = next);
        };
        let accounts = SharedAccounts::new(Accounts::empty(Sid::machine([1, 2, 3]), "FILES"));
        let namespace: SharedNamespace = Arc::new(Arc::new(Namespace::new(Vec::<vfs::Export>::new())).into());
        let names = ServerNames::for_host("files.example.org");
        Arc::new(Service::new(namespace, names, accounts, Box::new(random)))
    }

    /// Begins sessions over a connection of this host, up to a bound.
    pub(crate) fn begin(service: &Arc<Service>, host: usize, now: Instant) -> (Arc<Connection>, usize) {
        let connection = Connection::new(service);
        let address = IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(host).unwrap()));
        let begin = || {
            let session = service.new_session(address, now).ok_or(NtStatus::INSUFFICIENT_RESOURCES)?;
            connection.add_channel(&connection.new_channel(session), CONNECTION_SETUPS_MAX)
        };
        let begun = (0..CONNECTION_SETUPS_MAX).take_while(|_| begin().is_ok()).count();
        (connection, begun)
    }

    #[test]
    fn dropping_the_last_connection_ends_no_session_inline() {
        let service = service();
        service.cleanup.start().unwrap();
        let (connection, begun) = begin(&service, 0, Instant::now());
        assert_eq!(begun, CONNECTION_SETUPS_MAX);
        // The last reference may be dropped under a lock that the end of a session needs.
        let lock = service.lock_cleanup(None);
        drop(connection);
        assert_eq!(service.sessions.lock().len(), begun);
        drop(lock);
        service.cleanup.stop(Duration::from_secs(60));
        assert!(service.sessions.lock().is_empty());
    }

    #[test]
    fn pending_sessions_end_with_their_connection_or_deadline() {
        let (service, now) = (service(), Instant::now());
        let connections: Vec<_> =
            (0..SETUPS_MAX / CONNECTION_SETUPS_MAX).map(|host| begin(&service, host, now)).collect();
        assert!(connections.iter().all(|(_, begun)| *begun == CONNECTION_SETUPS_MAX));
        assert_eq!(begin(&service, 0, now).1, 0, "all networks have as many");
        drop(connections);
        assert!(service.sessions.lock().is_empty());
        let (_connection, begun) = begin(&service, 0, now);
        assert_eq!(begun, CONNECTION_SETUPS_MAX);
        service.end_overdue_setups(now + SETUP_TIME_MAX);
        assert_eq!(service.sessions.lock().len(), begun);
        service.end_overdue_setups(now + SETUP_TIME_MAX + Duration::from_millis(1));
        assert!(service.sessions.lock().is_empty());
    }

    #[test]
    fn new_session_replaces_the_oldest_of_strangers() {
        let (service, now) = (service(), Instant::now());
        let strangers: Vec<_> =
            (0..SETUPS_MAX / CONNECTION_SETUPS_MAX).map(|host| begin(&service, host, now)).collect();
        let soon = begin(&service, 1000, now);
        assert_eq!(soon.1, CONNECTION_SETUPS_MAX - 1, "until it has as many");
        assert_eq!(begin(&service, 1001, now + SETUP_TIME_MIN).1, CONNECTION_SETUPS_MAX);
        drop(soon);
        assert!(service.sessions.lock().len() <= SETUPS_MAX, "there are no more than before");
        drop(strangers);
        assert!(service.sessions.lock().is_empty());
    }
}
