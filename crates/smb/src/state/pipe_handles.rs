//! Context handles (C706 §6.1.6): objects that a client has opened over a pipe. They end with the pipe.

use crate::limits::PIPE_HANDLES_MAX;
use smb_wire::rpc::Fault;
use smb_wire::rpc::samr::Handle;
use smb_wire::{FileId, NtStatus};

/// A domain of the Security Account Manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DomainKind {
    /// The machine's own domain, with its users and groups.
    Account,
    /// The groups that every machine has.
    Builtin,
}

/// An object; users and groups by their relative identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    Server,
    Domain(DomainKind),
    Group(u32),
    Alias(DomainKind, u32),
    User(u32),
}

/// The handles of a pipe. Handles are unique among pipes, and are not reused.
pub(crate) struct ContextHandles {
    pipe: u64,
    last: u64,
    open: Vec<(u64, Object)>,
}

impl ContextHandles {
    pub(crate) fn of_pipe(pipe: FileId) -> Self {
        Self { pipe: pipe.persistent, last: 0, open: Vec::new() }
    }

    pub(crate) fn open(&mut self, object: Object) -> Result<Handle, NtStatus> {
        if self.open.len() >= PIPE_HANDLES_MAX {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        self.last += 1;
        self.open.push((self.last, object));
        let mut handle = [0; 20];
        handle[4..].copy_from_slice([self.pipe.to_le_bytes(), self.last.to_le_bytes()].as_flattened());
        Ok(handle)
    }

    pub(crate) fn object(&self, handle: Handle) -> Result<Object, Fault> {
        self.index_of(handle).map(|entry_path| self.open[entry_path].1)
    }

    pub(crate) fn close(&mut self, handle: Handle) -> Result<(), Fault> {
        let entry_path = self.index_of(handle)?;
        self.open.swap_remove(entry_path);
        Ok(())
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.open.len() * size_of::<(u64, Object)>()
    }

    fn index_of(&self, handle: Handle) -> Result<usize, Fault> {
        let (attributes, number) = handle.split_at(4);
        let is =
            |(of, _): &(u64, Object)| *number == *[self.pipe.to_le_bytes(), of.to_le_bytes()].as_flattened();
        let entry_path = if attributes == [0; 4] { self.open.iter().position(is) } else { None };
        entry_path.ok_or(Fault::CONTEXT_MISMATCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handles(pipe: u64) -> ContextHandles {
        ContextHandles::of_pipe(FileId { persistent: pipe, volatile: pipe })
    }

    #[test]
    fn context_handle_is_bound_to_its_pipe_and_not_reused() {
        let (mut one, mut two) = (handles(1), handles(2));
        let (server, domain) = (Object::Server, Object::Domain(DomainKind::Builtin));
        let first = one.open(server).unwrap();
        let other = two.open(server).unwrap();
        let second = one.open(domain).unwrap();
        assert_eq!((one.object(first), one.object(second)), (Ok(server), Ok(domain)));
        assert_eq!(one.object(other), Err(Fault::CONTEXT_MISMATCH));
        assert_eq!(one.close(first), Ok(()));
        assert_eq!(one.close(first), Err(Fault::CONTEXT_MISMATCH), "it is closed");
        assert_eq!(one.object(second), Ok(domain));
        assert_ne!(one.open(server).unwrap(), first);
        let mut changed = second;
        changed[0] = 1;
        assert_eq!(one.object(changed), Err(Fault::CONTEXT_MISMATCH));
        assert_eq!(one.object([0; 20]), Err(Fault::CONTEXT_MISMATCH));
    }

    #[test]
    fn context_handles_are_bounded() {
        let mut handles = handles(1);
        let open: Vec<_> = (0..PIPE_HANDLES_MAX).map(|_| handles.open(Object::Server).unwrap()).collect();
        assert_eq!(handles.open(Object::Server), Err(NtStatus::INSUFFICIENT_RESOURCES));
        assert!(handles.memory_bytes() <= 24 * PIPE_HANDLES_MAX);
        handles.close(open[7]).unwrap();
        handles.open(Object::User(1000)).unwrap();
    }
}
