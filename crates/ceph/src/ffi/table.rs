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
            let loaded = FUNCTIONS.get_or_init(|| Functions::load().map_err(|error| $crate::ffi::table::message($library, &error)));
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

/// The message of the loader, which names the library or the function, and the remedy.
pub(super) fn message(library: &str, error: &libloading::Error) -> String {
    use std::error::Error as _;
    let loader = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    format!("{loader}; install the package {} of Ceph 16.2 or later", library.replace(".so.", ""))
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

#[cfg(test)]
mod tests {
    /// A library that this machine does not have.
    #[allow(dead_code, reason = "its table is compared with no header")]
    mod missing {
        functions! { "libplimsoll-none.so.2", "none_"; call(); }
    }

    /// A library without the function.
    #[allow(dead_code, reason = "its table is compared with no header")]
    mod old {
        functions! { "libc.so.6", "plimsoll_"; none(); }
    }

    #[test]
    fn missing_library_is_named_with_its_package() {
        let message = missing::functions().err().expect("no library");
        assert!(message.starts_with("libplimsoll-none.so.2: cannot open shared object file"), "{message}");
        let remedy = "; install the package libplimsoll-none2 of Ceph 16.2 or later";
        assert!(message.ends_with(remedy), "{message}");
    }

    #[test]
    fn library_without_a_function_is_named_with_the_function() {
        let message = old::functions().err().expect("no function");
        let loader =
            "libc.so.6: undefined symbol: plimsoll_none; install the package libc6 of Ceph 16.2 or later";
        assert!(message.ends_with(loader), "{message}");
    }
}
