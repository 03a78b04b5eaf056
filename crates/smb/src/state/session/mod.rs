//! Sessions, and what a session has (MS-SMB2 §3.3.1.8).

pub(crate) mod channel;
mod keys;
pub(crate) mod login_throttle;
pub(crate) mod pending_setups;
mod seen_nonces;

use super::caching::breaks::Client;
use super::connection::negotiated::Negotiated;
use super::counters::{Counted, Counts};
use super::id_table::Numbered;
use super::open::Open;
use super::pending::{Asked, Taken, Waiting, Waker};
use super::pipe::{Budget, Pipe};
use super::tree::{Share, Tree};
use super::user_quota::{UserUse, Users};
use crate::limits::{
    ANONYMOUS_PIPE_BYTES_MAX, ANONYMOUS_PIPES_MAX, DELIVERY, DELIVERY_ALONE, PIPE_BYTES_MAX,
    PIPE_BYTES_OF_USER_MAX, SESSION_CHANNELS_MAX, SESSION_OPENS_MAX, SESSION_PIPE_BYTES_MAX,
    SESSION_PIPES_MAX, SESSIONS_MAX, SETUP_TIME_MAX, TREES_MAX,
};
use channel::Channel;
use identity::Identity;
use keys::Keys;
use pending_setups::Setup;
use seen_nonces::Nonces;
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

/// `Session`.
pub(crate) struct Session {
    pub(crate) id: u64,
    established: OnceLock<Established>,
    /// When it was begun, and its place among those that have proven nothing, until it is a user's.
    begun: Instant,
    setup: Mutex<Option<Setup>>,
    counted: Counted,
    is_over: AtomicBool,
    /// `ChannelList`: those that are bound.
    channels: Mutex<Vec<Weak<Channel>>>,
    held: Mutex<Held>,
    waiting: Arc<Waiting>,
    /// Bytes on their way over its pipes.
    pipe_bytes: Arc<AtomicUsize>,
    /// Of encrypted messages that have come over any of its channels.
    nonces: Nonces,
    users: Users,
    /// What its client has asked for and was promised, of what Apple has added.
    apple: AtomicU64,
}

/// Whose a session is, what it was set up with, and its keys.
struct Established {
    identity: Option<Identity>,
    negotiated: Negotiated,
    keys: Keys,
    must_sign: bool,
}

#[derive(Default)]
struct Held {
    trees: Numbered<u32, Arc<Tree>>,
    last_tree: u32,
    opens: Numbered<FileId, Arc<Open>>,
    pipes: Numbered<FileId, Arc<Pipe>>,
    /// What these are counted to, and the session itself, from when it has been set up.
    user: Arc<UserUse>,
    of_user: Option<Counted>,
}

impl Session {
    /// A session that is being set up from `now` on, if there may be one more.
    pub(crate) fn new(id: u64, setup: Setup, counts: &Counts, now: Instant) -> Option<Self> {
        let counted = counts.session(SESSIONS_MAX)?;
        Some(Self {
            id,
            begun: now,
            setup: Mutex::new(Some(setup)),
            counted,
            established: OnceLock::new(),
            is_over: AtomicBool::new(false),
            channels: Mutex::default(),
            held: Mutex::default(),
            waiting: Arc::default(),
            pipe_bytes: Arc::default(),
            nonces: Nonces::default(),
            users: counts.users.clone(),
            apple: AtomicU64::new(0),
        })
    }

    /// Whether it was set up, be it over or not.
    pub(crate) fn is_established(&self) -> bool {
        self.established.get().is_some()
    }

    /// Whether it should have been set up by `now`, and was not.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        !self.is_established() && now.saturating_duration_since(self.begun) > SETUP_TIME_MAX
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Whether it was set up and is nobody's.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.is_established() && self.identity().is_none()
    }

    /// Whose it is; nobody's before it is set up, or if it is anonymous.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.established.get()?.identity.as_ref()
    }

    /// What was agreed on over the connection that it was set up on.
    pub(crate) fn negotiated(&self) -> Option<&Negotiated> {
        self.established.get().map(|established| &established.negotiated)
    }

    /// Whether it is this user's. Who is nobody is not the same as another who is nobody.
    pub(crate) fn is_of(&self, identity: Option<&Identity>) -> bool {
        let uid = |identity: Option<&Identity>| identity.map(|identity| identity.credential.uid);
        uid(identity).is_some() && uid(identity) == uid(self.identity())
    }

    /// `SigningRequired`: whether all its messages are signed or encrypted.
    pub(crate) fn must_sign(&self) -> bool {
        self.established.get().is_none_or(|established| established.must_sign)
    }

    /// Its keys, once it is set up.
    pub(crate) fn keys(&self) -> Option<&Keys> {
        self.established.get().map(|established| &established.keys)
    }

    /// Whether others than its first channel may be added: client and server have agreed on that.
    pub(crate) fn has_channels(&self) -> bool {
        let has = |negotiated: &Negotiated| negotiated.capabilities.contains(Capabilities::MULTI_CHANNEL);
        self.negotiated().is_some_and(has)
    }

    /// Whether an encrypted message with this nonce is one that has not come before. Over its connection, message ids tell as well;
    /// so nothing is remembered where there are no others.
    pub(crate) fn is_first(&self, nonce: &[u8; 16]) -> bool {
        let has_others = self.has_channels() && !self.is_anonymous();
        !has_others || self.nonces.is_first(nonce)
    }

    /// Gives it its user and its keys, once.
    pub(crate) fn establish(
        &self,
        negotiated: &Negotiated,
        identity: Option<Identity>,
        keys: Keys,
        must_sign: bool,
    ) -> Result<(), NtStatus> {
        let (negotiated, is_proven) = (negotiated.clone(), identity.is_some());
        let user = self.users.of(identity.as_ref().map(|identity| identity.credential.uid));
        let of_user = user.session(self.counted.all()).ok_or(NtStatus::INSUFFICIENT_RESOURCES)?;
        let mut held = self.held.lock();
        let established = self.established.set(Established { identity, negotiated, keys, must_sign });
        established.map_err(|_| NtStatus::REQUEST_NOT_ACCEPTED)?;
        (held.user, held.of_user) = (user, Some(of_user));
        drop(held);
        if is_proven {
            *self.setup.lock() = None;
        }
        Ok(())
    }

    /// Whether its client was promised all of `capabilities`.
    pub(crate) fn has_promised(&self, capabilities: AppleCapabilities) -> bool {
        AppleCapabilities(self.apple.load(Ordering::Relaxed)).contains(capabilities)
    }

    /// Keeps what its client is promised now.
    pub(crate) fn promise(&self, capabilities: AppleCapabilities) {
        self.apple.fetch_or(capabilities.0, Ordering::Relaxed);
    }

    /// The channels that are bound, the newest first.
    pub(crate) fn channels(&self) -> Vec<Arc<Channel>> {
        self.channels.lock().iter().rev().filter_map(Weak::upgrade).collect()
    }

    /// Where its client is, by each of its connections.
    pub(crate) fn clients(&self) -> Vec<IpAddr> {
        self.channels().iter().filter_map(|channel| channel.connection()?.client()).collect()
    }

    /// Whether there may be one more channel.
    pub(crate) fn has_room_for_channel(&self) -> bool {
        self.channels.lock().len() < SESSION_CHANNELS_MAX
    }

    /// Adds a channel, if there may be one more.
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

    /// Takes a channel away whose connection is gone. Whether none is left: then none is added any more.
    pub(crate) fn remove_channel(&self, channel: &Arc<Channel>) -> bool {
        let mut channels = self.channels.lock();
        channels.retain(|other| !std::ptr::eq(other.as_ptr(), Arc::as_ptr(channel)));
        let is_last = channels.is_empty();
        if is_last {
            self.is_over.store(true, Ordering::SeqCst);
        }
        is_last
    }

    /// Tells its client again of the caches that it was asked for or has lost: the connection that has gone may have taken that with it.
    pub(crate) fn remind(&self, gone: u64) {
        for disk in self.trees().iter().filter_map(|tree| tree.disk()) {
            let (claims, now) = (disk.export.volume.claims(), disk.export.volume.now());
            let breaks = &disk.claimant.breaks;
            let mut effects = claims.resend_recalls(now, disk.holder);
            // What another connection has taken is on its way, however many others go meanwhile.
            effects.retain(|effect| match effect {
                Effect::Recall { holder, key, .. } if *holder == disk.holder => {
                    breaks.may_be_lost(*key, gone)
                }
                _ => true,
            });
            claims.dispatch(effects);
            breaks.repeat(gone);
        }
    }

    /// Whether its client has ended all its connections, be that noticed or not.
    pub(crate) fn is_left(&self) -> bool {
        let is_ended =
            |channel: &Arc<Channel>| channel.connection().is_none_or(|connection| connection.is_ended());
        self.channels().iter().all(is_ended)
    }

    /// What its user has, in this session and others.
    pub(crate) fn user(&self) -> Arc<UserUse> {
        Arc::clone(&self.held.lock().user)
    }

    /// A waker of a request that is known by `asked`. Who closes what it is about from now on ends it; before, it is refused.
    pub(crate) fn waker(&self, asked: Asked, taken: [Taken; 3]) -> Result<Waker, NtStatus> {
        let waker = Waker::new(&self.waiting, asked, taken).ok_or(NtStatus::USER_SESSION_DELETED)?;
        if self.held.lock().has_all_of(&asked) {
            return Ok(waker);
        }
        waker.finish();
        Err(asked.closed_with)
    }

    /// Its requests that are answered later.
    pub(crate) fn waiting(&self) -> &Arc<Waiting> {
        &self.waiting
    }

    pub(crate) fn tree(&self, id: u32) -> Option<Arc<Tree>> {
        self.held.lock().trees.get(&id).cloned()
    }

    /// All its tree connects.
    pub(crate) fn trees(&self) -> Vec<Arc<Tree>> {
        self.held.lock().trees.values().cloned().collect()
    }

    /// Connects to a share, unless the session has `trees_max` already, or there are too many in all.
    pub(crate) fn add_tree(&self, counts: &Counts, share: Share, trees_max: usize) -> Option<u32> {
        let mut held = self.held.lock();
        if held.trees.len() >= trees_max || self.is_over.load(Ordering::SeqCst) {
            return None;
        }
        let counted = [held.user.tree(counts.trees())?, counts.tree(TREES_MAX)?];
        let id = loop {
            held.last_tree = held.last_tree.wrapping_add(1);
            // 0 and the last number mean none (MS-SMB2 §2.2.1.2).
            if !matches!(held.last_tree, 0 | u32::MAX) && !held.trees.contains_key(&held.last_tree) {
                break held.last_tree;
            }
        };
        held.trees.insert(id, Arc::new(Tree { id, share, _counted: counted }));
        Some(id)
    }

    /// Ends a tree connect. What was open by it is the caller's, to be closed or kept.
    pub(crate) fn take_tree(&self, counts: &Counts, tree: &Arc<Tree>) -> Vec<Arc<Open>> {
        let mut held = self.held.lock();
        held.trees.remove(&tree.id);
        let of_tree =
            |_: &FileId, open: &mut Arc<Open>| tree.disk().is_some_and(|disk| Arc::ptr_eq(disk, &open.disk));
        let opens: Vec<Arc<Open>> = held.opens.extract_if(of_tree).map(|(_, open)| open).collect();
        let pipes = held.pipes.extract_if(|_, pipe| pipe.tree_id == tree.id).count();
        held.user.uncount_opens(counts, opens.len());
        held.user.uncount_pipes(counts, pipes);
        drop(held);
        self.waiting.close(|asked| asked.tree_id == tree.id);
        opens
    }

    pub(crate) fn open(&self, id: FileId) -> Option<Arc<Open>> {
        self.held.lock().opens.get(&id).cloned()
    }

    /// What is open and is like this.
    pub(crate) fn opens_where(&self, is: impl Fn(&Open) -> bool) -> Vec<Arc<Open>> {
        self.held.lock().opens.values().filter(|open| is(open)).cloned().collect()
    }

    /// Keeps an open of a tree connect, if there is room for it.
    pub(crate) fn add_open(&self, counts: &Counts, tree_id: u32, open: &Arc<Open>) -> Result<(), NtStatus> {
        let mut held = self.held.lock();
        held.check_tree(tree_id)?;
        let has_room = held.has_room() && !self.is_over.load(Ordering::SeqCst);
        if !has_room || !held.user.count_open(counts) {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        held.opens.insert(open.id, Arc::clone(open));
        Ok(())
    }

    /// Has another open take the place of the one with its id, which is returned; none if that was closed.
    pub(crate) fn replace_open(&self, open: &Arc<Open>) -> Option<Arc<Open>> {
        self.held.lock().opens.get_mut(&open.id).map(|old| std::mem::replace(old, Arc::clone(open)))
    }

    /// Lets an open go; whoever took it out closes it.
    pub(crate) fn remove_open(&self, counts: &Counts, id: FileId) -> Option<Arc<Open>> {
        let mut held = self.held.lock();
        let open = held.opens.remove(&id)?;
        held.user.uncount_opens(counts, 1);
        drop(held);
        self.waiting.close_file(id);
        Some(open)
    }

    pub(crate) fn pipe(&self, id: FileId) -> Option<Arc<Pipe>> {
        self.held.lock().pipes.get(&id).cloned()
    }

    /// The memory that a pipe of this session counts to.
    pub(crate) fn pipe_budgets(&self, counts: &Counts) -> [Budget; 3] {
        let (of_all, bytes_max) = match self.is_anonymous() {
            true => (&counts.anonymous_pipe_bytes, ANONYMOUS_PIPE_BYTES_MAX),
            false => (&counts.pipe_bytes, PIPE_BYTES_MAX),
        };
        let of_all = Budget::new(of_all, bytes_max);
        let of_user = Budget::new(&self.user().pipe_bytes, PIPE_BYTES_OF_USER_MAX).beside(&of_all);
        [Budget::new(&self.pipe_bytes, SESSION_PIPE_BYTES_MAX), of_user, of_all]
    }

    /// Keeps a pipe, if there is room for one more.
    pub(crate) fn add_pipe(&self, counts: &Counts, pipe: Pipe) -> Result<(), NtStatus> {
        let mut held = self.held.lock();
        held.check_tree(pipe.tree_id)?;
        let pipes_max = if self.is_anonymous() { ANONYMOUS_PIPES_MAX } else { SESSION_PIPES_MAX };
        let has_room = held.has_room() && held.pipes.len() < pipes_max;
        if !has_room || self.is_over.load(Ordering::SeqCst) || !held.user.count_pipe(counts) {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        held.pipes.insert(pipe.id, Arc::new(pipe));
        Ok(())
    }

    /// Lets a pipe go, and what was answered over it and not read.
    pub(crate) fn remove_pipe(&self, counts: &Counts, id: FileId) -> Option<Arc<Pipe>> {
        let mut held = self.held.lock();
        let pipe = held.pipes.remove(&id)?;
        held.user.uncount_pipes(counts, 1);
        drop(held);
        self.waiting.close_file(id);
        Some(pipe)
    }

    /// Ends the session. What was open is the caller's, to be closed or kept; everything else goes.
    pub(crate) fn end(&self, counts: &Counts) -> Vec<Arc<Open>> {
        let mut held = self.held.lock();
        self.is_over.store(true, Ordering::SeqCst);
        *self.setup.lock() = None;
        let Held { trees, opens, pipes, user, of_user, .. } = std::mem::take(&mut *held);
        drop(held);
        self.waiting.close_all();
        user.uncount_opens(counts, opens.len());
        user.uncount_pipes(counts, pipes.len());
        drop((trees, of_user));
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
        let taken = connections.iter().find(|connection| connection.send_surely(message, patience));
        note(taken.map(|connection| connection.number()));
    }
}

impl Held {
    /// What was opened while its tree connect went is nobody's.
    fn check_tree(&self, id: u32) -> Result<(), NtStatus> {
        if self.trees.contains_key(&id) { Ok(()) } else { Err(NtStatus::NETWORK_NAME_DELETED) }
    }

    /// Whether there still is what a request is about.
    fn has_all_of(&self, asked: &Asked) -> bool {
        let has = |id: FileId| self.opens.contains_key(&id) || self.pipes.contains_key(&id);
        self.trees.contains_key(&asked.tree_id) && asked.file.is_none_or(has)
    }

    fn has_room(&self) -> bool {
        self.opens.len() + self.pipes.len() < SESSION_OPENS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::pending_setups::Setups;
    use super::*;
    use crate::limits::{SETUPS_MAX, TREES_OF_USER_MAX};
    use crate::state::pending::Allowance;
    use crate::state::pending::tests::request;
    use crate::state::pipe::Speaks;
    use smb_wire::rpc::{Association, srvsvc};
    use smb_wire::types::AccessMask;
    use std::net::Ipv4Addr;
    use vfs::bounds::Networks;

    /// A session of a host of this number, if there may be one more.
    fn new(setups: &Setups, counts: &Counts, host: usize) -> Option<Session> {
        let (host, now) = (Ipv4Addr::from_bits(u32::try_from(host).unwrap()), Instant::now());
        Session::new(1, setups.take(1, Networks::default().of(host.into()), now)?.0, counts, now)
    }

    fn add(session: &Session, counts: &Counts, tree_id: u32) -> Result<FileId, NtStatus> {
        let number = counts.next_id();
        let id = FileId { persistent: number, volatile: number };
        let association = Association::new("", &[srvsvc::INTERFACE]);
        let speaks = (Speaks::Server, association);
        let pipe = Pipe::new(id, tree_id, AccessMask::FILE_ALL, speaks, session.pipe_budgets(counts));
        session.add_pipe(counts, pipe).map(|()| id)
    }

    #[test]
    fn pipes_are_bounded_and_go_with_their_tree_connect_and_session() {
        let counts = Counts::default();
        let session = new(&Setups::default(), &counts, 1).unwrap();
        let ipc = session.add_tree(&counts, Share::Pipe, 2).unwrap();
        let other = session.add_tree(&counts, Share::Pipe, 2).unwrap();
        let ids: Vec<FileId> = (1..SESSION_PIPES_MAX).map(|_| add(&session, &counts, ipc).unwrap()).collect();
        let kept = add(&session, &counts, other).unwrap();
        assert_eq!(add(&session, &counts, ipc), Err(NtStatus::INSUFFICIENT_RESOURCES));
        assert!(session.remove_pipe(&counts, ids[0]).is_some());
        assert!(session.remove_pipe(&counts, ids[0]).is_none(), "it is closed");
        add(&session, &counts, ipc).unwrap();
        assert!(!counts.count_pipe(SESSION_PIPES_MAX, usize::MAX), "pipes are counted");
        assert!(!counts.count_open(SESSION_PIPES_MAX), "pipes count as opens");
        session.take_tree(&counts, &session.tree(ipc).unwrap());
        assert!(session.pipe(ids[1]).is_none() && session.pipe(kept).is_some());
        assert_eq!(add(&session, &counts, ipc), Err(NtStatus::NETWORK_NAME_DELETED), "nobody would find it");
        session.end(&counts);
        assert!(session.pipe(kept).is_none());
        assert!(counts.count_pipe(1, 1), "nothing is counted any longer");
        assert_eq!(add(&session, &counts, other), Err(NtStatus::NETWORK_NAME_DELETED), "it is over");
    }

    #[test]
    fn nothing_waits_for_what_is_closed_already() {
        let counts = Counts::default();
        let session = new(&Setups::default(), &counts, 1).unwrap();
        let tree_id = session.add_tree(&counts, Share::Pipe, 1).unwrap();
        let pipe = add(&session, &counts, tree_id).unwrap();
        let allowance = Arc::new(Allowance::new(3, 3));
        let wait = |file| {
            let taken = || allowance.take(1).expect("nobody else waits");
            let asked = Asked { tree_id, file, ..*request(&Arc::default()).asked() };
            session.waker(asked, [taken(), taken(), taken()]).map(|waker| waker.finish())
        };
        assert_eq!((wait(None), wait(Some(pipe))), (Ok(()), Ok(())));
        session.remove_pipe(&counts, pipe);
        assert_eq!((wait(None), wait(Some(pipe))), (Ok(()), Err(NtStatus::FILE_CLOSED)));
        session.take_tree(&counts, &session.tree(tree_id).unwrap());
        assert_eq!(wait(None), Err(NtStatus::FILE_CLOSED));
        session.end(&counts);
        assert_eq!(wait(None), Err(NtStatus::USER_SESSION_DELETED));
    }

    #[test]
    fn a_pipe_past_the_opens_is_not_counted() {
        let counts = Counts::default();
        assert!(!counts.count_pipe(1, 0));
        assert!(counts.count_pipe(1, 1));
        assert!(!counts.count_pipe(1, 2));
    }

    #[test]
    fn sessions_are_bounded_and_those_that_are_not_set_up_more_tightly() {
        let (counts, setups) = (Counts::default(), Setups::default());
        let mut begun: Vec<Session> =
            (0..SETUPS_MAX).map(|number| new(&setups, &counts, number).unwrap()).collect();
        assert!(new(&setups, &counts, SETUPS_MAX).is_none(), "too many are being set up");
        begun.pop();
        begun[0].end(&counts);
        begun.extend([SETUPS_MAX, SETUPS_MAX + 1].map(|number| new(&setups, &counts, number).unwrap()));
        assert!(new(&setups, &counts, 0).is_none());
        // Those that are set up are in nobody's way, up to their own bound.
        begun.iter().for_each(|session| *session.setup.lock() = None);
        begun.extend((0..SETUPS_MAX).map(|number| new(&setups, &counts, number).unwrap()));
        assert!(new(&setups, &counts, SETUPS_MAX).is_none());
        drop(begun);
        let others: Vec<Counted> = (0..SESSIONS_MAX).map(|_| counts.session(SESSIONS_MAX).unwrap()).collect();
        assert!(new(&setups, &counts, 0).is_none(), "there are too many");
        drop(others);
        assert!(new(&setups, &counts, 0).is_some());
    }

    #[test]
    fn tree_connects_of_all_sessions_are_bounded() {
        let (counts, setups) = (Counts::default(), Setups::default());
        let sessions: Vec<Session> = (0..6).map(|number| new(&setups, &counts, number).unwrap()).collect();
        let greedy = (0..TREES_MAX).map_while(|_| sessions[0].add_tree(&counts, Share::Pipe, TREES_MAX));
        assert_eq!(greedy.count(), TREES_OF_USER_MAX, "a user has a quarter");
        let _others: Vec<Counted> =
            (1..TREES_MAX - TREES_OF_USER_MAX).map(|_| counts.tree(TREES_MAX).unwrap()).collect();
        let id = sessions[4].add_tree(&counts, Share::Pipe, TREES_MAX).unwrap();
        assert_eq!(sessions[5].add_tree(&counts, Share::Pipe, TREES_MAX), None);
        sessions[4].take_tree(&counts, &sessions[4].tree(id).unwrap());
        assert!(sessions[5].add_tree(&counts, Share::Pipe, TREES_MAX).is_some());
        assert!(sessions.iter().all(|session| session.end(&counts).is_empty()));
        assert_eq!(counts.trees(), TREES_MAX - TREES_OF_USER_MAX - 1, "they go with their sessions");
    }
}
