//! Every create disposition, SET_INFO class and control code that changes something, at every way into a snapshot:
//! nothing in it changes.

use super::{Past, READS, at};
use crate::durable::{Context, create, leased};
use crate::file_information::{dispose, rename};
use crate::ioctl::copy::{copy, key_of};
use crate::ioctl::reparse;
use crate::rename::link;
use crate::rig::{Client, Opening, lease_v2, output};
use crate::{extended_attributes, lock};
use smb_wire::classes::FileClass;
use smb_wire::create::{CreateDisposition, CreateOptions, CreateResponse, OplockLevel};
use smb_wire::header::Command;
use smb_wire::info::{InfoType, SecurityInformation, SetInfoRequest};
use smb_wire::ioctl::CtlCode;
use smb_wire::types::AccessMask;
use smb_wire::{FileId, NtStatus};
use std::collections::BTreeMap;
use vfs::{Backend, ViewId};
use vfs_testing::described;

/// Paths, most of them into a snapshot, and the numbers of snapshots that a token asks for.
const PATHS: [&str; 22] = [
    "",
    "doc",
    "doc:s",
    "doc:new",
    "doc::$DATA",
    "dir",
    "dir\\file",
    "dir\\new",
    "dir:s",
    "new",
    "new:s",
    "young",
    "~snapshot",
    "~snapshot:s",
    "~snapshot\\new",
    "~snapshot\\one",
    "~snapshot\\one\\doc",
    "~snapshot\\one\\new",
    "~snapshot\\one\\doc:s",
    "dir\\~snapshot\\one\\file",
    "dir\\~snapshot\\one\\~snapshot\\one\\file",
    "dir\\file\\~snapshot\\one",
];
/// A snapshot, a deleted one, and times of none: of the past, and of the future.
const TOKENS: [Option<u32>; 5] = [None, Some(1), Some(2), Some(3), Some(1 << 30)];
const DISPOSITIONS: [CreateDisposition; 6] = [
    CreateDisposition::SUPERSEDE,
    CreateDisposition::OPEN,
    CreateDisposition::CREATE,
    CreateDisposition::OPEN_IF,
    CreateDisposition::OVERWRITE,
    CreateDisposition::OVERWRITE_IF,
];
const OPTIONS: [CreateOptions; 6] = [
    CreateOptions(0),
    CreateOptions::DIRECTORY_FILE,
    CreateOptions::NON_DIRECTORY_FILE,
    CreateOptions::DELETE_ON_CLOSE,
    CreateOptions::OPEN_REPARSE_POINT,
    CreateOptions(CreateOptions::OPEN_FOR_BACKUP_INTENT.0 | CreateOptions::DELETE_ON_CLOSE.0),
];
/// Codes of the family of file systems and servers that this server may or may not know.
const CODES: [CtlCode; 14] = [
    CtlCode::OFFLOAD_WRITE,
    CtlCode::SET_REPARSE_POINT,
    CtlCode::DELETE_REPARSE_POINT,
    CtlCode::SET_COMPRESSION,
    CtlCode::CREATE_OR_GET_OBJECT_ID,
    CtlCode::SET_SPARSE,
    CtlCode::SET_ZERO_DATA,
    CtlCode::FILE_LEVEL_TRIM,
    CtlCode::SET_INTEGRITY_INFORMATION,
    CtlCode::DUPLICATE_EXTENTS_TO_FILE,
    CtlCode::DUPLICATE_EXTENTS_TO_FILE_EX,
    CtlCode::SRV_COPYCHUNK,
    CtlCode::SRV_COPYCHUNK_WRITE,
    CtlCode::LMR_REQUEST_RESILIENCY,
];

type Frozen = [BTreeMap<String, String>; 2];

impl Past {
    /// A share with a snapshot `one`, and with one that is deleted for clients.
    fn attacked() -> Self {
        let past = Self::new();
        past.snapshot(2, "gone");
        let volume = &past.rig.volume;
        volume.set_snapshots(volume.snapshots().iter().filter(|one| one.name == "one").cloned().collect());
        past
    }

    /// Everything in the snapshots that the backend has.
    fn frozen(&self) -> Frozen {
        let snapshots = self.disks.docs().snapshots().unwrap();
        [1, 2].map(|view| described(&snapshots.open(ViewId(view)).unwrap().root()))
    }

    #[track_caller]
    fn assert_unchanged(&self, frozen: &Frozen, what: &str) {
        assert_eq!(&self.frozen(), frozen, "{what}");
        let live = described(&self.disks.docs().root());
        let made = live.keys().find(|path| path.to_lowercase().contains("snapshot"));
        assert_eq!(made, None, "{what}: a name that hides the snapshots");
    }
}

fn contexts(token: Option<u32>) -> Vec<Context> {
    token.map(at).into_iter().collect()
}

fn is_of_view(path: &str, token: Option<u32>) -> bool {
    token.is_some() || path.contains("~snapshot")
}

/// The status of a CREATE, whose open is closed again.
fn status(client: &mut Client, path: &str, token: Option<u32>, opening: Opening) -> NtStatus {
    let reply = create(client, path, opening, OplockLevel::NONE, &contexts(token));
    let status = reply.status();
    if status == NtStatus::SUCCESS {
        let file = reply.body::<CreateResponse<'_>>().file_id;
        client.close(file);
    }
    status
}

#[test]
fn no_create_changes_a_snapshot_by_any_path_and_time() {
    let mut past = Past::attacked();
    let frozen = past.frozen();
    for (path, token) in PATHS.iter().flat_map(|path| TOKENS.map(|token| (*path, token))) {
        if !is_of_view(path, token) {
            continue;
        }
        for (disposition, options) in DISPOSITIONS.iter().flat_map(|by| OPTIONS.map(|options| (*by, options)))
        {
            for access in [AccessMask::GENERIC_READ, AccessMask::GENERIC_ALL, AccessMask::DELETE] {
                let opening = Opening { access, disposition, options, ..READS };
                let status = status(&mut past.client, path, token, opening);
                let what = format!("{path:?} at {token:?}: {opening:?}: {status:?}");
                let deletes = options.0 & CreateOptions::DELETE_ON_CLOSE.0 != 0;
                let may =
                    matches!(disposition, CreateDisposition::OPEN | CreateDisposition::OPEN_IF) && !deletes;
                assert!(may || status.is_error(), "{what}");
                // A time without a snapshot leads nowhere, whatever the path is.
                assert!(matches!(token, None | Some(1)) || status.is_error(), "{what}");
            }
        }
        past.assert_unchanged(&frozen, &format!("{path:?} at {token:?}"));
    }
}

/// Opens of objects of a view, with as many rights as each way gives.
fn opens(past: &mut Past) -> Vec<(String, FileId)> {
    let mut opens = Vec::new();
    let ways = PATHS.iter().flat_map(|path| [None, Some(1)].map(|token| (*path, token)));
    for (path, token) in ways.filter(|(path, token)| is_of_view(path, *token)) {
        for access in [AccessMask::GENERIC_ALL, AccessMask::GENERIC_READ, AccessMask::MAXIMUM_ALLOWED] {
            let opening = Opening { access, ..READS };
            let reply = create(&mut past.client, path, opening, OplockLevel::NONE, &contexts(token));
            if reply.status() == NtStatus::SUCCESS {
                let file = reply.body::<CreateResponse<'_>>().file_id;
                opens.push((format!("{path:?} at {token:?} with {access:?}"), file));
            }
        }
    }
    opens
}

/// SET_INFO with any bytes.
fn set_info(client: &mut Client, file_id: FileId, info_type: InfoType, class: u8, buffer: &[u8]) -> NtStatus {
    let additional_information = SecurityInformation(0xf);
    let request =
        SetInfoRequest { info_type, file_info_class: class, buffer, additional_information, file_id };
    client.call(Command::SET_INFO, &request).status()
}

/// Values that are valid for one class or another.
fn values() -> Vec<Vec<u8>> {
    let owner_and_no_list = [[1, 0, 0, 0x80], [20, 0, 0, 0], [0; 4], [0; 4], [0; 4]].concat();
    let sid = [&[1, 1, 0, 0, 0, 0, 0, 5][..], &18_u32.to_le_bytes()].concat();
    vec![
        vec![],
        vec![1],
        vec![1, 0, 0, 0],
        vec![0; 8],
        100_u64.to_le_bytes().to_vec(),
        [&[7; 8], &[7; 8], &[7; 8], &[7; 8], &[2, 0, 0, 0, 0, 0, 0, 0][..]].concat(),
        [owner_and_no_list, sid].concat(),
    ]
}

/// Whether a request leaves an ordinary file as it is: not sparse, not compressed, not to be deleted, no attribute set.
fn asks_nothing(value: &[u8]) -> bool {
    value.iter().take(8).all(|byte| *byte == 0)
}

/// No class may say that it has changed something, except for what the open alone has.
#[test]
fn no_information_of_a_snapshot_is_set() {
    let mut past = Past::attacked();
    let frozen = past.frozen();
    let own = [FileClass::POSITION, FileClass::MODE];
    for (what, file) in opens(&mut past) {
        let types = [InfoType::FILE, InfoType::FILESYSTEM, InfoType::SECURITY, InfoType::QUOTA];
        for (info_type, class) in
            types.iter().flat_map(|info_type| (0..=101).map(move |class| (*info_type, class)))
        {
            for value in values() {
                let status = set_info(&mut past.client, file, info_type, class, &value);
                let of_open = info_type == InfoType::FILE && own.contains(&FileClass(class));
                // Some refusals are warnings.
                let is_refused = status != NtStatus::SUCCESS;
                // Flags without the one that deletes.
                let of_open = of_open
                    || class == FileClass::DISPOSITION_EX.0
                        && value.first().is_some_and(|flags| flags & 1 == 0);
                assert!(
                    is_refused || of_open || asks_nothing(&value),
                    "{what}: {info_type:?} {class}: {value:?}"
                );
            }
        }
        past.assert_unchanged(&frozen, &what);
    }
}

#[test]
fn no_control_code_changes_a_snapshot() {
    let mut past = Past::attacked();
    let live = past.client.open("doc", Opening::default());
    let key = key_of(&mut past.client, live);
    let frozen = past.frozen();
    let zeros = [0_u64.to_le_bytes(), 3_u64.to_le_bytes()].concat();
    let persistent = [live.persistent.to_le_bytes(), live.volatile.to_le_bytes()].concat();
    let extents = [&persistent[..], &[0; 16], &3_u64.to_le_bytes()].concat();
    let inputs = [vec![], vec![1], zeros, extents, reparse::link("target"), vec![0; 64]];
    for (what, file) in opens(&mut past) {
        for code in CODES {
            for (input, room) in inputs.iter().flat_map(|input| [0, 12, 4096].map(|room| (input, room))) {
                let status = past.client.ioctl(file, code, input, room).status();
                let asks = code == CtlCode::CREATE_OR_GET_OBJECT_ID;
                assert!(status.is_error() || asks || asks_nothing(input), "{what}: {code:?} {input:?}");
            }
        }
        let copied = copy(&mut past.client, key, file, &[(0, 0, 3)]);
        assert!(copied.status().is_error(), "{what}");
        past.assert_unchanged(&frozen, &what);
    }
}

#[test]
fn no_write_rename_or_link_by_an_open_changes_a_snapshot() {
    let mut past = Past::attacked();
    let frozen = past.frozen();
    let live = past.client.open("doc", Opening::default());
    let targets: Vec<&str> = PATHS
        .into_iter()
        .chain(["dir\\~snapshot", "~snapshot\\one\\dir\\new", "~SNAPSHOT", ".snapshot"])
        .collect();
    for (what, file) in opens(&mut past) {
        let client = &mut past.client;
        for (offset, data) in [(0, &b"evil"[..]), (1 << 40, b"e"), (u64::MAX, b"end")] {
            assert!(client.write(file, offset, data).status().is_error(), "{what}");
        }
        for replaces in [false, true] {
            for target in &targets {
                assert!(rename(client, file, target, replaces).is_error(), "{what} to {target}");
            }
        }
        for target in &targets {
            assert!(link(client, file, target).is_error(), "{what} to {target}");
        }
        assert!(dispose(client, file, true).is_error(), "{what}");
        assert!(extended_attributes::set(client, file, &[(b"name", b"value")]).is_error(), "{what}");
        assert!(lock::lock(client, file, &[(0, 1, lock::ALONE)]).is_error(), "{what}");
        past.assert_unchanged(&frozen, &what);
    }
    for target in targets.into_iter().filter(|target| target.to_lowercase().contains("snapshot")) {
        for replaces in [false, true] {
            assert!(rename(&mut past.client, live, target, replaces).is_error(), "{target}");
        }
        assert!(link(&mut past.client, live, target).is_error(), "{target}");
        past.assert_unchanged(&frozen, target);
    }
}

/// Nothing breaks a lease of a view, and none lets a client write.
#[test]
fn no_lease_or_oplock_of_a_view_lets_a_client_write() {
    let mut past = Past::attacked();
    for (number, level) in
        (1..).zip([OplockLevel::II, OplockLevel::EXCLUSIVE, OplockLevel::BATCH, OplockLevel::LEASE])
    {
        let wants = [at(1), leased(lease_v2(number, "RWH", 0, None))];
        let wants = if level == OplockLevel::LEASE { &wants[..] } else { &wants[..1] };
        let reply = create(
            &mut past.client,
            "doc",
            Opening { access: AccessMask::GENERIC_ALL, ..READS },
            level,
            wants,
        );
        let body = reply.body::<CreateResponse<'_>>();
        past.client.write(body.file_id, 0, b"x").assert_refused(NtStatus::MEDIA_WRITE_PROTECTED);
        past.client.close(body.file_id);
    }
}

/// The list of times fits its buffer whatever the size is.
#[test]
fn list_of_times_never_passes_the_room_of_its_client() {
    let mut past = Past::attacked();
    (3..40).for_each(|view| past.snapshot(view, &format!("s{view}")));
    let file = past.client.open("doc", READS);
    for room in (0..1100).chain([1 << 16]) {
        let reply = past.client.ioctl(file, CtlCode::SRV_ENUMERATE_SNAPSHOTS, &[], room);
        if room < 16 {
            reply.assert_refused(NtStatus::INVALID_PARAMETER);
            continue;
        }
        let listed = output(&reply).len();
        assert!(listed <= usize::try_from(room).unwrap(), "{listed} bytes for {room}");
    }
    let input = [0xff; 4096];
    let reply = past.client.ioctl(file, CtlCode::SRV_ENUMERATE_SNAPSHOTS, &input, 16);
    assert_eq!(output(&reply)[..4], 38_u32.to_le_bytes());
}
