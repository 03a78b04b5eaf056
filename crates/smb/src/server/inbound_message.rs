//! Messages that were encrypted or compressed, or compressed and then encrypted (MS-SMB2 §3.3.5.2.1).

use crate::limits::MESSAGE_BYTES_MAX;
use crate::state::connection::Connection;
use crate::state::session::Session;
use smb_wire::Decode;
use smb_wire::header::ProtocolId;
use smb_wire::transform::TransformHeader;
use std::sync::Arc;
use transport::Malformed;

/// The plain form of a message that was encrypted or compressed.
#[derive(Default)]
pub(crate) struct InboundMessage {
    /// The plaintext, the offset of the commands in it, and the session of the key.
    decrypted: Option<(Vec<u8>, usize, Arc<Session>)>,
    decompressed: Option<Vec<u8>>,
}

impl InboundMessage {
    /// Decrypts and decompresses a complete message.
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

    /// The commands of `message`, which this was opened from.
    pub(crate) fn commands<'m>(&'m self, message: &'m [u8]) -> &'m [u8] {
        let decrypted = self.decrypted.as_ref().map(|(plain, start, _)| &plain[*start..]);
        self.decompressed.as_deref().or(decrypted).unwrap_or(message)
    }

    pub(crate) fn sealing_session(&self) -> Option<Arc<Session>> {
        self.decrypted.as_ref().map(|(.., session)| Arc::clone(session))
    }

    pub(crate) fn is_transformed(&self) -> bool {
        self.decrypted.is_some() || self.decompressed.is_some()
    }

    pub(crate) fn is_decompressed(&self) -> bool {
        self.decompressed.is_some()
    }

    /// Memory beside the message, in bytes.
    pub(crate) fn extra_bytes(&self) -> usize {
        self.decrypted.as_ref().map_or(0, |(plain, ..)| plain.len())
            + self.decompressed.as_ref().map_or(0, Vec::len)
    }

    /// Drops the decompressed form of a message that may wait for long: queues count the received bytes.
    pub(crate) fn drop_decompressed(&mut self) {
        self.decompressed = None;
    }

    /// Decompresses `message`, unless it is plain or already decompressed.
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

/// Fails unless compressed messages are allowed. Nothing is decompressed for clients that have not logged on.
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

/// Returns the plaintext of an encrypted message, the offset of the commands in it, and the session of the key.
fn decrypt(connection: &Connection, message: &[u8]) -> Result<(Vec<u8>, usize, Arc<Session>), Malformed> {
    let header = TransformHeader::from_bytes(message).map_err(|malformed| Malformed(malformed.0))?;
    let channel = connection.channel(header.session_id).filter(|channel| channel.is_valid());
    let session = &channel.ok_or(Malformed("an encrypted message of no session"))?.session;
    if session.is_anonymous() && !connection.is_logged_on() {
        // A connection without a logged-on user (MS-SMB2 §3.3.1.7, `ConstrainedConnection`).
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
