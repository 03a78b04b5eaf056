//! What all connections share (MS-SMB2 §3.3.1.5).

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
use vfs::SharedNamespace;
use vfs::bounds::{Network, Networks};
use vfs::sync::Mutex;

/// Locks of users whose sessions end.
const CLEANUP_LOCKS: usize = 64;

/// Where random bytes come from.
pub type Random = Box<dyn Fn(&mut [u8]) + Send + Sync>;

/// The server, as all connections share it.
pub struct Service {
    /// What is served.
    pub(crate) namespace: SharedNamespace,
    /// Who proves who is calling.
    pub(crate) authority: Arc<Authority>,
    /// The users and groups, all of them.
    pub(crate) accounts: SharedAccounts,
    /// Who that is here.
    pub(crate) resolver: Arc<dyn Resolver>,
    /// `ServerGuid`: another one at each start, because nothing that is open outlives the process.
    pub(crate) guid: Guid,
    /// Random bytes.
    pub(crate) random: Random,
    /// `IsMultiChannelCapable`: whether sessions may have several connections.
    pub(crate) is_multichannel: bool,
    pub(crate) counters: Counters,
    /// What may wait of all requests.
    pub(crate) pending_quota: Arc<PendingQuota>,
    pub(crate) leases: LeaseTables,
    /// Names that are being made.
    pub(crate) name_locks: NameLocks,
    /// `GlobalOpenTable`, as far as it is of opens without a session, and of those that may be asked for twice.
    pub(crate) open_table: Arc<OpenTable>,
    /// What outlives the service, if anything can.
    pub(crate) persistent: Option<Arc<PersistentOpens>>,
    /// Logins that were refused.
    pub(crate) login_throttle: LoginThrottle,
    pending_sessions: PendingSessions,
    /// The networks that clients are in.
    pub(crate) networks: Networks,
    /// `GlobalSessionTable`.
    sessions: Mutex<HashMap<u64, Weak<Session>>>,
    /// Where connections part with their sessions.
    pub(crate) cleanup: CleanupQueue,
    /// Held while what a session of a user has open becomes what nobody has; users share some of them.
    cleanup_locks: [Mutex<()>; CLEANUP_LOCKS],
}

impl Service {
    /// SMB for what a namespace has, with the users that `accounts` has, by a server of these names.
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
            // The client of Linux gives no MIC, and announces none.
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
            pending_sessions: PendingSessions::default(),
            networks: Networks::default(),
            sessions: Mutex::default(),
            cleanup: CleanupQueue::default(),
            cleanup_locks: std::array::from_fn(|_| Mutex::default()),
        }
    }

    /// The same, where opens of continuously available shares outlive the service.
    #[must_use]
    pub fn with_persistent_opens(self, opens: PersistentOpens) -> Self {
        Self { persistent: Some(Arc::new(opens)), ..self }
    }

    /// The same for clients that call it by one of these names, or by the address that they reach it at. Others are refused: their
    /// answers were meant for somebody else. Without names, none is.
    #[must_use]
    pub fn with_target_names(self, target_names: Vec<String>) -> Self {
        Self { authority: Arc::new(Authority { target_names, ..(*self.authority).clone() }), ..self }
    }

    /// The same for clients in these networks.
    #[must_use]
    pub fn with_networks(self, networks: Networks) -> Self {
        Self { networks, login_throttle: LoginThrottle::with_networks(networks), ..self }
    }

    /// The same, which lets clients in without a name or not. They reach IPC$ alone: which shares there are, and what the server is
    /// called.
    #[must_use]
    pub fn with_anonymous_logins(self, null_sessions: bool) -> Self {
        Self { authority: Arc::new(Authority { null_sessions, ..(*self.authority).clone() }), ..self }
    }

    /// Service with several connections for the sessions of clients that announce them, or with one for each session: then
    /// AES-GMAC signs for all clients that offer it.
    #[must_use]
    pub fn with_multichannel(self, is_multichannel: bool) -> Self {
        Self { is_multichannel, ..self }
    }

    /// A session that a client at this address sets up from `now` on, if there may be one more. Where there are too many, another one
    /// that is being set up gives way.
    pub(crate) fn new_session(&self, address: IpAddr, now: Instant) -> Option<Arc<Session>> {
        let (session, ended) = self.begin_session(self.networks.of(address), now);
        let ended = ended.and_then(|id| self.session(id)).filter(|session| session.identity().is_none());
        ended.iter().for_each(|session| self.end_session(session));
        session
    }

    /// The same, and the one that gives way. Its number is drawn, so that one of an earlier start is nobody's; some clients keep 32 bits
    /// of it.
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

    /// Ends a session: nobody finds it any longer, over no connection. What it has open is closed, unless it is durable
    /// (MS-SMB2 §3.3.5.6, §3.3.7.1).
    pub(crate) fn end_session(&self, session: &Session) {
        self.remove_session(session).iter().for_each(|open| self.release_open(open));
    }

    /// Ends a session like [`Self::end_session`], and returns the opens that the caller has to close.
    fn remove_session(&self, session: &Session) -> Vec<Arc<Open>> {
        self.detach_opens(session, || self.unregister(session))
    }

    /// Ends a tree connect whose share is gone, or is another one to all connections of its session by now, if that is so. What it has
    /// open is closed, unless it is durable: its client connects again.
    pub(crate) fn end_tree_if_withdrawn(&self, session: &Session, tree: &Arc<TreeConnect>) {
        let is_gone = |disk: &Arc<DiskShare>| disk.is_unreachable(&self.namespace.load(), &session.clients());
        if tree.disk().is_some_and(is_gone) {
            let opens = self.detach_opens(session, || session.remove_tree(&self.counters, tree));
            opens.iter().for_each(|open| self.release_open(open));
        }
    }

    /// Takes something of a session away with all that it has open: what of that is to be closed, because it is not durable.
    fn detach_opens(&self, session: &Session, take: impl FnOnce() -> Vec<Arc<Open>>) -> Vec<Arc<Open>> {
        let _ending = self.lock_cleanup(session.identity().map(|identity| identity.credential.uid));
        take().into_iter().filter_map(|open| self.open_table.add_disconnected(open).err()).collect()
    }

    /// Waits until no session of a user is becoming what nobody has, and has none do so meanwhile.
    pub(crate) fn lock_cleanup(&self, uid: Option<u32>) -> MutexGuard<'_, ()> {
        let at = uid.map_or(0, |uid| uid as usize % CLEANUP_LOCKS);
        self.cleanup_locks[at].lock()
    }

    /// Ends a tree connect and closes what is open by it.
    pub(crate) fn end_tree(&self, session: &Session, tree: &Arc<TreeConnect>) {
        session.remove_tree(&self.counters, tree).iter().for_each(|open| self.release_open(open));
    }

    /// Closes an open that nobody finds any longer. What goes by that with the last open of its file does after a restart, too.
    pub(crate) fn release_open(&self, open: &Open) {
        let deletes = open.deletes() && !open.file.is_stream();
        open.close();
        if let Some(opens) = self.persistent.as_ref().filter(|_| deletes) {
            opens.record_deletion(&open.file);
        }
    }

    /// Takes a connection's channel from a session, which ends with the last of them, or if it was not set up yet: what it had open that
    /// is to be closed.
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

    /// Waits for sessions of a user that are being ended: what they had open is kept then, or is to be closed.
    pub(crate) fn wait_for_cleanup(&self, uid: u32) {
        drop(self.lock_cleanup(Some(uid)));
    }

    /// Whether a user's client has left a session with an open that is wanted, and the session is not ended yet.
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

    /// Has nobody find a session any longer, and gives what it has open.
    fn unregister(&self, session: &Session) -> Vec<Arc<Open>> {
        self.sessions.lock().remove(&session.id);
        let opens = session.end(&self.counters);
        for connection in session.channels().iter().filter_map(|channel| channel.connection()) {
            connection.remove_channel(session.id);
        }
        opens
    }

    /// Ends the sessions that are not set up in time.
    fn end_overdue_setups(&self, now: Instant) {
        let sessions = self.all_sessions();
        sessions
            .iter()
            .filter(|session| session.is_overdue(now))
            .for_each(|session| self.end_session(session));
    }

    /// Ends the sessions that are not set up in time, those of users who are gone and the tree connects to shares that are, and lets
    /// durable opens go whose time is over. To be called every second or so.
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

    /// Sessions of users.
    pub(crate) fn sessions(&self) -> usize {
        self.all_sessions().iter().filter(|session| session.identity().is_some()).count()
    }

    fn all_sessions(&self) -> Vec<Arc<Session>> {
        self.sessions.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// What is open over all sessions and is like this.
    pub(crate) fn find_opens(&self, is: impl Fn(&Open) -> bool) -> Vec<Arc<Open>> {
        self.all_sessions().iter().flat_map(|session| session.find_opens(&is)).collect()
    }

    /// Closes an open, whatever session has it.
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

    /// Begins as many sessions over a connection of this host as it may have, until there are too many of all.
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
    fn who_is_the_last_to_have_a_connection_ends_no_session() {
        let service = service();
        service.cleanup.start().unwrap();
        let (connection, begun) = begin(&service, 0, Instant::now());
        assert_eq!(begun, CONNECTION_SETUPS_MAX);
        // It may hold what is needed for that.
        let lock = service.lock_cleanup(None);
        drop(connection);
        assert_eq!(service.sessions.lock().len(), begun);
        drop(lock);
        service.cleanup.stop(Duration::from_secs(60));
        assert!(service.sessions.lock().is_empty());
    }

    #[test]
    fn sessions_that_are_being_set_up_go_with_their_connection_and_in_time() {
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
    fn who_begins_while_strangers_have_all_sessions_takes_the_place_of_the_oldest() {
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
