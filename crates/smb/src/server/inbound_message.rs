//! Messages that were encrypted or compressed, or both: compressed first (MS-SMB2 §3.3.5.2.1).

use crate::limits::MESSAGE_BYTES_MAX;
use crate::state::connection::Connection;
use crate::state::session::Session;
use smb_wire::Decode;
use smb_wire::header::ProtocolId;
use smb_wire::transform::TransformHeader;
use std::sync::Arc;
use transport::Malformed;

/// What a message says, where it came in another form.
#[derive(Default)]
pub(crate) struct InboundMessage {
    /// What was encrypted, where in it the commands begin, and by whose key.
    decrypted: Option<(Vec<u8>, usize, Arc<Session>)>,
    /// What was compressed, perhaps within that.
    decompressed: Option<Vec<u8>>,
}

impl InboundMessage {
    /// Decrypts and decompresses a message that is there as a whole.
    pub(crate) fn open(connection: &Connection, message: &[u8]) -> Result<Self, Malformed> {
        let is_sealed = ProtocolId::from_bytes(message) == Ok(ProtocolId::TRANSFORM);
        let decrypted = is_sealed.then(|| decrypt(connection, message)).transpose()?;
        let mut opened = Self { decrypted, decompressed: None };
        if is_compressed(opened.commands(message)) {
            check_compression(connection)?;
            opened.decompress(connection, message)?;
        }
        Ok(opened)
    }

    /// The commands of `message`, which is what was opened.
    pub(crate) fn commands<'m>(&'m self, message: &'m [u8]) -> &'m [u8] {
        let decrypted = self.decrypted.as_ref().map(|(plain, start, _)| &plain[*start..]);
        self.decompressed.as_deref().or(decrypted).unwrap_or(message)
    }

    /// By whose key it was encrypted, if it was.
    pub(crate) fn sealing_session(&self) -> Option<Arc<Session>> {
        self.decrypted.as_ref().map(|(.., session)| Arc::clone(session))
    }

    /// Whether it came in another form.
    pub(crate) fn is_transformed(&self) -> bool {
        self.decrypted.is_some() || self.decompressed.is_some()
    }

    /// Whether it was compressed.
    pub(crate) fn is_decompressed(&self) -> bool {
        self.decompressed.is_some()
    }

    /// What it takes beside the message, in bytes.
    pub(crate) fn extra_bytes(&self) -> usize {
        self.decrypted.as_ref().map_or(0, |(plain, ..)| plain.len())
            + self.decompressed.as_ref().map_or(0, Vec::len)
    }

    /// Keeps no more than came, of a message that may wait for long: what is queued is counted by that.
    pub(crate) fn drop_decompressed(&mut self) {
        self.decompressed = None;
    }

    /// Decompresses `message`, unless it was not compressed, or that was done.
    pub(crate) fn decompress(&mut self, connection: &Connection, message: &[u8]) -> Result<(), Malformed> {
        let plain = self.commands(message);
        if is_compressed(plain) && !self.is_decompressed() {
            let agreed = connection.compression().ok_or(NOT_AGREED)?;
            let decompressed = agreed.decompress(plain, MESSAGE_BYTES_MAX);
            self.decompressed = Some(decompressed.map_err(|malformed| Malformed(malformed.0))?);
        }
        Ok(())
    }
}

const NOT_AGREED: Malformed = Malformed("compression was not agreed on");

/// Whether compressed messages are taken. For those who have not logged on nothing is decompressed.
pub(crate) fn check_compression(connection: &Connection) -> Result<(), Malformed> {
    match connection.compression() {
        None => Err(NOT_AGREED),
        Some(_) if !connection.is_logged_on() => Err(Malformed("a compressed message before a log-in")),
        Some(_) => Ok(()),
    }
}

fn is_compressed(message: &[u8]) -> bool {
    ProtocolId::from_bytes(message) == Ok(ProtocolId::COMPRESSION_TRANSFORM)
}

/// The message in an encrypted one, where in what comes back it begins, and whose key it was encrypted with.
fn decrypt(connection: &Connection, message: &[u8]) -> Result<(Vec<u8>, usize, Arc<Session>), Malformed> {
    let header = TransformHeader::from_bytes(message).map_err(|malformed| Malformed(malformed.0))?;
    let channel = connection.channel(header.session_id).filter(|channel| channel.is_valid());
    let session = &channel.ok_or(Malformed("an encrypted message of no session"))?.session;
    if session.is_anonymous() && !connection.is_logged_on() {
        // Of a connection that no user has (MS-SMB2 §3.3.1.7, `ConstrainedConnection`).
        return Err(Malformed("an encrypted message of nobody"));
    }
    let keys = session.keys().ok_or(Malformed("an encrypted message of no session"))?;
    let opened = keys.open(message);
    let (plain, start) = opened.ok_or(Malformed("an encrypted message that was changed on the way"))?;
    if !session.is_new_nonce(&header.nonce) {
        return Err(Malformed("an encrypted message that has come before"));
    }
    Ok((plain, start, Arc::clone(session)))
}
