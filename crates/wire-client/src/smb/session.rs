//! Connection setup by NEGOTIATE, SESSION_SETUP and TREE_CONNECT, then one request at a time.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use identity::{Credentials, Initiator, SessionKey};
use smb_wire::crypto::kdf::KeySource;
use smb_wire::crypto::sealing::{Opener, Sealer};
use smb_wire::crypto::{Preauth, signing};
use smb_wire::header::{Command, HEADER_SIZE, Header};
use smb_wire::negotiate::{
    Capabilities, Cipher, HashAlgorithm, NegotiateContext, NegotiateRequest, NegotiateResponse, SecurityMode,
    SigningAlgorithm,
};
use smb_wire::session::{
    Empty, SessionFlags, SessionSecurityMode, SessionSetupFlags, SessionSetupRequest, SessionSetupResponse,
};
use smb_wire::tree::{ShareFlags, TreeConnectFlags, TreeConnectRequest, TreeConnectResponse};
use smb_wire::types::Dialect;
use smb_wire::{Decode, Encode, Guid, NtStatus, Reader, Utf16};

use super::channel::{Channel, Keys, Request, charge};
use super::requests::utf16;
use crate::error::Error;
use crate::object::TransferLimits;
use crate::rpc::{Identity, receive_error};
use crate::target::{Protection, Target, Version};

const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// The time for the first answer: a server of another protocol may wait for the rest of a message.
const NEGOTIATE_TIMEOUT: Duration = Duration::from_secs(10);
const FRAME_MAX: u32 = (8 << 20) + 4096;
/// Bounds the bytes of a READ or WRITE.
const TRANSFER_MAX: u32 = 8 << 20;

#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    pub header: Header,
    /// Starts at the header.
    pub bytes: &'a [u8],
}

impl<'a> Reply<'a> {
    pub fn body<T: Decode<'a>>(&self) -> Result<T, Error> {
        Ok(T::decode(&mut Reader::starting_at(self.bytes, HEADER_SIZE))?)
    }

    pub fn succeeded(self, doing: impl FnOnce() -> String) -> Result<Self, Error> {
        match self.header.status {
            status if status.is_error() => {
                Err(Error::Refused { doing: doing(), status: format!("{status:?}") })
            }
            _ => Ok(self),
        }
    }
}

#[derive(Debug)]
pub struct Session {
    stream: TcpStream,
    channel: Channel,
    request: Vec<u8>,
    frame: Vec<u8>,
    limits: TransferLimits,
    signing_algorithm: SigningAlgorithm,
    /// The hash of all setup messages so far, MS-SMB2 §3.2.5.2.
    preauth: Preauth,
    /// Shared by all connections of a client.
    client_guid: Guid,
    /// `Session.SigningKey`, which signs the binding of a further connection.
    signing_key: Option<Arc<signing::Key>>,
}

impl Session {
    /// Connects as client `number`, logs in, and connects to the share.
    pub fn open(target: &Target, number: usize, identity: &Identity) -> Result<Self, Error> {
        let protection = protection(target)?;
        let mut session = Self::connect(target, number, identity, Guid(random()?))?;
        session.check_protocol(protection, target.channels > 1)?;
        let key = session.log_in(protection, target, identity, None)?;
        session.channel.keys = match cipher(protection) {
            None => Keys::Signing(Arc::clone(&key.signing)),
            Some(cipher) => key.sealing(cipher)?,
        };
        session.signing_key = Some(key.signing);
        session.connect_to_share(protection, target)?;
        if protection == Protection::None {
            session.channel.keys = Keys::None;
        }
        Ok(session)
    }

    pub fn open_channels(
        target: &Target,
        number: usize,
        identity: &Identity,
        connections: usize,
    ) -> Result<Vec<Self>, Error> {
        let mut channels = vec![Self::open(target, number, identity)?];
        while channels.len() < connections {
            let added = channels[0].add_channel(target, number, identity)?;
            channels.push(added);
        }
        Ok(channels)
    }

    /// Adds a connection (channel) that shares the session's id, trees and opens (MS-SMB2 §3.2.4.1.7). The
    /// client signs the binding with the session's key and logs in again. The channel then has a signing key
    /// of its own (§3.2.5.3.3).
    fn add_channel(&self, target: &Target, number: usize, identity: &Identity) -> Result<Self, Error> {
        let protection = protection(target)?;
        let mut added = Self::connect(target, number, identity, self.client_guid)?;
        added.negotiate(protection, true)?;
        added.channel.session_id = self.channel.session_id;
        let key = added.log_in(protection, target, identity, self.signing_key.as_ref())?;
        added.channel.tree_id = self.channel.tree_id;
        added.channel.keys = match &self.channel.keys {
            Keys::Signing(_) => Keys::Signing(key.signing),
            shared => shared.clone(),
        };
        added.signing_key = self.signing_key.clone();
        let reply = added.call(Command::ECHO, 0, &Empty, None)?;
        reply.succeeded(|| "ECHO over another connection of a session".to_owned())?;
        Ok(added)
    }

    fn connect(
        target: &Target,
        number: usize,
        identity: &Identity,
        client_guid: Guid,
    ) -> Result<Self, Error> {
        let stream = identity.connect(target.address_for(number)?)?;
        let session = Self {
            stream,
            channel: Channel::new(),
            request: Vec::new(),
            frame: Vec::new(),
            limits: TransferLimits { read_max: 0, write_max: 0 },
            signing_algorithm: SigningAlgorithm::AES_CMAC,
            preauth: Preauth::default(),
            client_guid,
            signing_key: None,
        };
        session.set_timeout(CALL_TIMEOUT)?;
        Ok(session)
    }

    pub fn limits(&self) -> TransferLimits {
        self.limits
    }

    pub fn into_parts(self) -> (TcpStream, Channel) {
        (self.stream, self.channel)
    }

    /// Makes a request that moves `moved` bytes. The reply may be an error.
    pub fn call(
        &mut self,
        command: Command,
        moved: u32,
        body: &dyn Encode,
        data: Option<&[u8]>,
    ) -> Result<Reply<'_>, Error> {
        self.send(command, moved, body, data)?;
        self.reply_to(command)
    }

    fn send(
        &mut self,
        command: Command,
        moved: u32,
        body: &dyn Encode,
        data: Option<&[u8]>,
    ) -> Result<(), Error> {
        let request = Request { command, charge: charge(moved), body };
        self.request.clear();
        self.channel.push(&[request], data, 0, &mut self.request)?;
        if let Some(data) = data.filter(|_| self.channel.sends_data_separately()) {
            self.request.extend_from_slice(data);
        }
        self.stream.write_all(&self.request).map_err(Error::io("send a request"))
    }

    /// Expects a single request in flight.
    fn reply_to(&mut self, command: Command) -> Result<Reply<'_>, Error> {
        let length = loop {
            self.receive()?;
            if let Some((_, bytes)) = self.channel.take_reply(&mut self.frame)? {
                break bytes.len();
            }
        };
        // A decrypted message is the end of its frame.
        let bytes = &self.frame[self.frame.len() - length..];
        let header = Header::from_bytes(bytes)?;
        if header.command != command {
            return Err(Error::Protocol(format!("{:?} answers {command:?}", header.command)));
        }
        Ok(Reply { header, bytes })
    }

    fn receive(&mut self) -> Result<(), Error> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).map_err(receive_error)?;
        let length = u32::from_be_bytes(length);
        if length > FRAME_MAX {
            return Err(Error::Protocol(format!("a response of {length} bytes, longer than any requested")));
        }
        self.frame.resize(length as usize, 0);
        self.stream.read_exact(&mut self.frame).map_err(receive_error)
    }

    /// Negotiates, and fails if the server is not one of SMB.
    fn check_protocol(&mut self, protection: Protection, has_channels: bool) -> Result<(), Error> {
        self.set_timeout(NEGOTIATE_TIMEOUT)?;
        let done = self.negotiate(protection, has_channels);
        self.set_timeout(CALL_TIMEOUT)?;
        done.map_err(|error| match (error, self.stream.peer_addr()) {
            (Error::Io { .. } | Error::Protocol(_), Ok(address)) => Error::Unsupported(format!(
                "{address} does not answer as an SMB server: name the port of SMB, like smb://USER@HOST:PORT/SHARE"
            )),
            (other, _) => other,
        })
    }

    fn set_timeout(&self, timeout: Duration) -> Result<(), Error> {
        let stream = &self.stream;
        let set = stream.set_read_timeout(Some(timeout)).and(stream.set_write_timeout(Some(timeout)));
        set.map_err(Error::io("set a timeout"))
    }

    /// Offers one algorithm of each kind of 3.1.1.
    fn negotiate(&mut self, protection: Protection, has_channels: bool) -> Result<(), Error> {
        let salt = random::<32>()?;
        let mut contexts =
            vec![NegotiateContext::Preauth { hash_algorithms: vec![HashAlgorithm::SHA_512], salt: &salt }];
        // Some servers accept unsigned messages only from clients that support encryption.
        let offered = cipher(protection).or((protection == Protection::None).then_some(Cipher::AES_128_GCM));
        contexts.extend(offered.map(|cipher| NegotiateContext::Encryption(vec![cipher])));
        let offered = match signing_algorithm(protection) {
            // GMAC nonces are message ids, which start over on each connection, while a binding is signed with the first
            // connection's key.
            SigningAlgorithm::AES_GMAC if has_channels => SigningAlgorithm::AES_CMAC,
            algorithm => algorithm,
        };
        contexts.push(NegotiateContext::Signing(vec![offered]));
        let channels = if has_channels { Capabilities::MULTI_CHANNEL } else { Capabilities::empty() };
        let request = NegotiateRequest {
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities::LARGE_MTU | Capabilities::ENCRYPTION | channels,
            client_guid: self.client_guid,
            dialects: vec![Dialect::SMB311],
            contexts,
        };
        let reply = self.call(Command::NEGOTIATE, 0, &request, None)?;
        let response: NegotiateResponse<'_> = reply.succeeded(|| "NEGOTIATE".to_owned())?.body()?;
        let algorithm = negotiated_signing(protection, &response)?;
        if protection == Protection::None && response.security_mode.contains(SecurityMode::SIGNING_REQUIRED) {
            return Err(Error::Unsupported("the server requires signatures; ask for sign=gmac".to_owned()));
        }
        if !response.capabilities.contains(channels) {
            let text = "the server gives a session one connection (it does not offer MULTI_CHANNEL); leave out channels=";
            return Err(Error::Unsupported(text.to_owned()));
        }
        let most = |size: u32| size.min(TRANSFER_MAX);
        self.limits = TransferLimits {
            read_max: most(response.max_read_size),
            write_max: most(response.max_write_size),
        };
        self.signing_algorithm = algorithm;
        self.update_preauth();
        Ok(())
    }

    fn update_preauth(&mut self) {
        self.preauth.update(&self.request[4..]);
        self.preauth.update(&self.frame);
    }

    /// Logs in by NTLM. Creates a session, or binds a channel to the session whose key is `bound_by`.
    fn log_in(
        &mut self,
        protection: Protection,
        target: &Target,
        identity: &Identity,
        bound_by: Option<&Arc<signing::Key>>,
    ) -> Result<LoggedIn, Error> {
        let mut initiator = Initiator::new(credentials(target, identity)?, &target.host);
        let doing = describe_setup(target, bound_by.is_some());
        let reply = self.session_setup(bound_by, &initiator.start())?;
        if reply.header.status != NtStatus::MORE_PROCESSING_REQUIRED {
            reply.succeeded(|| doing)?;
            return Err(Error::Protocol("the server accepts a login before it knows the user".to_owned()));
        }
        let challenge = reply.body::<SessionSetupResponse<'_>>()?.security_buffer.to_vec();
        let session_id = reply.header.session_id;
        if bound_by.is_some() && session_id != self.channel.session_id {
            let text = "the server creates a session instead of adding a connection to the existing one";
            return Err(Error::Protocol(text.to_owned()));
        }
        self.update_preauth();
        self.channel.session_id = session_id;
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut drawn = random::<64>()?.into_iter();
        let mut draw =
            |bytes: &mut [u8]| bytes.iter_mut().zip(&mut drawn).for_each(|(byte, one)| *byte = one);
        let token = initiator.step(&challenge, identity::FileTime::from_unix(since), &mut draw);
        let reply = self.session_setup(bound_by, &token.map_err(refused)?)?.succeeded(|| doing)?;
        let done: SessionSetupResponse<'_> = reply.body()?;
        if done.session_flags.and(GUEST) != SessionFlags::empty() {
            return Err(Error::Protocol(
                "the server logs the user in as a guest, without the password".to_owned(),
            ));
        }
        let wants_sealing = done.session_flags.contains(SessionFlags::ENCRYPT_DATA);
        let session_key = initiator.finish(done.security_buffer).map_err(refused)?;
        self.preauth.update(&self.request[4..]);
        let source = key_source(&session_key, &self.preauth);
        let signing = signing::Key::new(self.signing_algorithm, &source.signing());
        let signing = Arc::new(signing.ok_or_else(|| Error::Unsupported("no such signatures".to_owned()))?);
        // MS-SMB2 §3.2.5.3.1 and §3.2.5.3.3: the last response is signed.
        if signing.verify(&self.frame).is_err() {
            return Err(Error::Protocol("the last response to the login has no valid signature".to_owned()));
        }
        if wants_sealing {
            check_sealed(protection, "the server")?;
        }
        Ok(LoggedIn { signing, session_key, preauth: self.preauth.clone() })
    }

    /// A step of SESSION_SETUP. A request that binds a channel is signed. Responses are not verified here:
    /// the signature of the last one covers them, since its key derives from the hash of all messages.
    fn session_setup(
        &mut self,
        bound_by: Option<&Arc<signing::Key>>,
        token: &[u8],
    ) -> Result<Reply<'_>, Error> {
        let request = SessionSetupRequest {
            flags: bound_by.map_or(SessionSetupFlags::empty(), |_| SessionSetupFlags::BINDING),
            security_mode: SessionSecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities::empty(),
            channel: 0,
            security_buffer: token,
            previous_session_id: 0,
        };
        self.channel.keys = bound_by.map_or(Keys::None, |key| Keys::Signing(Arc::clone(key)));
        self.send(Command::SESSION_SETUP, 0, &request, None)?;
        self.channel.keys = Keys::None;
        self.reply_to(Command::SESSION_SETUP)
    }

    /// Connects to the share again after the server has ended the tree. Its opens are closed.
    pub fn reconnect(&mut self, target: &Target) -> Result<(), Error> {
        self.channel.tree_id = 0;
        self.connect_to_share(protection(target)?, target)
    }

    fn connect_to_share(&mut self, protection: Protection, target: &Target) -> Result<(), Error> {
        let (share, _) = target.share();
        let path = utf16(&format!("\\\\{}\\{share}", target.host));
        let request = TreeConnectRequest { flags: TreeConnectFlags::empty(), path: Utf16::new(&path)? };
        let reply = self.call(Command::TREE_CONNECT, 0, &request, None)?;
        let reply = reply.succeeded(|| format!("TREE_CONNECT to {share}"))?;
        let connected: TreeConnectResponse = reply.body()?;
        if connected.share_flags.contains(ShareFlags::ENCRYPT_DATA) {
            check_sealed(protection, "the share")?;
        }
        self.channel.tree_id = reply.header.tree_id();
        Ok(())
    }
}

/// The signing algorithm, if the server accepts the requested protection. A server that names no algorithm
/// signs with AES-CMAC (MS-SMB2 §3.2.5.2), as Windows before Server 2022 and Samba before 4.15 do. The client
/// accepts this only where nothing but the login is signed.
fn negotiated_signing(
    protection: Protection,
    response: &NegotiateResponse<'_>,
) -> Result<SigningAlgorithm, Error> {
    let (mut sealing, mut signing) = (None, SigningAlgorithm::AES_CMAC);
    for context in &response.contexts {
        match context {
            NegotiateContext::Encryption(chosen) => sealing = chosen.first().copied(),
            NegotiateContext::Signing(chosen) => signing = chosen.first().copied().unwrap_or(signing),
            _ => {}
        }
    }
    let (dialect, wanted) = (response.dialect, signing_algorithm(protection));
    if dialect != Dialect::SMB311 {
        return Err(Error::Unsupported(format!("the server speaks {dialect:?}, not SMB 3.1.1")));
    }
    if let Some(cipher) = cipher(protection).filter(|cipher| sealing != Some(*cipher)) {
        let text = format!(
            "the server does not encrypt with {cipher:?}: ask for another cipher, as seal=gcm or seal=ccm"
        );
        return Err(Error::Unsupported(text));
    }
    let signs_all = matches!(protection, Protection::Hmac | Protection::Cmac | Protection::Gmac);
    if signing == wanted || signing == SigningAlgorithm::AES_CMAC && !signs_all {
        return Ok(signing);
    }
    Err(Error::Unsupported(format!(
        "the server does not know signatures by {wanted:?}, but by {signing:?}: ask for sign=cmac, or for encryption (seal=gcm)"
    )))
}

/// Fails if `party` wants encryption and the target has none.
fn check_sealed(protection: Protection, party: &str) -> Result<(), Error> {
    match cipher(protection) {
        Some(_) => Ok(()),
        None => Err(Error::Unsupported(format!("{party} wants encryption: add seal=gcm"))),
    }
}

struct LoggedIn {
    /// The key of the session or of the added channel.
    signing: Arc<signing::Key>,
    session_key: SessionKey,
    preauth: Preauth,
}

impl LoggedIn {
    /// All connections of the session share these keys.
    fn sealing(&self, cipher: Cipher) -> Result<Keys, Error> {
        let source = key_source(&self.session_key, &self.preauth);
        let keys = source.client_to_server(cipher).zip(source.server_to_client(cipher));
        let (to, from) = keys.ok_or_else(|| Error::Unsupported("no such encryption".to_owned()))?;
        Ok(Keys::Sealing(Arc::new((Sealer::new(to), Opener::new(from)))))
    }
}

fn key_source<'a>(session_key: &'a SessionKey, preauth: &'a Preauth) -> KeySource<'a> {
    KeySource { dialect: Dialect::SMB311, session_key: session_key.as_bytes(), preauth }
}

fn protection(target: &Target) -> Result<Protection, Error> {
    match target.version {
        Version::Smb(protection) => Ok(protection),
        Version::V3 | Version::V41 | Version::V42 => {
            Err(Error::Unsupported(format!("{target} is not a share")))
        }
    }
}

fn describe_setup(target: &Target, is_binding: bool) -> String {
    let user = target.user.as_deref().unwrap_or_default();
    match is_binding {
        true => format!("SESSION_SETUP that adds a connection to a session of {user}"),
        false => format!("SESSION_SETUP as {user}"),
    }
}

/// Flags of a session without a password.
const GUEST: SessionFlags = SessionFlags(SessionFlags::IS_GUEST.0 | SessionFlags::IS_NULL.0);

fn refused(refusal: identity::Refusal) -> Error {
    Error::Protocol(format!("logging in: {refusal}"))
}

/// Splits `DOMAIN\USER`.
fn credentials(target: &Target, identity: &Identity) -> Result<Credentials, Error> {
    let user_name = target.user.as_deref().unwrap_or_default();
    let nt_hash = identity.nt_hash.ok_or_else(|| {
        Error::Unsupported(format!(
            "{target} needs the password of {user_name}: give it in a file or in the environment"
        ))
    })?;
    let (domain, user) = user_name.split_once('\\').unwrap_or(("", user_name));
    Ok(Credentials { user: user.to_owned(), domain: domain.to_owned(), nt_hash })
}

fn signing_algorithm(protection: Protection) -> SigningAlgorithm {
    match protection {
        Protection::Hmac => SigningAlgorithm::HMAC_SHA256,
        Protection::Cmac => SigningAlgorithm::AES_CMAC,
        _ => SigningAlgorithm::AES_GMAC,
    }
}

fn cipher(protection: Protection) -> Option<Cipher> {
    match protection {
        Protection::Ccm128 => Some(Cipher::AES_128_CCM),
        Protection::Gcm128 => Some(Cipher::AES_128_GCM),
        Protection::Ccm256 => Some(Cipher::AES_256_CCM),
        Protection::Gcm256 => Some(Cipher::AES_256_GCM),
        Protection::None | Protection::Hmac | Protection::Cmac | Protection::Gmac => None,
    }
}

fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes));
    read.map_err(Error::io("get random bytes"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(dialect: Dialect, contexts: Vec<NegotiateContext<'_>>) -> NegotiateResponse<'_> {
        NegotiateResponse {
            security_mode: SecurityMode::SIGNING_ENABLED,
            dialect,
            server_guid: Guid::default(),
            capabilities: Capabilities::empty(),
            max_transact_size: 1 << 20,
            max_read_size: 1 << 20,
            max_write_size: 1 << 20,
            system_time: smb_wire::FileTime::default(),
            server_start_time: smb_wire::FileTime::default(),
            security_buffer: &[],
            contexts,
        }
    }

    #[test]
    fn server_without_signing_context_signs_with_cmac() {
        let sealing = |cipher| vec![NegotiateContext::Encryption(vec![cipher])];
        let negotiated_signing =
            |protection, contexts| negotiated_signing(protection, &response(Dialect::SMB311, contexts));
        for (protection, contexts) in [
            (Protection::Cmac, vec![]),
            (Protection::None, vec![]),
            (Protection::None, sealing(Cipher::AES_128_GCM)),
            (Protection::Gcm128, sealing(Cipher::AES_128_GCM)),
            (Protection::Ccm128, sealing(Cipher::AES_128_CCM)),
        ] {
            assert_eq!(
                negotiated_signing(protection, contexts).ok(),
                Some(SigningAlgorithm::AES_CMAC),
                "{protection:?}"
            );
        }
        for (protection, requested) in [(Protection::Gmac, "AES_GMAC"), (Protection::Hmac, "HMAC_SHA256")] {
            let refused = negotiated_signing(protection, vec![]).unwrap_err().to_string();
            let expected = format!(
                "the server does not know signatures by {requested}, but by AES_CMAC: ask for sign=cmac"
            );
            assert!(refused.starts_with(&expected), "{refused}");
        }
    }

    #[test]
    fn server_without_requested_algorithm_is_refused() {
        let signing = |algorithm| NegotiateContext::Signing(vec![algorithm]);
        let sealing = |cipher| NegotiateContext::Encryption(vec![cipher]);
        let gcm = || vec![sealing(Cipher::AES_128_GCM), signing(SigningAlgorithm::AES_GMAC)];
        let negotiated_signing =
            |protection, contexts| negotiated_signing(protection, &response(Dialect::SMB311, contexts));
        assert_eq!(negotiated_signing(Protection::Gcm128, gcm()).ok(), Some(SigningAlgorithm::AES_GMAC));
        assert_eq!(negotiated_signing(Protection::None, gcm()).ok(), Some(SigningAlgorithm::AES_GMAC));
        let hmac = vec![signing(SigningAlgorithm::HMAC_SHA256)];
        assert!(
            negotiated_signing(Protection::Gmac, hmac.clone()).is_err()
                && negotiated_signing(Protection::None, hmac).is_err()
        );
        let other = negotiated_signing(Protection::Gcm256, gcm()).unwrap_err().to_string();
        assert!(other.starts_with("the server does not encrypt with AES_256_GCM"), "{other}");
        let none = negotiated_signing(Protection::Ccm128, vec![]).unwrap_err().to_string();
        assert!(none.starts_with("the server does not encrypt with AES_128_CCM"), "{none}");
        let older = super::negotiated_signing(Protection::Cmac, &response(Dialect::SMB302, vec![]))
            .unwrap_err()
            .to_string();
        assert_eq!(older, "the server speaks SMB302, not SMB 3.1.1");
    }
}
