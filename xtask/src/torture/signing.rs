//! Tests that need AES-GMAC on the first connection of smbtorture.
//! smbtorture announces channels there; a server with channels then signs with AES-CMAC
//! (`docs/decisions/0065-gmac-and-channels.md`).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GmacSource {
    /// A server whose sessions have one connection.
    Single,
    /// Offering only AES-GMAC: the test adds a connection and expects the server to accept it.
    Offer,
}

use GmacSource::{Offer, Single};

/// The test skips itself unless the first connection has AES-GMAC.
const SKIPS_ITSELF: &str = "skips";
/// The test cancels a request before the server's interim response. smbtorture identifies such a request by its message
/// id only with AES-GMAC; otherwise the CANCEL has message id 0, and the test waits forever.
const CANCELS_EARLY: &str = "cancels";

/// The tests by the beginnings of their names, the reasons why they need AES-GMAC, and their ways to get it. The first
/// match counts.
const TESTS: [(&str, &str, GmacSource); 15] = [
    ("smb2.session.bind_negative_smb3signCtoH", SKIPS_ITSELF, Offer),
    ("smb2.session.bind_negative_smb3signHtoC", SKIPS_ITSELF, Offer),
    ("smb2.session.bind_negative_smb3sign", SKIPS_ITSELF, Single),
    ("smb2.session.bind_negative_smb3sne", SKIPS_ITSELF, Single),
    ("smb2.session.encryption-", SKIPS_ITSELF, Single),
    ("smb2.session.signing-", SKIPS_ITSELF, Single),
    ("smb2.notify.dir.", CANCELS_EARLY, Single),
    ("smb2.notify.double.", CANCELS_EARLY, Single),
    ("smb2.notify.mask", CANCELS_EARLY, Single),
    ("smb2.notify.overflow.", CANCELS_EARLY, Single),
    ("smb2.notify.rec.", CANCELS_EARLY, Single),
    ("smb2.notify.tcon.", CANCELS_EARLY, Single),
    ("smb2.notify.tcp.", CANCELS_EARLY, Single),
    ("smb2.notify.tdis.", CANCELS_EARLY, Single),
    ("smb2.notify.tree.", CANCELS_EARLY, Single),
];
/// The offer of AES-GMAC alone. Without AES-CMAC, smbtorture does not negotiate SMB 3.0, which some of the other tests
/// need.
const GMAC_ALONE: &str = "--option=client smb3 signing algorithms=AES-128-GMAC";

pub(super) fn needs_single_connection(test: &str) -> bool {
    by(test) == Some(Single)
}

pub(super) fn offer(test: &str) -> Option<&'static str> {
    (by(test) == Some(Offer)).then_some(GMAC_ALONE)
}

fn by(test: &str) -> Option<GmacSource> {
    TESTS.iter().find(|(name, ..)| test.starts_with(name)).map(|&(.., by)| by)
}
