//! The end of the process's lease: no byte reaches a client afterwards.

use crate::notify::wait_for;
use crate::rig::{Client, Offer, Opening, Rig};
use smb::server::Settings;
use smb_wire::NtStatus;
use smb_wire::create::{CreateDisposition, CreateOptions};
use smb_wire::header::Command;
use smb_wire::session::Empty;
use smb_wire::types::AccessMask;
use transport::{ReplyLease, clock};
use vfs::{Caller, Disposition, PendingSync, SetAttrs};

#[test]
fn no_byte_reaches_a_client_after_the_deadline() {
    let lease = ReplyLease::new(clock::boot_ns() + 3_600_000_000_000);
    let rig = Rig::bounded(Settings { deadline: lease.deadline(), ..Rig::settings() }, false);
    let (mut client, mut waiting) = (rig.alice(), rig.alice());
    let mut new = rig.connect();
    assert_eq!(client.call(Command::ECHO, &Empty).status(), NtStatus::SUCCESS);
    let (access, options) = (AccessMask::LIST_DIRECTORY, CreateOptions::DIRECTORY_FILE);
    let root = waiting.open("", Opening { access, options, ..Opening::by(CreateDisposition::OPEN) });
    wait_for(&mut waiting, root, false);

    lease.end();
    // A change by another protocol would complete the request that waits.
    let export = rig.namespace.load().exports()[0].clone();
    let (caller, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
    let file = b"file";
    export.root().create(&caller, file, Disposition::CreateNew, &SetAttrs::default(), &mut pending).unwrap();
    waiting.assert_ended();
    let echo = client.request(Command::ECHO, &Empty);
    client.send_protected(echo);
    client.assert_ended();
    send_negotiate(&mut new);
    new.assert_ended();
}

fn send_negotiate(client: &mut Client) {
    let message = client.request(Command::NEGOTIATE, &Offer::default().request());
    client.send(&message);
}
