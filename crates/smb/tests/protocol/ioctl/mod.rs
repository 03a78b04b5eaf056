//! IOCTL of files.

pub(crate) mod copy;
pub(crate) mod ranges;
pub(crate) mod reparse;
mod waits;

use crate::rig::{Opening, Rig, output};
use smb_wire::fsctl::PipeWait;
use smb_wire::ioctl::CtlCode;
use smb_wire::types::AccessMask;
use smb_wire::{Encode, FileId, NtStatus, Utf16};

fn new_file(rig: &Rig) -> (crate::rig::Client, FileId) {
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    (client, file)
}

#[test]
fn unknown_fsctl_is_refused() {
    let rig = Rig::new();
    let (mut client, file) = new_file(&rig);
    let unknown = [CtlCode::OFFLOAD_READ, CtlCode::GET_INTEGRITY_INFORMATION, CtlCode(0x0009_ffff)];
    for code in unknown {
        client.ioctl(file, code, &[0; 32], 64).assert_refused(NtStatus::INVALID_DEVICE_REQUEST);
    }
    let resilient = CtlCode::LMR_REQUEST_RESILIENCY;
    client.ioctl(file, resilient, &[0; 8], 0).assert_refused(NtStatus::INVALID_DEVICE_REQUEST);
    client.close(file);
    for code in [CtlCode::SRV_REQUEST_RESUME_KEY, CtlCode::GET_COMPRESSION, CtlCode::SET_ZERO_DATA] {
        client.ioctl(file, code, &[], 64).assert_refused(NtStatus::FILE_CLOSED);
    }
}

#[test]
fn ioctl_reply_size_is_limited() {
    let rig = Rig::new();
    let (mut client, file) = new_file(&rig);
    let too_much = smb::limits::TRANSACT_BYTES_MAX + 1;
    let request = crate::rig::ioctl(file, CtlCode::GET_COMPRESSION, &[], too_much);
    let reply = client.call_charged(smb_wire::header::Command::IOCTL, &request, 32);
    reply.assert_refused(NtStatus::INVALID_PARAMETER);
}

#[test]
fn compression_state_is_none() {
    let rig = Rig::new();
    let (mut client, file) = new_file(&rig);
    let reply = client.ioctl(file, CtlCode::GET_COMPRESSION, &[], 2);
    assert_eq!((reply.status(), output(&reply)), (NtStatus::SUCCESS, &[0, 0][..]));
    client.ioctl(file, CtlCode::GET_COMPRESSION, &[], 1).assert_refused(NtStatus::INVALID_PARAMETER);
    let mut set = |input: &[u8]| client.ioctl(file, CtlCode::SET_COMPRESSION, input, 0).status();
    assert_eq!(set(&[0, 0]), NtStatus::SUCCESS);
    assert_eq!(set(&[1, 0]), NtStatus::NOT_SUPPORTED);
    assert_eq!(set(&[0]), NtStatus::INVALID_PARAMETER);
    let reader = client.open("file", Opening { access: AccessMask::READ_DATA, ..Opening::default() });
    client.ioctl(reader, CtlCode::SET_COMPRESSION, &[0, 0], 0).assert_refused(NtStatus::ACCESS_DENIED);
}

#[test]
fn object_ids_differ() {
    let rig = Rig::new();
    let (mut client, file) = new_file(&rig);
    let other = client.open("other", Opening::default());
    let mut id = |file| output(&client.ioctl(file, CtlCode::CREATE_OR_GET_OBJECT_ID, &[], 64)).to_vec();
    let (one, two) = (id(file), id(other));
    assert_eq!(one.len(), 64);
    assert_ne!(one, two);
    assert_eq!(one, id(file));
    let short = client.ioctl(file, CtlCode::CREATE_OR_GET_OBJECT_ID, &[], 63);
    short.assert_refused(NtStatus::INVALID_PARAMETER);
}

#[test]
fn pipe_wait_returns_immediately() {
    let rig = Rig::new();
    let (mut client, _) = new_file(&rig);
    let wait = |name: &str| {
        let name = crate::rig::name(name);
        PipeWait { timeout: 0, timeout_specified: false, name: Utf16::new(&name).unwrap() }.to_bytes()
    };
    let mut ask = |name: &str| client.ioctl(FileId::NONE, CtlCode::PIPE_WAIT, &wait(name), 0).status();
    assert_eq!(ask("srvsvc"), NtStatus::INVALID_DEVICE_REQUEST, "no pipe is in a share of files");
    client.mount("IPC$");
    let mut ask = |name: &str| client.ioctl(FileId::NONE, CtlCode::PIPE_WAIT, &wait(name), 0).status();
    assert_eq!(ask("SRVSVC"), NtStatus::SUCCESS);
    assert_eq!(ask("spoolss"), NtStatus::OBJECT_NAME_NOT_FOUND);
    let cut = client.ioctl(FileId::NONE, CtlCode::PIPE_WAIT, &wait("srvsvc")[..20], 0);
    cut.assert_refused(NtStatus::INVALID_PARAMETER);
}

#[test]
fn file_less_ioctl_refuses_a_file_id() {
    let rig = Rig::new();
    let (mut client, file) = new_file(&rig);
    for code in [
        CtlCode::VALIDATE_NEGOTIATE_INFO,
        CtlCode::DFS_GET_REFERRALS,
        CtlCode::DFS_GET_REFERRALS_EX,
        CtlCode::QUERY_NETWORK_INTERFACE_INFO,
        CtlCode::PIPE_WAIT,
    ] {
        client.ioctl(file, code, &[], 65_536).assert_refused(NtStatus::INVALID_PARAMETER);
    }
    client.ioctl(FileId::NONE, CtlCode::DFS_GET_REFERRALS, &[], 64).assert_refused(NtStatus::NOT_FOUND);
}
