//! Tables of the functions of a library, found at run time: the binary also runs where Ceph is not installed.

/// Declares a table of function pointers and loads each by its name, which begins with the prefix.
macro_rules! functions {
    (
        $library:literal, $prefix:literal;
        $($name:ident($($argument:ty),* $(,)?) $(-> $result:ty)?;)*
    ) => {
        /// Pointers to functions of the library, named without its prefix.
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Keeps the code mapped.
            _library: libloading::Library,
        }

        impl Functions {
            fn load() -> Result<Self, libloading::Error> {
                // SAFETY: the initializers of the libraries of Ceph have no preconditions.
                let library = unsafe { libloading::Library::new($library)? };
                Ok(Self {
                    // SAFETY: the types are those of the header, which a test compares with a compiler.
                    $($name: *unsafe { library.get(concat!($prefix, stringify!($name)))? },)*
                    _library: library,
                })
            }
        }

        /// The functions of the installed library, loaded once; the message of the loader if it is missing or too old.
        pub(super) fn functions() -> Result<&'static Functions, &'static str> {
            static FUNCTIONS: std::sync::OnceLock<Result<Functions, String>> = std::sync::OnceLock::new();
            let loaded = FUNCTIONS.get_or_init(|| Functions::load().map_err($crate::ffi::table::message));
            loaded.as_ref().map_err(String::as_str)
        }

        #[cfg(test)]
        pub(super) const TABLE: $crate::ffi::header::Table = $crate::ffi::header::Table {
            prefix: $prefix,
            names: &[$(stringify!($name)),*],
            declarations:
                &[$((&[$(stringify!($argument)),*], $crate::ffi::table::declared!($($result)?))),*],
        };
    };
}
pub(super) use functions;

/// The message of the loader, which names the library or the function.
pub(super) fn message(error: libloading::Error) -> String {
    use std::error::Error as _;
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// The name of a result type.
#[cfg(test)]
macro_rules! declared {
    () => {
        "()"
    };
    ($result:ty) => {
        stringify!($result)
    };
}
#[cfg(test)]
pub(super) use declared;

/// Declares a type that only pointers of the library name.
macro_rules! opaque {
    ($($name:ident),*) => {
        $(#[repr(C)]
        pub(super) struct $name {
            _private: [u8; 0],
        })*
    };
}
pub(super) use opaque;
