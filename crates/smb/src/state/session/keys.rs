//! The keys of a session (MS-SMB2 §3.3.5.5.3), for signatures and encryption.

use crate::state::connection::negotiated::Negotiated;
use identity::SessionKey;
use smb_wire::crypto::kdf::KeySource;
use smb_wire::crypto::sealing::{Opener, Sealer};
use smb_wire::crypto::{Preauth, signing};
use smb_wire::types::Dialect;
use std::sync::Arc;

pub(crate) struct Keys {
    signing: Arc<signing::Key>,
    sealing: Option<(Opener, Sealer)>,
}

impl Keys {
    /// Derives the keys. None if the negotiated algorithms lack keys.
    pub(crate) fn derive(
        negotiated: &Negotiated,
        session_key: &SessionKey,
        preauth: &Preauth,
    ) -> Option<Self> {
        let Negotiated { dialect, cipher, .. } = *negotiated;
        let source = KeySource { dialect, session_key: session_key.as_bytes(), preauth };
        let sealing = match cipher {
            Some(cipher) if dialect != Dialect::SMB210 => {
                let opener = Opener::new(source.client_to_server(cipher)?);
                Some((opener, Sealer::new(source.server_to_client(cipher)?)))
            }
            _ => None,
        };
        Some(Self { signing: Arc::new(signing_key(negotiated, session_key, preauth)?), sealing })
    }

    /// `SigningKey`: the key of the first channel, and of requests that bind others.
    pub(crate) fn signing(&self) -> &Arc<signing::Key> {
        &self.signing
    }

    /// Decrypts a message. Returns it with the offset of the plaintext; none if these keys did not encrypt it.
    pub(crate) fn open(&self, message: &[u8]) -> Option<(Vec<u8>, usize)> {
        let (opener, _) = self.sealing.as_ref()?;
        let mut message = message.to_vec();
        let len = opener.open(&mut message).ok()?.len();
        let start = message.len() - len;
        Some((message, start))
    }

    /// Encrypts the bytes behind the transform header at `start` of `out`. False without keys, or if they are used up.
    pub(crate) fn seal(&self, session_id: u64, out: &mut [u8], start: usize) -> bool {
        let sealer = self.sealing.as_ref().map(|(_, sealer)| sealer);
        sealer.is_some_and(|sealer| sealer.seal(session_id, &mut out[start..]).is_ok())
    }
}

/// Derives the signing key of a channel. None if the negotiated algorithm has no key.
pub(crate) fn signing_key(
    negotiated: &Negotiated,
    session_key: &SessionKey,
    preauth: &Preauth,
) -> Option<signing::Key> {
    let source = KeySource { dialect: negotiated.dialect, session_key: session_key.as_bytes(), preauth };
    signing::Key::new(negotiated.signing, &source.signing())
}
