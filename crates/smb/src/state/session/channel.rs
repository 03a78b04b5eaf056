//! Channels: a session on one connection (MS-SMB2 §3.3.1.14).

use super::Session;
use super::keys::{Keys, signing_key};
use crate::state::connection::negotiated::Negotiated;
use crate::state::pending_quota::PendingQuota;
use identity::{Acceptor, Authority, Identity, SessionKey, Step};
use smb_wire::NtStatus;
use smb_wire::crypto::{Preauth, signing};
use smb_wire::header::{Flags, Header};
use std::any::Any;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use transport::Outbox;
use vfs::sync::Mutex;

/// `Channel`, from the first request that authenticates over it.
pub(crate) struct Channel {
    pub(crate) session: Arc<Session>,
    connection: Weak<dyn ChannelConnection>,
    authentication: Mutex<Authentication>,
    signing: OnceLock<Arc<signing::Key>>,
}

/// A connection, for its sessions.
pub(crate) trait ChannelConnection: Send + Sync {
    /// Removes the channel of an ended session.
    fn forget_channel(&self, session_id: u64);

    fn number(&self) -> u64;

    /// Sends an unsolicited message without waiting. The connection ends unless the client's machine acknowledges it
    /// in this time. False if the connection is gone.
    fn send_within(&self, message: &mut Outbox, patience: Duration) -> bool;

    fn pending_quota(&self) -> &Arc<PendingQuota>;

    /// The transport of the connection; none if it is gone.
    fn transport(&self) -> Option<Arc<dyn Any + Send + Sync>>;

    /// Whether the client has ended the connection, noticed or not.
    fn is_ended(&self) -> bool;

    /// The client's address; none if the connection is gone.
    fn client(&self) -> Option<IpAddr>;
}

/// An authentication in progress: the first of the channel, or a later one.
struct Authentication {
    acceptor: Option<Acceptor>,
    /// `PreauthIntegrityHashValue`.
    preauth: Preauth,
}

impl Channel {
    pub(crate) fn new(
        session: Arc<Session>,
        connection: Weak<dyn ChannelConnection>,
        preauth: Preauth,
    ) -> Self {
        let setup = Mutex::new(Authentication { acceptor: None, preauth });
        Self { session, connection, authentication: setup, signing: OnceLock::new() }
    }

    pub(crate) fn connection(&self) -> Option<Arc<dyn ChannelConnection>> {
        self.connection.upgrade()
    }

    /// Whether the client has authenticated over this channel.
    pub(crate) fn is_bound(&self) -> bool {
        self.signing.get().is_some()
    }

    /// Whether the channel is bound, and its session has not ended.
    pub(crate) fn is_valid(&self) -> bool {
        self.is_bound() && !self.session.is_over()
    }

    pub(crate) fn signing(&self) -> Option<&Arc<signing::Key>> {
        self.signing.get()
    }

    /// The key that signs the reply to a request: as the request was signed, and always where the session requires it
    /// (MS-SMB2 §3.3.4.1.1).
    pub(crate) fn reply_key(&self, request: &Header) -> Option<Arc<signing::Key>> {
        let signs = request.flags.contains(Flags::SIGNED) || self.session.must_sign();
        self.signing().filter(|_| signs).cloned()
    }

    pub(crate) fn verify(&self, message: &[u8]) -> bool {
        self.signing().is_some_and(|key| key.verify(message).is_ok())
    }

    /// Runs the next step of an authentication. The request has arrived at the address `reached_at`.
    pub(crate) fn authenticate(
        &self,
        request: &[u8],
        token: &[u8],
        authority: &Arc<Authority>,
        reached_at: IpAddr,
        now: identity::FileTime,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Step {
        let mut setup = self.authentication.lock();
        if !self.is_bound() {
            setup.preauth.update(request);
        }
        let acceptor =
            setup.acceptor.get_or_insert_with(|| Acceptor::new(Arc::clone(authority)).reached_at(reached_at));
        let stepped = acceptor.step(token, now, random);
        if !matches!(stepped, Step::Continue(_)) {
            setup.acceptor = None;
        }
        stepped
    }

    /// Adds the reply of a setup step to the preauthentication hash.
    pub(crate) fn note_reply(&self, reply: &[u8]) {
        if !self.is_bound() {
            self.authentication.lock().preauth.update(reply);
        }
    }

    /// Completes an authentication. The first of a session gives it a user and keys, the first of a further channel
    /// gives the channel a key, and later ones change nothing. All must prove the same user (MS-SMB2 §3.3.5.5.2,
    /// §3.3.5.5.3).
    pub(crate) fn establish(
        self: &Arc<Self>,
        negotiated: &Negotiated,
        identity: Option<Identity>,
        key: &SessionKey,
        must_sign: bool,
    ) -> Result<(), NtStatus> {
        if self.session.is_established() {
            let is_same = self.session.is_same_user(identity.as_ref());
            if self.is_bound() {
                return if is_same { Ok(()) } else { Err(NtStatus::LOGON_FAILURE) };
            }
            if !is_same {
                return Err(NtStatus::ACCESS_DENIED);
            }
            let preauth = self.authentication.lock().preauth.clone();
            let key = signing_key(negotiated, key, &preauth).ok_or(NtStatus::LOGON_FAILURE)?;
            return self.bind(Arc::new(key));
        }
        let preauth = self.authentication.lock().preauth.clone();
        let keys = Keys::derive(negotiated, key, &preauth).ok_or(NtStatus::LOGON_FAILURE)?;
        let signing = Arc::clone(keys.signing());
        self.session.establish(negotiated, identity, keys, must_sign)?;
        self.bind(signing)
    }

    fn bind(self: &Arc<Self>, key: Arc<signing::Key>) -> Result<(), NtStatus> {
        self.session.add_channel(self)?;
        self.signing.set(key).map_err(|_| NtStatus::REQUEST_NOT_ACCEPTED)
    }
}
