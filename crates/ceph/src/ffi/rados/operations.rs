//! Operations on objects of a pool.

use super::client::Pool;
use super::library::{
    CREATE_IF_MISSING, CREATE_NEW, EQUAL, FAIL_IF_FULL, Functions, PairsHandle, RawPairs, ReadHandle,
    WriteHandle,
};
use crate::ffi::done;
use libc::c_char;
use rustix::io::Errno;
use std::ffi::CStr;
use std::ptr::{NonNull, null, null_mut};

/// Conditions and changes of one object, which the cluster runs as one. The library copies all arguments.
pub(crate) struct WriteOperation {
    functions: &'static Functions,
    handle: NonNull<WriteHandle>,
}

fn chars(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

impl WriteOperation {
    pub(crate) fn new(pool: &Pool) -> Result<Self, Errno> {
        let functions = pool.functions();
        // SAFETY: no argument.
        let handle = unsafe { (functions.create_write_op)() };
        NonNull::new(handle).map(|handle| Self { functions, handle }).ok_or(Errno::NOMEM)
    }

    /// Requires that the object exists: [`Errno::NOENT`] otherwise.
    pub(crate) fn require_object(&mut self) {
        // SAFETY: the operation is not run yet.
        unsafe { (self.functions.write_op_assert_exists)(self.handle.as_ptr()) }
    }

    /// Creates the object, which must be new ([`Errno::EXIST`] otherwise) or may exist.
    pub(crate) fn create_object(&mut self, must_be_new: bool) {
        let exclusive = if must_be_new { CREATE_NEW } else { CREATE_IF_MISSING };
        // SAFETY: as above. The category is unused.
        unsafe { (self.functions.write_op_create)(self.handle.as_ptr(), exclusive, null()) }
    }

    /// Removes the object: [`Errno::NOENT`] if there is none.
    pub(crate) fn remove_object(&mut self) {
        // SAFETY: as above.
        unsafe { (self.functions.write_op_remove)(self.handle.as_ptr()) }
    }

    /// Requires a value, where an absent key has the empty one: [`Errno::CANCELED`] otherwise. The object must exist.
    pub(crate) fn require_value(&mut self, key: &str, value: &[u8]) {
        // SAFETY: as above. The pointers are valid for the lengths, and no result of the single step is asked for.
        unsafe {
            (self.functions.write_op_omap_cmp2)(
                self.handle.as_ptr(),
                chars(key.as_bytes()),
                EQUAL,
                chars(value),
                key.len(),
                value.len(),
                null_mut(),
            );
        }
    }

    pub(crate) fn set(&mut self, pairs: &[(String, Vec<u8>)]) {
        let keys: Vec<_> = pairs.iter().map(|(key, _)| chars(key.as_bytes())).collect();
        let values: Vec<_> = pairs.iter().map(|(_, value)| chars(value)).collect();
        let key_lengths: Vec<_> = pairs.iter().map(|(key, _)| key.len()).collect();
        let value_lengths: Vec<_> = pairs.iter().map(|(_, value)| value.len()).collect();
        // SAFETY: as above, for each of the pairs.
        unsafe {
            (self.functions.write_op_omap_set2)(
                self.handle.as_ptr(),
                keys.as_ptr(),
                values.as_ptr(),
                key_lengths.as_ptr(),
                value_lengths.as_ptr(),
                pairs.len(),
            );
        }
    }

    pub(crate) fn remove_keys(&mut self, keys: &[String]) {
        let pointers: Vec<_> = keys.iter().map(|key| chars(key.as_bytes())).collect();
        let lengths: Vec<_> = keys.iter().map(String::len).collect();
        // SAFETY: as above, for each of the keys.
        unsafe {
            (self.functions.write_op_omap_rm_keys2)(
                self.handle.as_ptr(),
                pointers.as_ptr(),
                lengths.as_ptr(),
                keys.len(),
            );
        }
    }

    /// Makes `data` the whole data of the object.
    pub(crate) fn replace_data(&mut self, data: &[u8]) {
        // SAFETY: as above.
        unsafe { (self.functions.write_op_write_full)(self.handle.as_ptr(), chars(data), data.len()) }
    }

    pub(crate) fn write_data(&mut self, data: &[u8], offset: u64) {
        // SAFETY: as above.
        unsafe { (self.functions.write_op_write)(self.handle.as_ptr(), chars(data), data.len(), offset) }
    }

    /// Runs the operation, and waits until it is durable.
    pub(crate) fn run(self, pool: &Pool, object: &CStr) -> Result<(), Errno> {
        // SAFETY: the operation runs once, and the name is a string. Without a time the library takes the present one.
        let result = unsafe {
            (self.functions.write_op_operate2)(
                self.handle.as_ptr(),
                pool.raw(),
                object.as_ptr(),
                null_mut(),
                FAIL_IF_FULL,
            )
        };
        done(result).map(drop)
    }
}

impl Drop for WriteOperation {
    fn drop(&mut self) {
        // SAFETY: made by create_write_op, released once.
        unsafe { (self.functions.release_write_op)(self.handle.as_ptr()) }
    }
}

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// Some pairs of an object, in the order of their keys.
pub(crate) struct Page {
    pub(crate) pairs: Vec<Pair>,
    pub(crate) has_more: bool,
}

/// A reader of the pairs of objects in pages.
pub(crate) struct PairReader {
    pool: Pool,
}

struct ReadOperation {
    functions: &'static Functions,
    handle: NonNull<ReadHandle>,
}

impl Drop for ReadOperation {
    fn drop(&mut self) {
        // SAFETY: made by create_read_op, released once.
        unsafe { (self.functions.release_read_op)(self.handle.as_ptr()) }
    }
}

/// Pairs that a read operation has found.
struct Pairs {
    functions: &'static Functions,
    handle: NonNull<PairsHandle>,
}

impl Pairs {
    /// The next pair. The operation has succeeded.
    fn next(&mut self) -> Result<Option<Pair>, Errno> {
        let (mut key, mut value) = (null_mut::<c_char>(), null_mut::<c_char>());
        let (mut key_bytes, mut value_bytes) = (0, 0);
        // SAFETY: the results are written once.
        let next = unsafe {
            (self.functions.omap_get_next2)(
                self.handle.as_ptr(),
                &raw mut key,
                &raw mut value,
                &raw mut key_bytes,
                &raw mut value_bytes,
            )
        };
        done(next)?;
        if key.is_null() {
            return Ok(None);
        }
        let copy = |start: *mut c_char, bytes| match NonNull::new(start) {
            // SAFETY: memory of the iterator, which this value has.
            Some(start) => unsafe { std::slice::from_raw_parts(start.as_ptr().cast::<u8>(), bytes) }.to_vec(),
            None => Vec::new(),
        };
        Ok(Some((copy(key, key_bytes), copy(value, value_bytes))))
    }
}

impl Drop for Pairs {
    fn drop(&mut self) {
        // SAFETY: made by a read operation, released once.
        unsafe { (self.functions.omap_get_end)(self.handle.as_ptr()) }
    }
}

impl PairReader {
    pub(crate) fn new(pool: &Pool) -> Result<Self, Errno> {
        Ok(Self { pool: pool.duplicate()? })
    }

    /// The pairs after a key whose keys have a prefix, at most as many as the OSD gives at once.
    ///
    /// With a version, [`Errno::RANGE`] or [`Errno::OVERFLOW`] if the object has another one.
    pub(crate) fn page(
        &mut self,
        object: &CStr,
        after: &CStr,
        prefix: &CStr,
        version: Option<u64>,
    ) -> Result<Page, Errno> {
        let functions = self.pool.functions();
        // SAFETY: no argument.
        let handle = NonNull::new(unsafe { (functions.create_read_op)() }).ok_or(Errno::NOMEM)?;
        // Declared first, dropped last: the operation writes to it.
        let mut found: RawPairs = null_mut();
        let (mut has_more, mut step) = (0, 0);
        let operation = ReadOperation { functions, handle };
        if let Some(version) = version {
            // SAFETY: the operation is not run yet.
            unsafe { (functions.read_op_assert_version)(handle.as_ptr(), version) };
        }
        // SAFETY: as above. The results live longer than the operation.
        unsafe {
            (functions.read_op_omap_get_vals2)(
                handle.as_ptr(),
                after.as_ptr(),
                prefix.as_ptr(),
                u64::MAX,
                &raw mut found,
                &raw mut has_more,
                &raw mut step,
            );
        }
        let found = NonNull::new(found).map(|handle| Pairs { functions, handle });
        // SAFETY: the operation runs once, and the name is a string.
        let result =
            unsafe { (functions.read_op_operate)(handle.as_ptr(), self.pool.raw(), object.as_ptr(), 0) };
        drop(operation);
        let mut found = found.ok_or(Errno::NOMEM)?;
        done(result)?;
        done(step)?;
        let mut pairs = Vec::new();
        while let Some(pair) = found.next()? {
            pairs.push(pair);
        }
        Ok(Page { pairs, has_more: has_more != 0 })
    }

    /// The version of the object that the last page is of.
    pub(crate) fn version(&self) -> u64 {
        // SAFETY: no other argument, and only this value uses the handle.
        unsafe { (self.pool.functions().get_last_version)(self.pool.raw()) }
    }
}

/// Reads data of an object; fewer bytes than asked for are the last ones.
pub(crate) fn read_data(pool: &Pool, object: &CStr, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    // SAFETY: the library writes at most the length of the buffer.
    let read = unsafe {
        (pool.functions().read)(pool.raw(), object.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len(), offset)
    };
    done(read)
}
