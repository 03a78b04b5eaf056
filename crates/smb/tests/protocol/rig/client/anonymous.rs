//! An anonymous NTLM login (MS-NLMP §2.2.1), whose key is publicly known.

use super::Client;
use smb_wire::NtStatus;
use smb_wire::header::Flags;
use smb_wire::session::{SessionFlags, SessionSetupFlags, SessionSetupResponse};

/// UNICODE, NTLM, EXTENDED_SESSIONSECURITY and 128 (MS-NLMP §2.2.2.5).
const FLAGS: u32 = 0x2008_0201;
/// Bytes of an AUTHENTICATE before its payload.
const HEAD_BYTES: u32 = 88;

fn head(kind: u32) -> Vec<u8> {
    [b"NTLMSSP\0", &kind.to_le_bytes()[..]].concat()
}

fn negotiate() -> Vec<u8> {
    [&head(1), &FLAGS.to_le_bytes()[..], &[0; 24]].concat()
}

/// All fields are empty except for the LM response, which is one zero.
fn authenticate() -> Vec<u8> {
    let field =
        |length: u16| [&length.to_le_bytes()[..], &length.to_le_bytes(), &HEAD_BYTES.to_le_bytes()].concat();
    let fields = [1, 0, 0, 0, 0, 0].map(field).concat();
    [&head(3)[..], &fields, &FLAGS.to_le_bytes(), &[0; 24], &[0]].concat()
}

impl Client {
    /// Anonymous SESSION_SETUP. Returns the refusal.
    pub(crate) fn try_log_on_as_nobody(&mut self) -> Result<(), NtStatus> {
        let mut preauth = self.preauth.clone();
        let mut replies = Vec::new();
        for token in [negotiate(), authenticate()] {
            let request = self.setup_request(&token, 0, SessionSetupFlags::empty());
            preauth.update(&request);
            self.send_protected(request);
            let reply = self.reply();
            if reply.status() == NtStatus::MORE_PROCESSING_REQUIRED {
                preauth.update(&reply.bytes);
                self.session_id = reply.header.session_id;
            } else if reply.status() != NtStatus::SUCCESS {
                return Err(reply.status());
            }
            replies.push(reply);
        }
        let last = &replies[1];
        assert_eq!(last.body::<SessionSetupResponse<'_>>().session_flags, SessionFlags::IS_NULL);
        assert!(!last.header.flags.contains(Flags::SIGNED), "it would prove nothing");
        self.keys = Some(self.derive(&[0; 16], &preauth));
        Ok(())
    }
}
