//! Sessions (MS-SMB2 §3.3.1.8).

pub(crate) mod channel;
mod keys;
pub(crate) mod login_throttle;
pub(crate) mod pending_setups;
mod seen_nonces;
mod tables;

use super::caching::breaks::Client;
use super::connection::negotiated::Negotiated;
use super::counters::{CountGuard, Counters};
use super::pending::AsyncCommandList;
use super::user_quota::UserQuotas;
use crate::limits::{DELIVERY, DELIVERY_ALONE, SESSION_CHANNELS_MAX, SESSIONS_MAX, SETUP_TIME_MAX};
use channel::Channel;
use identity::Identity;
use keys::Keys;
use pending_setups::PendingSession;
use seen_nonces::SeenNonces;
use smb_wire::NtStatus;
use smb_wire::apple::AppleCapabilities;
use smb_wire::negotiate::Capabilities;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;
use tables::SessionTables;
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
        let permits = connections.iter().find(|connection| connection.send_within(message, patience));
        note(permits.map(|connection| connection.number()));
    }
}

#[cfg(test)]
mod tests {
    use super::pending_setups::PendingSessions;
    use super::*;
    use crate::limits::{SESSION_PIPES_MAX, SETUPS_MAX, TREES_MAX, TREES_OF_USER_MAX};
    use crate::state::pending::AsyncRequest;
    use crate::state::pending::tests::request;
    use crate::state::pending_quota::PendingQuota;
    use crate::state::pipe::{Pipe, PipeService};
    use crate::state::tree::Share;
    use smb_wire::FileId;
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
