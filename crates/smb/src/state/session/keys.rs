//! The keys of a session (MS-SMB2 §3.3.5.5.3): signatures, and encryption where it was agreed on.

use crate::state::connection::negotiated::Negotiated;
use identity::SessionKey;
use smb_wire::crypto::kdf::KeySource;
use smb_wire::crypto::sealing::{Opener, Sealer};
use smb_wire::crypto::{Preauth, signing};
use smb_wire::types::Dialect;
use std::sync::Arc;

/// What a session signs and encrypts with.
pub(crate) struct Keys {
    signing: Arc<signing::Key>,
    sealing: Option<(Opener, Sealer)>,
}

impl Keys {
    /// The keys of a session whose authentication has given `session_key`. `None`: what was agreed on has none.
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

    /// `SigningKey`: what the messages of the first channel are signed with, and those that bind others.
    pub(crate) fn signing(&self) -> &Arc<signing::Key> {
        &self.signing
    }

    /// An encrypted message in the clear, and where in it begins what it says; `None` if it was not encrypted with these keys.
    pub(crate) fn open(&self, message: &[u8]) -> Option<(Vec<u8>, usize)> {
        let (opener, _) = self.sealing.as_ref()?;
        let mut message = message.to_vec();
        let len = opener.open(&mut message).ok()?.len();
        let start = message.len() - len;
        Some((message, start))
    }

    /// Encrypts what follows the room for a transform header at `start` of `out`. `false` where there are no keys for it, or
    /// they are used up.
    pub(crate) fn seal(&self, session_id: u64, out: &mut [u8], start: usize) -> bool {
        let sealer = self.sealing.as_ref().map(|(_, sealer)| sealer);
        sealer.is_some_and(|sealer| sealer.seal(session_id, &mut out[start..]).is_ok())
    }
}

/// What messages are signed with after an authentication that has given `session_key`. `None`: as above.
pub(crate) fn signing_key(
    negotiated: &Negotiated,
    session_key: &SessionKey,
    preauth: &Preauth,
) -> Option<signing::Key> {
    let source = KeySource { dialect: negotiated.dialect, session_key: session_key.as_bytes(), preauth };
    signing::Key::new(negotiated.signing, &source.signing())
}
