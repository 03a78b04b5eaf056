//! The create context of the POSIX extensions: a file that is opened by the rules of Unix.

use crate::metadata::file_info::Shown;
use crate::metadata::names::Naming;
use crate::metadata::unix::{link_target, unix_of};
use crate::request::context::{Done, Ops};
use crate::state::open::Open;
use crate::state::tree::Disk;
use smb_wire::create::CreateContexts;
use smb_wire::error::{ErrorContext, ErrorId, ErrorResponse, SymlinkError};
use smb_wire::posix::{NAME, PosixRequest};
use smb_wire::{Decode, Encode, NtStatus, Utf16, Writer};
use std::sync::Arc;
use vfs::Attrs;
use vfs::model::attrs::MODE_BITS;

use super::resolve::{self, Target};
use crate::request::path_lookup::Trail;

/// By whose rules a request opens its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    Windows,
    /// A file that is made has these permissions, if the client says any.
    Unix {
        mode: Option<u32>,
    },
}

impl Rules {
    /// What the contexts of a request ask. Where the extensions were not agreed on, theirs is like any that nobody knows.
    pub(super) fn of(ops: &Ops<'_>, contexts: &CreateContexts<'_>) -> Result<Self, NtStatus> {
        if !ops.connection.negotiated().is_some_and(|agreed| agreed.posix) {
            return Ok(Self::Windows);
        }
        let mut asked = contexts.0.iter().filter(|context| context.name == NAME);
        let Some(context) = asked.next() else { return Ok(Self::Windows) };
        if asked.next().is_some() || context.data.len() != size_of::<u32>() {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        let PosixRequest { mode } =
            PosixRequest::from_bytes(context.data).map_err(|_| NtStatus::INVALID_PARAMETER)?;
        Ok(Self::Unix { mode: (mode != PosixRequest::NO_MODE).then_some(mode & MODE_BITS) })
    }

    pub(super) fn naming(self) -> Naming {
        match self {
            Self::Windows => Naming::Windows,
            Self::Unix { .. } => Naming::Posix,
        }
    }

    /// The permissions of a file that is made.
    pub(super) fn mode(self) -> Option<u32> {
        match self {
            Self::Windows => None,
            Self::Unix { mode } => mode,
        }
    }
}

/// What is answered to the context.
pub(super) fn answer(
    ops: &Ops<'_>,
    asked: &CreateContexts<'_>,
    open: &Open,
    (attrs, shown): (&Attrs, &Shown),
) -> Option<(&'static [u8], Vec<u8>)> {
    let is_asked = matches!(Rules::of(ops, asked), Ok(Rules::Unix { .. }));
    (is_asked && open.naming == Naming::Posix).then(|| (NAME, unix_of(attrs, shown).to_bytes()))
}

/// Tells the client that its path leads to a symbolic link, and where that leads: the client looks there (MS-SMB2 §2.2.2.2.1).
pub(super) fn stopped_on_link(disk: &Arc<Disk>, path: &[Vec<u8>], w: &mut Writer<'_>) -> Done {
    let not_handled = NtStatus::IO_REPARSE_TAG_NOT_HANDLED;
    let Target::Found { file, .. } = resolve::walk(disk, path, Naming::Posix, &mut Trail::default(), None)?
    else {
        return Err(not_handled.into());
    };
    let (target, flags) = link_target(&file.read_link()?.1, Naming::Posix).ok_or(not_handled)?;
    let name = Utf16::new(&target)?;
    let link = SymlinkError { unparsed_path_length: 0, substitute_name: name, print_name: name, flags };
    let context = ErrorContext { error_id: ErrorId::DEFAULT, data: &link.to_bytes() }.to_bytes();
    ErrorResponse { context_count: 1, data: &context }.encode(w);
    Ok(NtStatus::STOPPED_ON_SYMLINK)
}
