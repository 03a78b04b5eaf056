//! The object of a filehandle: a file, or a directory above the exports.

use super::compound_state::{CompoundState, OpError, OpResult};
use super::pseudo::PseudoNode;
use crate::call::{Call, File};
use crate::handle::Handle;
use nfs_wire::v4::Status;
use vfs::{Blocking, Wait};

#[derive(Clone)]
pub(super) enum Filehandle {
    File(File),
    /// A directory above the exports.
    Pseudo(PseudoNode),
}

impl Filehandle {
    pub(super) fn handle(&self, call: &Call<'_>) -> Handle {
        match self {
            Self::File(file) => *file.handle(),
            Self::Pseudo(place) => place.handle(&call.service.signer),
        }
    }
}

impl CompoundState<'_, '_> {
    /// The file of the saved filehandle. A directory above the exports is read-only.
    pub(super) fn saved_file(&self) -> Result<File, OpError> {
        match self.saved.as_ref().ok_or(OpError::Status(Status::NOFILEHANDLE))? {
            Filehandle::File(file) => {
                let mut file = file.clone();
                file.caller.by = self.requester(&file);
                Ok(file)
            }
            Filehandle::Pseudo(_) => Err(OpError::Status(Status::ROFS)),
        }
    }

    /// Stops where the call may not wait: for operations that always may have to.
    pub(super) fn may_wait(&self) -> OpResult {
        match self.call.blocking {
            Blocking::Never => Err(OpError::Wait(Wait::Storage)),
            Blocking::Allowed => Ok(()),
        }
    }
}
