//! A test client that checks the protection of every reply.

mod anonymous;

use super::random;
use identity::{Credentials, Initiator, NtHash};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use smb_wire::compound;
use smb_wire::compression::Compression;
use smb_wire::crypto::kdf::KeySource;
use smb_wire::crypto::sealing::{Opener, Sealer};
use smb_wire::crypto::{Preauth, signing};
use smb_wire::error::ErrorResponse;
use smb_wire::header::{Command, Flags, HEADER_SIZE, Header};
use smb_wire::negotiate::{
    Capabilities, Cipher, CompressionAlgorithm, CompressionFlags, ContextType, HashAlgorithm,
    NegotiateContext, NegotiateRequest, NegotiateResponse, SecurityMode, SigningAlgorithm,
};
use smb_wire::session::{
    SessionFlags, SessionSecurityMode, SessionSetupFlags, SessionSetupRequest, SessionSetupResponse,
};
use smb_wire::transform::TRANSFORM_SIZE;
use smb_wire::tree::{TreeConnectFlags, TreeConnectRequest, TreeConnectResponse};
use smb_wire::types::Dialect;
use smb_wire::{Decode, Encode, Guid, NtStatus, Reader, Utf16};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The timeout of every wait.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// The test client's status for a reply with a wrong signature.
pub(crate) const INVALID_SIGNATURE: NtStatus = NtStatus(0xc000_a000);
/// Credits that each request asks for.
const CREDITS: u16 = 64;

/// The contents of a client's NEGOTIATE.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) dialects: Vec<Dialect>,
    pub(crate) capabilities: Capabilities,
    pub(crate) ciphers: Vec<Cipher>,
    pub(crate) signing: Vec<SigningAlgorithm>,
    /// `None` sends no compression context.
    pub(crate) compression: Option<(CompressionFlags, Vec<CompressionAlgorithm>)>,
    pub(crate) client_guid: Guid,
    pub(crate) security_mode: SecurityMode,
    pub(crate) posix: bool,
}

impl Default for Offer {
    fn default() -> Self {
        Self {
            dialects: vec![Dialect::SMB210, Dialect::SMB300, Dialect::SMB302, Dialect::SMB311],
            capabilities: Capabilities::LARGE_MTU
                | Capabilities::ENCRYPTION
                | Capabilities::MULTI_CHANNEL
                | Capabilities::DIRECTORY_LEASING,
            ciphers: vec![Cipher::AES_128_GCM, Cipher::AES_128_CCM],
            signing: vec![SigningAlgorithm::AES_GMAC, SigningAlgorithm::AES_CMAC],
            compression: None,
            client_guid: Guid([9; 16]),
            security_mode: SecurityMode::SIGNING_ENABLED,
            posix: false,
        }
    }
}

impl Offer {
    /// A client without multichannel, signing with AES-GMAC.
    pub(crate) fn single() -> Self {
        let capabilities = Capabilities::LARGE_MTU | Capabilities::ENCRYPTION;
        Self { capabilities, ..Self::default() }
    }

    /// Offers this dialect alone.
    pub(crate) fn of(dialect: Dialect) -> Self {
        Self { dialects: vec![dialect], ..Self::default() }
    }

    fn contexts(&self) -> Vec<NegotiateContext<'static>> {
        let hash_algorithms = vec![HashAlgorithm::SHA_512];
        let mut contexts = vec![NegotiateContext::Preauth { hash_algorithms, salt: &[7; 32] }];
        if !self.ciphers.is_empty() {
            contexts.push(NegotiateContext::Encryption(self.ciphers.clone()));
        }
        if !self.signing.is_empty() {
            contexts.push(NegotiateContext::Signing(self.signing.clone()));
        }
        if self.posix {
            let context_type = ContextType::POSIX_EXTENSIONS_AVAILABLE;
            contexts.push(NegotiateContext::Other { context_type, data: smb_wire::posix::NAME });
        }
        if let Some((flags, algorithms)) = self.compression.clone() {
            contexts.push(NegotiateContext::Compression { flags, algorithms });
        }
        contexts
    }

    pub(crate) fn request(&self) -> NegotiateRequest<'static> {
        NegotiateRequest {
            security_mode: self.security_mode,
            capabilities: self.capabilities,
            client_guid: self.client_guid,
            dialects: self.dialects.clone(),
            contexts: self.contexts(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) header: Header,
    pub(crate) bytes: Vec<u8>,
}

impl Reply {
    pub(crate) fn status(&self) -> NtStatus {
        self.header.status
    }

    /// The body of a successful reply.
    #[track_caller]
    pub(crate) fn body<'a, T: Decode<'a>>(&'a self) -> T {
        assert!(!self.status().is_error(), "{:?} is refused with {:?}", self.header.command, self.status());
        self.read()
    }

    /// The body, regardless of the status.
    #[track_caller]
    pub(crate) fn read<'a, T: Decode<'a>>(&'a self) -> T {
        T::decode(&mut Reader::starting_at(&self.bytes, HEADER_SIZE)).unwrap()
    }

    /// Asserts this status and an empty error body.
    #[track_caller]
    pub(crate) fn assert_refused(&self, status: NtStatus) {
        assert_eq!(self.status(), status, "{:?}", self.header.command);
        let said: ErrorResponse<'_> = self.read();
        assert_eq!((said.context_count, said.data), (0, &[][..]));
    }
}

/// The negotiated values.
#[derive(Clone, Copy, Debug)]
struct Agreed {
    dialect: Dialect,
    cipher: Option<Cipher>,
    signing: SigningAlgorithm,
}

/// The keys of a session on one connection.
#[derive(Clone)]
pub(crate) struct Keys {
    signing: Arc<signing::Key>,
    sealing: Option<Arc<(Sealer, Opener)>>,
}

/// A connection with at most one session.
pub(crate) struct Client {
    socket: TcpStream,
    agreed: Option<Agreed>,
    preauth: Preauth,
    keys: Option<Keys>,
    pub(crate) next_id: u64,
    pub(crate) session_id: u64,
    pub(crate) tree_id: u32,
    /// Whether requests are signed, once there is a key.
    pub(crate) signs: bool,
    /// Whether requests are encrypted instead.
    pub(crate) seals: bool,
    /// The negotiated compression.
    compression: Option<Compression>,
    /// Whether requests are compressed if that makes them shorter.
    pub(crate) compresses: bool,
    /// Whether the last reply was compressed, and its size on the wire.
    pub(crate) came: (bool, usize),
    /// Whether signatures of replies are checked.
    pub(crate) checks: bool,
    /// An attacker's change of the last SESSION_SETUP reply.
    pub(crate) forges: Option<fn(&mut Vec<u8>)>,
    /// The channel sequence of requests.
    pub(crate) channel_sequence: u16,
    /// Whether requests have the replay flag.
    pub(crate) replays: bool,
    /// Granted credits minus used ones.
    pub(crate) credits: i64,
    /// All messages in both directions, once a test enables the log.
    pub(crate) log: Option<Vec<Vec<u8>>>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    /// Connects from another client address.
    pub(crate) fn connect_as(source: [u8; 4], address: SocketAddr) -> Self {
        let fd = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&fd, &SocketAddrV4::new(source.into(), 0)).unwrap();
        connect(&fd, &address).unwrap();
        Self::over(fd.into())
    }

    fn over(socket: TcpStream) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        Self {
            socket,
            agreed: None,
            preauth: Preauth::default(),
            keys: None,
            next_id: 0,
            session_id: 0,
            tree_id: 0,
            signs: true,
            seals: false,
            compression: None,
            compresses: false,
            came: (false, 0),
            checks: true,
            forges: None,
            channel_sequence: 0,
            replays: false,
            credits: 1,
            log: None,
        }
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        // If the server has closed the connection, the next read reports it.
        let _ = self.socket.write_all(bytes);
    }

    pub(crate) fn send(&mut self, message: &[u8]) {
        let length = u32::try_from(message.len()).unwrap();
        self.log.iter_mut().for_each(|log| log.push(message.to_vec()));
        self.send_raw(&[&length.to_be_bytes(), message].concat());
    }

    /// The next message; `None` at the end of the connection.
    pub(crate) fn receive(&mut self) -> Option<Vec<u8>> {
        let length = u32::from_be_bytes(self.read_exact(4)?.try_into().unwrap());
        let message = self.read_exact(usize::try_from(length).unwrap()).expect("the rest of a message");
        self.log.iter_mut().for_each(|log| log.push(message.clone()));
        Some(message)
    }

    fn read_exact(&mut self, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        match self.socket.read_exact(&mut bytes) {
            Ok(()) => Some(bytes),
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                None
            }
            Err(error) => panic!("the server does not answer: {error}"),
        }
    }

    /// Whether unread data, or the end of the connection, has arrived.
    pub(crate) fn hears_something(&self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        let heard = self.socket.peek(&mut [0]);
        self.socket.set_nonblocking(false).unwrap();
        heard.is_ok()
    }

    /// Asserts that the server closes the connection without a message.
    #[track_caller]
    pub(crate) fn assert_ended(&mut self) {
        assert!(self.receive().is_none(), "the server goes on");
    }

    // Requests.

    /// The header of the next request, which costs `charge` credits.
    pub(crate) fn header(&mut self, command: Command, charge: u16) -> Header {
        let message_id = self.next_id;
        self.next_id += u64::from(charge);
        self.credits -= i64::from(charge);
        let header = Header::request(command, message_id, self.session_id, self.tree_id);
        let flags = if self.replays { Flags::REPLAY_OPERATION } else { Flags::empty() };
        let status = NtStatus(u32::from(self.channel_sequence));
        Header { credits: CREDITS, credit_charge: charge, flags, status, ..header }
    }

    /// An unprotected request with the next message id.
    pub(crate) fn request(&mut self, command: Command, body: &impl Encode) -> Vec<u8> {
        let header = self.header(command, 1);
        message(&header, body)
    }

    /// Sends a finished compound with the client's protection.
    pub(crate) fn send_protected(&mut self, mut chain: Vec<u8>) {
        if let Some(keys) = self.keys.as_ref().filter(|keys| self.signs && !self.seals_with(keys)) {
            sign_each(&keys.signing, &mut chain);
        }
        let packed = if self.compresses { self.packed(&chain) } else { None };
        self.send_packed(packed.unwrap_or(chain));
    }

    /// Compresses a message if that is shorter.
    pub(crate) fn packed(&self, chain: &[u8]) -> Option<Vec<u8>> {
        self.compression.expect("compression was agreed on").compress(chain, HEADER_SIZE)
    }

    /// Sends a signed and compressed message, encrypted if the client encrypts.
    pub(crate) fn send_packed(&mut self, mut message: Vec<u8>) {
        if let Some(keys) = self.keys.as_ref().filter(|keys| self.seals_with(keys)) {
            message.splice(0..0, [0; TRANSFORM_SIZE]);
            keys.sealing.as_ref().unwrap().0.seal(self.session_id, &mut message).unwrap();
        }
        self.send(&message);
    }

    fn seals_with(&self, keys: &Keys) -> bool {
        self.seals && keys.sealing.is_some()
    }

    /// The replies in the next message, with checked protection; empty at the end of the connection.
    pub(crate) fn replies(&mut self) -> Vec<Reply> {
        let Some(mut message) = self.receive() else { return Vec::new() };
        let keys = self.keys.as_ref();
        let is_sealed = message[0] == 0xfd;
        if is_sealed {
            let sealing = keys.and_then(|keys| keys.sealing.as_ref()).expect("a key to open it");
            message = sealing.1.open(&mut message).expect("a message encrypted by the server").to_vec();
        }
        assert_eq!(is_sealed, self.seals, "replies are protected as requests are");
        self.came = (message[0] == 0xfc, message.len());
        if self.came.0 {
            let agreed = self.compression.expect("compression was agreed on");
            message = agreed.decompress(&message, smb::limits::MESSAGE_BYTES_MAX).unwrap();
        }
        let replies: Vec<Reply> = compound::messages(&message)
            .map(|reply| {
                let reply = reply.unwrap();
                // An ended session has no key, and AES-GMAC does not sign a refused binding.
                let has_no_key = [NtStatus::USER_SESSION_DELETED, NtStatus::REQUEST_OUT_OF_SEQUENCE]
                    .contains(&reply.header.status);
                let is_signed = reply.header.flags.contains(Flags::SIGNED) && !has_no_key;
                if let Some(keys) = keys.filter(|_| !is_sealed && is_signed && self.checks) {
                    assert!(keys.signing.verify(reply.bytes).is_ok(), "the signature of {:?}", reply.header);
                }
                Reply { header: reply.header, bytes: reply.bytes.to_vec() }
            })
            .collect();
        self.credits += replies.iter().map(|reply| i64::from(reply.header.credits)).sum::<i64>();
        replies
    }

    /// The only reply in the next message.
    #[track_caller]
    pub(crate) fn reply(&mut self) -> Reply {
        let mut replies = self.replies();
        assert_eq!(replies.len(), 1, "one reply is expected");
        let reply = replies.remove(0);
        assert!(reply.header.flags.contains(Flags::SERVER_TO_REDIR));
        reply
    }

    /// Sends one command and returns its reply.
    #[track_caller]
    pub(crate) fn call(&mut self, command: Command, body: &impl Encode) -> Reply {
        self.call_charged(command, body, 1)
    }

    /// Sends a command with a credit charge above one.
    #[track_caller]
    pub(crate) fn call_charged(&mut self, command: Command, body: &impl Encode, charge: u16) -> Reply {
        let header = self.header(command, charge);
        self.send_protected(message(&header, body));
        let reply = self.reply();
        assert_eq!((reply.header.command, reply.header.message_id), (command, header.message_id));
        let has_session = reply.status() != NtStatus::USER_SESSION_DELETED;
        let must_be_signed = self.keys.is_some() && self.signs && !self.seals && has_session;
        assert!(!must_be_signed || reply.header.flags.contains(Flags::SIGNED), "a reply without signature");
        reply
    }

    /// Sends several commands in one message and returns their replies.
    #[track_caller]
    pub(crate) fn chain(&mut self, commands: Vec<Vec<u8>>) -> Vec<Reply> {
        let chain = chained(commands);
        self.send_protected(chain);
        self.replies()
    }

    /// Sends a command for a session without keys.
    #[track_caller]
    pub(crate) fn call_unprotected(&mut self, command: Command, body: &impl Encode) -> Reply {
        let request = self.request(command, body);
        self.send(&request);
        self.reply()
    }

    /// A signed request with the next message id.
    pub(crate) fn signed(&mut self, command: Command, body: &impl Encode) -> Vec<u8> {
        let mut request = self.request(command, body);
        self.keys.as_ref().expect("a key").signing.sign(&mut request);
        request
    }

    /// Signs a compound.
    pub(crate) fn sign(&self, chain: &mut [u8]) {
        sign_each(&self.keys.as_ref().expect("a key").signing, chain);
    }

    /// Whether a message, from any connection, is signed with this client's key.
    pub(crate) fn verifies(&self, message: &[u8]) -> bool {
        self.keys.as_ref().expect("a key").signing.verify(message).is_ok()
    }

    /// An encrypted request with the next message id.
    pub(crate) fn sealed(&mut self, command: Command, body: &impl Encode) -> Vec<u8> {
        let request = self.request(command, body);
        let mut sealed = [vec![0; TRANSFORM_SIZE], request].concat();
        let sealing = self.keys.as_ref().and_then(|keys| keys.sealing.as_ref()).expect("a key");
        sealing.0.seal(self.session_id, &mut sealed).unwrap();
        sealed
    }

    // Setting up.

    /// NEGOTIATE; must succeed. Returns the reply.
    #[track_caller]
    pub(crate) fn negotiate(&mut self, offer: &Offer) -> Reply {
        self.negotiate_changed(offer, |_| ())
    }

    /// NEGOTIATE with a request that an attacker changes.
    #[track_caller]
    pub(crate) fn negotiate_changed(&mut self, offer: &Offer, change: impl FnOnce(&mut Vec<u8>)) -> Reply {
        let request = self.request(Command::NEGOTIATE, &offer.request());
        let mut sent = request.clone();
        change(&mut sent);
        self.send(&sent);
        let reply = self.reply();
        let answer: NegotiateResponse<'_> = reply.body();
        let is_new = answer.dialect == Dialect::SMB311;
        let mut agreed = Agreed {
            dialect: answer.dialect,
            cipher: (!is_new && answer.capabilities.contains(Capabilities::ENCRYPTION))
                .then_some(Cipher::AES_128_CCM),
            signing: match answer.dialect {
                Dialect::SMB210 => SigningAlgorithm::HMAC_SHA256,
                _ => SigningAlgorithm::AES_CMAC,
            },
        };
        for context in &answer.contexts {
            match context {
                NegotiateContext::Encryption(chosen) => agreed.cipher = Some(chosen[0]),
                NegotiateContext::Signing(chosen) => agreed.signing = chosen[0],
                NegotiateContext::Compression { flags, algorithms } => {
                    self.compression = Compression::choose(*flags, algorithms);
                }
                _ => {}
            }
        }
        self.agreed = Some(agreed);
        self.preauth.update(&request);
        self.preauth.update(&reply.bytes);
        reply
    }

    /// SESSION_SETUP; must succeed.
    #[track_caller]
    pub(crate) fn log_on(&mut self, user: (&str, &str)) {
        self.try_log_on(user, 0).unwrap();
    }

    /// SESSION_SETUP with the id of a previous session, or 0. Returns the refusal.
    pub(crate) fn try_log_on(&mut self, user: (&str, &str), previous: u64) -> Result<(), NtStatus> {
        self.authenticate(user, previous, SessionSetupFlags::empty())
    }

    /// SESSION_SETUP that binds this connection to another's session. Returns the refusal.
    pub(crate) fn bind(&mut self, first: &Self, user: (&str, &str)) -> Result<(), NtStatus> {
        self.borrow_session(first);
        self.tree_id = first.tree_id;
        self.authenticate(user, 0, SessionSetupFlags::BINDING)
    }

    /// Uses the session of another connection, with its keys, from now on.
    pub(crate) fn borrow_session(&mut self, first: &Self) {
        (self.session_id, self.keys) = (first.session_id, first.keys.clone());
    }

    /// Sends the first step of a binding to the borrowed session and returns the status.
    pub(crate) fn start_binding(&mut self) -> NtStatus {
        let nt_hash = NtHash::from_password("");
        let credentials = Credentials { user: String::new(), domain: String::new(), nt_hash };
        let token = Initiator::new(credentials, "files").start();
        let request = self.setup_request(&token, 0, SessionSetupFlags::BINDING);
        self.send_protected(request);
        self.reply().status()
    }

    pub(crate) fn keys(&self) -> Option<Keys> {
        self.keys.clone()
    }

    /// Restores earlier keys.
    pub(crate) fn set_keys(&mut self, keys: Option<Keys>) {
        self.keys = keys;
    }

    fn authenticate(
        &mut self,
        credentials: (&str, &str),
        previous: u64,
        flags: SessionSetupFlags,
    ) -> Result<(), NtStatus> {
        let (user, password) = credentials;
        let nt_hash = NtHash::from_password(password);
        let credentials = Credentials { user: user.to_owned(), domain: "FILES".to_owned(), nt_hash };
        let mut initiator = Initiator::new(credentials, "files");
        let mut preauth = self.preauth.clone();
        let mut setup = |client: &mut Self, token: &[u8]| {
            let mut request = client.setup_request(token, previous, flags);
            if let Some(keys) = client.keys.as_ref().filter(|_| client.signs && !client.seals) {
                keys.signing.sign(&mut request);
            }
            preauth.update(&request);
            client.send_protected(request);
            let reply = client.reply();
            if reply.status() == NtStatus::MORE_PROCESSING_REQUIRED {
                preauth.update(&reply.bytes);
            }
            (reply, preauth.clone())
        };
        let (reply, _) = setup(self, &initiator.start());
        if reply.status() != NtStatus::MORE_PROCESSING_REQUIRED {
            return Err(reply.status());
        }
        self.session_id = reply.header.session_id;
        let challenge: SessionSetupResponse<'_> = reply.read();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let now = identity::FileTime::from_unix(since);
        let token = initiator.step(challenge.security_buffer, now, &mut random).unwrap();
        // The channel's own key signs the final reply of the binding first.
        let before = self.keys.clone();
        let binds = flags.contains(SessionSetupFlags::BINDING);
        let checks = std::mem::replace(&mut self.checks, !binds);
        let (mut reply, preauth) = setup(self, &token);
        self.checks = checks;
        if reply.status() != NtStatus::SUCCESS {
            return Err(reply.status());
        }
        self.forges.iter().for_each(|forge| forge(&mut reply.bytes));
        let done: SessionSetupResponse<'_> = reply.body();
        let key = initiator.finish(done.security_buffer).map_err(|_| INVALID_SIGNATURE)?;
        if before.is_none() || binds {
            let sealing = before.and_then(|keys| keys.sealing);
            let own = self.derive(key.as_bytes(), &preauth);
            self.keys = Some(Keys { sealing: sealing.or(own.sealing), ..own });
        }
        // The last step is signed (MS-SMB2 §3.2.5.3.1).
        let is_signed = Header::from_bytes(&reply.bytes).unwrap().flags.contains(Flags::SIGNED);
        let is_right = self.keys.as_ref().unwrap().signing.verify(&reply.bytes).is_ok();
        if !is_signed || !is_right {
            return Err(INVALID_SIGNATURE);
        }
        assert_eq!(done.session_flags, SessionFlags::empty());
        Ok(())
    }

    /// Sends further requests without a session.
    pub(crate) fn forget_session(&mut self) {
        (self.session_id, self.keys) = (0, None);
    }

    /// Sends the first step of SESSION_SETUP and returns the status.
    pub(crate) fn start_log_on(&mut self) -> NtStatus {
        let nt_hash = NtHash::from_password("");
        let credentials = Credentials { user: String::new(), domain: String::new(), nt_hash };
        let request =
            self.setup_request(&Initiator::new(credentials, "files").start(), 0, SessionSetupFlags::empty());
        self.send(&request);
        let reply = self.reply();
        self.session_id = reply.header.session_id;
        reply.status()
    }

    pub(crate) fn setup_request(&mut self, token: &[u8], previous: u64, flags: SessionSetupFlags) -> Vec<u8> {
        let body = SessionSetupRequest {
            flags,
            security_mode: SessionSecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities::empty(),
            channel: 0,
            security_buffer: token,
            previous_session_id: previous,
        };
        self.request(Command::SESSION_SETUP, &body)
    }

    fn derive(&self, session_key: &[u8], preauth: &Preauth) -> Keys {
        let Agreed { dialect, cipher, signing } = self.agreed.expect("NEGOTIATE comes first");
        let source = KeySource { dialect, session_key, preauth };
        let sealing = cipher.filter(|_| dialect != Dialect::SMB210).map(|cipher| {
            let sealer = Sealer::new(source.client_to_server(cipher).unwrap());
            Arc::new((sealer, Opener::new(source.server_to_client(cipher).unwrap())))
        });
        Keys { signing: Arc::new(signing::Key::new(signing, &source.signing()).unwrap()), sealing }
    }

    /// Sends TREE_CONNECT and returns the reply.
    #[track_caller]
    pub(crate) fn tree_connect(&mut self, share: &str) -> Reply {
        let path = utf16(&format!("\\\\files.example.org\\{share}"));
        let path = Utf16::new(&path).unwrap();
        self.call(Command::TREE_CONNECT, &TreeConnectRequest { flags: TreeConnectFlags::empty(), path })
    }

    /// TREE_CONNECT; must succeed. Further commands use this share.
    #[track_caller]
    pub(crate) fn mount(&mut self, share: &str) {
        let reply = self.tree_connect(share);
        let _: TreeConnectResponse = reply.body();
        self.tree_id = reply.header.tree_id();
    }
}

pub(crate) fn message(header: &Header, body: &impl Encode) -> Vec<u8> {
    let mut out = Vec::new();
    compound::push(&mut out, header, body);
    out
}

/// Joins several messages into a compound, with padding.
pub(crate) fn chained(commands: Vec<Vec<u8>>) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::new();
    let mut last = None;
    for command in commands {
        if let Some(start) = last {
            compound::link(&mut out, start);
        }
        last = Some(out.len());
        out.extend(command);
    }
    out
}

pub(crate) fn sign_each(key: &signing::Key, chain: &mut [u8]) {
    let lengths: Vec<usize> =
        compound::messages(chain).map_while(Result::ok).map(|message| message.bytes.len()).collect();
    let mut rest = chain;
    for length in lengths {
        let (message, more) = rest.split_at_mut(length);
        key.sign(message);
        rest = more;
    }
}

pub(crate) fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}
