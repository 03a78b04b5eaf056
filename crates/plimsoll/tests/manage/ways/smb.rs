//! Calls over SMB, each through an open of its own, with an oplock where the server gives one.

use super::{Call, Outcome, Way, name, target, user};
use crate::rig::Service;
use smb_wire::classes::FileClass;
use smb_wire::classes::file::{RenameInformation, SizeInformation};
use smb_wire::copy::{CopyChunk, CopyChunkCopy, DuplicateExtents, ResumeKey, ResumeKeyResponse};
use smb_wire::create::{CreateDisposition, CreateRequest, CreateResponse, OplockLevel};
use smb_wire::header::Command;
use smb_wire::ioctl::{CtlCode, IoctlFlags, IoctlRequest, IoctlResponse};
use smb_wire::ranges::ZeroData;
use smb_wire::types::AccessMask;
use smb_wire::{Decode, Encode, FileId, NtStatus, Utf16};
use wire_client::smb::requests::{self, OpenMode, utf16};
use wire_client::smb::session::Session;
use wire_client::{Protection, Version};

pub struct Smb {
    session: Session,
    uid: u32,
    oplock: OplockLevel,
}

fn outcome(status: NtStatus) -> Outcome {
    if status == NtStatus::SUCCESS { Ok(()) } else { Err(format!("{status:?}")) }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap()
}

impl Smb {
    pub fn new(service: &Service, uid: u32, oplock: OplockLevel) -> Self {
        let target = target(service, Version::Smb(Protection::Gmac), uid);
        Self { session: Session::open(&target, 0, &user(uid)).unwrap(), uid, oplock }
    }

    fn ask(&mut self, command: Command, body: &dyn Encode) -> Outcome {
        outcome(self.session.call(command, 1 << 16, body, None).unwrap().header.status)
    }

    fn open(
        &mut self,
        path: &str,
        disposition: CreateDisposition,
        requested_oplock_level: OplockLevel,
    ) -> Result<FileId, String> {
        let path = utf16(path);
        let request = CreateRequest {
            requested_oplock_level,
            desired_access: AccessMask::MAXIMUM_ALLOWED,
            create_disposition: disposition,
            ..OpenMode::ATTRIBUTES.request(Utf16::new(&path).unwrap())
        };
        let reply = self.session.call(Command::CREATE, 0, &request, None).unwrap();
        outcome(reply.header.status)?;
        Ok(reply.body::<CreateResponse<'_>>().unwrap().file_id)
    }

    fn close(&mut self, file: FileId) {
        self.ask(Command::CLOSE, &requests::close(file)).unwrap();
    }

    /// Runs a request on an open of the path.
    fn with(
        &mut self,
        path: &str,
        disposition: CreateDisposition,
        act: impl FnOnce(&mut Self, FileId) -> Outcome,
    ) -> Outcome {
        let file = self.open(path, disposition, self.oplock)?;
        let outcome = act(self, file);
        self.close(file);
        outcome
    }

    fn write(&mut self, file: FileId, offset: u64, len: u64, fill: u8) -> Outcome {
        let data = vec![fill; usize::try_from(len).unwrap()];
        let body = requests::write(file, offset, data.len(), smb_wire::file::WriteFlags::empty());
        let moved = u32::try_from(len).unwrap();
        outcome(self.session.call(Command::WRITE, moved, &body, Some(&data)).unwrap().header.status)
    }

    fn set(&mut self, file: FileId, class: FileClass, value: &impl Encode) -> Outcome {
        self.ask(Command::SET_INFO, &requests::set_info(class, &value.to_bytes(), file))
    }

    fn ioctl(&mut self, file_id: FileId, ctl_code: CtlCode, input: &[u8]) -> Result<Vec<u8>, String> {
        let request = IoctlRequest {
            ctl_code,
            file_id,
            input,
            max_input_response: 0,
            output: &[],
            max_output_response: 64,
            flags: IoctlFlags::IS_FSCTL,
        };
        let reply = self.session.call(Command::IOCTL, 1 << 16, &request, None).unwrap();
        outcome(reply.header.status)?;
        Ok(reply.body::<IoctlResponse<'_>>().unwrap().output.to_vec())
    }

    /// Copies or clones between two opens.
    fn copy(&mut self, from: u64, file: u64, offset: u64, len: u64, is_clone: bool) -> Outcome {
        // No oplock: both names may be of one file.
        let [source, target] = [from, file].map(name);
        let source = self.open(&source, CreateDisposition::OPEN, OplockLevel::NONE)?;
        let target = self.open(&target, CreateDisposition::OPEN, OplockLevel::NONE);
        let copy = |smb: &mut Self, target| {
            if is_clone {
                let extents = DuplicateExtents {
                    source_file_id: source,
                    source_file_offset: 0,
                    target_file_offset: signed(offset),
                    byte_count: signed(len),
                };
                return smb.ioctl(target, CtlCode::DUPLICATE_EXTENTS_TO_FILE, &extents.to_bytes()).map(drop);
            }
            let key = smb.ioctl(source, CtlCode::SRV_REQUEST_RESUME_KEY, &[])?;
            let ResumeKeyResponse { resume_key, .. } = ResumeKeyResponse::from_bytes(&key).unwrap();
            let source_key: ResumeKey = resume_key;
            let length = u32::try_from(len).unwrap();
            let chunks = vec![CopyChunk { source_offset: 0, target_offset: offset, length }];
            let copy = CopyChunkCopy { source_key, chunks };
            smb.ioctl(target, CtlCode::SRV_COPYCHUNK_WRITE, &copy.to_bytes()).map(drop)
        };
        let outcome = target.and_then(|target| {
            let outcome = copy(self, target);
            self.close(target);
            outcome
        });
        self.close(source);
        outcome
    }

    fn move_to(&mut self, file: FileId, class: FileClass, to: u64) -> Outcome {
        let to = utf16(&name(to));
        let file_name = Utf16::new(&to).unwrap();
        self.set(file, class, &RenameInformation { replace_if_exists: true, root_directory: 0, file_name })
    }
}

/// One attribute in a list (MS-FSCC §2.4.15).
struct Attribute(Vec<u8>);

impl Encode for Attribute {
    fn encode(&self, w: &mut smb_wire::Writer<'_>) {
        let value_len = u16::try_from(self.0.len()).unwrap();
        w.bytes(&[0, 0, 0, 0, 0, 3]);
        w.bytes(&value_len.to_le_bytes());
        w.bytes(b"key\0");
        w.bytes(&self.0);
    }
}

impl Way for Smb {
    fn name(&self) -> String {
        format!("SMB of {}", self.uid)
    }

    fn run(&mut self, call: Call) -> Option<Outcome> {
        use CreateDisposition as By;
        Some(match call {
            Call::Create { file, size } => self.with(&name(file), By::OVERWRITE_IF, |smb, file| {
                smb.set(file, FileClass::END_OF_FILE, &SizeInformation { size: signed(size) })
            }),
            Call::Write { file, offset, len, fill } => {
                self.with(&name(file), By::OPEN, |smb, file| smb.write(file, offset, len, fill))
            }
            Call::Resize { file, size } => self.with(&name(file), By::OPEN, |smb, file| {
                smb.set(file, FileClass::END_OF_FILE, &SizeInformation { size: signed(size) })
            }),
            Call::Allocate { file, offset, len } => self.with(&name(file), By::OPEN, |smb, file| {
                smb.set(file, FileClass::ALLOCATION, &SizeInformation { size: signed(offset + len) })
            }),
            Call::Deallocate { file, offset, len } => self.with(&name(file), By::OPEN, |smb, file| {
                let zero = ZeroData { file_offset: signed(offset), beyond_final_zero: signed(offset + len) };
                smb.ioctl(file, CtlCode::SET_ZERO_DATA, &zero.to_bytes()).map(drop)
            }),
            Call::Copy { from, file, offset, len } => self.copy(from, file, offset, len, false),
            Call::Clone { from, file, offset, len } => self.copy(from, file, offset, len, true),
            Call::Stream { file, offset, len } => {
                let path = format!("{}:stream{}", name(file), offset % 3);
                self.with(&path, By::OPEN_IF, |smb, file| smb.write(file, offset, len, 7))
            }
            Call::SetXattr { file, len } => self.with(&name(file), By::OPEN, |smb, file| {
                smb.set(file, FileClass::FULL_EA, &Attribute(vec![7; usize::try_from(len).unwrap()]))
            }),
            Call::Link { from, file } => {
                self.with(&name(from), By::OPEN, |smb, open| smb.move_to(open, FileClass::LINK, file))
            }
            Call::Rename { from, file } => {
                self.with(&name(from), By::OPEN, |smb, open| smb.move_to(open, FileClass::RENAME, file))
            }
            Call::Remove { file } => self.with(&name(file), By::OPEN, |smb, file| {
                smb.set(
                    file,
                    FileClass::DISPOSITION,
                    &smb_wire::classes::file::DispositionInformation { delete_pending: true },
                )
            }),
            Call::Symlink { .. } | Call::ChangeOwner { .. } | Call::ChangeGroup { .. } => return None,
        })
    }
}
