//! Oplocks and leases of test clients.

use super::Rig;
use super::client::{Client, Offer, Reply};
use super::files::{Opening, name};
use smb_wire::create::{CreateContext, CreateContexts, CreateResponse, OplockLevel};
use smb_wire::header::{Command, Flags};
use smb_wire::lease::{Lease, LeaseFlags, LeaseV1, LeaseV2};
use smb_wire::oplock::{
    LeaseBreakAck, LeaseBreakFlags, LeaseBreakNotification, LeaseKey, LeaseState, OplockBreak,
};
use smb_wire::{Decode, Encode, FileId, Guid, NtStatus};

/// A lease state from its letters: R, W, H.
pub(crate) fn state(letters: &str) -> LeaseState {
    let bit = |letter| match letter {
        'R' => LeaseState::READ_CACHING,
        'W' => LeaseState::WRITE_CACHING,
        _ => LeaseState::HANDLE_CACHING,
    };
    letters.chars().fold(LeaseState::empty(), |all, letter| all | bit(letter))
}

pub(crate) fn key(number: u8) -> LeaseKey {
    LeaseKey([number; 16])
}

/// A lease of the first version.
pub(crate) fn lease(number: u8, wants: &str) -> Lease {
    let (lease_key, lease_state) = (key(number), state(wants));
    Lease::V1(LeaseV1 { lease_key, lease_state, lease_flags: LeaseFlags::empty() })
}

/// A lease of the second version, with the client's epoch.
pub(crate) fn lease_v2(number: u8, wants: &str, epoch: u16, parent: Option<u8>) -> Lease {
    let flags = parent.map_or(LeaseFlags::empty(), |_| LeaseFlags::PARENT_LEASE_KEY_SET);
    let parent_lease_key = parent.map_or(LeaseKey::default(), key);
    Lease::V2(LeaseV2 { lease_key: key(number), lease_state: state(wants), flags, parent_lease_key, epoch })
}

/// The outcome of a CREATE with a lease or oplock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) file_id: FileId,
    pub(crate) level: OplockLevel,
    pub(crate) lease: Option<Lease>,
}

impl Granted {
    /// Asserts a lease of this state.
    #[track_caller]
    pub(crate) fn assert_state(&self, letters: &str) {
        assert_eq!(self.level, OplockLevel::LEASE);
        assert_eq!(self.lease.map(|lease| lease.lease_state()), Some(state(letters)));
    }
}

impl Rig {
    /// Alice on another client machine.
    pub(crate) fn alice_at(&self, machine: u8) -> Client {
        self.alice_with(&Offer { client_guid: Guid([machine; 16]), ..Offer::default() })
    }
}

impl Client {
    fn request_with(
        &mut self,
        path: &str,
        opening: Opening,
        level: OplockLevel,
        lease: Option<Lease>,
    ) -> Vec<u8> {
        let (name, bytes) = (name(path), lease.map(|lease| lease.to_bytes()));
        let contexts = bytes.iter().map(|data| CreateContext { name: Lease::NAME, data }).collect();
        let plain = opening.request(&name);
        let request = smb_wire::create::CreateRequest {
            requested_oplock_level: level,
            contexts: CreateContexts(contexts),
            ..plain
        };
        self.request(Command::CREATE, &request)
    }

    /// Sends a CREATE with an oplock or lease, without waiting for the reply.
    pub(crate) fn ask(&mut self, path: &str, opening: Opening, level: OplockLevel, lease: Option<Lease>) {
        let request = self.request_with(path, opening, level, lease);
        self.send_protected(request);
    }

    /// Opens with an oplock; must succeed.
    #[track_caller]
    pub(crate) fn open_oplock(&mut self, path: &str, opening: Opening, level: OplockLevel) -> Granted {
        self.ask(path, opening, level, None);
        granted(&self.reply())
    }

    /// Opens with a lease; must succeed.
    #[track_caller]
    pub(crate) fn open_lease(&mut self, path: &str, opening: Opening, lease: Lease) -> Granted {
        self.ask(path, opening, OplockLevel::LEASE, Some(lease));
        granted(&self.reply())
    }

    /// Receives an oplock break.
    #[track_caller]
    pub(crate) fn oplock_break(&mut self) -> OplockBreak {
        unsolicited(&self.reply())
    }

    /// Receives a lease break.
    #[track_caller]
    pub(crate) fn lease_break(&mut self) -> LeaseBreakNotification {
        unsolicited(&self.reply())
    }

    /// Asserts that the next message is this lease break, with or without a required acknowledgment.
    #[track_caller]
    pub(crate) fn assert_lease_break(&mut self, number: u8, from: &str, to: &str, is_answered: bool) {
        let told = self.lease_break();
        assert_eq!((told.lease_key, told.current_lease_state), (key(number), state(from)));
        assert_eq!(told.new_lease_state, state(to));
        assert_eq!(told.flags.contains(LeaseBreakFlags::ACK_REQUIRED), is_answered);
    }

    #[track_caller]
    pub(crate) fn acknowledge_oplock(&mut self, file_id: FileId, oplock_level: OplockLevel) -> NtStatus {
        self.call(Command::OPLOCK_BREAK, &OplockBreak { oplock_level, file_id }).status()
    }

    #[track_caller]
    pub(crate) fn acknowledge_lease(&mut self, number: u8, keeps: &str) -> NtStatus {
        let (flags, lease_key, lease_state) = (LeaseBreakFlags::empty(), key(number), state(keeps));
        let ack = LeaseBreakAck { flags, lease_key, lease_state, lease_duration: 0 };
        let reply = self.call(Command::OPLOCK_BREAK, &ack);
        if reply.status() == NtStatus::SUCCESS {
            assert_eq!(reply.body::<LeaseBreakAck>(), ack);
        }
        reply.status()
    }

    /// Asserts that no message arrives before the reply to an ECHO.
    #[track_caller]
    pub(crate) fn assert_quiet(&mut self) {
        assert_eq!(self.call(Command::ECHO, &smb_wire::session::Empty).status(), NtStatus::SUCCESS);
    }
}

#[track_caller]
pub(crate) fn granted(reply: &Reply) -> Granted {
    let response: CreateResponse<'_> = reply.body();
    let lease = response.contexts.find(Lease::NAME).map(|data| Lease::from_bytes(data).unwrap());
    Granted { file_id: response.file_id, level: response.oplock_level, lease }
}

/// The body of a message that is not a reply (MS-SMB2 §3.3.4.6, §3.3.4.7).
#[track_caller]
pub(crate) fn unsolicited<'a, T: Decode<'a>>(message: &'a Reply) -> T {
    let header = &message.header;
    assert_eq!((header.command, header.message_id), (Command::OPLOCK_BREAK, u64::MAX));
    assert_eq!((header.credits, header.tree_id(), header.status), (0, 0, NtStatus::SUCCESS));
    assert_eq!((header.flags, header.signature), (Flags::SERVER_TO_REDIR, [0; 16]), "breaks are unsigned");
    message.body()
}
