//! The wrapper of a node, without its thirty signatures.

/// Implements methods of [`vfs::Node`] by the same method of another node.
///
/// `delegate_node!(self => TARGET; METHOD, …)` calls `TARGET.METHOD(…)`. The target is an expression, so it can refuse the
/// call: `self.counted()?`. `delegate_node!(self => TARGET, wrap; METHOD, …)` is for methods that take or return a node: the
/// wrapper's `wrap_found(Lookup) -> Lookup` wraps each result, and its `unwrapped(&NodeRef) -> &NodeRef` unwraps each argument.
#[macro_export]
macro_rules! delegate_node {
    ($self:ident => $target:expr; $($method:ident),+ $(,)?) => {
        $($crate::delegate_node!(@$method $self, $target);)+
    };
    ($self:ident => $target:expr, wrap; $($method:ident),+ $(,)?) => {
        $($crate::delegate_node!(@wrap $method $self, $target);)+
    };

    (@key $self:ident, $target:expr) => {
        fn key(&$self) -> ::vfs::FileKey {
            $target.key()
        }
    };
    (@attrs $self:ident, $target:expr) => {
        fn attrs(&$self, blocking: ::vfs::Blocking) -> ::vfs::FsResult<::vfs::Attrs> {
            $target.attrs(blocking)
        }
    };
    (@size $self:ident, $target:expr) => {
        fn size(&$self, blocking: ::vfs::Blocking) -> ::vfs::FsResult<u64> {
            $target.size(blocking)
        }
    };
    (@change_attrs $self:ident, $target:expr) => {
        fn change_attrs(&$self, authorize: ::vfs::AuthorizeSetattr<'_>) -> ::vfs::FsResult<::vfs::Change> {
            $target.change_attrs(authorize)
        }
    };
    (@read $self:ident, $target:expr) => {
        fn read(
            &$self,
            offset: u64,
            len: usize,
            into: &mut Vec<u8>,
            blocking: ::vfs::Blocking,
        ) -> ::vfs::FsResult<usize> {
            $target.read(offset, len, into, blocking)
        }
    };
    (@descriptor $self:ident, $target:expr) => {
        fn descriptor(
            &$self,
            offset: u64,
            len: usize,
            blocking: ::vfs::Blocking,
        ) -> Option<::std::sync::Arc<::std::os::fd::OwnedFd>> {
            $target.descriptor(offset, len, blocking)
        }
    };
    (@write $self:ident, $target:expr) => {
        fn write(
            &$self,
            offset: u64,
            data: &[u8],
            authorize: ::vfs::AuthorizeWrite<'_>,
        ) -> ::vfs::FsResult<::vfs::Change> {
            $target.write(offset, data, authorize)
        }
    };
    (@write_from_pipe $self:ident, $target:expr) => {
        fn write_from_pipe(
            &$self,
            offset: u64,
            pipe: ::std::os::fd::BorrowedFd<'_>,
            len: usize,
            authorize: ::vfs::AuthorizeWrite<'_>,
        ) -> ::vfs::FsResult<::vfs::Change> {
            $target.write_from_pipe(offset, pipe, len, authorize)
        }
    };
    (@reserve $self:ident, $target:expr) => {
        fn reserve(
            &$self,
            offset: u64,
            len: usize,
            authorize: ::vfs::AuthorizeWrite<'_>,
        ) -> ::vfs::FsResult<()> {
            $target.reserve(offset, len, authorize)
        }
    };
    (@release $self:ident, $target:expr) => {
        fn release(&$self, offset: u64, len: usize) {
            $target.release(offset, len);
        }
    };
    (@pin $self:ident, $target:expr) => {
        fn pin(&$self) {
            $target.pin();
        }
    };
    (@unpin $self:ident, $target:expr) => {
        fn unpin(&$self) {
            $target.unpin();
        }
    };
    (@sync $self:ident, $target:expr) => {
        fn sync(&$self, scope: ::vfs::SyncScope) -> ::vfs::FsResult<()> {
            $target.sync(scope)
        }
    };
    (@read_link $self:ident, $target:expr) => {
        fn read_link(&$self) -> ::vfs::FsResult<Vec<u8>> {
            $target.read_link()
        }
    };
    (@read_dir $self:ident, $target:expr) => {
        fn read_dir(
            &$self,
            cookie: u64,
            plus: bool,
            sink: &mut ::vfs::EntrySink<'_>,
        ) -> ::vfs::FsResult<bool> {
            $target.read_dir(cookie, plus, sink)
        }
    };
    (@read_dir_of $self:ident, $target:expr) => {
        fn read_dir_of(
            &$self,
            cookie: u64,
            plus: bool,
            wanted: ::vfs::NameFilter<'_>,
            sink: &mut ::vfs::EntrySink<'_>,
        ) -> ::vfs::FsResult<bool> {
            $target.read_dir_of(cookie, plus, wanted, sink)
        }
    };
    (@remove $self:ident, $target:expr) => {
        fn remove(
            &$self,
            name: ::vfs::Name<'_>,
            authorize: ::vfs::AuthorizeRemove<'_>,
        ) -> ::vfs::FsResult<::vfs::Change> {
            $target.remove(name, authorize)
        }
    };
    (@remove_dir $self:ident, $target:expr) => {
        fn remove_dir(
            &$self,
            name: ::vfs::Name<'_>,
            authorize: ::vfs::AuthorizeRemove<'_>,
        ) -> ::vfs::FsResult<::vfs::Change> {
            $target.remove_dir(name, authorize)
        }
    };

    (@wrap lookup $self:ident, $target:expr) => {
        fn lookup(&$self, name: ::vfs::Name<'_>, blocking: ::vfs::Blocking) -> ::vfs::FsResult<::vfs::Lookup> {
            $target.lookup(name, blocking).map(|found| $self.wrap_found(found))
        }
    };
    (@wrap parent $self:ident, $target:expr) => {
        fn parent(&$self) -> ::vfs::FsResult<::vfs::Lookup> {
            $target.parent().map(|found| $self.wrap_found(found))
        }
    };
    (@wrap create $self:ident, $target:expr) => {
        fn create(
            &$self,
            name: ::vfs::Name<'_>,
            authorize: ::vfs::AuthorizeCreate<'_>,
        ) -> ::vfs::FsResult<::vfs::CreatedEntry> {
            let made = $target.create(name, authorize)?;
            Ok(::vfs::CreatedEntry { found: $self.wrap_found(made.found), ..made })
        }
    };
    (@wrap make_dir $self:ident, $target:expr) => {
        fn make_dir(
            &$self,
            name: ::vfs::Name<'_>,
            authorize: ::vfs::AuthorizeCreate<'_>,
        ) -> ::vfs::FsResult<::vfs::CreatedEntry> {
            let made = $target.make_dir(name, authorize)?;
            Ok(::vfs::CreatedEntry { found: $self.wrap_found(made.found), ..made })
        }
    };
    (@wrap make_special $self:ident, $target:expr) => {
        fn make_special(
            &$self,
            name: ::vfs::Name<'_>,
            special: ::vfs::Special<'_>,
            authorize: ::vfs::AuthorizeCreate<'_>,
        ) -> ::vfs::FsResult<::vfs::CreatedEntry> {
            let made = $target.make_special(name, special, authorize)?;
            Ok(::vfs::CreatedEntry { found: $self.wrap_found(made.found), ..made })
        }
    };
    (@wrap link $self:ident, $target:expr) => {
        fn link(
            &$self,
            name: ::vfs::Name<'_>,
            target: &::vfs::NodeRef,
            authorize: ::vfs::AuthorizeLink<'_>,
        ) -> ::vfs::FsResult<::vfs::CreatedEntry> {
            let made = $target.link(name, Self::unwrapped(target), authorize)?;
            Ok(::vfs::CreatedEntry { found: $self.wrap_found(made.found), ..made })
        }
    };
    (@wrap rename $self:ident, $target:expr) => {
        fn rename(
            &$self,
            from: ::vfs::Name<'_>,
            to_dir: &::vfs::NodeRef,
            to: ::vfs::Name<'_>,
            authorize: ::vfs::AuthorizeRename<'_>,
        ) -> ::vfs::FsResult<(::vfs::Change, ::vfs::Change)> {
            $target.rename(from, Self::unwrapped(to_dir), to, authorize)
        }
    };
}
