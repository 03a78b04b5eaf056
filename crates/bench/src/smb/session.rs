//! From a connection to a share: NEGOTIATE, SESSION_SETUP, TREE_CONNECT. Then one request at a time.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

use identity::{Credentials, Initiator};
use smb_wire::crypto::kdf::KeySource;
use smb_wire::crypto::sealing::{Opener, Sealer};
use smb_wire::crypto::{Preauth, signing};
use smb_wire::header::{Command, HEADER_SIZE, Header};
use smb_wire::negotiate::{
    Capabilities, Cipher, HashAlgorithm, NegotiateContext, NegotiateRequest, NegotiateResponse, SecurityMode,
    SigningAlgorithm,
};
use smb_wire::session::{
    SessionFlags, SessionSecurityMode, SessionSetupFlags, SessionSetupRequest, SessionSetupResponse,
};
use smb_wire::tree::{TreeConnectFlags, TreeConnectRequest};
use smb_wire::types::Dialect;
use smb_wire::{Decode, Encode, Guid, NtStatus, Reader, Utf16};

use super::channel::{Channel, Keys, Request, charge};
use super::requests::utf16;
use crate::client::{Identity, Limits};
use crate::error::Error;
use crate::target::{Protection, Target, Version};

/// How long one request may take before the server is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest frame that is accepted.
const FRAME_MAX: u32 = (8 << 20) + 4096;
/// Most bytes of one transfer.
const TRANSFER_MAX: u32 = 8 << 20;

/// A reply to one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply<'a> {
    pub(crate) header: Header,
    /// From its header on.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Reply<'a> {
    /// What it says.
    pub(crate) fn body<T: Decode<'a>>(&self) -> Result<T, Error> {
        Ok(T::decode(&mut Reader::starting_at(self.bytes, HEADER_SIZE))?)
    }

    /// This reply where it is no refusal.
    pub(crate) fn succeeded(self, doing: impl FnOnce() -> String) -> Result<Self, Error> {
        match self.header.status {
            status if status.is_error() => {
                Err(Error::Refused { doing: doing(), status: format!("{status:?}") })
            }
            _ => Ok(self),
        }
    }
}

/// A connection to a share on which one request is made after another.
#[derive(Debug)]
pub(crate) struct Session {
    stream: TcpStream,
    channel: Channel,
    request: Vec<u8>,
    frame: Vec<u8>,
    limits: Limits,
    /// What is hashed of what was said so far.
    preauth: Preauth,
}

impl Session {
    /// Connects as client `number` of a load, logs in, and connects to the share.
    pub(crate) fn open(target: &Target, number: usize, identity: &Identity) -> Result<Self, Error> {
        let Version::Smb(protection) = target.version else {
            return Err(Error::Plan(format!("{target} is no share")));
        };
        let stream = identity.connect(target.address_for(number)?)?;
        let set = stream.set_read_timeout(Some(PATIENCE)).and(stream.set_write_timeout(Some(PATIENCE)));
        set.map_err(Error::io("set a timeout"))?;
        let mut session = Self {
            stream,
            channel: Channel::new(),
            request: Vec::new(),
            frame: Vec::new(),
            limits: Limits { read_max: 0, write_max: 0 },
            preauth: Preauth::default(),
        };
        session.negotiate(protection)?;
        session.log_in(protection, target, identity)?;
        session.connect_to_share(target)?;
        if protection == Protection::None {
            session.channel.keys = Keys::None;
        }
        Ok(session)
    }

    /// What the server takes and gives at once.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// The connection for a load of its own.
    pub(crate) fn into_parts(self) -> (TcpStream, Channel) {
        (self.stream, self.channel)
    }

    /// Makes a request that moves so many bytes and waits for its reply, whatever that says.
    pub(crate) fn call(
        &mut self,
        command: Command,
        moved: u32,
        body: &dyn Encode,
        data: Option<&[u8]>,
    ) -> Result<Reply<'_>, Error> {
        let request = Request { command, charge: charge(moved), body };
        self.request.clear();
        self.channel.push(&[request], data, 0, &mut self.request)?;
        if let Some(data) = data.filter(|_| self.channel.leaves_data_behind()) {
            self.request.extend_from_slice(data);
        }
        self.stream.write_all(&self.request).map_err(Error::io("send a request"))?;
        let length = loop {
            self.receive()?;
            if let Some((_, bytes)) = self.channel.take_reply(&mut self.frame)? {
                break bytes.len();
            }
        };
        // What was encrypted is the end of its frame.
        let bytes = &self.frame[self.frame.len() - length..];
        let header = Header::from_bytes(bytes)?;
        if header.command != command {
            return Err(Error::Protocol(format!("{:?} answers {command:?}", header.command)));
        }
        Ok(Reply { header, bytes })
    }

    /// Reads the next frame.
    fn receive(&mut self) -> Result<(), Error> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).map_err(Error::io("receive a response"))?;
        let length = u32::from_be_bytes(length);
        if length > FRAME_MAX {
            return Err(Error::Protocol(format!("a response of {length} bytes, longer than any asked for")));
        }
        self.frame.resize(length as usize, 0);
        self.stream.read_exact(&mut self.frame).map_err(Error::io("receive a response"))
    }

    /// NEGOTIATE of 3.1.1 with one algorithm of each kind.
    fn negotiate(&mut self, protection: Protection) -> Result<(), Error> {
        let salt = random::<32>()?;
        let mut contexts =
            vec![NegotiateContext::Preauth { hash_algorithms: vec![HashAlgorithm::SHA_512], salt: &salt }];
        // Servers may have only those go without signatures who could encrypt.
        let offered = cipher(protection).or((protection == Protection::None).then_some(Cipher::AES_128_GCM));
        contexts.extend(offered.map(|cipher| NegotiateContext::Encryption(vec![cipher])));
        contexts.push(NegotiateContext::Signing(vec![signing_algorithm(protection)]));
        let request = NegotiateRequest {
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities::LARGE_MTU | Capabilities::ENCRYPTION,
            client_guid: Guid(random()?),
            dialects: vec![Dialect::SMB311],
            contexts,
        };
        let reply = self.call(Command::NEGOTIATE, 0, &request, None)?;
        let answer: NegotiateResponse<'_> = reply.succeeded(|| "NEGOTIATE".to_owned())?.body()?;
        let is_chosen = |context: &NegotiateContext<'_>| match context {
            NegotiateContext::Encryption(chosen) => cipher(protection).is_some_and(|one| *chosen == [one]),
            NegotiateContext::Signing(chosen) => *chosen == [signing_algorithm(protection)],
            _ => false,
        };
        let wanted = 1 + usize::from(cipher(protection).is_some());
        let chosen = answer.contexts.iter().filter(|context| is_chosen(context)).count();
        if answer.dialect != Dialect::SMB311 || chosen != wanted {
            return Err(Error::Plan(format!(
                "the server speaks {:?} and takes {:?}, and not {protection:?} of SMB 3.1.1",
                answer.dialect, answer.contexts
            )));
        }
        if protection == Protection::None && answer.security_mode.contains(SecurityMode::SIGNING_REQUIRED) {
            return Err(Error::Plan("the server requires signatures; ask for sign=gmac".to_owned()));
        }
        let most = |size: u32| size.min(TRANSFER_MAX);
        self.limits = Limits { read_max: most(answer.max_read_size), write_max: most(answer.max_write_size) };
        self.remember_both();
        Ok(())
    }

    /// Takes request and response into the hash.
    fn remember_both(&mut self) {
        self.preauth.update(&self.request[4..]);
        self.preauth.update(&self.frame);
    }

    /// SESSION_SETUP with NTLM.
    fn log_in(&mut self, protection: Protection, target: &Target, identity: &Identity) -> Result<(), Error> {
        let mut initiator = Initiator::new(credentials(target, identity)?, &target.host);
        let reply = self.set_up(&initiator.start())?;
        if reply.header.status != NtStatus::MORE_PROCESSING_REQUIRED {
            reply.succeeded(|| "SESSION_SETUP".to_owned())?;
            return Err(Error::Protocol("the server lets in whoever has not said who it is".to_owned()));
        }
        let session_id = reply.header.session_id;
        let challenge = reply.body::<SessionSetupResponse<'_>>()?.security_buffer.to_vec();
        self.remember_both();
        self.channel.session_id = session_id;
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut drawn = random::<64>()?.into_iter();
        let mut draw =
            |bytes: &mut [u8]| bytes.iter_mut().zip(&mut drawn).for_each(|(byte, one)| *byte = one);
        let token = initiator.step(&challenge, identity::FileTime::from_unix(since), &mut draw);
        let reply = self.set_up(&token.map_err(refused)?)?;
        let reply =
            reply.succeeded(|| format!("SESSION_SETUP as {}", target.user.as_deref().unwrap_or("")))?;
        let done: SessionSetupResponse<'_> = reply.body()?;
        if done.session_flags.and(GUEST) != SessionFlags::empty() {
            return Err(Error::Protocol("the server lets in a user without its password".to_owned()));
        }
        let key = initiator.finish(done.security_buffer).map_err(refused)?;
        self.preauth.update(&self.request[4..]);
        let source =
            KeySource { dialect: Dialect::SMB311, session_key: key.as_bytes(), preauth: &self.preauth };
        let signing = signing::Key::new(signing_algorithm(protection), &source.signing());
        let signing = signing.ok_or_else(|| Error::Plan("no such signatures".to_owned()))?;
        // MS-SMB2 §3.2.5.3.1: the last response is signed.
        if signing.verify(&self.frame).is_err() {
            return Err(Error::Protocol(
                "the server's last word to a log-in has no signature of its".to_owned(),
            ));
        }
        self.channel.keys = match cipher(protection) {
            None => Keys::Signing(Box::new(signing)),
            Some(cipher) => {
                let keys = source.client_to_server(cipher).zip(source.server_to_client(cipher));
                let (to, from) = keys.ok_or_else(|| Error::Plan("no such encryption".to_owned()))?;
                Keys::Sealing(Box::new((Sealer::new(to), Opener::new(from))))
            }
        };
        Ok(())
    }

    fn set_up(&mut self, token: &[u8]) -> Result<Reply<'_>, Error> {
        let request = SessionSetupRequest {
            flags: SessionSetupFlags::empty(),
            security_mode: SessionSecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities::empty(),
            channel: 0,
            security_buffer: token,
            previous_session_id: 0,
        };
        self.call(Command::SESSION_SETUP, 0, &request, None)
    }

    fn connect_to_share(&mut self, target: &Target) -> Result<(), Error> {
        let (share, _) = target.share();
        let path = utf16(&format!("\\\\{}\\{share}", target.host));
        let request = TreeConnectRequest { flags: TreeConnectFlags::empty(), path: Utf16::new(&path)? };
        let reply = self.call(Command::TREE_CONNECT, 0, &request, None)?;
        let tree_id = reply.succeeded(|| format!("TREE_CONNECT to {share}"))?.header.tree_id();
        self.channel.tree_id = tree_id;
        Ok(())
    }
}

/// Those who are let in without a password.
const GUEST: SessionFlags = SessionFlags(SessionFlags::IS_GUEST.0 | SessionFlags::IS_NULL.0);

fn refused(refusal: identity::Refusal) -> Error {
    Error::Protocol(format!("logging in: {refusal}"))
}

/// Who logs in: `USER` or `DOMAIN\USER`.
fn credentials(target: &Target, identity: &Identity) -> Result<Credentials, Error> {
    let named = target.user.as_deref().unwrap_or_default();
    let nt_hash = identity.nt_hash.ok_or_else(|| {
        Error::Plan(format!(
            "{target} takes the password of {named}: give it in a file or in the environment"
        ))
    })?;
    let (domain, user) = named.split_once('\\').unwrap_or(("", named));
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
