//! What all connections share (MS-SMB2 §3.3.1.5).

use crate::attempts::Attempts;
use crate::counts::{Counts, lock};
use crate::durable::Handles;
use crate::later::Allowance;
use crate::leases::LeaseTables;
use crate::limits::{WAITING_BYTES_MAX, WAITING_MAX};
use crate::open::Open;
use crate::session::Session;
use identity::{Authority, Identity, MicPolicy, Resolver, ServerNames, SharedAccounts};
use smb_wire::Guid;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use vfs::SharedNamespace;

/// Where random bytes come from.
pub type Random = Box<dyn Fn(&mut [u8]) + Send + Sync>;

/// The server, as all connections share it.
pub struct Service {
    /// What is served.
    pub(crate) namespace: SharedNamespace,
    /// Who proves who is calling.
    pub(crate) authority: Arc<Authority>,
    /// Who that is here.
    pub(crate) resolver: Arc<dyn Resolver>,
    /// `ServerGuid`: another one at each start, because nothing that is open outlives the process.
    pub(crate) guid: Guid,
    /// Random bytes.
    pub(crate) random: Random,
    pub(crate) counts: Counts,
    /// What may wait of all requests.
    pub(crate) waiting: Arc<Allowance>,
    pub(crate) leases: LeaseTables,
    /// `GlobalOpenTable`, as far as it is of opens without a session, and of those that may be asked for twice.
    pub(crate) handles: Arc<Handles>,
    /// Logins that were refused.
    pub(crate) attempts: Attempts,
    /// `GlobalSessionTable`.
    sessions: Mutex<HashMap<u64, Weak<Session>>>,
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
            secrets: Arc::new(accounts.clone()),
            null_sessions: false,
            // The client of Linux gives no MIC, and announces none.
            mic: MicPolicy::Announced,
            target_names: Vec::new(),
        };
        Self {
            namespace,
            authority: Arc::new(authority),
            resolver: Arc::new(accounts),
            guid: Guid(guid),
            random,
            counts: Counts::default(),
            waiting: Arc::new(Allowance::new(WAITING_MAX, WAITING_BYTES_MAX)),
            leases: LeaseTables::default(),
            handles: Arc::default(),
            attempts: Attempts::default(),
            sessions: Mutex::default(),
        }
    }

    /// A session that is to be set up. Its number is drawn, so that one of an earlier start is nobody's; some clients keep 32 bits
    /// of it.
    pub(crate) fn new_session(&self) -> Arc<Session> {
        let mut sessions = lock(&self.sessions);
        loop {
            let mut drawn = [0; 4];
            (self.random)(&mut drawn);
            let id = u64::from(u32::from_le_bytes(drawn));
            if id != 0 && !sessions.contains_key(&id) {
                let session = Arc::new(Session::new(id));
                sessions.insert(id, Arc::downgrade(&session));
                return session;
            }
        }
    }

    /// Ends a session: nobody finds it any longer, over no connection. What it has open is closed, unless it is durable
    /// (MS-SMB2 §3.3.5.6, §3.3.7.1).
    pub(crate) fn end_session(&self, session: &Session) {
        let opens = self.forget(session);
        for open in opens {
            if let Err(open) = self.handles.keep(open) {
                open.close();
            }
        }
    }

    /// Has nobody find a session any longer, and gives what it has open.
    fn forget(&self, session: &Session) -> Vec<Arc<Open>> {
        lock(&self.sessions).remove(&session.id);
        let opens = session.end(&self.counts);
        for connection in session.channels().iter().filter_map(|channel| channel.connection()) {
            connection.forget(session.id);
        }
        opens
    }

    /// Ends the sessions of users and the tree connects to volumes who are gone, and lets durable opens go whose time is over. To be
    /// called every second or so.
    pub fn end_what_is_gone(&self) {
        let namespace = self.namespace.load();
        let is_nobody = |of: &Identity| {
            self.resolver.principal("", &of.name).is_none_or(|principal| principal.sid != of.sid)
        };
        for session in self.all_sessions() {
            if session.identity().is_some_and(is_nobody) {
                self.forget(&session).iter().for_each(|open| open.close());
                continue;
            }
            for tree in session.trees() {
                if tree.disk().is_some_and(|disk| namespace.export(disk.export.id).is_none()) {
                    session.remove_tree(&self.counts, &tree);
                }
            }
        }
        self.handles.sweep(|open| namespace.export(open.disk.export.id).is_none());
    }

    /// Sessions that are set up.
    pub(crate) fn sessions(&self) -> usize {
        self.all_sessions().iter().filter(|session| session.is_established()).count()
    }

    fn all_sessions(&self) -> Vec<Arc<Session>> {
        lock(&self.sessions).values().filter_map(Weak::upgrade).collect()
    }

    /// What is open over all sessions and is like this.
    pub(crate) fn opens_where(&self, is: impl Fn(&Open) -> bool) -> Vec<Arc<Open>> {
        self.all_sessions().iter().flat_map(|session| session.opens_where(&is)).collect()
    }

    /// Closes an open, whatever session has it.
    pub(crate) fn close(&self, open: &Arc<Open>) {
        let is_its =
            |session: &&Arc<Session>| session.open(open.id).is_some_and(|known| Arc::ptr_eq(&known, open));
        let sessions = self.all_sessions();
        if let Some(session) = sessions.iter().find(is_its) {
            session.remove_open(&self.counts, open.id);
        }
        open.close();
    }

    pub(crate) fn session(&self, id: u64) -> Option<Arc<Session>> {
        lock(&self.sessions).get(&id)?.upgrade()
    }
}
