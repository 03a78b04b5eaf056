//! Tests that need AES-GMAC on the connection that smbtorture makes first. smbtorture announces channels on it, and a server that has
//! channels then signs with AES-CMAC (`docs/decisions/0065-gmac-and-channels.md`).

/// A way for a test to get AES-GMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// A server whose sessions have one connection.
    Single,
    /// Offering only AES-GMAC: the test adds a connection and expects the server to accept it.
    Offer,
}

use By::{Offer, Single};

/// The test skips itself unless the first connection has AES-GMAC.
const SKIPS: &str = "skips";
/// The test cancels a request before the server's interim response. smbtorture identifies such a request by its message
/// id only with AES-GMAC; otherwise the CANCEL has message id 0, and the test waits forever.
const CANCELS: &str = "cancels";

/// The tests by the beginnings of their names, the reasons why they need AES-GMAC, and their ways to get it. The first
/// match counts.
const TESTS: [(&str, &str, By); 15] = [
    ("smb2.session.bind_negative_smb3signCtoH", SKIPS, Offer),
    ("smb2.session.bind_negative_smb3signHtoC", SKIPS, Offer),
    ("smb2.session.bind_negative_smb3sign", SKIPS, Single),
    ("smb2.session.bind_negative_smb3sne", SKIPS, Single),
    ("smb2.session.encryption-", SKIPS, Single),
    ("smb2.session.signing-", SKIPS, Single),
    ("smb2.notify.dir.", CANCELS, Single),
    ("smb2.notify.double.", CANCELS, Single),
    ("smb2.notify.mask", CANCELS, Single),
    ("smb2.notify.overflow.", CANCELS, Single),
    ("smb2.notify.rec.", CANCELS, Single),
    ("smb2.notify.tcon.", CANCELS, Single),
    ("smb2.notify.tcp.", CANCELS, Single),
    ("smb2.notify.tdis.", CANCELS, Single),
    ("smb2.notify.tree.", CANCELS, Single),
];
/// The offer of AES-GMAC alone. Without AES-CMAC, smbtorture does not negotiate SMB 3.0, which some of the other tests
/// need.
const GMAC_ALONE: &str = "--option=client smb3 signing algorithms=AES-128-GMAC";

/// Whether a test is for a server whose sessions have one connection.
pub(super) fn is_of_one_connection(test: &str) -> bool {
    by(test) == Some(Single)
}

/// The option by which a test gets AES-GMAC from a server that has channels.
pub(super) fn offer(test: &str) -> Option<&'static str> {
    (by(test) == Some(Offer)).then_some(GMAC_ALONE)
}

fn by(test: &str) -> Option<By> {
    TESTS.iter().find(|(name, ..)| test.starts_with(name)).map(|&(.., by)| by)
}
