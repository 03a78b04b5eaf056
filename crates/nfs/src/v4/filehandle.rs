//! Where a filehandle leads: to a file, or to a directory above the exports.

use super::ops::{Done, Ops, Stop};
use super::pseudo::PseudoPlace;
use crate::call::{Call, File};
use crate::handle::Handle;
use nfs_wire::v4::Status;
use vfs::Blocking;

/// Where a filehandle leads.
#[derive(Clone)]
pub(super) enum Place {
    /// A file of an export.
    File(File),
    /// A directory above the exports.
    Pseudo(PseudoPlace),
}

impl Place {
    /// The filehandle that leads here.
    pub(super) fn handle(&self, call: &Call<'_>) -> Handle {
        match self {
            Self::File(file) => *file.handle(),
            Self::Pseudo(place) => place.handle(&call.service.signer),
        }
    }
}

impl Ops<'_, '_> {
    /// The file of the saved filehandle. A directory above the exports is read-only.
    pub(super) fn saved_file(&self) -> Result<File, Stop> {
        match self.saved.as_ref().ok_or(Stop::Status(Status::NOFILEHANDLE))? {
            Place::File(file) => {
                let mut file = file.clone();
                file.caller.by = self.by(&file);
                Ok(file)
            }
            Place::Pseudo(_) => Err(Stop::Status(Status::ROFS)),
        }
    }

    /// Stops where the call may not wait: for operations that always may have to.
    pub(super) fn may_wait(&self) -> Done {
        match self.call.blocking {
            Blocking::Never => Err(Stop::WouldWait),
            Blocking::Allowed => Ok(()),
        }
    }
}
