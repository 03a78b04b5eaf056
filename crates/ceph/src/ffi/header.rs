//! Compares declarations with the header of a library, by a C compiler.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The declared functions of a library.
pub(super) struct Table {
    pub(super) prefix: &'static str,
    /// Names without the prefix.
    pub(super) names: &'static [&'static str],
    /// The types of the arguments and of the result of each.
    pub(super) declarations: &'static [(&'static [&'static str], &'static str)],
}

/// The C type for a type of a table. `own` knows the types of its library.
fn c_type(rust: &str, own: fn(&str) -> Option<&'static str>) -> String {
    let rust = rust.trim();
    if let Some(pointee) = rust.strip_prefix("*mut ") {
        return format!("{} *", c_type(pointee, own));
    }
    if let Some(pointee) = rust.strip_prefix("*const ") {
        return format!("{} const *", c_type(pointee, own));
    }
    let plain = match rust {
        "dirent" => "struct dirent",
        "flock" => "struct flock",
        "timespec" => "struct timespec",
        "libc::statvfs" => "struct statvfs",
        "c_char" => "char",
        "c_uchar" => "unsigned char",
        "c_void" | "()" => "void",
        "c_int" => "int",
        "c_uint" => "unsigned",
        "uid_t" => "uid_t",
        "gid_t" => "gid_t",
        "mode_t" => "mode_t",
        "i64" => "int64_t",
        "u8" => "uint8_t",
        "u64" => "uint64_t",
        "usize" => "size_t",
        other => own(other).unwrap_or_else(|| panic!("no C type for {other}")),
    };
    plain.to_owned()
}

/// A program that compiles only if the functions are those of the included header.
pub(super) fn program(includes: &[&str], table: &Table, own: fn(&str) -> Option<&'static str>) -> String {
    let mut c = String::from("#define _FILE_OFFSET_BITS 64\n");
    for include in includes {
        let _written = writeln!(c, "#include <{include}>");
    }
    for (name, (arguments, result)) in table.names.iter().zip(table.declarations) {
        let arguments: Vec<String> = arguments.iter().map(|argument| c_type(argument, own)).collect();
        let list = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
        let (result, prefix) = (c_type(result, own), table.prefix);
        let _written = writeln!(c, "{result} (*check_{name})({list}) = {prefix}{name};");
    }
    c
}

/// Adds the condition that a constant expression has a value.
pub(super) fn require_equal(program: &mut String, expression: &str, value: usize) {
    let _written = writeln!(program, "_Static_assert({expression} == {value}, \"{expression}\");");
}

pub(super) fn compile(program: &str) {
    let arguments = ["-x", "c", "-fsyntax-only", "-Werror", "-"];
    let mut compiler =
        Command::new("cc").args(arguments).stdin(Stdio::piped()).spawn().expect("a C compiler");
    compiler.stdin.take().expect("a pipe").write_all(program.as_bytes()).expect("the compiler reads");
    assert!(compiler.wait().expect("the compiler ends").success(), "a declaration differs from the header");
}
