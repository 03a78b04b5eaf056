//! The POSIX create context: an open with Unix semantics.

use crate::metadata::file_info::FileInfo;
use crate::metadata::names::Naming;
use crate::metadata::unix::{link_target, unix_of};
use crate::request::context::RequestContext;
use crate::request::outcome::CommandResult;
use crate::state::open::Open;
use crate::state::tree::DiskShare;
use smb_wire::create::CreateContexts;
use smb_wire::error::{ErrorContext, ErrorId, ErrorResponse, SymlinkError};
use smb_wire::posix::{NAME, PosixRequest};
use smb_wire::{Decode, Encode, NtStatus, Utf16, Writer};
use std::sync::Arc;
use vfs::model::attrs::MODE_BITS;
use vfs::{Attrs, ViewId};

use super::resolve::{self, PathTarget};
use crate::request::path_lookup::PathCache;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PosixOptions {
    Windows,
    /// Permissions of a created file, if the client sends any.
    Unix {
        mode: Option<u32>,
    },
}

impl PosixOptions {
    /// Reads the context of a request. Without negotiation the server ignores the context like an unknown one.
    pub(super) fn of(cx: &RequestContext<'_, '_>, contexts: &CreateContexts<'_>) -> Result<Self, NtStatus> {
        if !cx.message.connection.negotiated().is_some_and(|agreed| agreed.posix) {
            return Ok(Self::Windows);
        }
        let mut requested = contexts.0.iter().filter(|context| context.name == NAME);
        let Some(context) = requested.next() else { return Ok(Self::Windows) };
        if requested.next().is_some() || context.data.len() != size_of::<u32>() {
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

    pub(super) fn mode(self) -> Option<u32> {
        match self {
            Self::Windows => None,
            Self::Unix { mode } => mode,
        }
    }
}

pub(super) fn response(
    cx: &RequestContext<'_, '_>,
    requested: &CreateContexts<'_>,
    open: &Open,
    attrs: &Attrs,
    file_info: &FileInfo,
) -> Option<(&'static [u8], Vec<u8>)> {
    let is_asked = matches!(PosixOptions::of(cx, requested), Ok(PosixOptions::Unix { .. }));
    (is_asked && open.naming == Naming::Posix).then(|| (NAME, unix_of(attrs, file_info).to_bytes()))
}

/// Reports a symbolic link in the path and its target; the client resolves it (MS-SMB2 §2.2.2.2.1).
pub(super) fn stopped_on_link(
    disk: &Arc<DiskShare>,
    view: ViewId,
    path: &[Vec<u8>],
    w: &mut Writer<'_>,
) -> CommandResult {
    let not_handled = NtStatus::IO_REPARSE_TAG_NOT_HANDLED;
    let PathTarget::Found { file, .. } =
        resolve::resolve_path(disk, view, path, Naming::Posix, &mut PathCache::default(), None)?
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
